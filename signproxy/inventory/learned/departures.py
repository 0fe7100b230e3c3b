"""Find out whether a table that stands in another's way is still there, or was dropped or moved past the facade."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from signproxy.errors import Reason, Refused
from signproxy.inventory.learned.learned import LearnedTables, TableLoader
from signproxy.inventory.learned.sighting import Live, Loaded
from signproxy.model import Subject, TableId
from signproxy.policy.catalog import Catalog
from signproxy.policy.reach import mask_at
from signproxy.policy.rights import READ_DATA, SIGN_S3_WRITE_REQUEST, Rights
from signproxy.policy.table import table_key

# A sign call is answered with no other status of trouble than this one, so that clients repeat it.
_TROUBLE = frozenset({Reason.UPSTREAM_TIMEOUT, Reason.UPSTREAM_INVALID})


class Asker(Protocol):
    """The caller with whose token the upstream is asked."""

    @property
    def catalog(self) -> Catalog: ...

    @property
    def subject(self) -> Subject: ...

    @property
    def rights(self) -> Rights | None:
        """What the policy itself gives the effective principal."""
        ...

    @property
    def bearer(self) -> str: ...

    @property
    def trusts_policy(self) -> bool: ...


class Departures:
    """Asks for the tables that hold a place, and lets go of those that are gone."""

    __slots__ = ("_clock", "_loader", "_may_ask", "_tables")

    def __init__(
        self,
        tables: LearnedTables,
        loader: TableLoader,
        clock: Callable[[], float],
        may_ask: Callable[[str, float], bool],
    ) -> None:
        self._tables = tables
        self._loader = loader
        self._clock = clock
        self._may_ask = may_ask

    async def has_left(self, asker: Asker, other: TableId) -> bool:
        """Whether it is worth to look again at a place that the other table held a moment ago; it was seen before.

        Raise Refused where the upstream cannot be asked.
        """
        if other.catalog != asker.catalog.name:
            return False
        key = table_key(other.namespace, other.name)
        by_name = self._tables.ground.of(other.catalog).by_name
        known, freshness, now = by_name.get(key), self._tables.freshness, self._clock()
        if known is not None and known.hard > now + freshness.hard - freshness.absent:
            # It was seen just now.
            return False
        may_know = not asker.trusts_policy or _may_read(asker, other)
        if not may_know or not self._may_ask(asker.subject.caller.name, now):
            return False
        loaded = await answer_for(self._loader, asker, other)
        known = self._tables.ground.of(other.catalog).by_name.get(key)
        if loaded is not None:
            self._tables.take(Live(other.catalog, loaded.facts), self._clock(), now)
        elif gains_nothing(asker, other):
            self._tables.leave(other, now)
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
    rights = asker.rights
    return rights is not None and not SIGN_S3_WRITE_REQUEST & ~mask_at(
        asker.catalog, rights, table.namespace, table.name
    )


def _may_read(asker: Asker, table: TableId) -> bool:
    rights = asker.rights
    return rights is not None and bool(mask_at(asker.catalog, rights, table.namespace, table.name) & READ_DATA)
