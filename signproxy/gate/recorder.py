"""Close each passage with exactly one audit event, its metrics and its log line, after the outcome is known."""

from __future__ import annotations

import hashlib
from time import perf_counter_ns, time

import msgspec

from signproxy.audit.budget import OVER_LIMIT
from signproxy.audit.event import AuditEvent, Kind, Verdict, to_the_second
from signproxy.audit.trail import AuditTrail
from signproxy.errors import Reason, Refused
from signproxy.gate.context import application_of, bounded
from signproxy.gate.forwarded import Passed
from signproxy.gate.outcome import ForwardOutcome
from signproxy.gate.passage import Passage
from signproxy.gate.refusals import LastRefusals, Refusal, table_of
from signproxy.model import Allow, NamedTable, Subject
from signproxy.s3.codes import s3_code
from signproxy.s3.request import S3Request
from signproxy.telemetry.forward_metrics import Repeats
from signproxy.telemetry.log import get_logger
from signproxy.telemetry.metrics import Metrics
from signproxy.telemetry.request_log import RequestLine, RequestLog

_APART = 1_000_000_000
"""Nanoseconds from the decision to the event; an event that follows sooner says nothing more of the decision's time."""

_log = get_logger("signproxy.gate")

_ALLOWED = Reason.ALLOWED.code
# Looking a member up in its class calls Python code; the hot path does without.
_ALLOW = Verdict.ALLOW
_FORWARD = Kind.FORWARD
_DENIALS = frozenset({400, 401, 403, 404, 405, 409, 411, 413, 429, 501})
_PAYLOAD_FAILURES = frozenset(
    {
        Reason.CHUNK_MALFORMED,
        Reason.CHUNK_SIGNATURE,
        Reason.CHUNK_INCOMPLETE,
        Reason.PAYLOAD_HASH,
        Reason.CHECKSUM_MISMATCH,
        Reason.CONTENT_MD5,
    }
)


