"""Take in what the answer to a catalog call tells of tables, before the caller gets it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from signproxy.catalog.call import CallKind, CatalogCall
from signproxy.catalog.call_body import CallBody, Commit, Creation, Place, Renaming, Transaction
from signproxy.errors import Refused
from signproxy.inventory.alarms import Refusal
from signproxy.inventory.hearsay import digest_of
from signproxy.inventory.learned import LearnedTables, TableLoader
from signproxy.inventory.sighting import Changed, Dropped, Gone, Live, Renamed, Staged, TableFacts
from signproxy.model import Subject
from signproxy.policy.catalog import Catalog
from signproxy.policy.learning import Authorizer
from signproxy.policy.table import table_key
from signproxy.server.sightings import Sightings

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

    __slots__ = ("_clock", "_learned", "_loader", "_sightings")

    def __init__(
        self,
        sightings: Sightings,
        learned: LearnedTables,
        loader: TableLoader,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._sightings = sightings
        self._learned = learned
        self._loader = loader
        self._clock = clock

    async def live(self, catalog: Catalog, facts: TableFacts, etag: str, asked: float | None = None) -> Refusal | None:
        """Take in a table; `asked` is `time.monotonic()` from before it was read. Return what is not believed."""
        return await self._sightings.tell(Live(catalog.name, facts, etag), asked=asked)

    async def loaded(
        self, catalog: Catalog, facts: TableFacts, etag: str, asked: float, subject: Subject, bearer: str
    ) -> Refusal | None:
        """Take in a table that a caller loaded, and that its upstream lets him load it."""
        refusal = await self.live(catalog, facts, etag, asked)
        if catalog.authorizer is not Authorizer.POLICY:
            self._learned.answered(catalog.name, facts, subject.caller, bearer, self._clock())
        return refusal

    async def staged(self, staged: Staged) -> Refusal | None:
        """Take in a table that a caller has begun to create."""
        return await self._sightings.tell(staged)

    def denied(self, catalog: Catalog, call: CatalogCall, subject: Subject, bearer: str) -> None:
        """Take in that a caller may not load a table any more."""
        if call.kind is CallKind.LOAD_TABLE and catalog.authorizer is not Authorizer.POLICY:
            key = table_key(call.namespace, call.name)
            self._learned.vouchers.withdraw(catalog.name, key, subject.caller, digest_of(bearer))

    async def gone(self, catalog: Catalog, call: CatalogCall) -> None:
        """Take in that there is no such table."""
        if call.kind in _SAYS_GONE:
            await self._sightings.tell(Gone(catalog.name, call.namespace, call.name))

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
        await asyncio.gather(*(self._sightings.tell(Changed(catalog.name, *place)) for place in places))

    async def before_drop(self, catalog: Catalog, call: CatalogCall, subject: Subject, bearer: str) -> str | None:
        """Get to know a table that is about to be dropped: who drops it has to be let delete its files.

        Return its UUID; None where nobody knows it.
        """
        known = self._learned.ground.of(catalog.name).by_name.get(table_key(call.namespace, call.name))
        if known is not None:
            return known.facts.uuid
        asked = time.monotonic()
        try:
            facts = await self._loader.load(catalog.name, call.namespace, call.name, subject, bearer)
        except Refused:
            # The drop itself will tell what is wrong.
            return None
        if facts is None:
            return None
        await self.live(catalog, facts, "", asked)
        return facts.uuid


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
