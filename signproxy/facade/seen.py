"""Take in what the answer to a catalog call tells of tables, before the caller gets it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from signproxy.catalog.call import CallKind, CatalogCall
from signproxy.catalog.call_body import CallBody, Commit, Creation, Place, Renaming, Transaction
from signproxy.errors import Refused
from signproxy.facade.asking import AdmittedCall, Believes
from signproxy.facade.chosen_locations import LocationChoices, PlaceConflicts
from signproxy.inventory.learned.alarms import SightingRefusal
from signproxy.inventory.learned.departures import Departures
from signproxy.inventory.learned.learned import LearnedTables, TableLoader
from signproxy.inventory.learned.sighting import Changed, Dropped, Gone, Live, Loaded, Renamed, Staged
from signproxy.inventory.learned.vouchers import EVERY_CALLER, AsksAs, Recipient, answered, recipient_of
from signproxy.model import TableId, TableScope
from signproxy.policy.catalog import Authorizer
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


class Later:
    """Tasks of which no request waits for the end."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Have it done beside everything else."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """Wait for what is still under way."""
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Seen:
    """What this process learns from the calls that pass by."""

    __slots__ = ("_clock", "_learned", "_loader", "choices", "conflicts", "later", "tell")

    def __init__(
        self,
        sightings: Believes,
        learned: LearnedTables,
        loader: TableLoader,
        departures: Departures,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.tell = sightings.tell
        self._learned = learned
        self._loader = loader
        self._clock = clock
        self.choices = LocationChoices(learned, loader, sightings, clock)
        self.conflicts = PlaceConflicts(learned, departures, clock)
        self.later = Later()
        """What is taken in of calls whose callers are gone."""

    async def made(
        self, asking: AdmittedCall, sighting: Live | Staged, sent: float | None = None
    ) -> SightingRefusal | None:
        """Take in a table that a call created, registered or staged, at a place that is its to have.

        Whether one in its way is still there is found out. `sent` is `time.monotonic()` from before the call.
        """
        refusal = await self.tell(sighting, sent=sent)
        if refusal is None or not await self.conflicts.has_left(asking, refusal):
            return refusal
        return await self.tell(sighting, sent=sent)

    async def answered(self, asking: AdmittedCall, loaded: Loaded, asked: float) -> None:
        """Take in that the upstream let a caller have a table, and whether it may read all of it."""
        sent = self._sent(asked)
        told = answered(asking.catalog.name, loaded, self._recipient(asking))
        if self._learned.answered(told, self._clock(), sent):
            await self.tell(told, asked=asked)

    def denied(self, asking: AdmittedCall, asked: float) -> None:
        """Take in that a caller may not load a table any more."""
        call = asking.call
        if call.kind is CallKind.LOAD_TABLE:
            recipient, key = self._recipient(asking), table_key(call.namespace, call.name)
            self._learned.vouchers.withdraw(asking.catalog.name, key, recipient, self._sent(asked))

    async def gone(self, asking: AdmittedCall, asked: float) -> None:
        """Take in that there was no such table when the call was made, at `asked` of `time.monotonic()`."""
        call = asking.call
        if call.kind in _SAYS_GONE:
            await self.tell(Gone(asking.catalog.name, call.namespace, call.name), asked=asked)

    async def done(self, asking: AdmittedCall) -> None:
        """Take in a change whose answer tells nothing but that it was made."""
        catalog, call, owner = asking.catalog.name, asking.call, asking.subject.owner
        match asking.body:
            case _ if call.kind is CallKind.DROP_TABLE:
                await self.tell(Dropped(catalog, call.namespace, call.name, owner, self._clock(), asking.dropped))
            case Renaming(source, destination) if call.kind is CallKind.RENAME_TABLE:
                await self.tell(Renamed(catalog, *source, *destination))
            case _ if call.kind in _ABOUT_TABLES and call.kind is not CallKind.TABLE_EXISTS:
                await self.doubt(asking)
            case _:
                pass

    async def doubt(self, asking: AdmittedCall) -> None:
        """Take in that a change may have been made: whatever is known of its tables has to be asked for anew."""
        catalog, places = asking.catalog.name, _places(asking.call, asking.body)
        if asking.call.kind is CallKind.RENAME_TABLE and isinstance(asking.body, Renaming):
            source, target = (TableId(catalog, *place) for place in places)
            self._learned.registry.unvouched.spread(source, target)
        await asyncio.gather(*(self.tell(Changed(catalog, *place)) for place in places))

    async def uuid_now(self, asking: AdmittedCall, scope: TableScope) -> str | None:
        """Return the UUID of the table that has a scope's name; None where none has it. Raise Refused (UPSTREAM_…).

        It is asked for: what was known may have been dropped since, past this process.
        """
        loaded = await self._load(asking, scope.namespace, scope.name)
        return None if loaded is None else loaded.facts.uuid

    async def removable(self, asking: AdmittedCall) -> str | None:
        """Get to know a table that a call is about to drop, and whose files the caller may then have to delete.

        Return its UUID; None where it is not known, or where the upstream keeps rows or columns from the caller, by
        this token or by another one of its own: once the table is dropped, no upstream says so.
        """
        catalog, call, vouchers = asking.catalog.name, asking.call, self._learned.vouchers
        recipient, key = self._recipient(asking), table_key(call.namespace, call.name)
        if vouchers.restricts(catalog, key, recipient.name, self._clock()):
            return None
        for _ in range(2):
            found = vouchers.find(catalog, key, None, recipient, self._clock())
            if found is not None:
                return None if found.restricted else found.uuid
            # Where the upstream refuses, the call itself will tell what is wrong.
            with suppress(Refused):
                await self._load(asking, call.namespace, call.name)
        return None

    async def _load(self, asking: AdmittedCall, namespace: str, name: str) -> Loaded | None:
        """Return what the upstream says of a table, and take it in. Raise Refused."""
        asked, catalog = time.monotonic(), asking.catalog.name
        loaded = await self._loader.load(catalog, namespace, name, asking.subject, asking.bearer)
        if loaded is not None:
            await self.answered(asking, loaded, asked)
            await self.tell(Live(catalog, loaded.facts), asked=asked)
        return loaded

    def _sent(self, asked: float) -> float:
        """Return the Unix time of a moment of `time.monotonic()`."""
        return self._clock() - max(0.0, time.monotonic() - asked)

    def _recipient(self, asking: AdmittedCall) -> Recipient:
        service = self._loader.asks_as(asking.catalog.name) is AsksAs.SERVICE
        if service and asking.catalog.authorizer is Authorizer.POLICY:
            return EVERY_CALLER
        return recipient_of(asking.subject.caller, asking.bearer)


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