class Recorder:
    """Turn a passage into its event. The only place that writes events of requests."""

    __slots__ = ("_log", "_metrics", "_refusals", "_sampled", "_trail", "give_back", "reserve_at_once")

    def __init__(self, trail: AuditTrail, metrics: Metrics, log: RequestLog | None = None) -> None:
        self._trail = trail
        self._metrics = metrics
        self._log = log
        # All that the hot path looks at where nothing served is logged.
        self._sampled = log if log is not None and log.samples else None
        self._refusals = LastRefusals()
        self.reserve_at_once = trail.reserve_at_once
        """Have a place kept as `reserve` does; False where that has to look at it, and nothing has happened. From then
        on exactly one of `repeated` and `give_back` must follow."""
        self.give_back = trail.give_back
        """Give up the place: the event will have another one."""

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
        event_id = event.event_id if self._trail.accept(event) else ""
        passage.closed = True
        self._metrics.signed(event.s3_op, authz_us, sign_us, event.total_us, event_id)
        if self._sampled is not None and self._sampled.takes():
            self._sampled.allowed(_line(event))

    def reserve(self, passage: Passage) -> None:
        """Have a place kept for the event before anything is asked of the store; raises as `signed` does.

        From then on exactly one of `forwarded`, `passed` and `refused` must follow.
        """
        passage.judged_ns = perf_counter_ns()
        passage.reserved = self._trail.reserve(passage.kind, (passage.policy_rev, passage.policy_epoch))

    def forwarded(self, passage: Passage, passed: Passed, outcome: ForwardOutcome) -> None:
        """Record what became of a request that was forwarded, once both its bodies have ended."""
        event = self.draft(passage, passed, outcome)
        now = perf_counter_ns()
        event.total_us = (now - passage.started_ns) // 1000
        event.decided_at = decided_at(now - passage.decided_ns)
        event.authz_us = (passage.judged_ns - passage.started_ns) // 1000
        self._count_forwarded(passage.request, event, self._take(passage, event))
        self._metrics.forward.took(event.authz_us, event.connect_us, event.first_byte_us, event.upstream_us)
        self._metrics.forward.moved(event.bytes_in, event.bytes_out)
        if outcome.reason in _PAYLOAD_FAILURES:
            self._metrics.forward.payload_failed(outcome.reason.code)
        if outcome.verdict is not _ALLOW:
            self._remember(passage, event)
        elif self._sampled is not None and self._sampled.takes():
            self._sampled.allowed(_line(event))

    def draft(self, passage: Passage, passed: Passed, outcome: ForwardOutcome) -> AuditEvent:
        """Return the event of a request that was forwarded, but for how long it took."""
        event = self._event(passage, passage.started_ns, outcome.verdict, outcome.reason.code, outcome.status)
        event.s3_op = passed.forwardable.request.s3_name
        event.rule_id = passed.allow.authority.rule_id
        event.access_key_id = passage.access_key_id
        if passed.observed is not None:
            event.observed = passed.observed.reason.code
            event.detail = passed.observed.detail
        if outcome.detail:
            event.detail = outcome.detail
        if passed.refused:
            event.refused_keys = len(passed.refused)
        _at_the_store(event, outcome)
        return event

    def repeats(self, request: S3Request) -> Repeats:
        """Return what counts requests that are forwarded like this one."""
        return self._metrics.repeats(request.operation.s3_name)

    def repeated(self, event: AuditEvent, counts: Repeats) -> None:
        """Record a request that was forwarded like one before; `event` is the draft of that one, brought up to date."""
        self._trail.fulfil(event)
        counts.count(
            event.event_id, event.upstream_status, event.total_us, event.authz_us, event.upstream_us, event.bytes_out
        )
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
        event.access_key_id = passage.access_key_id
        event.expires_at = passage.expires_at
        if passage.outcome is not None:
            _at_the_store(event, passage.outcome)
        event_id = self._take(passage, event)
        self._metrics.answered(passage.kind.value, verdict.value, reason.code, event.total_us, event_id)
        if self._sampled is not None and self._sampled.takes():
            self._sampled.allowed(_line(event))

    def refused(self, passage: Passage, reason: Reason, detail: str, status: int | None = None) -> None:
        """Record a refusal or failure; a passage that is closed already has had its event.

        `status` is what the caller is told, where it is another than that of the reason.
        """
        if passage.closed:
            return
        passage.closed = True
        verdict = Verdict.DENY if reason.status in _DENIALS else Verdict.ERROR
        now, told = perf_counter_ns(), _status_of(passage, reason, status)
        try:
            event = self._event(passage, now, verdict, reason.code, told)
        except Exception as fault:  # noqa: BLE001 - a fault of ours must not end in a request that has no event
            _log.exception("the event could not be made", request_id=passage.request_id)
            event = _begun(passage, now, verdict, reason.code, told)
            detail = f"{detail}; the event could not be made: {type(fault).__name__}"
        event.detail = detail
        if passage.outcome is not None:
            _at_the_store(event, passage.outcome)
        if passage.request is not None:
            event.s3_op = passage.request.s3_name
        elif passage.wire is not None:
            # Not believed, but all that is known of what was asked for.
            event.method = passage.wire.method
            event.detail = f"{detail}; uri {passage.wire.uri!r}"
        elif passage.asked is not None:
            asked = passage.asked
            event.method, event.bucket = asked.method, asked.bucket
            event.detail = f"{detail}; key {asked.raw_key!r}, query {asked.raw_query!r}"
        event_id = ""
        if passage.subject is None:
            # The caller is not known yet: anyone could fill the disk, so these have a budget of their own.
            self._trail.accept_anonymous(event)
        elif passage.reserved or reason is not Reason.AUDIT_UNAVAILABLE:
            # The trail itself keeps count of the requests that it turned away.
            try:
                event_id = self._take(passage, event)
            except Refused as unavailable:
                self._tell(passage, _as_answered(event, unavailable), "")
                raise
        self._tell(passage, event, event_id)

    def refusals(self) -> tuple[Refusal, ...]:
        """Return the last refusals, the newest first."""
        return self._refusals.newest_first()

    def _take(self, passage: Passage, event: AuditEvent) -> str:
        """Hand the event to the trail, and return its id if the trail holds it: only then can it be looked up.

        The trail drops events where `on_error: allow` permits it. Without a reserved place, what is refused for being
        too much may stand only in a sum.
        """
        if passage.reserved:
            passage.reserved = False
            self._trail.fulfil(event)
            is_held = True
        else:
            is_held = self._trail.accept(event) and event.reason not in OVER_LIMIT
        passage.closed = True
        return event.event_id if is_held else ""

    def _tell(self, passage: Passage, event: AuditEvent, event_id: str) -> None:
        """Count, remember and log a refusal as the caller is told it."""
        if event.kind is _FORWARD:
            self._count_forwarded(passage.request, event, event_id)
        else:
            op = event.s3_op or event.kind.value
            self._metrics.answered(op, event.decision.value, event.reason, event.total_us, event_id)
        self._remember(passage, event)

    def _count_forwarded(self, request: S3Request | None, event: AuditEvent, event_id: str) -> None:
        # The name of an operation outside the table is no label: there are a hundred of them.
        op = event.kind._value_ if request is None else request.operation.s3_name
        decision = event.decision._value_
        self._metrics.answered(op, decision, event.reason, event.total_us, event_id)
        self._metrics.forward.answered(op, decision, event.upstream_status)

    def _remember(self, passage: Passage, event: AuditEvent) -> None:
        self._refusals.add(event, passage.wall)
        if self._log is not None:
            self._log.refused(_line(event))

    def _event(self, passage: Passage, now: int, verdict: Verdict, reason: str, status: int) -> AuditEvent:
        event = _begun(passage, now, verdict, reason, status)
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
        elif judged is not None and judged.volume is not None:
            event.volume = judged.volume.name
        elif isinstance(passage.target, NamedTable):
            event.namespace = passage.target.namespace
            event.table = passage.target.name
        return event


