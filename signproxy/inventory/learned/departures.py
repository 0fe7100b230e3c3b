"""Find out whether a table that stands in another's way is still there, or was dropped or moved past the facade."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from signproxy.errors import Reason, Refused
from signproxy.inventory.learned.asked import Asker
from signproxy.inventory.learned.learned import LearnedTables, TableLoader
from signproxy.inventory.learned.sighting import Live, Loaded
from signproxy.model import TableId
from signproxy.policy.rights import READ_DATA, SIGN_S3_WRITE_REQUEST
from signproxy.policy.table import table_key

# A sign call is answered with no other status of trouble than this one, so that clients repeat it.
_TROUBLE = frozenset({Reason.UPSTREAM_TIMEOUT, Reason.UPSTREAM_INVALID})


class Departures(NamedTuple):
    """Asks for the tables that hold a place, and lets go of those that are gone."""

    tables: LearnedTables
    loader: TableLoader
    clock: Callable[[], float]
    may_ask: Callable[[str, float], bool]
    """Whether a question may be asked because of a principal now."""

    async def has_left(self, asker: Asker, other: TableId) -> bool:
        """Whether it is worth to look again at a place that the other table held a moment ago; it was seen before.

        Raise Refused where the upstream cannot be asked.
        """
        if other.catalog != asker.catalog.name:
            return False
        key = table_key(other.namespace, other.name)
        by_name = self.tables.ground.of(other.catalog).by_name
        known, freshness, now = by_name.get(key), self.tables.freshness, self.clock()
        if known is not None and known.hard > now + freshness.hard - freshness.absent:
            # It was seen just now.
            return False
        may_know = not asker.trusts_policy or bool(asker.mask(other) & READ_DATA)
        if not may_know or not self.may_ask(asker.subject.caller.name, now):
            return False
        loaded = await answer_for(self.loader, asker, other)
        known = self.tables.ground.of(other.catalog).by_name.get(key)
        if loaded is not None:
            self.tables.take(Live(other.catalog, loaded.facts), self.clock(), now)
        elif gains_nothing(asker, other):
            self.tables.leave(other, now)
        return True


async def answer_for(loader: TableLoader, asker: Asker, table: TableId) -> Loaded | None:
    """Return what the upstream says of a table; None where there is none for this caller. Raise Refused."""
    try:
        loaded = await loader.load(table.catalog, table.namespace, table.name, asker.subject, asker.bearer)
    except Refused as refused:
        if refused.reason in _TROUBLE:
            raise Refused(Reason.UPSTREAM_UNAVAILABLE, f"{refused.reason.code}: {refused.detail}") from refused
        raise
    if loaded is not None and (loaded.facts.namespace, loaded.facts.name) != (table.namespace, table.name):
        raise Refused(Reason.UPSTREAM_UNAVAILABLE, f"the answer for {str(table)!r} is about another table")
    return loaded


def gains_nothing(asker: Asker, table: TableId) -> bool:
    """Whether the policy lets the caller write the table anyway, so that a wrong answer would gain it nothing."""
    return not SIGN_S3_WRITE_REQUEST & ~asker.mask(table)
