"""Find the tables that an upstream told of and that are believed, judged by the policy in force."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from itertools import count

from signproxy.inventory.learned.alarms import Alarms
from signproxy.inventory.learned.folded_ground import FoldedGround
from signproxy.inventory.learned.ground import AT_MOST, Ground
from signproxy.inventory.learned.learned_table import Doubt, Freshness, LearnedTable
from signproxy.inventory.learned.personal_ground import PersonalGround
from signproxy.inventory.learned.registry import LocationRegistry
from signproxy.inventory.learned.vouchers import Denials, Vouchers
from signproxy.model import TableId
from signproxy.policy.catalog import Catalog
from signproxy.policy.state import PolicyState
from signproxy.policy.table import table_key

DEFAULT_FRESHNESS = Freshness()


class KnownTables:
    """The learned tables of all catalogs, and what was said of them that is not believed.

    One per process, on the event loop's thread. Policy reloads leave it alone.
    """

    def __init__(
        self,
        state: Callable[[], PolicyState],
        freshness: Freshness = DEFAULT_FRESHNESS,
        at_most: int = AT_MOST,
        registry: LocationRegistry | None = None,
    ) -> None:
        self.freshness = freshness
        self.ground = Ground(state, at_most, registry)
        self.registry = self.ground.registry
        self.alarms = Alarms()
        self.denials = Denials(freshness.absent)
        self.vouchers = Vouchers()
        self._serials = count(1)
        self.personal = PersonalGround(self.ground, freshness, self.alarms)

    def forget(self, catalog: str) -> None:
        """Forget what the upstream of a catalog said, because another one speaks for it from now on."""
        self.ground.drop_catalog(catalog)
        self.registry.forget(catalog)
        self.denials.forget(catalog)
        self.vouchers.forget(catalog)

    def named(self, catalog: Catalog, namespace: str, name: str, now: float) -> LearnedTable | None:
        """Return the table of this name, judged by the policy in force."""
        table = self.ground.of(catalog.name).by_name.get(table_key(namespace, name))
        return table if table is not None and self._holds(catalog, table, now) else None

    def owners(self, catalog: Catalog, bucket: str, key: str, now: float) -> tuple[LearnedTable, ...]:
        """Return the tables whose own place a key lies in, judged by the policy in force."""
        found = self.ground.of(catalog.name).places.over(bucket, key)
        return tuple([table for table in found if self._holds(catalog, table, now)])

    def reached(self, catalog: Catalog, bucket: str, prefix: str, now: float) -> tuple[LearnedTable, ...]:
        """Return the tables whose own place begins with a prefix and is longer."""
        found = tuple(self.ground.of(catalog.name).places.below(bucket, prefix))
        return tuple([table for table in found if self._holds(catalog, table, now)])

    def around(self, catalog: Catalog, bucket: str) -> Iterator[Catalog]:
        """Yield the catalog, and the others that mean the same by the bucket's name."""
        return self.ground.around(catalog, bucket)

    def alike(self, catalog: Catalog, bucket: str, place: str) -> Generator[None, None, tuple[LearnedTable, ...]]:
        """Return the tables whose own place meets a folded one, to a store that knows no case.

        None of them is judged: another policy may be in force by now than the one of the catalog.
        """
        holdings = self.ground.of(catalog.name)
        if holdings.folded is None:
            holdings.folded = FoldedGround(holdings.by_name.values())
        yield from holdings.folded.enter()
        return tuple([table for table in holdings.folded.meeting(bucket, place) if self.ground.stands(catalog, table)])

    def doubt(self, table: LearnedTable, doubt: Doubt) -> None:
        """Have a table asked for before it is used again; it keeps its place."""
        table.soft = table.hard = 0.0
        if table.doubt is not Doubt.GONE:
            table.doubt = doubt

    def confirm(self, table: LearnedTable, now: float) -> None:
        """Rely on a table from now on: its upstream has just told of it."""
        table.soft = now + self.freshness.soft
        table.hard = now + self.freshness.hard
        table.doubt = Doubt.NONE
        table.used = True

    def leave(self, table: TableId, now: float) -> None:
        """Let a table go that its upstream denied to a caller that may write it anyway, and so gains nothing."""
        self.registry.remove(table, now)
        known = self.ground.of(table.catalog).by_name.get(table_key(table.namespace, table.name))
        if known is not None:
            self.ground.forget(known)
            self.personal.end(table.catalog, known.facts, -math.inf)

    def _holds(self, catalog: Catalog, table: LearnedTable, now: float) -> bool:
        if table.turn == self.ground.turn:
            return True
        refusal = self.ground.judge(catalog, table)
        if refusal is None:
            return True
        self.alarms.sound(refusal, now)
        return False

    def _doubt_named(self, catalog: Catalog, namespace: str, name: str, doubt: Doubt) -> None:
        known = self.ground.of(catalog.name).by_name.get(table_key(namespace, name))
        if known is not None:
            self.doubt(known, doubt)
