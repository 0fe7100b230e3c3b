"""Take in what the answer to a catalog call tells of tables, before the caller gets it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from signproxy.catalog.call import CallKind, CatalogCall
from signproxy.catalog.call_body import CallBody, Commit, Creation, Place, Renaming, Transaction
from signproxy.errors import Refused
from signproxy.facade.believing import Believes
from signproxy.facade.chosen_locations import LocationChoices
from signproxy.facade.later import Later
from signproxy.facade.place_conflicts import PlaceConflicts
from signproxy.inventory.learned.alarms import SightingRefusal
from signproxy.inventory.learned.departures import Departures
from signproxy.inventory.learned.learned import LearnedTables, TableLoader
from signproxy.inventory.learned.sighting import Changed, Dropped, Gone, Live, Loaded, Renamed, Staged, TableFacts
from signproxy.inventory.learned.vouchers import EVERYBODY, AsksAs, Recipient, answered, recipient_of
from signproxy.model import Subject, TableId, TableScope
from signproxy.policy.catalog import Catalog
from signproxy.policy.learning import Authorizer
from signproxy.policy.table import table_key

_ABOUT_TABLES = frozenset(
    {
        CallKind.CREATE_TABLE,
        CallKind.REGISTER_TABLE,
        CallKind.LOAD_TABLE,
        CallKind.TABLE_EXISTS,
        CallKind.UPDATE_TABLE,
        CallKind.DROP_TABLE,
        CallKind.RENAME_TABLE,
        CallKind.COMMIT_TRANSACTION,
    }
)
_SAYS_GONE = frozenset({CallKind.LOAD_TABLE, CallKind.TABLE_EXISTS, CallKind.UPDATE_TABLE, CallKind.DROP_TABLE})


class Seen:
    """What this process learns from the calls that pass by."""

    __slots__ = ("_clock", "_learned", "_loader", "_sightings", "choices", "conflicts", "later")

    def __init__(
        self,
        sightings: Believes,
        learned: LearnedTables,
        loader: TableLoader,
        departures: Departures,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._sightings = sightings
        self._learned = learned
        self._loader = loader
        self._clock = clock
        self.choices = LocationChoices(learned, loader, sightings, clock)
        self.conflicts = PlaceConflicts(learned, departures, clock)
        self.later = Later()
        """What is taken in of calls whose callers are gone."""

    async def read(
        self, catalog: Catalog, facts: TableFacts, etag: str, asked: float, *, placed: bool = False
    ) -> SightingRefusal | None:
        """Take in a table; `asked` is `time.monotonic()` from before it was read. Return what is not believed.

        `placed`: the upstream's layout gives it its place.
        """
        return await self._sightings.tell(Live(catalog.name, facts, etag, placed=placed), asked=asked)

    async def changed(
        self, catalog: Catalog, facts: TableFacts, sent: float, *, vouched: bool = True
    ) -> SightingRefusal | None:
        """Take in a table that a call changed; `sent` is `time.monotonic()` from before the call."""
        return await self._sightings.tell(Live(catalog.name, facts, vouched=vouched), sent=sent)

    async def made(
        self, catalog: Catalog, facts: TableFacts, sent: float, subject: Subject, bearer: str
    ) -> SightingRefusal | None:
        """Take in a table that a call created or registered, at a place that is its to have.

        Whether one in its way is still there is found out.
        """
        return await self._after_departure(Live(catalog.name, facts, placed=True), catalog, subject, bearer, sent)

    async def answered(self, catalog: Catalog, loaded: Loaded, subject: Subject, bearer: str, asked: float) -> None:
        """Take in that the upstream let a caller have a table, and whether it may read all of it."""
        told = answered(catalog.name, loaded, self._recipient(catalog, subject, bearer))
        if self._learned.answered(told, self._clock(), self._sent(asked)):
            await self._sightings.tell(told, asked=asked)

    async def staged(self, staged: Staged, catalog: Catalog, subject: Subject, bearer: str) -> SightingRefusal | None:
        """Take in a table that a caller has begun to create; as `made` does."""
        return await self._after_departure(staged, catalog, subject, bearer)

    def denied(self, catalog: Catalog, call: CatalogCall, subject: Subject, bearer: str, asked: float) -> None:
        """Take in that a caller may not load a table any more."""
        if call.kind is CallKind.LOAD_TABLE:
            recipient, key = self._recipient(catalog, subject, bearer), table_key(call.namespace, call.name)
            self._learned.vouchers.withdraw(catalog.name, key, recipient, self._sent(asked))

    async def gone(self, catalog: Catalog, call: CatalogCall, asked: float) -> None:
        """Take in that there was no such table when the call was made, at `asked` of `time.monotonic()`."""
        if call.kind in _SAYS_GONE:
            await self._sightings.tell(Gone(catalog.name, call.namespace, call.name), asked=asked)

    async def done(
        self, catalog: Catalog, call: CatalogCall, body: CallBody | None, subject: Subject, uuid: str | None
    ) -> None:
        """Take in a change whose answer tells nothing but that it was made; `uuid` is a dropped table's."""
        match body:
            case _ if call.kind is CallKind.DROP_TABLE:
                principal = "" if subject.delegated else subject.caller.name
                dropped = Dropped(catalog.name, call.namespace, call.name, principal, self._clock(), uuid)
                await self._sightings.tell(dropped)
            case Renaming(source, destination) if call.kind is CallKind.RENAME_TABLE:
                await self._sightings.tell(Renamed(catalog.name, *source, *destination))
            case _ if call.kind in _ABOUT_TABLES and call.kind is not CallKind.TABLE_EXISTS:
                await self.doubt(catalog, call, body)
            case _:
                pass

    async def doubt(self, catalog: Catalog, call: CatalogCall, body: CallBody | None) -> None:
        """Take in that a change may have been made: whatever is known of its tables has to be asked for anew."""
        places = _places(call, body)
        if call.kind is CallKind.RENAME_TABLE and isinstance(body, Renaming):
            source, target = (TableId(catalog.name, *place) for place in places)
            self._learned.registry.unvouched.spread(source, target)
        await asyncio.gather(*(self._sightings.tell(Changed(catalog.name, *place)) for place in places))

    async def _after_departure(
        self, sighting: Live | Staged, catalog: Catalog, subject: Subject, bearer: str, sent: float | None = None
    ) -> SightingRefusal | None:
        refusal = await self._sightings.tell(sighting, sent=sent)
        if refusal is None or not await self.conflicts.has_left(catalog, subject, bearer, refusal):
            return refusal
        return await self._sightings.tell(sighting, sent=sent)

    async def uuid_now(self, catalog: Catalog, scope: TableScope, subject: Subject, bearer: str) -> str | None:
        """Return the UUID of the table that has a scope's name; None where none has it. Raise Refused (UPSTREAM_…).

        It is asked for: what was known may have been dropped since, past this process.
        """
        asked = time.monotonic()
        loaded = await self._loader.load(catalog.name, scope.namespace, scope.name, subject, bearer)
        if loaded is None:
            return None
        await self._taken(catalog, loaded, subject, bearer, asked)
        return loaded.facts.uuid

    async def removable(self, catalog: Catalog, call: CatalogCall, subject: Subject, bearer: str) -> str | None:
        """Get to know a table that a call is about to drop, and whose files the caller may then have to delete.

        Return its UUID; None for any other call, where it is not known, or where the upstream keeps rows or columns
        from the caller, by this token or by another one of its own: once the table is dropped, no upstream says so.
        """
        if call.kind is not CallKind.DROP_TABLE:
            return None
        recipient, key = self._recipient(catalog, subject, bearer), table_key(call.namespace, call.name)
        if self._learned.vouchers.restricts(catalog.name, key, recipient.name, self._clock()):
            return None
        for _ in range(2):
            found = self._learned.vouchers.find(catalog.name, key, None, recipient, self._clock())
            if found is not None:
                return None if found.restricted else found.uuid
            await self._load(catalog, call, subject, bearer)
        return None

    async def _load(self, catalog: Catalog, call: CatalogCall, subject: Subject, bearer: str) -> None:
        asked = time.monotonic()
        try:
            loaded = await self._loader.load(catalog.name, call.namespace, call.name, subject, bearer)
        except Refused:
            # The call itself will tell what is wrong.
            return
        if loaded is not None:
            await self._taken(catalog, loaded, subject, bearer, asked)

    async def _taken(self, catalog: Catalog, loaded: Loaded, subject: Subject, bearer: str, asked: float) -> None:
        await self.answered(catalog, loaded, subject, bearer, asked)
        await self.read(catalog, loaded.facts, "", asked)

    def _sent(self, asked: float) -> float:
        """Return the Unix time of a moment of `time.monotonic()`."""
        return self._clock() - max(0.0, time.monotonic() - asked)

    def _recipient(self, catalog: Catalog, subject: Subject, bearer: str) -> Recipient:
        service = self._loader.asks_as(catalog.name) is AsksAs.SERVICE
        return (
            EVERYBODY if service and catalog.authorizer is Authorizer.POLICY else recipient_of(subject.caller, bearer)
        )


def _places(call: CatalogCall, body: CallBody | None) -> tuple[Place, ...]:
    """Return the tables that a call changes."""
    if call.kind not in _ABOUT_TABLES:
        return ()
    match body:
        case Creation(name):
            return ((call.namespace, name),)
        case Renaming(source, destination):
            return source, destination
        case Commit(place):
            return (place,)
        case Transaction(commits):
            return tuple(dict.fromkeys(commit.place for commit in commits))
        case _:
            return ((call.namespace, call.name),)
