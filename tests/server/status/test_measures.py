"""What the metrics of all workers together are made of."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from signproxy.audit.trail import AuditTrail
from signproxy.config.settings import LimitSettings
from signproxy.credentials.store import CredentialStore
from signproxy.gate.limits import Limits
from signproxy.identity.authenticator import Authenticator
from signproxy.server.status.measures import show_fleet, show_limits, show_rooms
from signproxy.server.status.readiness import Readiness
from signproxy.server.status.report import FleetReport
from signproxy.telemetry.metrics import Metrics
from tests.audit.sinks import MemorySink
from tests.identity.rig import KeyServer, remote_issuer
from tests.scrape import Seen, scraped
from tests.server.status.reports import CERTIFICATE, NOW, fleet, worker
from tests.waiting import until


def shown(report: FleetReport, metrics: Metrics | None = None) -> Seen:
    used = metrics or Metrics("1")
    show_fleet(used, report, Readiness().judge(report))
    return scraped(used.render())


def value(seen: Seen, name: str, **labels: str) -> Any:
    return seen.get((f"signproxy_{name}", tuple(sorted(labels.items()))))


def test_what_is_true_of_all_workers_is_told_once() -> None:
    """An alert on a missing worker has nothing else to stand on."""
    ill = worker(1, problems={"audit": "disk full"}, lag_seconds=2.0, connections=3, in_flight=0)
    seen = shown(fleet(worker(0), ill, wanted_workers=3, restarts=4))
    assert [value(seen, name) for name in ("workers", "workers_ready", "workers_wanted")] == [2, 1, 3]
    assert value(seen, "worker_restarts_total") == 4
    assert (value(seen, "ready"), value(seen, "draining")) == (0, 0)
    assert (value(seen, "connections"), value(seen, "requests_in_flight")) == (10, 1)
    assert value(seen, "event_loop_lag_seconds") == 2.0
    assert value(seen, "config_reload_last_success_timestamp_seconds") == NOW - 3_600
    assert value(seen, "start_time_seconds") == NOW - 3 * 3_600
    assert value(seen, "config_info", digest="c0ffee123456") == 1
    assert value(shown(fleet()), "ready") == 1
    assert value(shown(fleet(draining=True)), "draining") == 1


def test_the_certificate_that_ends_first_is_told_and_one_that_is_gone_is_not() -> None:
    """An alarm for a listener that has no certificate anymore cannot be silenced."""
    later = msgspec.structs.replace(CERTIFICATE, expires_at=NOW + 1e9)
    admin = msgspec.structs.replace(CERTIFICATE, listener="admin", expires_at=NOW + 5)
    metrics = Metrics("1")
    seen = shown(fleet(worker(0, certificates=(later, admin)), worker(1)), metrics)
    assert value(seen, "cert_expiry_timestamp_seconds", listener="listen") == CERTIFICATE.expires_at
    assert value(seen, "cert_expiry_timestamp_seconds", listener="admin") == NOW + 5
    seen = shown(fleet(worker(0), worker(1)), metrics)
    assert value(seen, "cert_expiry_timestamp_seconds", listener="admin") is None


def test_what_the_limits_keep_away_is_counted() -> None:
    """A client that opens connections without end, and a stranger who guesses at tokens, show nowhere else."""
    limits, metrics = Limits(LimitSettings()), Metrics("1")
    show_limits(metrics, limits)
    limits.connections.surplus, limits.connections.slow, limits.connections.unread = 1, 2, 3
    limits.callers.begin()
    for _ in range(4):
        limits.strangers.begin()
    seen = scraped(metrics.render())
    reasons = ("surplus", "slow", "unread")
    assert [value(seen, "connections_rejected_total", reason=reason) for reason in reasons] == [1, 2, 3]
    assert [value(seen, "answers_held_total", caller=caller) for caller in ("known", "unknown")] == [1, 4]


async def test_the_rooms_of_a_worker_feed_its_metrics() -> None:
    """A metric that is never fed says that all is well."""
    async with KeyServer(b"no keys") as server:
        issuer = remote_issuer(f"{server.url}/keys", "RS256")
        authenticator = Authenticator((issuer,))
        trail, credentials, metrics = AuditTrail(MemorySink()), CredentialStore(), Metrics("1")
        trail.start()
        show_rooms(metrics, authenticator=authenticator, credentials=credentials, trail=trail)
        await authenticator.start()
        try:
            await until(lambda: authenticator.refreshes().failed)
            seen = scraped(metrics.render())
        finally:
            await authenticator.aclose()
            await credentials.aclose()
            await asyncio.to_thread(trail.close, 5.0)
    assert value(seen, "jwks_refresh_total", result="failure") >= 1
    assert value(seen, "jwks_refresh_total", result="success") == 0
    assert value(seen, "jwks_age_seconds", issuer=issuer.name) == float("inf")
    results = ("renewed", "unchanged", "failed")
    assert [value(seen, "credentials_refresh_total", result=result) for result in results] == [0, 0, 0]
    assert [value(seen, f"audit_{name}") for name in ("queue_depth", "written_total", "errors_total")] == [0, 0, 0]
    assert value(seen, "process_resident_memory_bytes") > 1_000_000
