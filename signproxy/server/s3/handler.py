"""Handle requests of the S3 listener: who calls, what for, is it allowed, forward, record, answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import compress
from time import perf_counter_ns
from typing import NamedTuple

import msgspec

from signproxy.answers.bodies import FOR_TOO_MUCH
from signproxy.audit.event import Kind, Verdict
from signproxy.audit.ids import new_event_id
from signproxy.config.s3 import S3Settings
from signproxy.errors import Reason, Refused
from signproxy.forward.answer import Answer
from signproxy.forward.forward import Forwarder
from signproxy.forward.relay import SMALL
from signproxy.gate import work
from signproxy.gate.forwarded import BucketsShown, StoreBucket
from signproxy.gate.gate import Gate
from signproxy.gate.limits import Hold, Limits
from signproxy.gate.outcome import ForwardOutcome
from signproxy.gate.passage import Passage
from signproxy.gate.places import Places
from signproxy.gate.recorder import Recorder
from signproxy.identity.s3_caller import Caller, S3Callers
from signproxy.model import Subject
from signproxy.s3.codes import s3_answer
from signproxy.s3.faults import Fault, S3Refused
from signproxy.s3.forwarded import ForwardWire, is_bulk_delete
from signproxy.s3.storage import Storage
from signproxy.server.api.message import read_request_id
from signproxy.server.process.rooms import House
from signproxy.server.s3.address import address_of
from signproxy.server.s3.answers import Origin, buckets, refusal
from signproxy.server.s3.connection import S3Connection
from signproxy.server.s3.handover import Handover
from signproxy.server.s3.precedents import Precedents
from signproxy.server.s3.sequels import Sequels
from signproxy.telemetry.log import get_logger
from signproxy.transfer.body import Incoming
from signproxy.transfer.faults import MessageInvalid, Stalled, Truncated
from signproxy.transfer.head import HOP_BY_HOP, RequestHead

MAX_BULK_DELETE = 2 * 1024 * 1024
"""Of a body that is read whole: a thousand keys of 1,024 bytes, as XML may escape them; S3's own limit."""

_NOT_PASSED_ON = HOP_BY_HOP | {"host", "authorization", "x-amz-security-token", "x-amz-date", "expect"}
"""What belongs to this connection, or proves who calls; the store gets signproxy's own."""

_SETS_KEPT = 1024
"""Clients repeat a handful of header sets; the bound is there for those who do not."""
_KEPT_LENGTH = 1024
"""Characters of the names of a set that is kept."""

_log = get_logger("signproxy.s3")

# Looking a member up in its class calls Python code.
_KIND = Kind.FORWARD
_ALLOW = Verdict.ALLOW

_READS = ("GET", "HEAD")


class S3Rooms(NamedTuple):
    """What answers requests, as it is for one generation of settings."""

    settings: S3Settings
    callers: S3Callers
    gate: Gate
    forwarder: Forwarder
    base_domains: frozenset[str]


class Turn(NamedTuple):
    """A request, and all that belongs to it."""

    guest: S3Connection
    head: RequestHead
    body: Incoming
    answer: Answer
    passage: Passage

    @property
    def origin(self) -> Origin:
        """What the answer repeats of the request."""
        passage = self.passage
        return Origin(self.head.method, self.head.target.partition("?")[0], passage.request_id, passage.event_id)


