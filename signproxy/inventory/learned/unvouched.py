"""Remember which tables were given a place by a caller that nothing vouches for: it stays the caller's word."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import msgspec

from signproxy.model import TableId
from signproxy.policy.location import LocationInvalid, parse_location

UNVOUCHED_AT_MOST = 100_000
"""Names of tables whose place a caller chose: they are not believed when others load them; some 400 bytes each."""

UNVOUCHED_EACH = 16
"""Places that are remembered of one name."""


class Unvouched(msgspec.Struct, frozen=True, gc=False):
    """A place that a caller chose for a table; the upstream repeats it in each answer about the table.

    Whatever the UUID: it stands in the registered file, and a later commit may assign another one.
    """

    table: TableId
    location: str


def unvouched_place(table: TableId, text: str) -> Unvouched:
    """Return a table's place as it is remembered: however it is spelled, it is the same."""
    try:
        return Unvouched(table, str(parse_location(text)))
    except LocationInvalid:
        return Unvouched(table, text)


class UnvouchedPlaces:
    """What one process knows of them."""

    __slots__ = ("_held", "_tell")

    def __init__(self, tell: Callable[[Unvouched], None]) -> None:
        """`tell` is given each place that was not known here, so that it can be kept."""
        self._tell = tell
        self._held: OrderedDict[TableId, frozenset[Unvouched]] = OrderedDict()

    def __contains__(self, place: Unvouched) -> bool:
        return place in self._held.get(place.table, ())

    def add(self, place: Unvouched) -> None:
        """Remember a place, and have it kept."""
        if self._put(place):
            self._tell(place)

    def replay(self, place: Unvouched) -> None:
        """Take in what was kept."""
        self._put(place)

    def rename(self, source: TableId, target: TableId) -> None:
        """Take the doubt along: another name makes nothing more credible."""
        self.spread(source, target)
        self._held.pop(source, None)

    def spread(self, source: TableId, target: TableId) -> None:
        """Doubt another name as well: the table may have it now."""
        for place in tuple(self._held.get(source, ())):
            self.add(Unvouched(target, place.location))

    def _put(self, place: Unvouched) -> bool:
        known = self._held.pop(place.table, frozenset())
        # A name whose table is registered again and again keeps the last of its places.
        fresh = frozenset((place,))
        self._held[place.table] = known | fresh if place in known or len(known) < UNVOUCHED_EACH else fresh
        if len(self._held) > UNVOUCHED_AT_MOST:
            self._held.popitem(last=False)
        return place not in known
