"""Keep which table was first seen at which place, for longer than a table stays in memory: over restarts, if kept.

Tables that are not used are forgotten to bound memory; their places are not, or the next caller that claims one of them
would be believed. Where a whole inventory of the upstream was taken, every place that is not here is free.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum

import msgspec

from signproxy.inventory.learned.claims import Unvouched, UnvouchedPlaces, location_in
from signproxy.inventory.learned.sighting import TableFacts
from signproxy.model import TableId
from signproxy.policy.places import PlaceTree
from signproxy.policy.table import Place, table_key

AT_MOST = 1_000_000
"""Tables of all catalogs; some 1 KiB each."""

TOUCHED_AT_MOST = 100_000
"""Names that were changed lately, so that an inventory that was begun before does not undo it."""


class Holding(msgspec.Struct, frozen=True, gc=False):
    """A place that a table was seen to have."""

    table: TableId
    bucket: str
    prefix: str
    since: int
    """Milliseconds of Unix time. Of two tables that claim a place the older holding stands, and of two equally old
    ones neither: an inventory cannot tell which of its tables was there first."""

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix.rstrip('/')}"


class Registration(msgspec.Struct, frozen=True, gc=False):
    """A table and its places, the one where it was first seen before all others."""

    table: TableId
    uuid: str
    holdings: tuple[Holding, ...]
    changed: int = 0
    """Milliseconds of Unix time of its last change seen here; 0 where an inventory alone tells of it."""


class Removal(msgspec.Struct, frozen=True, gc=False):
    """A name under which there is no table any more."""

    table: TableId


class Stocktaking(msgspec.Struct, frozen=True, gc=False):
    """An inventory of all tables of a catalog was taken."""

    catalog: str
    upstream: str
    """Stands for the upstream and the warehouse that were asked."""
    at: float
    """Unix time of its beginning; 0 where none was taken yet."""


class Completeness(Enum):
    """What an inventory says of the places that it does not hold."""

    NOT_ASKED = "the settings ask for no inventory"
    MISSING = "there is none yet, or it is too old"
    COMPLETE = "they are free"


Change = Registration | Removal | Stocktaking | Unvouched


class Shelf:
    """The registrations of one catalog, by name and by place."""

    def __init__(self, registrations: Iterable[Registration] = ()) -> None:
        self._by_name: dict[str, Registration] = {}
        self._places: PlaceTree[Holding] = PlaceTree()
        for each in registrations:
            self.put(each)

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[Registration]:
        return iter(tuple(self._by_name.values()))

    def find(self, table: TableId) -> Registration | None:
        """Return the registration of a name."""
        return self._by_name.get(table_key(table.namespace, table.name))

    def named(self, key: str) -> Registration | None:
        """Return the registration of a name, by its `table_key`."""
        return self._by_name.get(key)

    def meeting(self, place: Place) -> Iterator[Holding]:
        """Yield what contains a place, equals it or nests in it."""
        return self._places.meeting(place.bucket, place.prefix)

    def alike(self, bucket: str, prefix: str, fold: Callable[[str], str]) -> Iterator[Holding]:
        """Yield what would meet a place if names that `fold` makes equal were one."""
        return self._places.alike(bucket, prefix, fold)

    def put(self, registration: Registration) -> None:
        """Keep a registration in the place of the one that its name has."""
        self.drop(registration.table)
        self._by_name[table_key(registration.table.namespace, registration.table.name)] = registration
        for each in registration.holdings:
            self._places.add(each.bucket, each.prefix, each)

    def drop(self, table: TableId) -> bool:
        """Forget a name; return whether it was there."""
        known = self._by_name.pop(table_key(table.namespace, table.name), None)
        for each in () if known is None else known.holdings:
            self._places.remove(each.bucket, each.prefix, each)
        return known is not None


_NOTHING = Shelf()


class LocationRegistry:
    """The registrations of all catalogs of one process."""

    def __init__(self, at_most: int = AT_MOST) -> None:
        self.on_change: Callable[[Change], None] | None = None
        """Told of each change that was made here, so that it can be kept."""
        self.at_most = at_most
        self.full = False
        """Whether a table could not be registered because there were too many."""
        self.unvouched = UnvouchedPlaces(self._tell)
        self._shelves: dict[str, Shelf] = {}
        self._taken: dict[str, Stocktaking] = {}
        self._ages: dict[str, float] = {}
        # What was changed here, and when: an inventory that was begun before does not know of it.
        self._touched: OrderedDict[TableId, int] = OrderedDict()
        self._last = 0

    def __len__(self) -> int:
        return sum(map(len, self._shelves.values()))

    def of(self, catalog: str) -> Shelf:
        """Return the registrations of a catalog."""
        return self._shelves.get(catalog, _NOTHING)

    def find(self, table: TableId) -> Registration | None:
        """Return the registration of a name."""
        return self._shelves.get(table.catalog, _NOTHING).find(table)

    def taken(self, catalog: str) -> Stocktaking | None:
        """Return the last inventory of a catalog."""
        return self._taken.get(catalog)

    def require(self, ages: Mapping[str, float]) -> None:
        """Believe nothing new of these catalogs but by an inventory that is no older than so many seconds."""
        self._ages = dict(ages)

    def completeness(self, catalog: str, now: float) -> Completeness:
        """Return whether every place of a catalog that is not here is free."""
        age = self._ages.get(catalog)
        if age is None:
            return Completeness.NOT_ASKED
        taken = self._taken.get(catalog)
        return Completeness.COMPLETE if taken is not None and now - taken.at <= age else Completeness.MISSING

    def conflicts(self, catalog: str, place: Place, own: TableId) -> Iterator[Holding]:
        """Yield the holdings of other tables of the catalog that contain this place, equal it or nest in it.

        One that `own` holds the place longer than does not count.
        """
        shelf = self._shelves.get(catalog)
        if shelf is not None:
            since = self._since(own, place)
            for holding in shelf.meeting(place):
                if holding.table != own and holding.since <= since:
                    yield holding

    def register(self, table: TableId, facts: TableFacts, first: str, now: float) -> None:
        """Keep a table that is believed, with the place where it was first seen; what is known of it is kept."""
        known = self.find(table)
        if known is not None and not is_same(known, facts):
            known = None
        # No two tables are seen at one moment: one of them was there first.
        self._last = at = max(int(now * 1000), self._last + 2)
        registration = registration_of(table, facts, at, known, first)
        if known is None or known.holdings != registration.holdings:
            self._change(msgspec.structs.replace(registration, changed=at), at)

    def remove(self, table: TableId, now: float) -> None:
        """Forget a name: its table was dropped, or lost it to another."""
        self._touch(table, int(now * 1000))
        shelf = self._shelves.get(table.catalog)
        if shelf is not None and shelf.drop(table):
            self._tell(Removal(table))

    def rename(self, source: TableId, target: TableId, now: float) -> None:
        """Give a table another name. The table that had it has lost it."""
        self.unvouched.rename(source, target)
        known, at = self.find(source), int(now * 1000)
        self.remove(target, now)
        self.remove(source, now)
        if known is not None:
            holdings = tuple([msgspec.structs.replace(each, table=target) for each in known.holdings])
            self._change(Registration(target, known.uuid, holdings, at), at)

    def replay(self, changes: Iterable[Change]) -> None:
        """Take in what was kept; nothing is told of it."""
        for change in changes:
            match change:
                case Registration():
                    known = self.find(change.table)
                    self._put(change if known is None or known.uuid != change.uuid else _older(known, change))
                case Removal(table):
                    self._shelves.get(table.catalog, Shelf()).drop(table)
                case Stocktaking():
                    self._taken[change.catalog] = change
                case Unvouched():
                    self.unvouched.replay(change)

    def found(self, taken: Stocktaking, tables: Iterable[tuple[TableId, TableFacts]]) -> Iterator[Registration]:
        """Yield the registrations of an inventory's tables; what is known of them is kept. May be beside the loop."""
        began = int(taken.at * 1000)
        for table, facts in tables:
            known = self.find(table)
            same = known if known is not None and is_same(known, facts) else None
            yield registration_of(table, facts, began, same, claims=facts.properties.values())

    def adopt(self, taken: Stocktaking, shelf: Shelf) -> bool:
        """Take over an inventory, taken here or in another process; return False where it has too many tables.

        What it does not name is gone; what was seen since it began counts more.
        """
        began = int(taken.at * 1000)
        for table, at in self._touched.items():
            if table.catalog == taken.catalog and at >= began:
                known = self.find(table)
                shelf.drop(table)
                if known is not None:
                    shelf.put(known)
        if len(self) - len(self.of(taken.catalog)) + len(shelf) > self.at_most:
            self.full = True
            return False
        self.full = False
        self._shelves[taken.catalog] = shelf
        self._taken[taken.catalog] = taken
        return True

    def forget(self, catalog: str) -> None:
        """Forget a catalog: another upstream speaks for it."""
        for each in self.of(catalog):
            self._tell(Removal(each.table))
        self._shelves.pop(catalog, None)
        self._taken.pop(catalog, None)

    def note_upstream(self, catalog: str, upstream: str) -> None:
        """Keep from which upstream a catalog's tables are, and forget those of another one."""
        known = self._taken.get(catalog)
        if known is None or known.upstream != upstream:
            if known is not None:
                self.forget(catalog)
            self._taken[catalog] = Stocktaking(catalog, upstream, 0.0)
            self._tell(self._taken[catalog])

    def _since(self, own: TableId, place: Place) -> float:
        known = self.find(own)
        holdings = () if known is None else known.holdings
        within = [
            each.since for each in holdings if each.bucket == place.bucket and place.prefix.startswith(each.prefix)
        ]
        return min(within, default=math.inf)

    def _change(self, registration: Registration, at: int) -> None:
        self._touch(registration.table, at)
        self._put(registration)
        self._tell(registration)

    def _touch(self, table: TableId, at: int) -> None:
        self._touched[table] = at
        self._touched.move_to_end(table)
        if len(self._touched) > TOUCHED_AT_MOST:
            self._touched.popitem(last=False)

    def _put(self, registration: Registration) -> None:
        if self.find(registration.table) is None and len(self) >= self.at_most:
            self.full = True
            return
        self._shelves.setdefault(registration.table.catalog, Shelf()).put(registration)

    def _tell(self, change: Change) -> None:
        if self.on_change is not None:
            self.on_change(change)