class S3Handler:
    """The one handler of the listener."""

    def __init__(self, house: House, recorder: Recorder, limits: Limits, transfers: Places) -> None:
        self.limits = limits
        self.transfers = transfers
        self.recorder = recorder
        self._house = house

    @property
    def in_flight(self) -> int:
        """Requests that are being served."""
        return self.transfers.taken

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
        rooms = self.rooms
        fields = head.fields
        event_id = new_event_id() if handover is None else handover.underway.event_id
        told_id, user_agent = fields.get("x-request-id"), fields.get("user-agent", "")
        passage = _passage(rooms.gate, event_id, guest.peer, told_id, user_agent)
        passage.method = head.method
        answer = Answer(guest, head, passage.event_id, passage.request_id)
        answer.closes = answer.closes or guest.ending
        body = Incoming(guest, head.body, head.length, idle=rooms.settings.limits.idle_seconds)
        turn = Turn(guest, head, body, answer, passage)
        if handover is not None:
            handover.continue_as(passage)
        try:
            await self._pass(rooms, turn, handover)
        except Refused as refused:
            await self._refuse(turn, refused)
        except MessageInvalid as invalid:
            await self._refuse(turn, _malformed(invalid))
        except Stalled as stalled:
            await self._refuse(turn, Refused(Reason.BODY_STALLED, str(stalled)))
        except (ConnectionError, Truncated) as gone:
            await self._refuse(turn, Refused(Reason.CLIENT_GONE, type(gone).__name__))
        except asyncio.CancelledError:
            self._record(turn, Refused(Reason.CLIENT_GONE, "cancelled"))
            guest.abort()
            raise
        except Exception:  # noqa: BLE001 - the outermost wrapper: a fault of ours is an answer, an event and a trace
            _log.exception("request failed", request_id=passage.request_id)
            await self._refuse(turn, Refused(Reason.INTERNAL))
        return body.ended and not answer.closes and not guest.closed

    async def serve_malformed(self, guest: S3Connection, invalid: MessageInvalid) -> None:
        """Answer one whose head can be read in two ways; nothing of it is believed, its method neither."""
        passage = _passage(self.rooms.gate, new_event_id(), guest.peer, None, "")
        self.recorder.refused(passage, Reason.HTTP_INVALID, str(invalid))
        hold = self.limits.stranger(perf_counter_ns())
        if hold is None or await guest.hold_back(hold):
            origin = Origin("", "", passage.request_id, passage.event_id)
            guest.write(refusal(s3_answer(_malformed(invalid)), origin, closes=True))

    async def _pass(self, rooms: S3Rooms, turn: Turn, handover: Handover | None) -> None:
        guest, head, body, answer, passage = turn
        address = address_of(head.fields["host"], head.target, rooms.base_domains)
        callers = rooms.callers
        found = callers.identify(head.method, head.target, head.headers, guest.facts, passage.wall, head.fields)
        caller = found if isinstance(found, Caller) else await found
        principal = caller.principal
        name = principal.name
        passage.subject = subject = Subject(principal, principal)
        passage.bearer = caller.bearer
        guest.known()
        late = None
        if handover is None:
            late = self.limits.admit(name, perf_counter_ns())
            passage.lease.take(self.transfers, name)
        try:
            if late is not None and not await guest.hold_back(late):
                raise Refused(Reason.RATE_LIMITED, "too many requests wait already")
            content = None
            if is_bulk_delete(head.method, address.raw_key, caller.raw_query):
                content = await self._read_whole(name, body, answer)
            if not address.bucket:
                listed = work.of_buckets(len(rooms.gate.state.buckets))
                self.limits.charge(name, listed, perf_counter_ns())
            passage.asked = wire = _wire(head, caller, address.bucket, address.raw_key, content)
            passed = await rooms.gate.judge_forwarded(passage, subject, wire)
            if isinstance(passed, BucketsShown):
                passage.judged_ns = perf_counter_ns()
                if passed.unlisted:
                    told = await self._buckets_of(rooms, turn, passed.unlisted)
                    passed = await rooms.gate.buckets_to_show(passage, subject, wire, told)
                self.recorder.answered(passage)
                answer.closes = answer.closes or not body.ended
                guest.write(buckets(passed, turn.origin, closes=answer.closes))
                return
            if handover is None:
                # Nothing is served that the trail has no place for: found out later, the object is written already.
                self.recorder.reserve(passage)
            passage.outcome = outcome = ForwardOutcome(status=0)
            await rooms.forwarder.forward(
                passed,
                guest,
                body,
                head,
                answer,
                event_id=passage.event_id,
                seed=caller.seed,
                document=content or b"",
                outcome=outcome,
                underway=None if handover is None else handover.underway,
                charge=work.Bill(work.Account(self.limits, name)).store_list,
            )
            self.recorder.forwarded(passage, passed, outcome)
            if head.method in _READS and not answer.closes and outcome.verdict is _ALLOW and outcome.bytes_out <= SMALL:
                self._remember(rooms, turn, caller, wire)
        finally:
            passage.lease.close()

    def _remember(self, rooms: S3Rooms, turn: Turn, caller: Caller, wire: ForwardWire) -> None:
        """Have requests that are like this one served without a task, where the one before was like it."""
        guest, head = turn.guest, turn.head
        if not guest.repeats(head) or (guest.sequels is not None and guest.sequels.covers(head)):
            return
        if rooms is not self.rooms:
            # What was found by other settings holds for nothing that comes.
            return
        # Each generation has callers of its own, and they hold no policy.
        callers = rooms.callers
        precedents = Precedents(rooms, self.recorder, self._house.current, lambda: self.rooms.callers is callers)
        precedent = precedents.find(head, turn.passage, caller, wire)
        guest.sequels = None if precedent is None else Sequels(guest, self, precedent)

    async def _buckets_of(self, rooms: S3Rooms, turn: Turn, storages: Sequence[Storage]) -> list[StoreBucket]:
        """Ask storages for their buckets, each page charged before: which of them are shown is not theirs to say."""
        subject = turn.passage.subject
        name = "" if subject is None else subject.caller.name
        bill = work.Bill(work.Account(self.limits, name), own=work.of_buckets(len(rooms.gate.state.buckets)))
        bill.add(work.REQUESTS_PER_STORE * len(storages))
        self.recorder.reserve(turn.passage)
        turn.passage.outcome = outcome = ForwardOutcome(status=200)
        told: list[StoreBucket] = []
        event_id = turn.passage.event_id
        for storage in storages:
            told += await rooms.forwarder.buckets(storage, turn.guest, outcome, event_id=event_id, charge=bill.page)
        return told

    async def _read_whole(self, name: str, body: Incoming, answer: Answer) -> bytes:
        """Read the body of a bulk delete: only it says which keys are meant."""
        left = body.left or 0
        if left > MAX_BULK_DELETE:
            raise Refused(Reason.ENTITY_TOO_LARGE, f"{left} bytes announced for a bulk delete")
        announced = work.of_bytes(left)
        self.limits.charge(name, announced, perf_counter_ns())
        answer.invite()
        parts: list[bytes] = []
        size = 0
        while part := await body.read():
            size += len(part)
            if size > MAX_BULK_DELETE:
                raise Refused(Reason.ENTITY_TOO_LARGE, f"more than {MAX_BULK_DELETE} bytes for a bulk delete")
            parts.append(part)
        content = b"".join(parts)
        more = work.of_bytes(size) - announced + work.of_bulk_delete(content)
        self.limits.charge(name, more, perf_counter_ns(), own=announced)
        return content

    async def _refuse(self, turn: Turn, refused: Refused) -> None:
        guest, _, body, answer, passage = turn
        refused = self._record(turn, refused)
        reason = refused.reason
        if answer.begun or reason is Reason.CLIENT_GONE or guest.closed:
            # A client that has half an answer must not take what follows for the rest of it.
            answer.closes = True
            guest.abort()
            return
        hold: Hold | None = None
        if passage.subject is None:
            hold = self.limits.stranger(perf_counter_ns())
        elif reason in FOR_TOO_MUCH:
            hold = self.limits.callers.penalty()
        if hold is not None and not await guest.hold_back(hold):
            answer.closes = True
        # What was not read of a body stands where the next request would.
        answer.closes = answer.closes or not body.ended or guest.ending
        if not guest.closed:
            guest.write(refusal(s3_answer(refused), turn.origin, closes=answer.closes))

    def _record(self, turn: Turn, refused: Refused) -> Refused:
        """Record a refusal; return what the caller is told, which is another where the trail did not take it."""
        try:
            self.recorder.refused(turn.passage, refused.reason, refused.detail, s3_answer(refused).status)
        except Refused as unavailable:
            return unavailable
        return refused


