"""Take in what was seen of an upstream's tables, and let the workers beside this one take it in as well."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, TypeVar

import msgspec

from signproxy.errors import Reason
from signproxy.inventory.learned.learned import SightingRefusal
from signproxy.inventory.learned.sighting import Answered, Changed, Live, Renamed, Sighting, Staged
from signproxy.server.process.fleet import WorkerFailed, WorkerGone
from signproxy.telemetry import log

SHARE_SECONDS = 1.25
"""How long an answer waits until the other workers know of it: what the supervisor takes at most, and the way to it."""

MAX_SHARED_BYTES = 16 * 1024
"""Of one sighting; names and locations have a thousand bytes each. What is longer would fill the others' memory."""

REPEAT_SECONDS = 30.0
"""How long the others need not hear again what they heard: each load of a table would be told to all of them."""

REMEMBERED = 10_000
"""Tables whose last sightings are remembered; some 500 bytes each."""

REMEMBERED_SECONDS = 120.0
"""Longer than any sighting is on its way: an upstream has less time to answer, and a worker to take it in."""

Place = tuple[str, str, str]
"""Catalog, namespace and name."""


class Heard(msgspec.Struct, frozen=True, gc=False):
    """A sighting, and when it was true."""

    sighting: Sighting
    at: float
    """Seconds of the machine's monotonic clock, which its processes have in common."""
    sent: float | None = None
    """When the call was sent of which it was the answer, by the same clock; None where that is `at`."""

    @property
    def begun(self) -> float:
        """When the call was sent: what it tells may be as old."""
        return self.at if self.sent is None else self.sent


def places_of(sighting: Sighting) -> tuple[Place, ...]:
    """Return the places that a sighting is about."""
    match sighting:
        case Live(catalog=catalog, facts=facts) | Staged(catalog=catalog, facts=facts):
            return ((catalog, facts.namespace, facts.name),)
        case Renamed():
            return (
                (sighting.catalog, sighting.namespace, sighting.name),
                (sighting.catalog, sighting.to_namespace, sighting.to_name),
            )
        case Answered():
            # It is a principal's, and says nothing of where the table is.
            return ()
        case _:
            return ((sighting.catalog, sighting.namespace, sighting.name),)


Share = Callable[[Heard], Awaitable[object]]
"""Lets the other workers hear of it. Returns once they have, or it is known that they cannot."""

Take = Callable[[Sighting, float, float], SightingRefusal | None]
"""Believes a sighting: what was seen, when it is taken in, and when the call was sent that told of it (Unix time)."""


