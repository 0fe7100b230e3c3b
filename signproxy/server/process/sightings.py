"""Take in what was seen of an upstream's tables, and let the workers beside this one take it in as well."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable

import msgspec

from signproxy.errors import Reason
from signproxy.inventory.learned.learned import SightingRefusal
from signproxy.inventory.learned.sighting import Answered, Changed, Live, Sighting, Staged
from signproxy.server.process.delivery import Delivery
from signproxy.server.process.heard import Heard, Place, places_of

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
        if not self._latest.admits(heard):
            return None
        refusal = self._taken(heard)
        if self._delivery is None:
            self._latest.note(heard)
            return refusal
        # The others are to judge for themselves, and not to go on with what they knew.
        alike = refusal is None or refusal.reason is Reason.LOCATION_UNVOUCHED
        told = heard if alike else Heard(_doubtful(sighting), heard.at, heard.sent)
        if self._latest.note(heard):
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
            if self._latest.admits(heard):
                self._taken(heard)
                self._latest.note(heard)

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

    def admits(self, heard: Heard) -> bool:
        """Whether nothing newer was seen there."""
        seen = self._seen
        return all(heard.at >= known.at for place in places_of(heard.sighting) if (known := seen.get(place)))

    def note(self, heard: Heard) -> bool:
        """Remember a sighting that was admitted; return whether it is news to the others."""
        sighting = heard.sighting
        if isinstance(sighting, Staged | Answered):
            # Several principals may be about to create a table, or have loaded it; none of them undoes what is known.
            return True
        content = _content(sighting)
        news = False
        for place in places_of(sighting):
            known = self._seen.pop(place, None)
            told_at = heard.at
            if known is not None and content is not None and known.content == content:
                # Loaded again and again, as tables are.
                told_at = known.told_at if heard.at < known.told_at + REPEAT_SECONDS else told_at
            self._seen[place] = _Seen(heard.at, content, told_at)
            news = news or told_at == heard.at
        self._forget(heard.at)
        return news

    def _forget(self, now: float) -> None:
        seen = self._seen
        while len(seen) > REMEMBERED or next(iter(seen.values())).at < now - REMEMBERED_SECONDS:
            seen.popitem(last=False)


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
