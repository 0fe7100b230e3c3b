"""Keep who holds which place among the tables that were learned, and judge them by the policy in force."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator

import msgspec

from signproxy.errors import Reason
from signproxy.inventory.declared.overlap import beside, declared_at, is_shared, listed_at
from signproxy.inventory.learned.alarms import SightingRefusal
from signproxy.inventory.learned.claims import Unbelieved, place_of, table_of
from signproxy.inventory.learned.folded_ground import FoldedGround
from signproxy.inventory.learned.learned_table import LearnedTable, PersonalTable, PersonalTables
from signproxy.inventory.learned.registry import Holding, LocationRegistry
from signproxy.inventory.learned.sighting import TableFacts
from signproxy.model import TableId
from signproxy.policy.catalog import Catalog, Overlap
from signproxy.policy.places import PlaceTree
from signproxy.policy.state import PolicyState
from signproxy.policy.table import Place, Table, TableSettings, table_key

AT_MOST = 100_000
"""Learned tables of all catalogs; some 1.5 KiB each."""

SPARED = 16
"""Tables that were used lately and are passed over before one is forgotten all the same."""

UNJUDGED = -1
"""The turn of what is to be judged before it is used again."""

SETTINGS_AT_MOST = 10_000
"""Settings that tables share; every table with a place of its own for its metadata has its own."""


class Holdings:
    """What was learned of one catalog."""

    def __init__(self) -> None:
        self.by_name: dict[str, LearnedTable] = {}
        self.places: PlaceTree[LearnedTable] = PlaceTree()
        self.folded: FoldedGround | None = None
        """The same for a store that knows no case; none before it is asked for."""
        self.staged = PersonalTables()
        self.dropped = PersonalTables()


class Ground:
    """Tables by name and by place, for all catalogs. A place that is held is never given to another.

    Memory is bounded by forgetting the tables that were not used for longest: only an upstream's answers are kept
    here, so that made-up names find no room, and a forgotten table is asked for again. Emptying all at once instead
    would let the caller that fills it take the places of others.
    """

    def __init__(
        self, state: Callable[[], PolicyState], at_most: int = AT_MOST, registry: LocationRegistry | None = None
    ) -> None:
        self.registry = LocationRegistry() if registry is None else registry
        """Where tables were first seen, those that were forgotten among them."""
        self._state = state
        self._at_most = at_most
        # Weak: what was learned must not keep an old policy of a million tables alive.
        self._seen: weakref.ref[PolicyState] | None = None
        self._catalogs: dict[str, Holdings] = {}
        self._recent: OrderedDict[int, LearnedTable] = OrderedDict()
        self._settings: dict[TableSettings, TableSettings] = {}
        self._beside: dict[str, tuple[str, ...]] = {}
        self.turn = 0
        """Counts the policies that were seen; what was judged under another one is judged again when it is used."""
        self.forgotten = 0
        """Tables that had to make room for others."""

    def __len__(self) -> int:
        return len(self._recent)

    def current(self) -> PolicyState:
        """Return the policy in force, having noticed if it is another one."""
        state = self._state()
        if self._seen is None or self._seen() is not state:
            self._seen = weakref.ref(state)
            self.turn += 1
            self._settings.clear()
            self._beside.clear()
        return state

    def of(self, catalog: str) -> Holdings:
        """Return what was learned of a catalog."""
        holdings = self._catalogs.get(catalog)
        if holdings is None:
            holdings = self._catalogs[catalog] = Holdings()
        return holdings

    def drop_catalog(self, catalog: str) -> None:
        """Forget all that was learned of a catalog."""
        holdings = self._catalogs.pop(catalog, None)
        if holdings is not None:
            for table in holdings.by_name.values():
                del self._recent[table.serial]

    def hold(self, table: LearnedTable) -> None:
        """Let a new table hold its name and its place, and forget another one if there are too many."""
        while len(self._recent) >= self._at_most:
            self._forget_one()
        holdings = self.of(table.id.catalog)
        holdings.by_name[table_key(table.id.namespace, table.id.name)] = table
        holdings.places.add(table.place.bucket, table.place.prefix, table)
        if holdings.folded is not None:
            holdings.folded.add(table)
        self._recent[table.serial] = table

    def rename(self, table: LearnedTable, to: TableId) -> None:
        """Give a table that is held another name; it is judged anew under it."""
        by_name = self.of(table.id.catalog).by_name
        del by_name[table_key(table.id.namespace, table.id.name)]
        table.id = to
        table.turn = table.confirmed = UNJUDGED
        by_name[table_key(to.namespace, to.name)] = table

    def forget(self, table: LearnedTable) -> None:
        """Take name and place from a table that is held."""
        holdings = self._catalogs[table.id.catalog]
        del holdings.by_name[table_key(table.id.namespace, table.id.name)]
        holdings.places.remove(table.place.bucket, table.place.prefix, table)
        if holdings.folded is not None:
            holdings.folded.remove(table)
        del self._recent[table.serial]

    def judge(self, catalog: Catalog, table: LearnedTable) -> SightingRefusal | None:
        """Judge a table that is held by the policy in force; one that it does not stand is forgotten."""
        table.turn = self.turn
        table.standing = None
        if catalog.table(table.id.namespace, table.id.name) is not None:
            self.forget(table)
            return SightingRefusal(Reason.TABLE_UNKNOWN, "the policy declares a table of this name", table.id)
        found = place_of(catalog, str(table.first))
        if isinstance(found, Unbelieved):
            self.forget(table)
            return SightingRefusal(found.reason, found.detail, table.id)
        table.place = found[1]
        refusal = self.dispute(catalog, table.id, table.place, table.serial)
        if refusal is not None:
            self.forget(table)
            return refusal
        table.table = self.made(catalog, table.id, table.facts, table.place)
        return None

    def judge_personal(self, catalog: Catalog, record: PersonalTable, *, exclusive: bool) -> SightingRefusal | None:
        """Judge a staged or dropped table by the policy in force and by the tables that are held; it stays kept."""
        record.turn = self.turn
        found = place_of(catalog, str(record.location))
        if isinstance(found, Unbelieved):
            return SightingRefusal(found.reason, found.detail, record.id)
        record.place = found[1]
        refusal = self.dispute(catalog, record.id, record.place, exclusive=exclusive)
        if refusal is None:
            record.table = self.made(catalog, record.id, record.facts, record.place)
        return refusal

    def made(self, catalog: Catalog, identity: TableId, facts: TableFacts, place: Place) -> Table:
        """Return the table that decisions are made of; equal settings are one object."""
        table = table_of(catalog, identity, facts, place)
        return msgspec.structs.replace(table, settings=self._shared(table.settings))

    def dispute(
        self,
        catalog: Catalog,
        identity: TableId,
        place: Place,
        serial: int | None = None,
        *,
        exclusive: bool = False,
        former: LearnedTable | None = None,
    ) -> SightingRefusal | None:
        """Return why a place is another table's: one of the policy, or one that was learned before `serial`.

        None as serial comes after all that were learned. `exclusive` counts even where locations may overlap.
        `former` does not count.
        """
        for other in self.around(catalog, place.bucket):
            if other is catalog and catalog.overlap is Overlap.ALLOWED and not exclusive:
                continue
            owner = declared_at(other, place) or listed_at(other, place, identity)
            if owner is not None:
                detail = f"{str(place)!r} meets a location that the policy gives to table {str(owner)!r}"
                return SightingRefusal(Reason.LOCATION_DISPUTED, detail, identity)
            holder = self._holder(other, place, serial, former)
            if holder is not None:
                detail = (
                    f"{str(place)!r} meets {str(holder.place)!r} of table {str(holder.id)!r}, which was seen before"
                )
                return SightingRefusal(Reason.LOCATION_DISPUTED, detail, identity, holder.id)
            for known in self.registry.conflicts(other.name, place, identity):
                if self._is_registered(other, known) and (former is None or former.id != known.table):
                    whose = f"{str(known)!r} of table {str(known.table)!r}"
                    detail = f"{str(place)!r} meets {whose}, which was known before"
                    return SightingRefusal(Reason.LOCATION_DISPUTED, detail, identity, known.table)
        return None

    def around(self, catalog: Catalog, bucket: str) -> Iterator[Catalog]:
        """Yield the catalog, and the others that mean the same by the bucket's name."""
        yield catalog
        catalogs = self.current().catalogs
        names = self._beside.get(catalog.name)
        if names is None:
            names = self._beside[catalog.name] = tuple(other.name for other in beside(catalog, catalogs.values()))
        for name in names:
            if is_shared(bucket, catalog, catalogs[name]):
                yield catalogs[name]

    def _holder(
        self, catalog: Catalog, place: Place, serial: int | None, former: LearnedTable | None
    ) -> LearnedTable | None:
        holdings = self._catalogs.get(catalog.name)
        if catalog.learning is None or holdings is None:
            return None
        for table in holdings.places.meeting(place.bucket, place.prefix):
            older = serial is None or table.serial < serial
            if older and table is not former and self.stands(catalog, table):
                return table
        return None

    def stands(self, catalog: Catalog, table: LearnedTable) -> bool:
        """Whether a table would hold its place under the policy in force, but for those that came before it.

        That it may lose the place to one of them is left open: the chain of those could be as long as the ground.
        """
        if table.turn == self.turn:
            return True
        return catalog.table(table.id.namespace, table.id.name) is None and not isinstance(
            place_of(catalog, str(table.first)), Unbelieved
        )

    def _is_registered(self, catalog: Catalog, holding: Holding) -> bool:
        """Whether a table that may have been forgotten would hold its place under the policy in force."""
        table = holding.table
        if catalog.learning is None or catalog.table(table.namespace, table.name) is not None:
            return False
        found = place_of(catalog, str(holding))
        if isinstance(found, Unbelieved):
            return False
        # What the operator says of a place counts for more than who was there first.
        return declared_at(catalog, found[1]) is None and listed_at(catalog, found[1], table) is None

    def _shared(self, settings: TableSettings) -> TableSettings:
        known = self._settings.get(settings)
        if known is None:
            if len(self._settings) >= SETTINGS_AT_MOST:
                self._settings.clear()
            known = self._settings[settings] = settings
        return known

    def _forget_one(self) -> None:
        for _ in range(SPARED):
            table = next(iter(self._recent.values()))
            if not table.used:
                break
            table.used = False
            self._recent.move_to_end(table.serial)
        self.forget(next(iter(self._recent.values())))
        self.forgotten += 1
