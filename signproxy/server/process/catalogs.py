"""Wire what stands in front of upstream catalogs: who asks them, who believes them, and who answers clients."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from signproxy.catalog.upstreams import PreparedUpstreams, Upstreams
from signproxy.config.settings import Settings
from signproxy.config.upstream import OnSightingsFault, SightingsSettings
from signproxy.errors import SettingsInvalid
from signproxy.facade.facade import Facade
from signproxy.facade.grants import Granting
from signproxy.facade.loader import UpstreamLoader
from signproxy.facade.seen import Seen
from signproxy.gate.gate import Gate
from signproxy.gate.recorder import Recorder
from signproxy.identity.authenticator import Authenticator
from signproxy.inventory.learned.learned import LearnedTables
from signproxy.inventory.learned.learned_resolver import LearnedResolver
from signproxy.inventory.learned.registry import LocationRegistry
from signproxy.policy.state import PolicyState
from signproxy.sealing import Sealer
from signproxy.server.process.inventory_keeper import InventoryKeeper, digest_of_upstream
from signproxy.server.process.seals import Seals
from signproxy.server.process.sightings import Share, Sightings
from signproxy.server.process.sightings_file import SightingsFile
from signproxy.server.process.sightings_journal import SightingsJournal
from signproxy.server.status.measures import show_catalogs
from signproxy.server.status.report import UpstreamReport
from signproxy.telemetry.log import get_logger
from signproxy.telemetry.metrics import Metrics
from signproxy.vending.vending import Vending

_log = get_logger("signproxy.sightings")


class Catalogs:
    """The rooms of one process that concern upstreams. They are there without any, and do nothing then."""

    def __init__(
        self,
        learned: tuple[LearnedTables, SightingsFile | None],
        authenticator: Authenticator,
        recorder: Recorder,
        metrics: Metrics,
        share: Share | None,
    ) -> None:
        """`learned` is what `learned_tables` made."""
        self._authenticator = authenticator
        self._recorder = recorder
        self._metrics = metrics
        self.upstreams = Upstreams(metrics.upstream_seconds.observe)
        self.learned, self._file = learned
        self._journal = None if self._file is None else SightingsJournal(self._file)
        self.learned.registry.on_change = None if self._journal is None else self._journal.note
        self.loader = UpstreamLoader(self.upstreams)
        self.resolver = LearnedResolver(self.learned, self.loader)
        self.sightings = Sightings(self.learned.take, share)
        if share is not None:
            self.resolver.share(lambda live, asked: self.sightings.tell(live, asked=asked))
        self._seen = Seen(self.sightings, self.learned, self.loader, self.resolver.departures)
        self.inventories = InventoryKeeper(self.learned, self.upstreams, self._file)
        show_catalogs(metrics, self.upstreams, self.learned, self.inventories.states)

    def facade(self, settings: Settings, seals: Seals, gate: Gate, vending: Vending) -> Facade | None:
        """Return what answers catalog calls; None where no catalog has an upstream."""
        if not self.upstreams.any:
            return None
        context = settings.context
        seconds = float(context.table_token_seconds) if context.table_tokens else None
        public, listener = settings.advertised_url, settings.s3.client_url
        return Facade(
            gate=gate,
            granting=Granting(self._authenticator, seals.contexts, public, seconds, listener),
            authenticator=self._authenticator,
            upstreams=self.upstreams,
            seen=self._seen,
            vending=vending,
            calls=self._metrics.catalog_calls,
        )

    def commit(self, prepared: PreparedUpstreams) -> None:
        """Put what was prepared in force, and forget what former upstreams told."""
        for catalog in self.upstreams.commit(prepared):
            self.learned.forget(catalog)
        specs = [bound.upstream.spec for bound in prepared.bound.values()]
        for spec in specs:
            self.learned.registry.note_upstream(spec.catalog, digest_of_upstream(spec))
        self.inventories.require(specs)

    def reports(self) -> tuple[UpstreamReport, ...]:
        """Tell how the upstreams are doing, and how many tables are known of each."""
        return tuple(
            UpstreamReport(
                health.catalog,
                health.uri,
                health.last_success_at,
                health.last_failure_at,
                health.problem,
                health.in_flight,
                len(self.learned.ground.of(health.catalog).by_name),
                self.inventories.states.get(health.catalog),
            )
            for health in self.upstreams.reports()
        )

    def problems(self) -> dict[str, str]:
        """Return what keeps the process from being ready: inventories that are missing, where the settings want any."""
        return {"inventory": self.inventories.problem()} if self.inventories.states else {}

    @property
    def sightings_problem(self) -> str:
        """Why what is learned does not outlive this process, where it should; empty where it does."""
        if self.learned.registry.full:
            return "more tables than are remembered (`sightings.max_tables`): the places of new ones are not kept"
        return "" if self._journal is None else self._journal.problem

    @property
    def alarms(self) -> int:
        """Locations that were not believed, since the start."""
        return sum(self.learned.alarms.counts.values())

    async def aclose(self) -> None:
        """End every question and connection."""
        await self._seen.later.aclose()
        await self.inventories.aclose()
        await self.resolver.aclose()
        if self._journal is not None:
            await self._journal.aclose()
        await self.upstreams.aclose()


def learned_tables(
    state: Callable[[], PolicyState], settings: SightingsSettings, sealer: Sealer
) -> tuple[LearnedTables, SightingsFile | None]:
    """Return an upstream's tables as far as they are known from before, and the file that keeps them, if there is one.

    Raise SettingsInvalid for a file that cannot be read, unless the settings say to begin anew.
    """
    learned = LearnedTables(state, registry=LocationRegistry(settings.max_tables))
    if not settings.file:
        return learned, None
    file = SightingsFile(Path(settings.file), sealer, settings.max_mib << 20)
    try:
        learned.registry.replay(file.load())
    except SettingsInvalid as invalid:
        if settings.on_fault is OnSightingsFault.REFUSE:
            raise
        _log.error("sightings begin anew", problem=str(invalid), aside=str(file.begin_anew()))
    return learned, file