def _malformed(invalid: MessageInvalid) -> Refused:
    return S3Refused(Reason.HTTP_INVALID, Fault.HTTP_MESSAGE, invalid.fault.value, detail=str(invalid))


def _passage(gate: Gate, event_id: str, remote: str, request_id: str | None, user_agent: str) -> Passage:
    return Passage(_KIND, event_id, read_request_id(request_id, event_id), remote, user_agent, gate.state)


class _Kept(msgspec.Struct, frozen=True, gc=False):
    """Which headers of a set of names are passed on; depends on the names alone."""

    passed: tuple[bool, ...]
    names: tuple[str, ...]


_kept: dict[tuple[str, ...], _Kept] = {}


def _kept_of(head: RequestHead) -> _Kept:
    names = head.names
    passed = tuple([name not in _NOT_PASSED_ON for name, _ in head.headers])
    kept = _Kept(passed, tuple(compress(names, passed)))
    if sum(map(len, names)) <= _KEPT_LENGTH:
        if len(_kept) >= _SETS_KEPT:
            _kept.clear()
        _kept[names] = kept
    return kept


def _wire(head: RequestHead, caller: Caller, bucket: str, raw_key: str, content: bytes | None) -> ForwardWire:
    kept = _kept.get(head.names) or _kept_of(head)
    return ForwardWire(
        method=head.method,
        bucket=bucket,
        raw_key=raw_key,
        raw_query=caller.raw_query,
        headers=tuple(compress(head.headers, kept.passed)),
        names=kept.names,
        hoisted=caller.hoisted,
        body=content,
        host=head.fields["host"],
        payload=caller.payload,
    )
