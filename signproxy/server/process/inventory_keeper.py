"""Take an inventory of each upstream that the settings want one of: at the start, and again before it is too old."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterable

import msgspec

from signproxy.catalog.upstream_inventory import UpstreamInventory
from signproxy.catalog.upstream_spec import UpstreamSpec
from signproxy.catalog.upstreams import Upstreams
from signproxy.errors import Finding, Refused, SettingsInvalid
from signproxy.inventory.learned.learned import LearnedTables
from signproxy.inventory.learned.registry import Completeness, Registration, Shelf, Stocktaking
from signproxy.inventory.learned.sighting import TableFacts
from signproxy.model import TableId
from signproxy.server.process.sightings_file import FileState, SightingsFile, change_of
from signproxy.server.status.report import InventoryReport
from signproxy.telemetry.log import get_logger

_log = get_logger("signproxy.inventory")

AGES = 3
"""An inventory counts until it is so many times as old as the settings have it refreshed: an upstream that is down for
an hour does not make every new table wait."""

PARTIAL_SECONDS = 3_600.0
"""How long what was listed before an inventory was cut off is not listed again."""

FIRST_PAUSE = 2.0
LAST_PAUSE = 60.0
"""Seconds after a failure, doubling from the first to the last."""

FOLLOW_SECONDS = 1.0
"""How often a process looks whether another one has finished the inventory."""


UNREADABLE_SHOWN = 10
"""Tables that cannot be loaded, by name."""


class _Partial(msgspec.Struct, gc=False):
    """What was listed of an inventory that is not complete."""

    began: float
    tables: dict[tuple[str, str], TableFacts]


class InventoryKeeper:
    """The inventories of one process. Where there is a file, one process takes them, and all use them."""

    def __init__(
        self,
        learned: LearnedTables,
        upstreams: Upstreams,
        file: SightingsFile | None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._learned = learned
        self._upstreams = upstreams
        self._file = file
        self._clock = clock
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._specs: dict[str, UpstreamSpec] = {}
        self._partial: dict[str, _Partial] = {}
        self._read: dict[str, FileState | None] = {}
        """The file as it was when it was read last."""
        self.states: dict[str, InventoryReport] = {}

    def require(self, specs: Iterable[UpstreamSpec]) -> None:
        """Believe nothing new of these upstreams but by an inventory, from now on."""
        wanted = {spec.catalog: spec for spec in specs if spec.inventory.required}
        self._learned.registry.require({name: AGES * spec.inventory.refresh for name, spec in wanted.items()})
        for name, task in tuple(self._tasks.items()):
            if wanted.get(name) != self._specs.get(name):
                task.cancel()
                del self._tasks[name]
                self._partial.pop(name, None)
                del self.states[name]
        self._specs = wanted
        for name, spec in wanted.items():
            if name not in self._tasks:
                self.states[name] = InventoryReport()
                self._tasks[name] = asyncio.get_running_loop().create_task(self._keep(spec))

    def problem(self) -> str:
        """Return what is not believed yet for want of an inventory, and why; empty where all are complete."""
        now, registry = self._clock(), self._learned.registry
        missing = []
        for name, state in self.states.items():
            if registry.completeness(name, now) is Completeness.MISSING:
                so_far = f"{state.tables:,} tables so far"
                missing.append(f"catalog {name}: {state.problem or 'under way'}, {so_far}")
        return "; ".join(missing)

    async def aclose(self) -> None:
        """End every inventory that is under way."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _keep(self, spec: UpstreamSpec) -> None:
        pause = FIRST_PAUSE
        state = self.states[spec.catalog]
        while True:
            try:
                wait = await self._once(spec, state)
            except (Refused, OSError, SettingsInvalid) as error:
                state.problem = str(error)
                _log.warning("inventory not complete", catalog=spec.catalog, problem=state.problem, tables=state.tables)
                wait, pause = pause, min(2 * pause, LAST_PAUSE)
            except Exception:  # noqa: BLE001 - the outermost wrapper: without it nothing would be tried again, or told
                state.problem = "a fault in signproxy; the log has the trace"
                _log.exception("inventory failed", catalog=spec.catalog)
                wait, pause = pause, min(2 * pause, LAST_PAUSE)
            else:
                pause = FIRST_PAUSE
            await asyncio.sleep(wait)

    async def _once(self, spec: UpstreamSpec, state: InventoryReport) -> float:
        """Take the inventory if it is time; return the seconds until it is to be looked at again."""
        if self._file is None:
            return await self._take(spec, state)
        claim = await asyncio.to_thread(self._file.claim)
        found = self._file.state()
        if claim is None and found == self._read.get(spec.catalog):
            return FOLLOW_SECONDS
        self._read[spec.catalog] = found
        left = await self._follow(spec, state)
        try:
            if left > 0:
                return min(left, FOLLOW_SECONDS) if claim is None else left
            return FOLLOW_SECONDS if claim is None else await self._take(spec, state)
        finally:
            if claim is not None:
                claim.close()

    async def _follow(self, spec: UpstreamSpec, state: InventoryReport) -> float:
        """Take over what another process has found; return the seconds for which it is new enough."""
        assert self._file is not None  # noqa: S101 - asked where there is one
        changes = await asyncio.to_thread(self._file.load)
        mine = [change for change in changes if change_of(change) == spec.catalog]
        taken = next((change for change in mine if isinstance(change, Stocktaking)), None)
        if taken is None or taken.upstream != digest_of_upstream(spec):
            return 0.0
        known = self._learned.registry.taken(spec.catalog)
        if taken.at > (0.0 if known is None else known.at):
            shelf = await asyncio.to_thread(Shelf, [change for change in mine if isinstance(change, Registration)])
            self._adopt(state, taken, shelf)
        return taken.at + spec.inventory.refresh - self._clock()

    async def _take(self, spec: UpstreamSpec, state: InventoryReport) -> float:
        bound = self._upstreams.of(spec.catalog)
        if bound is None:
            return FOLLOW_SECONDS
        now = self._clock()
        partial = self._partial.get(spec.catalog)
        if partial is None or now - partial.began > PARTIAL_SECONDS:
            partial = self._partial[spec.catalog] = _Partial(now, {})
        tables = partial.tables

        def listed(facts: TableFacts) -> None:
            tables[facts.namespace, facts.name] = facts
            state.tables = len(tables)

        inventory = UpstreamInventory(
            bound, spec.inventory, listed, known=frozenset(tables), at_most=self._learned.registry.at_most
        )
        _log.info("inventory begins", catalog=spec.catalog, known=len(tables))
        await inventory.run()
        taken = Stocktaking(spec.catalog, digest_of_upstream(spec), partial.began)
        unreadable = [TableId(spec.catalog, *name) for name in inventory.unreadable]
        found = await asyncio.to_thread(self._found, taken, partial, unreadable)
        self._adopt(state, taken, await asyncio.to_thread(Shelf, found))
        del self._partial[spec.catalog]
        state.unreadable = tuple(map(str, unreadable[:UNREADABLE_SHOWN]))
        if self._file is not None and not await asyncio.to_thread(self._file.take_over, taken, found):
            state.problem = "the inventory does not fit into the file of sightings (`sightings.max_mib`)"
            _log.error("inventory not kept", catalog=spec.catalog, problem=state.problem)
        return spec.inventory.refresh

    def _found(self, taken: Stocktaking, partial: _Partial, unreadable: Iterable[TableId]) -> list[Registration]:
        """Return what there is to keep; of a table that cannot be loaded, what is known of it."""
        registry = self._learned.registry
        tables = ((TableId(taken.catalog, *name), facts) for name, facts in partial.tables.items())
        kept = (known for table in unreadable if (known := registry.find(table)) is not None)
        return [*registry.found(taken, tables), *kept]

    def _adopt(self, state: InventoryReport, taken: Stocktaking, shelf: Shelf) -> None:
        if not self._learned.registry.adopt(taken, shelf):
            problem = f"{self._learned.registry.at_most:,} tables are remembered, and there are more"
            raise SettingsInvalid([Finding("", "sightings.max_tables", problem)])
        state.taken_at, state.problem, state.tables = taken.at, "", len(shelf)
        _log.info("inventory complete", catalog=taken.catalog, tables=state.tables)


def digest_of_upstream(spec: UpstreamSpec) -> str:
    """Return what tells an upstream and its warehouse from others."""
    return hashlib.sha256(f"{spec.uri}\0{spec.warehouse}\0{spec.prefix}".encode()).hexdigest()[:32]
