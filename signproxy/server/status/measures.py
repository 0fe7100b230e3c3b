"""Connect metrics with those who know the values: the rooms of a worker, and the report of all workers."""

from __future__ import annotations

from collections.abc import Mapping

from signproxy.audit.trail import AuditTrail
from signproxy.catalog.upstreams import Upstreams
from signproxy.credentials.store import CredentialStore
from signproxy.gate.limits import Limits
from signproxy.identity.authenticator import Authenticator
from signproxy.inventory.learned.learned import LearnedTables
from signproxy.policy.state import PolicyState
from signproxy.server.status.readiness import ReadinessJudgement
from signproxy.server.status.report import FleetReport, InventoryReport
from signproxy.telemetry.declared_metrics import Result
from signproxy.telemetry.families import Labels, ReadFamily
from signproxy.telemetry.metrics import Metrics


def show_rooms(
    metrics: Metrics, *, authenticator: Authenticator, credentials: CredentialStore, trail: AuditTrail
) -> None:
    """Let the metrics of a worker take what its rooms count, each time they are read."""

    def fetches() -> Mapping[Labels, float]:
        refreshes = authenticator.refreshes()
        return {(Result.SUCCESS.value,): refreshes.succeeded, (Result.FAILURE.value,): refreshes.failed}

    metrics.jwks_age_seconds.read_from(lambda: {(health.issuer,): health.age for health in authenticator.health()})
    metrics.jwks_refresh.read_from(fetches)
    metrics.credentials_expiry.read_from(lambda: credentials.expiries)
    metrics.credentials_refresh.read_from(lambda: {(result,): count for result, count in credentials.refreshes.items()})
    metrics.audit_queue_depth.read_from(lambda: {(): trail.state.queued})
    metrics.audit_written.read_from(lambda: {(): trail.state.written})
    metrics.audit_dropped.read_from(lambda: {(): trail.state.dropped})
    metrics.audit_refused.read_from(lambda: {(): trail.state.refused})
    metrics.audit_errors.read_from(lambda: {(): trail.state.errors})
    metrics.audit_lag.read_from(lambda: {(): trail.state.unsafe_seconds})
    metrics.measure_process()


def show_catalogs(
    metrics: Metrics, upstreams: Upstreams, learned: LearnedTables, inventories: Mapping[str, InventoryReport]
) -> None:
    """Let the metrics of a worker read how its upstreams answer, and what it learned from them."""

    def results() -> Mapping[Labels, float]:
        reports = upstreams.reports()
        return {(each.catalog, result): count for each in reports for result, count in each.results.items()}

    metrics.upstream_requests.read_from(results)
    metrics.upstream_success.read_from(
        lambda: {(report.catalog,): report.last_success_at for report in upstreams.reports()}
    )
    metrics.upstream_in_flight.read_from(
        lambda: {(report.catalog,): report.in_flight for report in upstreams.reports()}
    )
    metrics.learned_tables.read_from(
        lambda: {(report.catalog,): len(learned.ground.of(report.catalog).by_name) for report in upstreams.reports()}
    )
    metrics.learned_alarms.read_from(lambda: {(kind.value,): count for kind, count in learned.alarms.counts.items()})
    metrics.inventory_taken.read_from(lambda: {(name,): state.taken_at for name, state in inventories.items()})
    metrics.inventory_tables.read_from(lambda: {(name,): state.tables for name, state in inventories.items()})


def show_limits(metrics: Metrics, limits: Limits) -> None:
    """Let the metrics of a worker read what its limits kept away."""
    connections = limits.connections
    metrics.connections_rejected.read_from(
        lambda: {
            ("surplus",): connections.surplus,
            ("slow",): connections.slow,
            ("unread",): connections.unread,
        }
    )
    metrics.audit_backpressure.read_from(lambda: {(): limits.backpressure.total})
    metrics.answers_held.read_from(lambda: {("known",): limits.callers.total, ("unknown",): limits.strangers.total})


def show_policy(metrics: Metrics, state: PolicyState) -> None:
    """Let the metrics of a worker say which policy is in force."""
    metrics.policy_revision.replace((state.rev,), 1)
    metrics.policy_epoch.labels().set(state.epoch)


def show_fleet(metrics: Metrics, report: FleetReport, judgement: ReadinessJudgement) -> None:
    """Let the metrics of the process that answers scrapes say what is true of all workers together."""
    workers = report.workers
    _set(metrics.ready, judgement.ready)
    _set(metrics.draining, report.draining)
    _set(metrics.workers, len(workers))
    _set(metrics.workers_ready, judgement.ready_workers)
    _set(metrics.workers_wanted, report.wanted_workers)
    _set(metrics.worker_restarts, report.restarts)
    _set(metrics.start_time, report.started_at)
    _set(metrics.config_accepted, report.last_accepted_at)
    _set(metrics.connections, sum(worker.connections for worker in workers))
    _set(metrics.in_flight, sum(worker.in_flight for worker in workers))
    _set(metrics.event_loop_lag, max((worker.lag_seconds for worker in workers), default=0.0))
    digests = {worker.config_digest for worker in workers if worker.config_digest}
    _set_all(metrics.config, {(digest,): 1.0 for digest in sorted(digests)})
    expiries: dict[Labels, float] = {}
    of_workers = (certificate for worker in workers for certificate in worker.certificates)
    for certificate in (*report.certificates, *of_workers):
        known = expiries.get((certificate.listener,), certificate.expires_at)
        expiries[certificate.listener,] = min(known, certificate.expires_at)
    _set_all(metrics.cert_expiry, expiries)


def _set(family: ReadFamily, value: float) -> None:
    _set_all(family, {(): float(value)})


def _set_all(family: ReadFamily, values: Mapping[Labels, float]) -> None:
    family.read_from(lambda: values)
