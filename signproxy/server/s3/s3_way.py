"""Forward: the way of a request to the S3 listener."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Sequence
from itertools import compress
from time import perf_counter_ns
from typing import Any, NamedTuple, cast

import msgspec

from signproxy.answers.bodies import FOR_TOO_MUCH
from signproxy.config.s3 import S3Settings
from signproxy.errors import Reason, Refused, anew
from signproxy.forward.answer import Answer
from signproxy.forward.forward import Forwarder
from signproxy.forward.underway import Underway
from signproxy.gate import work
from signproxy.gate.events import APP_MARK, application_in
from signproxy.gate.forwarded import BucketsShown, Passed, StoreBucket
from signproxy.gate.gate import Gate
from signproxy.gate.judgement import Judgement, PolicyLook
from signproxy.gate.limits import Hold, Lease, Limits, Places
from signproxy.gate.order import Judge
from signproxy.gate.outcome import Outcome, StoreOutcome
from signproxy.gate.request import NOTHING_ASKED, AskedFor, Request
from signproxy.identity.s3_caller import Caller, S3Callers
from signproxy.model import Subject
from signproxy.s3.codes import s3_answer
from signproxy.s3.faults import Fault, S3Refused
from signproxy.s3.forward_wire import ForwardWire, is_bulk_delete
from signproxy.s3.forwarded import addressed_by
from signproxy.s3.storage import Storage
from signproxy.server.s3.answers import Origin, buckets, refusal
from signproxy.server.s3.connection import S3Connection
from signproxy.transfer.body import Incoming
from signproxy.transfer.faults import MessageInvalid, Stalled, Truncated
from signproxy.transfer.head import HOP_BY_HOP, BodyFraming, RequestHead

MAX_BULK_DELETE = 2 * 1024 * 1024
"""Of a body that is read whole: a thousand keys of 1,024 bytes, as XML may escape them; S3's own limit."""

_NOT_PASSED_ON = HOP_BY_HOP | {"host", "authorization", "x-amz-security-token", "x-amz-date", "expect"}
"""What belongs to this connection, or proves who calls; the store gets signproxy's own."""

# Looking a member up in its class calls Python code; the hot path does without.
_NONE = BodyFraming.NONE

_SETS_KEPT = 1024
"""Clients repeat a handful of header sets; the bound is there for those who do not."""
_KEPT_LENGTH = 1024
"""Characters of the names of a set that is kept."""


WayEnd = StoreOutcome | bytes | None
"""What serving a request ends in: what became of it, where its answer was written; or the answer that is to be."""


class S3Rooms(NamedTuple):
    """What answers requests, as it is for one generation of settings."""

    settings: S3Settings
    callers: S3Callers
    gate: Gate
    forwarder: Forwarder
    base_domains: frozenset[str]


