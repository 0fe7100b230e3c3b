"""Record each request: exactly one audit event, its metrics and its log line, after the outcome is known."""

from __future__ import annotations

from time import perf_counter_ns

import msgspec

from signproxy.audit.budget import OVER_LIMIT
from signproxy.audit.event import AuditEvent, Kind, Verdict
from signproxy.audit.trail import AuditTrail
from signproxy.errors import Reason, Refused
from signproxy.gate.events import as_passed, bare_event_of, event_of
from signproxy.gate.forwarded import Passed
from signproxy.gate.judgement import Judgement
from signproxy.gate.limits import Lease
from signproxy.gate.outcome import Outcome
from signproxy.gate.refusals import LastRefusals, Refusal, table_of
from signproxy.gate.request import AskedFor, Request
from signproxy.s3.codes import s3_answer
from signproxy.s3.request import S3Request
from signproxy.telemetry.forward_metrics import ForwardedCounts
from signproxy.telemetry.log import get_logger
from signproxy.telemetry.metrics import Metrics
from signproxy.telemetry.request_log import RequestLine, RequestLog

_log = get_logger("signproxy.gate")

# Looking a member up in its class calls Python code; the hot path does without.
_ALLOW = Verdict.ALLOW
_ALLOWED = Reason.ALLOWED.code
_SIGN = Kind.SIGN
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
    """Write the events of requests. The only place that does."""

    __slots__ = ("_counts", "_log", "_metrics", "_refusals", "_sampled", "_trail", "give_back", "reserve_at_once")

    def __init__(self, trail: AuditTrail, metrics: Metrics, log: RequestLog | None = None) -> None:
        self._trail = trail
        self._metrics = metrics
        self._log = log
        # All that the hot path looks at where nothing served is logged.
        self._sampled = log if log is not None and log.samples else None
        self._refusals = LastRefusals()
        self._counts: dict[tuple[str, str, str], ForwardedCounts] = {}
        self.reserve_at_once = trail.reserve_at_once
        """Have a place kept as `reserve` does; False where that has to look at it, and nothing has happened. From then
        on exactly one of `repeated` and `give_back` must follow."""
        self.give_back = trail.give_back
        """Give up the place: the event will have another one."""

    def reserve(self, request: Request, judgement: Judgement, lease: Lease) -> None:
        """Have a place kept for the event before anything is asked of a store or an upstream; raises as `served` does.

        If the trail is found full after serving, the object is written already.
        """
        policy = judgement.policy_rev, judgement.policy_epoch
        if self.reserve_at_once() or self._trail.reserve(request.kind, policy):
            lease.event = self

    def served(self, request: Request, judgement: Judgement, outcome: Outcome, lease: Lease) -> None:
        """Record what became of a request that was served; raises if the trail does not take it.

        Nothing may be served then. Where a place is kept, the trail takes it.
        """
        event = event_of(request, judgement, outcome, perf_counter_ns())
        allow = judgement.allow
        if allow is not None:
            event.rule_id = allow.authority.rule_id
            event.unsafe_storage = allow.unsafe_storage
            event.authz_us = (judgement.judged_ns - request.started_ns) // 1000
        if request.kind is _SIGN and allow is not None and lease.event is None:
            sign_us = event.sign_us = event.total_us - event.authz_us
            event_id = event.event_id if self._trail.accept(event) else ""
            lease.recorded = True
            self._metrics.signed(event.s3_op, event.authz_us, sign_us, event.total_us, event_id)
        elif isinstance(judgement.passed, Passed) and judgement.request is not None:
            as_passed(event, judgement.passed)
            counts = self.counts(judgement.request, outcome.verdict, event.reason)
            self.forwarded(event, self._take(event, lease), counts)
            if outcome.verdict is not _ALLOW:
                if outcome.reason in _PAYLOAD_FAILURES:
                    self._metrics.forward.payload_failed(event.reason)
                self._remember(request, event)
            return
        else:
            op = event.s3_op or event.kind.value
            event_id = self._take(event, lease)
            self._metrics.answered(op, event.decision.value, event.reason, event.total_us, event_id)
            vended = outcome.vended
            if vended is not None:
                self._metrics.vended.labels(vended.kind, vended.access).inc()
        if self._sampled is not None and self._sampled.takes():
            self._sampled.allowed(_line(event))

    def refused(
        self, request: Request, judgement: Judgement, refused: Refused, outcome: Outcome | None, lease: Lease
    ) -> None:
        """Record a refusal or failure; a request that has its event gets no other. Raises as `served` does."""
        if lease.recorded:
            return
        lease.recorded = True
        reason = refused.reason
        outcome = outcome or Outcome()
        outcome.verdict = Verdict.DENY if reason.status in _DENIALS else Verdict.ERROR
        outcome.reason, outcome.status = reason, _status_of(request, refused)
        outcome.detail = refused.detail
        now = perf_counter_ns()
        try:
            event = event_of(request, judgement, outcome, now)
        except Exception as fault:  # noqa: BLE001 - a fault of ours must not end in a request that has no event
            _log.exception("the event could not be made", request_id=request.request_id)
            event = bare_event_of(request, judgement, outcome, now)
            event.detail = f"{refused.detail}; the event could not be made: {type(fault).__name__}"
        if judgement.request is None:
            _say_what_was_asked(event, judgement.asked)
        event_id = ""
        if judgement.subject is None:
            # The caller is not known yet: any client could fill the disk, so these have a budget of their own.
            self._trail.accept_anonymous(event)
        elif lease.event is not None or reason is not Reason.AUDIT_UNAVAILABLE:
            # The trail itself keeps count of the requests that it turned away.
            try:
                event_id = self._take(event, lease)
            except Refused as unavailable:
                self._tell(request, judgement, _as_answered(event, unavailable), "")
                raise
        self._tell(request, judgement, event, event_id)

    def draft(self, request: Request, judgement: Judgement, outcome: Outcome) -> AuditEvent:
        """Return the event of a request that was forwarded, but for how long it took."""
        event = event_of(request, judgement, outcome, request.started_ns)
        if judgement.allow is not None:
            event.rule_id = judgement.allow.authority.rule_id
        return event

    def counts(self, request: S3Request, verdict: Verdict = _ALLOW, reason: str = _ALLOWED) -> ForwardedCounts:
        """Return what counts requests that are forwarded like this one, and end like it."""
        # The name of an operation outside the table is no label: there are a hundred of them.
        key = request.operation.s3_name, verdict._value_, reason
        counts = self._counts.get(key)
        if counts is None:
            counts = self._counts[key] = self._metrics.forwarded(*key)
        return counts

    def forwarded(self, event: AuditEvent, event_id: str, counts: ForwardedCounts) -> None:
        """Count a request whose event is the trail's; `event_id` is empty where the trail may not hold it."""
        counts.count(
            event_id,
            event.upstream_status,
            event.total_us,
            event.authz_us,
            event.connect_us,
            event.first_byte_us,
            event.upstream_us,
            event.bytes_in,
            event.bytes_out,
        )
        if self._sampled is not None and event.decision is _ALLOW and self._sampled.takes():
            self._sampled.allowed(_line(event))

    def repeated(self, event: AuditEvent, counts: ForwardedCounts) -> None:
        """Record a request that was forwarded like one before; `event` is the draft of that one, brought up to date."""
        self._trail.fulfil(event)
        self.forwarded(event, event.event_id, counts)

    def refusals(self) -> tuple[Refusal, ...]:
        """Return the last refusals, the newest first."""
        return self._refusals.newest_first()

    def _take(self, event: AuditEvent, lease: Lease) -> str:
        """Hand the event to the trail, and return its id if the trail holds it: only then can it be looked up.

        The trail drops events where `on_error: allow` permits it. Without a reserved place, what is refused for being
        too much may stand only in a sum.
        """
        if lease.event is not None:
            lease.event = None
            self._trail.fulfil(event)
            is_held = True
        else:
            is_held = self._trail.accept(event) and event.reason not in OVER_LIMIT
        lease.recorded = True
        return event.event_id if is_held else ""

    def _tell(self, request: Request, judgement: Judgement, event: AuditEvent, event_id: str) -> None:
        """Count, remember and log a refusal as the caller is told it."""
        if event.kind is _FORWARD:
            self._count_forwarded(judgement, event, event_id)
        else:
            op = event.s3_op or event.kind.value
            self._metrics.answered(op, event.decision.value, event.reason, event.total_us, event_id)
        self._remember(request, event)

    def _count_forwarded(self, judgement: Judgement, event: AuditEvent, event_id: str) -> None:
        s3 = judgement.request
        # The name of an operation outside the table is no label: there are a hundred of them.
        op = event.kind._value_ if s3 is None else s3.operation.s3_name
        decision = event.decision._value_
        self._metrics.answered(op, decision, event.reason, event.total_us, event_id)
        self._metrics.forward.answered(op, decision, event.upstream_status)

    def _remember(self, request: Request, event: AuditEvent) -> None:
        self._refusals.add(event, request.wall)
        if self._log is not None:
            self._log.refused(_line(event))


def _status_of(request: Request, refused: Refused) -> int:
    """Return the status that the caller is told: S3's clients know others than Iceberg's."""
    if request.kind is not _FORWARD or refused.reason is Reason.CLIENT_GONE:
        return refused.reason.status
    return s3_answer(refused).status


def _say_what_was_asked(event: AuditEvent, asked: AskedFor) -> None:
    """Say of a request that was not understood what it asked for: not believed, but all that is known."""
    wire, forward = asked.wire, asked.forward
    if wire is not None:
        event.method = wire.method
        event.detail = f"{event.detail}; uri {wire.uri!r}"
    elif forward is not None:
        event.method, event.bucket = forward.method, forward.bucket
        event.detail = f"{event.detail}; key {forward.raw_key!r}, query {forward.raw_query!r}"


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
