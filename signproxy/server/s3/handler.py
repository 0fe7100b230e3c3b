"""Handle requests of the S3 listener: each is served in the one order, and what it teaches is kept for the next."""

from __future__ import annotations

import asyncio
from time import perf_counter_ns

from msgspec.structs import replace

from signproxy.audit.event import Kind, Verdict
from signproxy.audit.ids import new_event_id
from signproxy.forward.relay import SMALL
from signproxy.gate.judgement import unjudged
from signproxy.gate.limits import Lease, Limits, Places
from signproxy.gate.order import Order
from signproxy.gate.recorder import Recorder
from signproxy.gate.request import NOTHING_ASKED, arrived
from signproxy.s3.codes import s3_answer
from signproxy.server.process.rooms import House
from signproxy.server.s3.answers import Origin, refusal
from signproxy.server.s3.connection import S3Connection
from signproxy.server.s3.precedents import find_precedent
from signproxy.server.s3.s3_way import S3Rooms, S3Way, malformed
from signproxy.server.s3.sequels import Handover, Sequels
from signproxy.transfer.faults import MessageInvalid
from signproxy.transfer.head import RequestHead

# Looking a member up in its class calls Python code.
_KIND = Kind.FORWARD
_ALLOW = Verdict.ALLOW

_READS = ("GET", "HEAD")


class S3Handler:
    """The one handler of the listener."""

    def __init__(self, house: House, recorder: Recorder, limits: Limits, transfers: Places) -> None:
        self.limits = limits
        self.transfers = transfers
        self.recorder = recorder
        self._house = house
        self._order = Order(recorder, limits)

    @property
    def rooms(self) -> S3Rooms:
        """The rooms in force."""
        rooms = self._house.rooms.s3
        assert rooms is not None  # noqa: S101 - this is the listener that they are for
        return rooms

    async def serve(self, guest: S3Connection, head: RequestHead, handover: Handover | None = None, /) -> bool:
        """Answer a request; whatever happens, exactly one event closes it. True where the next one may follow.

        `handover` is what it holds already, where the store was sent it: that is not asked for again. The caller closes
        it.
        """
        rooms, fields = self._house.rooms.s3, head.fields
        assert rooms is not None  # noqa: S101 - this is the listener that they are for
        event_id = new_event_id() if handover is None else handover.underway.event_id
        request_id, user_agent = fields.get("x-request-id"), fields.get("user-agent", "")
        in_force = self._house.current()
        request = arrived(_KIND, event_id, in_force, request_id, guest.peer, user_agent, head.method)
        if handover is None:
            way = S3Way(request, Lease(), guest, head, rooms, self.limits, self.transfers)
            taken = self._order.take(way)
        else:
            underway = handover.underway
            request = replace(request, started_ns=underway.started_ns)
            begun = handover.go_on()
            way = S3Way(request, begun.lease, guest, head, rooms, self.limits, self.transfers, underway)
            taken = self._order.take(way, begun.judgement, begun.outcome)
        try:
            ended = await taken
        except asyncio.CancelledError:
            guest.abort()
            raise
        if isinstance(ended, bytes):
            guest.write(ended)
        elif (
            ended is not None
            and head.method in _READS
            and not way.answer.closes
            and ended.verdict is _ALLOW
            and ended.bytes_out <= SMALL
        ):
            self._remember(rooms, way)
        return way.goes_on

    async def serve_malformed(self, guest: S3Connection, invalid: MessageInvalid) -> None:
        """Answer one whose head can be read in two ways; nothing of it is believed, its method neither."""
        request = arrived(_KIND, new_event_id(), self._house.current(), None, guest.peer)
        refused = malformed(invalid)
        judgement = unjudged(request, None, NOTHING_ASKED, refused)
        self.recorder.refused(request, judgement, refused, None, Lease())
        hold = self.limits.stranger(perf_counter_ns())
        if hold is None or await guest.hold_back(hold):
            origin = Origin("", "", request.request_id, request.event_id)
            guest.write(refusal(s3_answer(refused), origin, closes=True))

    def _remember(self, rooms: S3Rooms, way: S3Way) -> None:
        """Have requests that are like this one served without a task, where the one before was like it."""
        guest, head = way.guest, way.head
        if not guest.repeats(head) or (guest.sequels is not None and guest.sequels.covers(head)):
            return
        if rooms is not self.rooms:
            # What was found by other settings holds for nothing that comes.
            return
        house, turn = self._house, self._house.turn
        precedent = find_precedent(way, rooms, self.recorder, lambda: house.turn is turn)
        guest.sequels = None if precedent is None else Sequels(guest, self, precedent)
