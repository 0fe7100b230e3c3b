"""Keep the segments of a worker: seal what former processes left, and ship what is sealed, where that is switched on.

Where the trail goes to a file or to standard output there is nothing of that to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from time import time

from signproxy.audit.salvage import seal_orphans
from signproxy.audit.segments import SegmentSink
from signproxy.audit.sink import AuditSink
from signproxy.audit.trail import AuditTrail
from signproxy.config.settings import Settings
from signproxy.credentials.credentials import Credentials
from signproxy.s3.storage import Storage
from signproxy.server.process import build
from signproxy.server.status.report import AuditReport
from signproxy.shipping.shipper import Shipper, ShippingState
from signproxy.shipping.store import SegmentStore, Target
from signproxy.telemetry import log
from signproxy.telemetry.metrics import Metrics

_log = log.get_logger("signproxy.shipping")


class Spool:
    """The sink of a worker's trail, and what becomes of its segments."""

    def __init__(self, settings: Settings, config_digest: str) -> None:
        """Raise SettingsInvalid where events cannot be written."""
        self.sink: AuditSink = build.audit_sink(settings, config_digest, self._sealed)
        self._directory = Path(settings.audit.directory)
        self._ship = settings.audit.ship
        self._shipper: Shipper | None = None

    async def open(
        self, storages: Callable[[], Iterable[Storage]], credentials: Callable[[Storage, str], Credentials]
    ) -> None:
        """Seal what processes that are no more left open, before the first event; begin to ship."""
        if not isinstance(self.sink, SegmentSink):
            return
        await asyncio.to_thread(seal_orphans, self._directory)
        if self._ship.wanted:
            ship = self._ship
            target = Target(ship.storage, ship.bucket, ship.prefix, ship.ca_file)
            self._shipper = Shipper(self._directory, SegmentStore(target, storages, credentials))
            self._shipper.start()

    async def aclose(self) -> None:
        """Ship the last segments, once the trail is closed; the next start goes on with what is left."""
        shipper, self._shipper = self._shipper, None
        if shipper is None:
            return
        left = await shipper.finish(self._ship.at_end_seconds)
        if left:
            _log.error("audit segments were not shipped", count=left, problem=shipper.state.problem)

    def report(self, trail: AuditTrail) -> AuditReport:
        """Tell how the trail is doing, and what becomes of its segments."""
        state, shipping = trail.state, self.shipping
        counts = (state.queued, state.written, state.dropped, state.refused, state.errors)
        sealed = self.sink.sealed.total() if isinstance(self.sink, SegmentSink) else 0
        return AuditReport(trail.boot_id, *counts, state.problem, sealed, shipping.waiting, shipping.problem)

    @property
    def shipping(self) -> ShippingState:
        """How shipping is doing."""
        return ShippingState() if self._shipper is None else self._shipper.state

    def show(self, metrics: Metrics) -> None:
        """Let the metrics of the worker read what is counted here."""
        sink = self.sink
        if isinstance(sink, SegmentSink):
            metrics.audit_sealed.read_from(lambda: {(reason.value,): count for reason, count in sink.sealed.items()})
        metrics.audit_shipped.read_from(lambda: {(): self.shipping.shipped})
        metrics.audit_shipping_failures.read_from(lambda: {(): self.shipping.failures})
        metrics.audit_waiting.read_from(lambda: {(): self.shipping.waiting})
        metrics.audit_waiting_bytes.read_from(lambda: {(): self.shipping.waiting_bytes})
        metrics.audit_shipping_lag.read_from(lambda: {(): self._lag()})

    def _sealed(self, path: Path) -> None:
        if self._shipper is not None:
            self._shipper.sealed(path)

    def _lag(self) -> float:
        since = self.shipping.waiting_since
        return max(0.0, time() - since) if since else 0.0