def is_same(known: Registration, facts: TableFacts) -> bool:
    """Whether facts under the same name are of the same table; without a UUID only its place can tell."""
    if known.uuid != facts.uuid:
        return False
    return bool(facts.uuid) or any(_names(each, facts.location) for each in known.holdings)


def registration_of(
    table: TableId,
    facts: TableFacts,
    since: int,
    known: Registration | None,
    first: str = "",
    claims: Iterable[str] = (),
) -> Registration:
    """Return the registration of a table with the places that it has, and those that it is known to have had.

    What its location properties claim counts a moment later than what locations do: setting one at the upstream would
    otherwise put the table that lies there in doubt.
    """
    holdings = list(() if known is None else known.holdings)
    texts = [(first or facts.location, since), (facts.location, since), *((claim, since + 1) for claim in claims)]
    for text, at in texts:
        location = location_in(text)
        if location is None:
            continue
        if not any(location.bucket == each.bucket and location.prefix.startswith(each.prefix) for each in holdings):
            holdings.append(Holding(table, location.bucket, location.prefix, at))
    return Registration(table, facts.uuid, tuple(holdings))


def _names(holding: Holding, text: str) -> bool:
    location = location_in(text)
    return location is not None and (location.bucket, location.prefix) == (holding.bucket, holding.prefix)


def _older(known: Registration, other: Registration) -> Registration:
    """Return the registration that two processes made of one table; each place is as old as the older says."""
    since = {(each.bucket, each.prefix): each for each in known.holdings}
    for each in other.holdings:
        place = (each.bucket, each.prefix)
        if place not in since or each.since < since[place].since:
            since[place] = each
    holdings = sorted(since.values(), key=lambda each: each.since)
    return Registration(known.table, known.uuid, tuple(holdings), max(known.changed, other.changed))