class Sightings:
    """What this process sees and hears of tables: believed here first, then told.

    Sightings come in any order, from several connections and workers. An older one never undoes a newer one of the
    same table: were a table believed again by an answer from before its drop, its successor's files would be in danger.
    """

    def __init__(
        self,
        take: Take,
        share: Share | None = None,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._take = take
        self._clock = clock
        self._monotonic = monotonic
        self._delivery = None if share is None else Delivery(share, SHARE_SECONDS)
        self._latest = _Latest()

    async def tell(
        self, sighting: Sighting, *, asked: float | None = None, sent: float | None = None
    ) -> SightingRefusal | None:
        """Take in a sighting of this process; return what of it is not believed, once the other workers know.

        `asked` is `time.monotonic()` from before the upstream was asked, for what was read: the answer may be as old.
        What was changed counts from its answer; `sent` is from before its call was made. Nothing is told of an older
        sighting than the last.
        """
        heard = Heard(sighting, self._monotonic() if asked is None else asked, sent)
        places = places_of(sighting)
        if not self._latest.admits(heard, places):
            return None
        refusal = self._taken(heard)
        if self._delivery is None:
            self._latest.note(heard, places)
            return refusal
        # The others are to judge for themselves, and not to go on with what they knew.
        alike = refusal is None or refusal.reason is Reason.LOCATION_UNVOUCHED
        told = heard if alike else Heard(_doubtful(sighting), heard.at, heard.sent)
        if self._latest.note(heard, places):
            if isinstance(sighting, Live) and not sighting.vouched and len(_encode(told)) > MAX_SHARED_BYTES:
                # That nothing vouches for a place is never kept back: another worker would believe it.
                facts = msgspec.structs.replace(sighting.facts, properties={})
                told = Heard(Live(sighting.catalog, facts, vouched=False), heard.at, heard.sent)
            if len(_encode(told)) <= MAX_SHARED_BYTES:
                await self._delivery.hand(told)
        return refusal

    def hear(self, told: Iterable[Heard]) -> None:
        """Take in what other workers saw, or saw before this one began."""
        for heard in told:
            places = places_of(heard.sighting)
            if self._latest.admits(heard, places):
                self._taken(heard)
                self._latest.note(heard, places)

    def _taken(self, heard: Heard) -> SightingRefusal | None:
        now = self._clock()
        return self._take(heard.sighting, now, now - max(0.0, self._monotonic() - heard.begun))


class _Seen(msgspec.Struct, gc=False):
    """The last sighting of a place."""

    at: float
    content: int | None
    """Stands for a live table as it was seen; None for everything else."""
    told_at: float
    """When all workers heard of this content."""


class _Latest:
    """When each place was last seen, for as long as something older may be on its way."""

    def __init__(self) -> None:
        self._seen: OrderedDict[Place, _Seen] = OrderedDict()

    def admits(self, heard: Heard, places: tuple[Place, ...]) -> bool:
        """Whether nothing newer was seen there."""
        seen = self._seen
        return all(heard.at >= known.at for place in places if (known := seen.get(place)))

    def note(self, heard: Heard, places: tuple[Place, ...]) -> bool:
        """Remember a sighting that was admitted; return whether it is news to the others."""
        sighting = heard.sighting
        if isinstance(sighting, Staged | Answered):
            # Several principals may be about to create a table, or have loaded it; none of them undoes what is known.
            return True
        content, news, seen = _content(sighting), False, self._seen
        for place in places:
            known = seen.pop(place, None)
            told_at = heard.at
            if known is not None and content is not None and known.content == content:
                # Loaded again and again, as tables are.
                told_at = known.told_at if heard.at < known.told_at + REPEAT_SECONDS else told_at
            seen[place] = _Seen(heard.at, content, told_at)
            news = news or told_at == heard.at
        while len(seen) > REMEMBERED or next(iter(seen.values())).at < heard.at - REMEMBERED_SECONDS:
            seen.popitem(last=False)
        return news


_encode = msgspec.msgpack.Encoder().encode


def _doubtful(sighting: Sighting) -> Sighting:
    if isinstance(sighting, Live):
        return Changed(sighting.catalog, sighting.facts.namespace, sighting.facts.name)
    return sighting


def _content(sighting: Sighting) -> int | None:
    if not isinstance(sighting, Live):
        return None
    facts = sighting.facts
    properties = tuple(sorted(facts.properties.items()))
    return hash((facts.uuid, facts.location, facts.metadata_location, sighting.etag, properties))


_log = log.get_logger("signproxy.workers")

T = TypeVar("T")


class Delivery(Generic[T]):
    """The way to one receiver, who gets everything in order.

    A sender waits until what it hands over has arrived, but not longer than `seconds`, and not at all while the
    receiver still owes something from before: a process that hangs must cost a second once, and not each time.
    """

    def __init__(self, send: Callable[[T], Awaitable[object]], seconds: float) -> None:
        self._send = send
        self._seconds = seconds
        self._late = False
        self._under_way: set[asyncio.Task[None]] = set()

    async def hand(self, what: T) -> bool:
        """Return whether it has arrived by now. What has not arrives later, or the receiver is no more."""
        # A task of its own: a caller who goes away must not take it along.
        task = asyncio.get_running_loop().create_task(self._sent(what))
        self._under_way.add(task)
        task.add_done_callback(self._arrived)
        if self._late:
            return False
        _, pending = await asyncio.wait((task,), timeout=self._seconds)
        if pending and not self._late:
            self._late = True
            _log.warning("another process does not take in what was seen", seconds=self._seconds)
        return not pending

    async def _sent(self, what: T) -> None:
        try:
            await self._send(what)
        except WorkerGone:
            # One that takes its place hears of it at its start.
            _log.debug("another process is gone")
        except WorkerFailed as failed:
            _log.error("another process could not take in what was seen", problem=str(failed))

    def _arrived(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if not self._under_way:
            self._late = False
