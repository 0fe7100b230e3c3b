"""Explain a request of the past from its audit event: what was checked then, under the policy of then."""

from __future__ import annotations

from pathlib import Path

from signproxy.audit.event import AuditEvent, Verdict
from signproxy.audit.unpack import MAX_LINE
from signproxy.cli.audit_files import event_of
from signproxy.errors import Check, Finding, Invalid, Reason
from signproxy.gate.explain import CheckResult, Explanation

_REASONS = {reason.code: reason for reason in Reason}


def find_event(event_id: str, trail: Path) -> AuditEvent:
    """Return the event with this id or request id from an audit file; raise Invalid if there is none."""
    wanted = event_id.encode()
    try:
        with trail.open("rb") as lines:
            while line := lines.readline(MAX_LINE):
                if wanted in line:
                    event = event_of(line)
                    if event is not None and event_id in (event.event_id, event.request_id):
                        return event
    except OSError as error:
        raise Invalid([Finding(str(trail), "", f"cannot be read: {error.strerror}")]) from None
    raise Invalid([Finding(str(trail), "", f"has no event with the id {event_id!r}")])


def recorded_result(event: AuditEvent) -> Explanation:
    """Return what the event says of each check; raise Invalid for a reason code that this version does not know."""
    reason = _REASONS.get(event.reason)
    if reason is None:
        raise Invalid([Finding("", f"event {event.event_id}", f"reason {event.reason!r} is of another version")])
    checks = tuple((check, *_outcome(check, reason, event)) for check in Check)
    if event.decision is Verdict.ALLOW:
        return Explanation(checks, "allow", reason, event.rule_id, event.detail)
    return Explanation(checks, "deny", reason, event.rule_id, event.detail, reason.value.remedy)


def _outcome(check: Check, reason: Reason, event: AuditEvent) -> tuple[CheckResult, str]:
    if reason is not Reason.ALLOWED and check == reason.check:
        return "failed", event.detail or reason.value.meaning
    if reason is not Reason.ALLOWED and check > reason.check:
        return "skipped", ""
    return "passed", _fact(check, event)


def _fact(check: Check, event: AuditEvent) -> str:
    """Say what the event still knows of a check that passed."""
    bucket = f"bucket {event.bucket}, key {event.key or ', '.join(event.prefixes)}" if event.bucket else ""
    volume = f"volume {event.volume}" if event.volume else ""
    facts = {
        Check.TOKEN: f"principal {event.principal}" if event.principal else "",
        Check.CATALOG: f"catalog {event.catalog}" if event.catalog else "",
        Check.URI: bucket,
        Check.OPERATION: f"{event.method} is {event.s3_op}" if event.s3_op else "",
        Check.TABLE: f"table {event.namespace}.{event.table}" if event.table else volume,
        Check.PRIVILEGE: f"policy {event.policy_rev}",
        Check.STORE: f"the store answered {event.upstream_status}" if event.upstream_status else "",
        Check.STORAGE: "accepted although it takes unsigned headers" if event.unsafe_storage else "",
    }
    return facts.get(check, "")