class S3Way:
    """A request to the S3 listener. Its answer is written as it comes, or is what serving it returns."""

    acts = True
    ends = StoreOutcome
    look: PolicyLook | None = None
    asked: AskedFor = NOTHING_ASKED

    caller: Caller
    raw_key: str

    def __init__(  # noqa: PLR0913, PLR0917 - a request has this many parts
        self,
        request: Request,
        lease: Lease,
        guest: S3Connection,
        head: RequestHead,
        rooms: S3Rooms,
        limits: Limits,
        transfers: Places,
        underway: Underway | None = None,
    ) -> None:
        """`underway` is the conversation with the store, where it was sent the request already."""
        self.request = request
        self.lease = lease
        self.guest = guest
        self.head = head
        self.body = guest.no_body
        if head.body is not _NONE:
            self.body = Incoming(guest, head.body, head.length, idle=rooms.settings.limits.idle_seconds)
        self.answer = answer = Answer(guest, head, request.event_id, request.request_id)
        answer.closes = answer.closes or guest.ending
        self._rooms = rooms
        self._limits = limits
        self._transfers = transfers
        self._underway = underway
        # On this way the subject is always known.
        self.judge = cast("Judge", rooms.gate.forward.judge)

    @property
    def goes_on(self) -> bool:
        """Whether the next request may follow on the connection."""
        return self.body.ended and not self.answer.closes and not self.guest.closed

    def identify(self) -> Subject | Awaitable[Subject]:
        """Return who asks, by what the request shows. Raise Refused."""
        head, rooms = self.head, self._rooms
        self._bucket, self.raw_key = addressed_by(head.fields["host"], head.target, rooms.base_domains)
        found = rooms.callers.identify(
            head.method, head.target, head.headers, self.guest.facts, self.request.wall, head.fields
        )
        return self._known(found) if isinstance(found, Caller) else self._known_later(found)

    def _known(self, caller: Caller) -> Subject:
        self.caller = caller
        self.guest.known()
        return caller.subject

    async def _known_later(self, found: Awaitable[Caller]) -> Subject:
        return self._known(await found)

    def ask(self, subject: Subject | None) -> AskedFor | Awaitable[AskedFor]:
        """Return what is asked for; the body of a bulk delete is read, and charged before. Raise Refused."""
        assert subject is not None  # noqa: S101 - identified, or refused
        self.lease.take(self._transfers)
        is_bulk = self.head.method == "POST" and is_bulk_delete(self.raw_key, self.caller.raw_query)
        if is_bulk or self.lease.late is not None:
            return self._ask_later(subject, is_bulk=is_bulk)
        return self._asked(subject, None)

    async def _ask_later(self, subject: Subject, *, is_bulk: bool) -> AskedFor:
        late = self.lease.late
        if late is not None and not await self.guest.hold_back(late):
            raise Refused(Reason.RATE_LIMITED, "too many requests wait already")
        return self._asked(subject, await self._read_whole(subject.caller.name) if is_bulk else None)

    def _asked(self, subject: Subject, content: bytes | None) -> AskedFor:
        if not self._bucket:
            listed = work.of_buckets(len(self._rooms.gate.state.buckets))
            self._limits.charge(subject.caller.name, listed, perf_counter_ns())
        wire = _wire(self.head, self.caller, self._bucket, self.raw_key, content)
        agent = self.head.fields.get("user-agent", "")
        application = application_in(agent) if APP_MARK in agent else ""
        self.asked = asked = AskedFor(NOTHING_ASKED.address, None, None, wire, self.caller.bearer, application)
        return asked

    def serve(self, judgement: Judgement, outcome: Outcome) -> Coroutine[Any, Any, WayEnd]:
        """Forward the request, or answer with the buckets that its caller may know of. Raise Refused."""
        passed, subject = judgement.passed, judgement.subject
        assert subject is not None  # noqa: S101 - it was judged for a caller
        assert isinstance(outcome, StoreOutcome)  # noqa: S101 - see `ends`
        if not isinstance(passed, Passed):
            return self._show(judgement, outcome, subject.caller.name)
        wire = self.asked.forward
        return self._rooms.forwarder.forward(
            passed,
            self.guest,
            self.body,
            self.head,
            self.answer,
            event_id=self.request.event_id,
            seed=self.caller.seed,
            document=(wire.body if wire is not None else None) or b"",
            outcome=outcome,
            underway=self._underway,
            charge=self._charge_list,
        )

    def _charge_list(self, document: bytes) -> None:
        """Charge the one list of a store that the answer is made of, before it is changed. Raise Refused."""
        work.Bill(work.Account(self._limits, self.lease.principal)).store_list(document)

    async def _show(self, judgement: Judgement, outcome: StoreOutcome, name: str) -> WayEnd:
        """Return the answer to a list of buckets; stores are asked for those that the policy does not list."""
        rooms, shown = self._rooms, judgement.passed
        assert isinstance(shown, BucketsShown)  # noqa: S101 - what else passes is forwarded
        if shown.unlisted:
            told = await self._buckets_of(shown.unlisted, outcome, name)
            judged = await rooms.gate.forward.buckets(judgement, told)
            if judged.refused is not None:
                raise anew(judged.refused)
            shown = judged.passed
            assert isinstance(shown, BucketsShown)  # noqa: S101 - as above
        self.answer.closes = self.answer.closes or not self.body.ended
        return buckets(shown, self._origin, closes=self.answer.closes)

    async def _buckets_of(self, storages: Sequence[Storage], outcome: StoreOutcome, name: str) -> list[StoreBucket]:
        """Ask storages for their buckets, each page charged before: which of them are shown is not theirs to say."""
        rooms = self._rooms
        bill = work.Bill(work.Account(self._limits, name), own=work.of_buckets(len(rooms.gate.state.buckets)))
        bill.add(work.REQUESTS_PER_STORE * len(storages))
        told: list[StoreBucket] = []
        event_id = self.request.event_id
        for storage in storages:
            told += await rooms.forwarder.buckets(storage, self.guest, outcome, event_id=event_id, charge=bill.page)
        return told

    async def _read_whole(self, name: str) -> bytes:
        """Read the body of a bulk delete: only it says which keys are meant."""
        body = self.body
        left = body.left or 0
        if left > MAX_BULK_DELETE:
            raise Refused(Reason.ENTITY_TOO_LARGE, f"{left} bytes announced for a bulk delete")
        announced = work.of_bytes(left)
        self._limits.charge(name, announced, perf_counter_ns())
        self.answer.invite()
        parts: list[bytes] = []
        size = 0
        while part := await body.read():
            size += len(part)
            if size > MAX_BULK_DELETE:
                raise Refused(Reason.ENTITY_TOO_LARGE, f"more than {MAX_BULK_DELETE} bytes for a bulk delete")
            parts.append(part)
        content = b"".join(parts)
        more = work.of_bytes(size) - announced + work.of_bulk_delete(content)
        self._limits.charge(name, more, perf_counter_ns(), own=announced)
        return content

    def instead(self, _judgement: Judgement, _outcome: Outcome) -> WayEnd:
        """Return nothing: a refusal is one."""
        return None

    def fault(self, error: Exception) -> Refused | None:
        """Return what the client did wrong, for an error that tells of it."""
        match error:
            case MessageInvalid():
                return malformed(error)
            case Stalled():
                return Refused(Reason.BODY_STALLED, str(error))
            case ConnectionError() | Truncated():
                return Refused(Reason.CLIENT_GONE, type(error).__name__)
            case _:
                return None

    def refuse(self, refused: Refused, judgement: Judgement) -> WayEnd | Coroutine[Any, Any, WayEnd]:
        """Tell the caller, as far as it can still be told."""
        answer, guest, reason = self.answer, self.guest, refused.reason
        if answer.begun or reason is Reason.CLIENT_GONE or guest.closed:
            # A client that has half an answer must not take what follows for the rest of it.
            answer.closes = True
            guest.abort()
            return None
        hold: Hold | None = None
        if judgement.subject is None:
            hold = self._limits.stranger(perf_counter_ns())
        elif reason in FOR_TOO_MUCH:
            hold = self._limits.callers.penalty()
        if hold is not None:
            return self._refuse_later(refused, hold)
        self._tell(refused)
        return None

    async def _refuse_later(self, refused: Refused, hold: Hold) -> WayEnd:
        if not await self.guest.hold_back(hold):
            self.answer.closes = True
        self._tell(refused)
        return None

    def _tell(self, refused: Refused) -> None:
        answer, guest = self.answer, self.guest
        # What was not read of a body stands where the next request would.
        answer.closes = answer.closes or not self.body.ended or guest.ending
        if not guest.closed:
            guest.write(refusal(s3_answer(refused), self._origin, closes=answer.closes))

    @property
    def _origin(self) -> Origin:
        """What the answer repeats of the request."""
        request = self.request
        return Origin(self.head.method, self.head.target.partition("?")[0], request.request_id, request.event_id)


def malformed(invalid: MessageInvalid) -> Refused:
    """Return the refusal of a message that is not well-formed."""
    return S3Refused(Reason.HTTP_INVALID, Fault.HTTP_MESSAGE, invalid.fault.value, detail=str(invalid))


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
