"""Count and measure what a process does, and show it with what others counted."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from signproxy.telemetry import process
from signproxy.telemetry.declared_metrics import STAGE_BOUNDS, DeclaredMetrics, Result
from signproxy.telemetry.families import Counted, Counter, Family, Registry, add_up, lasting
from signproxy.telemetry.forward_metrics import ForwardedCounts

if TYPE_CHECKING:
    from signproxy.telemetry.exposition import Exposition

_MICROSECOND = 1e-6
_ALLOWED = "allowed"
"""The reason code of what is served; this leaf imports no other."""


class Metrics(DeclaredMetrics):
    """The metrics of one process. Each server makes its own; nothing is global.

    Where workers serve, each of them has one, and the process that answers scrapes has one more: it adds up theirs.
    """

    def __init__(self, version: str) -> None:
        self._registry = Registry()
        self._retained: tuple[Counted, ...] = ()
        self._signed: dict[str, Counter] = {}
        super().__init__(self._registry, version)

    def signed(self, op: str, authz_us: int, sign_us: int, total_us: int, event_id: str) -> None:
        """Count and measure a signed request: one call, because it is made for each of them."""
        counter = self._signed.get(op)
        if counter is None:
            counter = self._signed[op] = self.requests.labels(op, "allow", _ALLOWED)
        counter.value += 1
        counter.event_id = event_id
        # What `Histogram.observe` does, without its three calls.
        authz, sign, total = self._authz, self._sign, self._total
        seconds = authz_us * _MICROSECOND
        authz.counts[bisect_left(STAGE_BOUNDS, seconds)] += 1
        authz.total += seconds
        seconds = sign_us * _MICROSECOND
        sign.counts[bisect_left(STAGE_BOUNDS, seconds)] += 1
        sign.total += seconds
        seconds = total_us * _MICROSECOND
        bucket = bisect_left(STAGE_BOUNDS, seconds)
        total.counts[bucket] += 1
        total.total += seconds
        total.latest[bucket] = (event_id, seconds)

    def answered(self, op: str, decision: str, reason: str, total_us: int, event_id: str = "") -> None:
        """Count and measure any other request. `event_id` is empty where the trail may not hold the event."""
        counter = self.requests.labels(op, decision, reason)
        counter.value += 1
        if event_id:
            counter.event_id = event_id
        self._total.observe(total_us * _MICROSECOND, event_id)

    def forwarded(self, op: str, decision: str, reason: str) -> ForwardedCounts:
        """Return what counts requests of one operation that were forwarded, and ended alike."""
        return ForwardedCounts(op, decision, self.requests.labels(op, decision, reason), self._total, self.forward)

    def reloaded(self, result: Result, seconds: float) -> None:
        """Count and measure a reload; in the one process that decides about it."""
        self.config_reload.labels(result.value).inc()
        self.config_reload_seconds.observe(seconds)

    def measure_process(self) -> None:
        """Show memory, files and CPU time of this process; for one instance in each process."""
        self._memory.read_from(process.resident_memory)
        self._cpu.read_from(process.cpu_time)
        self._open_files.read_from(process.open_files)
        self._most_files.read_from(process.most_files)

    def families(self) -> list[Family]:
        """Return what every metric is, for the documentation."""
        return self._registry.families()

    def snapshot(self) -> tuple[Counted, ...]:
        """Return the values of this process, to be added to those of others."""
        return self._registry.snapshot()

    def retain(self, snapshot: tuple[Counted, ...]) -> None:
        """Keep for good what a process that ended has counted: a counter that falls looks like a restart of all."""
        families = self.families()
        self._retained = add_up(families, (self._retained, lasting(families, snapshot)))

    def render(self, *others: tuple[Counted, ...], accept: str = "") -> Exposition:
        """Return the exposition of this process together with the snapshots of others, and with what is retained.

        `accept` is what the scraper's header says.
        """
        # A process that is never scraped does not pay for it.
        from signproxy.telemetry.exposition import expose  # noqa: PLC0415

        families = self.families()
        return expose(families, add_up(families, (self._retained, self.snapshot(), *others)), accept)


def all_metrics() -> list[Family]:
    """Return every metric, for the table in the documentation."""
    return Metrics("").families()
