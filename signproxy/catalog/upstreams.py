"""Hold the upstreams of all catalogs, and exchange them on a reload without losing a call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple

from signproxy.catalog.upstream import Upstream, open_upstream, own_question
from signproxy.catalog.upstream_answer import UpstreamAnswer
from signproxy.catalog.upstream_fault import UpstreamHealth
from signproxy.catalog.upstream_paths import UpstreamPaths
from signproxy.catalog.upstream_spec import UpstreamSpec
from signproxy.telemetry.log import get_logger

_log = get_logger("signproxy.upstream")


class Bound:
    """An upstream, and its paths."""

    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream
        self.paths = UpstreamPaths(upstream)

    async def look_up(self, path: str, query: str, bearer: str, expires_at: float, request_id: str) -> UpstreamAnswer:
        """Ask for something below the prefix with a caller's own token; the answer is to be closed. Raise Refused."""
        authorization = await self.upstream.authorization(bearer, expires_at)
        target = await self.paths.target(path, query, authorization, request_id)
        return await self.upstream.ask(own_question(target, authorization, "", self.upstream.spec.times.load))

    async def retire(self) -> None:
        """End once the calls under way have their answers."""
        await self.upstream.idle()
        await self.aclose()

    async def aclose(self) -> None:
        """End at once."""
        await self.paths.aclose()
        await self.upstream.aclose()


class PreparedUpstreams(NamedTuple):
    """Upstreams that would take the place of those in force."""

    bound: dict[str, Bound]
    fresh: tuple[Bound, ...]
    """Those that nothing uses yet."""


class Upstreams:
    """The upstream of each catalog that has one."""

    def __init__(self, observe: Callable[[float], None] | None = None) -> None:
        self._bound: dict[str, Bound] = {}
        self._observe = observe
        self._retiring: dict[asyncio.Task[None], Bound] = {}

    @property
    def any(self) -> bool:
        """Whether any catalog has one."""
        return bool(self._bound)

    def of(self, catalog: str) -> Bound | None:
        """Return the upstream of a catalog."""
        return self._bound.get(catalog)

    async def prepare(self, specs: Iterable[UpstreamSpec]) -> PreparedUpstreams:
        """Make what would take the place of the upstreams in force; one whose settings are the same is kept."""
        bound: dict[str, Bound] = {}
        fresh: list[Bound] = []
        for spec in specs:
            known = self._bound.get(spec.catalog)
            if known is None or known.upstream.spec != spec:
                known = Bound(await open_upstream(spec, observe=self._observe))
                fresh.append(known)
            bound[spec.catalog] = known
        return PreparedUpstreams(bound, tuple(fresh))

    def commit(self, prepared: PreparedUpstreams) -> tuple[str, ...]:
        """Put what was prepared in force, between two requests; calls under way end where they began.

        Return the catalogs whose upstream is another one now, so that what was learned from it is worth nothing.
        """
        former, self._bound = self._bound, prepared.bound
        others = []
        for catalog, bound in former.items():
            now = prepared.bound.get(catalog)
            if now is bound:
                continue
            if now is None or _place(now.upstream.spec) != _place(bound.upstream.spec):
                others.append(catalog)
            task = asyncio.get_running_loop().create_task(bound.retire())
            self._retiring[task] = bound
            task.add_done_callback(self._retired)
        return tuple(others)

    async def discard(self, prepared: PreparedUpstreams) -> None:
        """Give up what was prepared."""
        for bound in prepared.fresh:
            await bound.aclose()

    def reports(self) -> tuple[UpstreamHealth, ...]:
        """Tell how each of them is doing."""
        return tuple(bound.upstream.health for bound in self._bound.values())

    async def aclose(self) -> None:
        """End every connection and task."""
        retiring = dict(self._retiring)
        for task in retiring:
            task.cancel()
        await asyncio.gather(*retiring, return_exceptions=True)
        for bound in (*retiring.values(), *self._bound.values()):
            await bound.aclose()

    def _retired(self, task: asyncio.Task[None]) -> None:
        del self._retiring[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("upstream was not closed in order", error=type(error).__name__)


def _place(spec: UpstreamSpec) -> tuple[str, str, str]:
    return spec.uri, spec.warehouse, spec.prefix
