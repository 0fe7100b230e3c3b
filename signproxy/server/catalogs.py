"""Wire what stands in front of upstream catalogs: who asks them, who believes them, and who answers clients."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from signproxy.catalog.upstream_spec import UpstreamSpec
from signproxy.catalog.upstreams import PreparedUpstreams, Upstreams
from signproxy.config.settings import Settings
from signproxy.gate.gate import Gate
from signproxy.gate.recorder import Recorder
from signproxy.identity.authenticator import Authenticator
from signproxy.inventory.learned import LearnedTables
from signproxy.inventory.learned_resolver import LearnedResolver
from signproxy.policy.state import PolicyState
from signproxy.server.facade import Facade
from signproxy.server.grants import Granting
from signproxy.server.loader import UpstreamLoader
from signproxy.server.measures import show_catalogs
from signproxy.server.report import UpstreamReport
from signproxy.server.seals import Seals
from signproxy.server.seen import Seen
from signproxy.server.sightings import Share, Sightings
from signproxy.telemetry.metrics import Metrics


class Catalogs:
    """The rooms of one process that concern upstreams. They are there without any, and do nothing then."""

    def __init__(
        self,
        state: Callable[[], PolicyState],
        authenticator: Authenticator,
        recorder: Recorder,
        metrics: Metrics,
        share: Share | None,
    ) -> None:
        self._authenticator = authenticator
        self._recorder = recorder
        self._metrics = metrics
        self._upstreams = Upstreams(metrics.upstream_seconds.observe)
        self._learned = LearnedTables(state)
        self._loader = UpstreamLoader(self._upstreams)
        self.resolver = LearnedResolver(self._learned, self._loader)
        self.sightings = Sightings(self._learned.take, share)
        self._facade: Facade | None = None
        show_catalogs(metrics, self._upstreams, self._learned)

    @property
    def facade(self) -> Facade | None:
        """What answers catalog calls; None where no catalog has an upstream."""
        return self._facade if self._upstreams.any else None

    def reconfigure(self, settings: Settings, seals: Seals, gate: Gate) -> None:
        """Answer by other settings from the next call on."""
        context = settings.context
        seconds = float(context.table_token_seconds) if context.table_tokens else None
        granting = Granting(self._authenticator, seals.contexts, settings.advertised_url, seconds)
        if self._facade is not None:
            self._facade.reconfigure(gate=gate, granting=granting)
            return
        self._facade = Facade(
            gate=gate,
            granting=granting,
            authenticator=self._authenticator,
            upstreams=self._upstreams,
            seen=Seen(self.sightings, self._learned, self._loader),
            recorder=self._recorder,
            calls=self._metrics.catalog_calls,
        )

    async def prepare(self, specs: Iterable[UpstreamSpec]) -> PreparedUpstreams:
        """Make what would take the place of the upstreams in force."""
        return await self._upstreams.prepare(specs)

    def commit(self, prepared: PreparedUpstreams) -> None:
        """Put what was prepared in force, and forget what former upstreams told."""
        for catalog in self._upstreams.commit(prepared):
            self._learned.forget(catalog)

    async def discard(self, prepared: PreparedUpstreams) -> None:
        """Give up what was prepared."""
        await self._upstreams.discard(prepared)

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
                len(self._learned.ground.of(health.catalog).by_name),
            )
            for health in self._upstreams.reports()
        )

    @property
    def alarms(self) -> int:
        """Locations that were not believed, since the start."""
        return sum(self._learned.alarms.counts.values())

    async def aclose(self) -> None:
        """End every question and connection."""
        if self._facade is not None:
            await self._facade.aclose()
        await self.resolver.aclose()
        await self._upstreams.aclose()