def _begun(passage: Passage, now: int, verdict: Verdict, reason: str, status: int) -> AuditEvent:
    """Return what can be said of any request."""
    elapsed = now - passage.decided_ns
    return AuditEvent(
        event_id=passage.event_id,
        kind=passage.kind,
        request_id=passage.request_id,
        remote_ip=passage.remote_ip,
        user_agent=passage.user_agent,
        catalog=passage.catalog,
        decision=verdict,
        reason=reason,
        policy_rev=passage.policy_rev,
        policy_epoch=passage.policy_epoch,
        # A call costs each request more than the comparison.
        decided_at=decided_at(elapsed) if elapsed >= _APART else "",
        http_status=status,
        total_us=(now - passage.started_ns) // 1000,
    )


def decided_at(elapsed_ns: int) -> str:
    """Return when it was so long ago, as events have it; empty where `ts` itself says it to the second."""
    if elapsed_ns < _APART:
        return ""
    at = time() - elapsed_ns / 1e9
    second = int(at)
    return f"{to_the_second(second)}.{int((at - second) * 1_000_000):06d}Z"


def _at_the_store(event: AuditEvent, outcome: ForwardOutcome) -> None:
    event.stamped = outcome.stamped
    event.upstream_repeats = max(outcome.requests - 1, 0)
    event.upstream_status = outcome.upstream_status
    event.upstream_request_id = outcome.upstream_request_id
    event.upstream_result = outcome.completed
    event.payload = outcome.payload
    event.checksum = outcome.checksum
    event.bytes_in = outcome.bytes_in
    event.bytes_out = outcome.bytes_out
    event.aborted = outcome.aborted
    event.connect_us = outcome.connect_us
    event.first_byte_us = outcome.first_byte_us
    event.upstream_us = outcome.upstream_us
    if outcome.requests and not outcome.upstream_us:
        # The fast path sent it when it came, and it was refused before anything measured the store. The pipeline reads
        # in this field that the store was asked.
        event.upstream_us = max(event.total_us, 1)


def _status_of(passage: Passage, reason: Reason, told: int | None) -> int:
    """Return the status that the caller is told: S3's clients know others than Iceberg's."""
    if passage.kind is not _FORWARD or reason is Reason.CLIENT_GONE:
        return reason.status
    return s3_code(reason).status if told is None else told


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
