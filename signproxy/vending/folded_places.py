"""Find whose place a location is to a store that takes `t1` and `T1` for the same, in time that does not grow.

Made of an index when it is first asked for, and kept with it. That takes seconds for a million tables, so it is done
piece by piece: a generator yields wherever others may have their turn.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from weakref import WeakKeyDictionary

from signproxy.model import TableId
from signproxy.policy.catalog import Catalog
from signproxy.policy.location_index import LocationIndex
from signproxy.policy.places import folded

_Found = TableId | tuple[TableId, TableId]
"""A table, or two: that is enough to tell of any table whether there is another one."""


class FoldedPlaces:
    """The places of a catalog that are declared or listed, without regard to case."""

    def __init__(self) -> None:
        # Bucket -> folded place -> whose it is; and every folder above one -> whose places lie in it.
        self._places: dict[str, dict[str, _Found]] = {}
        self._folders: dict[str, dict[str, _Found]] = {}

    def enter(self, bucket: str, prefix: str, table: TableId) -> None:
        """Enter a place of a table."""
        lower = folded(prefix)
        # Most are in small letters already, and need no memory of their own.
        place = prefix if lower == prefix else lower
        _enter(self._places.setdefault(bucket, {}), place, table)
        folders = self._folders.setdefault(bucket, {})
        for folder in _folders(place):
            _enter(folders, folder, table)

    def met(self, bucket: str, place: str, own: TableId) -> TableId | None:
        """Return another table with a place that equals a folded one, holds it or lies in it."""
        places = self._places.get(bucket, {})
        for folder in (*_folders(place), place):
            other = _other(places.get(folder), own)
            if other is not None:
                return other
        return _other(self._folders.get(bucket, {}).get(place), own)


_MADE: WeakKeyDictionary[LocationIndex, FoldedPlaces] = WeakKeyDictionary()


def folded_places(catalog: Catalog) -> Generator[None, None, FoldedPlaces]:
    """Return the places of a catalog, which is never changed once it is asked."""
    made = _MADE.get(catalog.locations)
    if made is None:
        made = FoldedPlaces()
        for bucket in catalog.locations.buckets():
            for prefix, table in catalog.locations.locations(bucket):
                made.enter(bucket, prefix, table.id)
                yield
        for listing in catalog.learning.listings.values() if catalog.learning is not None else ():
            for place in listing.places:
                made.enter(place.bucket, place.prefix, listing.id)
            yield
        _MADE[catalog.locations] = made
    return made


def _folders(place: str) -> Iterator[str]:
    """Yield every folder above a place."""
    end = place.find("/")
    while 0 <= end < len(place) - 1:
        yield place[: end + 1]
        end = place.find("/", end + 1)


def _enter(found: dict[str, _Found], at: str, table: TableId) -> None:
    known = found.setdefault(at, table)
    if known is not table and not isinstance(known, tuple) and known != table:
        found[at] = known, table


def _other(found: _Found | None, own: TableId) -> TableId | None:
    one, other = found if isinstance(found, tuple) else (found, None)
    return one if one != own else other
