"""Refuse calls that choose a place at which no table could be served, before the upstream is asked to make it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import msgspec

from signproxy.catalog.chosen_locations import ChosenLocations
from signproxy.errors import Reason, Refused
from signproxy.inventory.learned.alarms import SightingRefusal
from signproxy.inventory.learned.chosen_places import may_be_s3
from signproxy.inventory.learned.claims import Unbelieved, place_of
from signproxy.inventory.learned.departures import Departures
from signproxy.inventory.learned.learned import LearnedTables
from signproxy.model import Subject, TableId
from signproxy.policy.catalog import Catalog
from signproxy.policy.learning import Authorizer, Learning
from signproxy.policy.rights import Rights


class _Claimant(msgspec.Struct, frozen=True, gc=False):
    """The caller whose table is made; a `departures.Asker`."""

    catalog: Catalog
    subject: Subject
    rights: Rights | None
    bearer: str
    trusts_policy: bool


class PlaceConflicts:
    """Compares places with those that known tables hold."""

    __slots__ = ("_clock", "_departures", "_learned")

    def __init__(self, learned: LearnedTables, departures: Departures, clock: Callable[[], float] = time.time) -> None:
        self._learned = learned
        self._departures = departures
        self._clock = clock

    async def check(self, catalog: Catalog, subject: Subject, bearer: str, chosen: Iterable[ChosenLocations]) -> None:
        """Raise Refused (LOCATION_CONFLICT) for the first place of a call that cannot be its table's."""
        learning = catalog.learning
        if learning is None:
            return
        for each in chosen:
            if not each.name or catalog.table(each.namespace, each.name) is not None:
                continue
            refusal = self._conflict(catalog, learning, each)
            if refusal is not None and await self.has_left(catalog, subject, bearer, refusal):
                refusal = self._conflict(catalog, learning, each)
            if refusal is not None:
                raise Refused(Reason.LOCATION_CONFLICT, f"{refusal.reason.code}: {refusal.detail}")

    async def has_left(self, catalog: Catalog, subject: Subject, bearer: str, refusal: SightingRefusal) -> bool:
        """Whether it is worth to look again: the table that stood in the way may be gone."""
        if refusal.other is None:
            return False
        rights = self._learned.ground.current().rights(subject.effective, catalog)
        claimant = _Claimant(catalog, subject, rights, bearer, catalog.authorizer is Authorizer.POLICY)
        try:
            return await self._departures.has_left(claimant, refusal.other)
        except Refused:
            # An upstream that does not answer now lets nothing go.
            return False

    def _conflict(self, catalog: Catalog, learning: Learning, chosen: ChosenLocations) -> SightingRefusal | None:
        table = TableId(catalog.name, chosen.namespace, chosen.name)
        known = self._learned.named(catalog, learning, chosen.namespace, chosen.name, self._clock())
        for text in filter(may_be_s3, chosen.locations):
            found = place_of(catalog, learning, text)
            if isinstance(found, Unbelieved):
                return SightingRefusal(found.reason, found.detail, table)
            refusal = self._learned.ground.dispute(catalog, table, found[1], former=known)
            if refusal is not None:
                return refusal
        return None
