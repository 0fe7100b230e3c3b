"""Explain a request of the past from its audit event: what was checked then, under the policy of then."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from signproxy.audit.event import AuditEvent, Verdict
from signproxy.cli.explanation import Outcome
from signproxy.errors import Check, Finding, Invalid, Reason

MAX_LINE = 1024 * 1024
"""A hundred times the longest event."""

_REASONS = {reason.code: reason for reason in Reason}
_decode = msgspec.json.Decoder(AuditEvent).decode


class RecordedResult(NamedTuple):
    """An audit event as `explain` prints it."""

    checks: Sequence[tuple[Check, Outcome, str]]
    decision: Literal["allow", "deny"]
    reason: Reason
    rule_id: str
    detail: str
    fix: str


def find_event(event_id: str, trail: Path) -> AuditEvent:
    """Return the event with this id or request id from an audit file; raise Invalid if there is none."""
    wanted = event_id.encode()
    try:
        with trail.open("rb") as lines:
            while line := lines.readline(MAX_LINE):
                if wanted in line:
                    event = _event(line)
                    if event is not None and event_id in (event.event_id, event.request_id):
                        return event
    except OSError as error:
        raise Invalid([Finding(str(trail), "", f"cannot be read: {error.strerror}")]) from None
    raise Invalid([Finding(str(trail), "", f"has no event with the id {event_id!r}")])


def recorded_result(event: AuditEvent) -> RecordedResult:
    """Return what the event says of each check; raise Invalid for a reason code that this version does not know."""
    reason = _REASONS.get(event.reason)
    if reason is None:
        raise Invalid([Finding("", f"event {event.event_id}", f"reason {event.reason!r} is of another version")])
    served = event.decision is Verdict.ALLOW
    checks = [(check, *_outcome(check, reason, event)) for check in Check]
    return RecordedResult(
        checks,
        "allow" if served else "deny",
        reason,
        event.rule_id,
        event.detail,
        "" if served else reason.value.remedy,
    )


def _event(line: bytes) -> AuditEvent | None:
    """Decode a line; None for one that another version wrote or that was cut off."""
    try:
        return _decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _outcome(check: Check, reason: Reason, event: AuditEvent) -> tuple[Outcome, str]:
    if reason is not Reason.ALLOWED and check == reason.check:
        return "failed", event.detail or reason.value.meaning
    if reason is not Reason.ALLOWED and check > reason.check:
        return "skipped", ""
    return "passed", _fact(check, event)


def _fact(check: Check, event: AuditEvent) -> str:
    """Say what the event still knows of a check that passed."""
    match check:
        case Check.TOKEN:
            return f"principal {event.principal}" if event.principal else ""
        case Check.CATALOG:
            return f"catalog {event.catalog}" if event.catalog else ""
        case Check.URI:
            where = event.key or ", ".join(event.prefixes)
            return f"bucket {event.bucket}, key {where}" if event.bucket else ""
        case Check.OPERATION:
            return f"{event.method} is {event.s3_op}" if event.s3_op else ""
        case Check.TABLE:
            volume = f"volume {event.volume}" if event.volume else ""
            return f"table {event.namespace}.{event.table}" if event.table else volume
        case Check.PRIVILEGE:
            return f"policy {event.policy_rev}"
        case Check.STORE:
            return f"the store answered {event.upstream_status}" if event.upstream_status else ""
        case Check.STORAGE:
            return "accepted although it takes unsigned headers" if event.unsafe_storage else ""
        case _:
            return ""
