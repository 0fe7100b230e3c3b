"""Close each passage with exactly one audit event, its metrics and its log line, after the outcome is known."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from time import perf_counter_ns

import msgspec

from signproxy.audit.event import AuditEvent, Verdict
from signproxy.audit.trail import AuditTrail
from signproxy.errors import Reason, Refused
from signproxy.gate.context import application_of, bounded
from signproxy.gate.passage import Passage
from signproxy.gate.refusals import LastRefusals, Refusal, table_of
from signproxy.model import Allow, NamedTable, Subject
from signproxy.policy.state import PolicyState
from signproxy.s3.request import S3Request
from signproxy.telemetry.metrics import Metrics
from signproxy.telemetry.request_log import RequestLine, RequestLog

_ALLOWED = Reason.ALLOWED.code
# Looking a member up in its class calls Python code; the hot path does without.
_ALLOW = Verdict.ALLOW
_DENIALS = frozenset({400, 401, 403, 404, 405, 413, 429})


class Recorder:
    """Turn a passage into its event. The only place that writes events of requests."""

    __slots__ = ("_log", "_metrics", "_refusals", "_sampled", "_state", "_trail")

    def __init__(
        self,
        trail: AuditTrail,
        metrics: Metrics,
        state: Callable[[], PolicyState],
        log: RequestLog | None = None,
    ) -> None:
        self._trail = trail
        self._metrics = metrics
        self._state = state
        self._log = log
        # All that the hot path looks at where nothing served is logged.
        self._sampled = log if log is not None and log.samples else None
        self._refusals = LastRefusals()

    def signed(self, passage: Passage, allow: Allow) -> None:
        """Record that the request is signed; raises if the trail does not take it, and nothing may be served."""
        now = perf_counter_ns()
        event = self._event(passage, now, _ALLOW, _ALLOWED, 200)
        event.rule_id = allow.authority.rule_id
        event.access_key_id = passage.access_key_id
        event.expires_at = passage.expires_at
        event.stamped = passage.stamped
        event.cacheable = passage.cacheable
        event.unsafe_storage = allow.unsafe_storage
        authz_us = event.authz_us = (passage.judged_ns - passage.started_ns) // 1000
        sign_us = event.sign_us = (now - passage.judged_ns) // 1000
        self._trail.accept(event)
        passage.closed = True
        self._metrics.signed(event.s3_op, authz_us, sign_us, event.total_us)
        if self._sampled is not None and self._sampled.takes():
            self._sampled.allowed(_line(event))

    def answered(self, passage: Passage) -> None:
        """Record that a request without an S3 operation was answered."""
        self.passed(passage, 200)

    def passed(
        self,
        passage: Passage,
        status: int,
        detail: str = "",
        verdict: Verdict = Verdict.ALLOW,
        reason: Reason = Reason.ALLOWED,
    ) -> None:
        """Record a call that was let pass, with the status that its caller gets; raises as `signed` does.

        An upstream's own 404 or 409 is an answer like any other: it was not signproxy that refused.
        """
        event = self._event(passage, perf_counter_ns(), verdict, reason.code, status)
        event.detail = detail
        self._trail.accept(event)
        passage.closed = True
        self._metrics.answered(passage.kind.value, verdict.value, reason.code, event.total_us)
        if self._sampled is not None and self._sampled.takes():
            self._sampled.allowed(_line(event))

    def refused(self, passage: Passage, reason: Reason, detail: str) -> None:
        """Record a refusal or failure; a passage that is closed already has had its event."""
        if passage.closed:
            return
        passage.closed = True
        verdict = Verdict.DENY if reason.status in _DENIALS else Verdict.ERROR
        event = self._event(passage, perf_counter_ns(), verdict, reason.code, reason.status)
        event.detail = detail
        if passage.request is None and passage.wire is not None:
            # Not believed, but all that is known of what was asked for.
            event.method = passage.wire.method
            event.detail = f"{detail}; uri {passage.wire.uri!r}"
        if passage.subject is None:
            # Nobody is known yet: anyone could fill the disk, so these have a budget of their own.
            self._trail.accept_anonymous(event)
        elif reason is not Reason.AUDIT_UNAVAILABLE:
            # The trail itself keeps count of the requests that it turned away.
            try:
                self._trail.accept(event)
            except Refused as unavailable:
                self._tell(passage, _as_answered(event, unavailable))
                raise
        self._tell(passage, event)

    def refusals(self) -> tuple[Refusal, ...]:
        """Return the last refusals, the newest first."""
        return self._refusals.newest_first()

    def _tell(self, passage: Passage, event: AuditEvent) -> None:
        """Count, remember and log a refusal as the caller is told it."""
        op = event.s3_op or event.kind.value
        self._metrics.answered(op, event.decision.value, event.reason, event.total_us)
        self._refusals.add(event, passage.wall)
        if self._log is not None:
            self._log.refused(_line(event))

    def _event(self, passage: Passage, now: int, verdict: Verdict, reason: str, status: int) -> AuditEvent:
        state = self._state()
        event = AuditEvent(
            event_id=passage.event_id,
            kind=passage.kind,
            request_id=passage.request_id,
            remote_ip=passage.remote_ip,
            user_agent=passage.user_agent,
            catalog=passage.catalog,
            decision=verdict,
            reason=reason,
            policy_rev=state.rev,
            policy_epoch=state.epoch,
            http_status=status,
            total_us=(now - passage.started_ns) // 1000,
        )
        if passage.application:
            event.application = bounded(passage.application)
        elif passage.wire is not None:
            event.application = application_of(passage.wire.headers)
        if passage.query_id:
            event.query_id = bounded(passage.query_id)
        if passage.call:
            event.call = passage.call
            event.method = passage.method
        subject = passage.subject
        if subject is not None:
            caller = subject.caller
            event.principal = caller.name
            event.issuer = caller.issuer
            event.roles = caller.roles
            if caller.pod is not None or caller is not subject.effective:
                _more_of_who(event, subject)
        request = passage.request
        if request is not None:
            operation = request.operation
            event.bucket = request.bucket
            event.key = request.key
            event.method = request.method
            event.s3_op = operation.s3_name
            event.access = operation.access_name
            if not request.key:
                _many_keys(event, request)
        judged = passage.allow or passage.deny
        if judged is not None and judged.table is not None:
            event.table_uuid = passage.table_uuid
            event.namespace = judged.table.namespace
            event.table = judged.table.name
        elif isinstance(passage.target, NamedTable):
            event.namespace = passage.target.namespace
            event.table = passage.target.name
        return event


def _as_answered(event: AuditEvent, unavailable: Refused) -> AuditEvent:
    """Return what became of a refusal that the trail did not take: the caller is told of the trail."""
    reason = unavailable.reason
    detail = f"{unavailable.detail}; refused for {event.reason} before"
    return msgspec.structs.replace(
        event, decision=Verdict.ERROR, reason=reason.code, http_status=reason.status, detail=detail
    )


def _line(event: AuditEvent) -> RequestLine:
    table = table_of(event)
    return RequestLine(
        request_id=event.request_id,
        event_id=event.event_id,
        principal=event.principal,
        table=f"{event.catalog}.{table}" if table else "",
        op=event.s3_op or event.call or event.kind.value,
        decision=event.decision.value,
        reason=event.reason,
        status=event.http_status,
        ms=event.total_us / 1000,
    )


def _more_of_who(event: AuditEvent, subject: Subject) -> None:
    if subject.delegated:
        event.effective_principal = subject.effective.name
        event.view_chain = subject.chain
    pod = subject.caller.pod
    if pod is not None:
        event.pod_namespace = pod.namespace
        event.pod_name = pod.name
        event.pod_uid = pod.uid
        event.pod_node = pod.node


def _many_keys(event: AuditEvent, request: S3Request) -> None:
    if request.prefix:
        event.prefixes = (request.prefix,)
    keys = request.delete_keys
    if keys:
        event.key = keys[0]
        event.key_count = len(keys)
        event.keys_sha256 = hashlib.sha256("".join([f"{key}\n" for key in keys]).encode()).hexdigest()
