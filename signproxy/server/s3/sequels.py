"""Serve requests that are like one that was served, as they arrive: without a task, and without what is known.

Only what differs is looked at: the name of the object, the caller's signature where there is one, and whatever may have
changed since: the policy, who vouches for the caller, the settings, and every limit. Whatever is not as expected is
left to the ordinary way, which begins anew with the same bytes: before the store is asked, as if nothing had happened;
after that with the conversation that was begun.

    idle ──like the precedent──> judged ──places taken, store asked──> busy ──whole answer──> recorded ──> idle
     └─anything else──> general   └─no place──> general                  └─late or broken──> handover ──> general
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter_ns, time
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from signproxy.audit.event import AuditEvent
from signproxy.audit.ids import new_event_id
from signproxy.errors import Reason, Refused
from signproxy.forward.answer import EVENT_ID, REQUEST_ID, head_of
from signproxy.forward.quick import QuickExchange
from signproxy.forward.repeated import Repeated
from signproxy.forward.underway import Underway
from signproxy.gate.events import decided_at
from signproxy.gate.judgement import Judgement
from signproxy.gate.limits import Lease
from signproxy.gate.outcome import StoreOutcome
from signproxy.gate.request import Request
from signproxy.identity.s3_caller import S3Callers, Shown
from signproxy.inventory.learned.unquestioned import Unquestioned
from signproxy.policy.neighbours import Neighbours
from signproxy.s3.request import S3Request
from signproxy.server.s3.likeness import Likeness
from signproxy.telemetry.log import get_logger
from signproxy.transfer.head import RequestHead, ResponseHead

if TYPE_CHECKING:
    from signproxy.server.s3.connection import S3Connection
    from signproxy.server.s3.handler import S3Handler

PATIENCE = 1.0
"""Seconds for an answer; then a task waits for it, with the limits that each phase has."""

_log = get_logger("signproxy.s3")


class Precedent(msgspec.Struct, frozen=True, gc=False):
    """A request that was served, and what of it holds for those that are like it."""

    likeness: Likeness
    neighbours: Neighbours
    learned: Unquestioned | None
    """The table, where an upstream told of it; None where the policy did, or it is a volume."""
    shown: Shown
    callers: S3Callers
    is_current: Callable[[], bool]
    """Whether settings and policy are those that it was judged by."""
    request: S3Request
    repeated: Repeated
    event: AuditEvent
    """Its own, but for what the store told and how long it took."""
    arrived: Request
    """As it came. Its request id is the one that the client gives all of them; empty where it gives none."""
    judgement: Judgement
    """How it was judged, for an event that is no repetition of that one."""


class Begun(NamedTuple):
    """A request that the store was sent already: how it was judged, what became of it so far, and what it holds."""

    judgement: Judgement
    outcome: StoreOutcome
    lease: Lease


class Handover:
    """What a request holds that was admitted and sent to a store; closed exactly once.

    It holds a transfer slot, a place in the audit trail, and the conversation with the store. The rate that it was
    charged stays charged. None of this has to be won a second time: the store's log has the request already, so the
    trail must have its event.
    """

    __slots__ = ("_begun", "_common", "_request", "underway")

    def __init__(
        self, common: S3Handler, underway: Underway, request: Request, judgement: Judgement, key: str, judged_ns: int
    ) -> None:
        """`request` and `judgement` are those of the precedent; `judged_ns` is when this request was judged like it."""
        subject, addressed = judgement.subject, judgement.request
        assert subject is not None  # noqa: S101 - a precedent was allowed to a caller
        assert addressed is not None  # noqa: S101 - as above
        self._common = common
        self._request = replace(
            request,
            event_id=underway.event_id,
            request_id=request.request_id or underway.event_id,
            started_ns=underway.started_ns,
        )
        judgement = replace(judgement, request=replace(addressed, key=key), decided_ns=judged_ns, judged_ns=judged_ns)
        lease = Lease()
        lease.principal, lease.places, lease.event = subject.caller.name, common.transfers, common.recorder
        # Whatever becomes of it now, the store was sent it.
        outcome = StoreOutcome(status=0, requests=1, stamped=underway.stamped)
        self._begun: Begun | None = Begun(judgement, outcome, lease)
        self.underway = underway
        """The conversation with the store; its event id is the one that the store was sent."""

    def go_on(self) -> Begun:
        """Return what the request holds. From now on exactly one event of it must follow, which has its place.

        Until it is judged anew, it was judged as the precedent was.
        """
        begun, self._begun = self._begun, None
        assert begun is not None  # noqa: S101 - a request is served on once
        return begun

    def close(self) -> None:
        """Give back what is left. A request that was not served on has its event now."""
        self.underway.abandon()
        begun, self._begun = self._begun, None
        if begun is not None:
            gone = Refused(Reason.CLIENT_GONE, "cancelled")
            try:
                self._common.recorder.refused(self._request, begun.judgement, gone, begun.outcome, begun.lease)
            finally:
                begun.lease.close()


class Sequels:
    """What follows a precedent on one connection, one request at a time."""

    __slots__ = (
        "_again", "_ask", "_common", "_counts", "_data", "_event_id", "_exchange", "_guest", "_judged_ns", "_key",
        "_key_of", "_loop", "_precedent", "_principal", "_read", "_shown", "_started_ns", "_timer", "is_busy",
    )  # fmt: skip

    def __init__(self, guest: S3Connection, common: S3Handler, precedent: Precedent) -> None:
        self._guest = guest
        self._common = common
        self._precedent = precedent
        self._principal = precedent.shown.known.principal.name
        # Each look-up on the way is paid by every request.
        self._read = precedent.likeness.read
        self._key_of = precedent.neighbours.key_of
        self._shown = precedent.shown
        self._again = precedent.callers.again
        self._ask = precedent.repeated.ask
        self._counts = common.recorder.counts(precedent.request)
        self._exchange = QuickExchange(self._answered, self._handed_on)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._data = b""
        self._event_id = self._key = ""
        self._started_ns = self._judged_ns = 0
        self.is_busy = False
        """Whether a request is under way."""

    def covers(self, head: RequestHead) -> bool:
        """Whether a request would be served here, but for what may be otherwise the next time."""
        return self._precedent.is_current() and self._precedent.likeness.has(head)

    def begin(self, data: bytes) -> bool:
        """Begin to serve what arrived; False where that is left to the ordinary way, and nothing has happened."""
        like = self._read(data)
        if like is None:
            return False
        name, lines, signature, amz_date, changed = like
        key = self._key_of(name)
        precedent, common, principal = self._precedent, self._common, self._principal
        if not key or not precedent.is_current():
            return False
        started, now = perf_counter_ns(), time()
        if precedent.learned is not None and not precedent.learned.holds(precedent.neighbours.bucket, key, now):
            return False
        if not self._again(self._shown, name, amz_date, signature, changed, now):
            return False
        if not common.transfers.begin_at_once(principal):
            return False
        if not common.limits.admits_at_once(principal, started):
            common.transfers.end(principal)
            return False
        # Nothing is served that the trail has no place for.
        if not common.recorder.reserve_at_once():
            self._give_up_turn()
            return False
        judged = perf_counter_ns()
        event_id = new_event_id()
        try:
            asked = self._ask(self._exchange, name, event_id, lines, now)
        except Exception:  # noqa: BLE001 - no task has this request yet: the ordinary way answers and records it
            _log.exception("request not begun at once")
            asked = False
        if not asked:
            common.recorder.give_back()
            self._give_up_turn()
            return False
        self.is_busy = True
        self._started_ns, self._judged_ns = started, judged
        self._data, self._key, self._event_id = data, key, event_id
        if self._timer is None:
            self._timer = self._loop.call_later(PATIENCE, self._look)
        return True

    def hand_on(self) -> None:
        """Leave what is under way to the ordinary way."""
        self._exchange.hand_on()

    def _answered(self, head: ResponseHead, raw: bytes, body: bytes) -> None:
        now = perf_counter_ns()
        self.is_busy = False
        precedent, common, event_id, started = self._precedent, self._common, self._event_id, self._started_ns
        event = replace(precedent.event, event_id=event_id)
        event.decided_at = decided_at(now - self._judged_ns)
        event.request_id = request_id = precedent.arrived.request_id or event_id
        event.key = self._key
        event.http_status = event.upstream_status = head.status
        event.total_us = (now - started) // 1000
        added = f"{EVENT_ID}: {event_id}\r\n"
        upstream_id = head.fields.get(REQUEST_ID)
        if upstream_id is None:
            added = f"{added}{REQUEST_ID}: {request_id}\r\n"
        else:
            event.upstream_request_id = upstream_id.partition(",")[0]
        event.bytes_out = len(body)
        event.authz_us = (self._judged_ns - started) // 1000
        event.first_byte_us = event.upstream_us = (now - self._judged_ns) // 1000
        try:
            # The connection is there: one that is lost hands on what is under way.
            self._guest.write_soon(head_of(head, raw, added) + body)
        except Exception:  # noqa: BLE001 - no task has this request: the ordinary way answers and records it
            _log.exception("request not answered at once", request_id=request_id)
            # The store's log has the id; there is no conversation to go on with.
            self._handed_on(Underway(None, None, None))
            return
        try:
            common.recorder.repeated(event, self._counts)
        finally:
            common.transfers.end(self._principal)
            self._guest.served()

    def _handed_on(self, underway: Underway) -> None:
        self.is_busy = False
        precedent = self._precedent
        underway.started_ns, underway.event_id = self._started_ns, self._event_id
        underway.stamped = precedent.repeated.stamped
        handover = Handover(self._common, underway, precedent.arrived, precedent.judgement, self._key, self._judged_ns)
        self._guest.go_on(self._data, handover)

    def _give_up_turn(self) -> None:
        self._common.transfers.end(self._principal)
        self._common.limits.give_back(self._principal, 0)

    def _look(self) -> None:
        """Hand on what takes too long; one timer serves many requests."""
        self._timer = None
        if not self.is_busy:
            return
        left = PATIENCE - (perf_counter_ns() - self._started_ns) / 1e9
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
        else:
            self.hand_on()
