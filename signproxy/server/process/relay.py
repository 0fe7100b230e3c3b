"""Pass on what one worker saw of an upstream's tables to the others, and to those that are yet to come."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from signproxy.inventory.learned.sighting import Answered, Changed, Gone, Live
from signproxy.server.process.sightings import Delivery, Heard, Place, places_of

HEAR_SECONDS = 1.0
"""How long a worker that tells something waits for the others."""

KEPT = 10_000
"""Sightings that a worker which starts later is told; at most a kilobyte each. Older tables it loads for itself."""

ANSWERS_KEPT = 10_000
"""Upstreams' answers to callers that such a worker is told; some 500 bytes each."""

PAGE = 1_000
"""Sightings in one message."""

Hear = Callable[[tuple[Heard, ...]], Awaitable[object]]
"""Lets a worker take something in. Raises Gone, or WorkerFailed."""


class SightingRelay:
    """Everything that workers tell, in the order in which they told it."""

    def __init__(self) -> None:
        self._workers: dict[int, Delivery[tuple[Heard, ...]]] = {}
        self._recent = _Recent()

    async def join(self, number: int, hear: Hear) -> None:
        """Tell a worker all that it was not there for, and everything from now on. Raise what `hear` raises."""
        known = self._recent.all()
        pages = [hear(known[begin : begin + PAGE]) for begin in range(0, len(known), PAGE)]
        # Begun in this order, and before anything else is told: a drop means nothing where the table is not known.
        behind = asyncio.gather(*pages)
        self._workers[number] = Delivery(hear, HEAR_SECONDS)
        await behind

    def leave(self, number: int) -> None:
        """Tell a worker nothing more: it is no more."""
        self._workers.pop(number, None)

    async def tell(self, teller: int, heard: Heard) -> None:
        """Let all others hear of it; return once they have, or cannot in time."""
        self._recent.add(heard)
        others = [delivery for number, delivery in self._workers.items() if number != teller]
        if others:
            await asyncio.gather(*(delivery.hand((heard,)) for delivery in others))


class _Recent:
    """The last sightings, in an order in which they can be taken in again."""

    def __init__(self) -> None:
        self._kept: dict[int, Heard] = {}
        self._last: dict[Place, int] = {}
        """The last sighting of each place."""
        self._answers: OrderedDict[tuple[str, str, str, str, bytes], Heard] = OrderedDict()
        """What upstreams answered single callers; it moves no table."""
        self._number = 0

    def add(self, heard: Heard) -> None:
        """Keep a sighting. A table that is seen again and was not told of in between takes no more room.

        It keeps its turn: the table that was seen first in a place keeps the place.
        """
        places = places_of(heard.sighting)
        sighting = heard.sighting
        if isinstance(sighting, Answered):
            asked = (sighting.catalog, sighting.namespace, sighting.name, sighting.principal, sighting.token)
            self._answers.pop(asked, None)
            self._answers[asked] = heard
            if len(self._answers) > ANSWERS_KEPT:
                self._answers.popitem(last=False)
            return
        if isinstance(heard.sighting, Gone | Changed) and places[0] not in self._last:
            # It only casts doubt on what is known; made-up names must not push that out.
            return
        number = self._last.get(places[0], -1)
        if not _again(self._kept.get(number), heard):
            self._number = number = self._number + 1
        self._kept[number] = heard
        for place in places:
            self._last[place] = number
        while len(self._kept) > KEPT:
            self._forget(next(iter(self._kept)))

    def all(self) -> tuple[Heard, ...]:
        """Return what is kept."""
        return *self._kept.values(), *self._answers.values()

    def _forget(self, number: int) -> None:
        for place in places_of(self._kept.pop(number).sighting):
            if self._last.get(place) == number:
                del self._last[place]


def _again(before: Heard | None, heard: Heard) -> bool:
    """Whether the same table is seen once more, as it stands."""
    if before is None:
        return False
    was, now = before.sighting, heard.sighting
    return isinstance(was, Live) and isinstance(now, Live) and was.facts.uuid == now.facts.uuid
