"""Declare every metric of the server.

No metric has a principal or a table as a label: those numbers belong to the audit trail.
"""

from __future__ import annotations

import platform
from enum import Enum

from signproxy.telemetry.families import Counter, Fold, Histogram, Registry, Stability
from signproxy.telemetry.forward_metrics import ForwardMetrics

# A sign takes some 40 µs, a body that arrives slowly up to 10 s.
STAGE_BOUNDS = (
    25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 1.0, 5.0,
)  # fmt: skip
# A policy of ten tables takes milliseconds, one of a million a minute.
RELOAD_BOUNDS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0)

_EXPERIMENTAL = Stability.EXPERIMENTAL


class Result(Enum):
    """How something that is tried again and again ended."""

    SUCCESS = "success"
    FAILURE = "failure"


class DeclaredMetrics:
    """The metrics of one process, in the order in which they are shown."""

    def __init__(self, registry: Registry, version: str) -> None:
        self._declare_requests(registry)
        self.forward = ForwardMetrics(registry)
        self._declare_sources(registry)
        self._declare_fleet(registry)
        self._declare_process(registry, version)

    def _declare_requests(self, registry: Registry) -> None:
        self.requests = registry.counter(
            "signproxy_requests_total{op,decision,reason}",
            "Requests by S3 operation (by kind of request if it was not reached), decision and reason code.",
        )
        self.stage_seconds = registry.histogram(
            "signproxy_request_duration_seconds{stage}",
            "Time that requests spent in a stage: authz, sign, total; and upstream, until a catalog's answer begins.",
            STAGE_BOUNDS,
        )
        self.in_flight = registry.read(
            "signproxy_requests_in_flight", "Requests that wait for something, such as their body or a key."
        )
        self.connections = registry.read("signproxy_connections", "Open connections of clients.")
        self.connections_rejected = registry.read(
            "signproxy_connections_rejected_total{reason}",
            "Connections that were ended, by reason: surplus (`limits.connections` were open), slow (no request in "
            "time), unread (no HTTP).",
        )
        self.answers_held = registry.read(
            "signproxy_answers_held_total{caller}",
            "Refusals for too many requests that were held back, by caller: known, unknown.",
            stability=_EXPERIMENTAL,
        )
        self.log_suppressed: Counter = registry.counter(
            "signproxy_log_suppressed_total",
            "Refusals that were counted in the log instead of being logged one by one.",
            stability=_EXPERIMENTAL,
        ).labels()
        self.catalog_calls = registry.counter(
            "signproxy_catalog_calls_total{call,status}",
            "Catalog calls that were answered, by call and by the class of the status: 2xx, 3xx, 4xx, 5xx.",
        )
        self.vended = registry.counter(
            "signproxy_vended_keys_total{kind,access}",
            "Keys for a table that callers were given, by kind (`sts`, `issued`) and access. Refusals are in "
            "`signproxy_requests_total`, with the op `vend`.",
        )
        self._authz: Histogram = self.stage_seconds.labels("authz")
        self._sign: Histogram = self.stage_seconds.labels("sign")
        self._total: Histogram = self.stage_seconds.labels("total")
        self.upstream_seconds: Histogram = self.stage_seconds.labels("upstream")

    def _declare_sources(self, registry: Registry) -> None:
        self.jwks_age_seconds = registry.read(
            "signproxy_jwks_age_seconds{issuer}",
            "Seconds since an issuer's keys were last fetched successfully; +Inf if they never were.",
            fold=Fold.MAX,
        )
        self.jwks_refresh = registry.read(
            "signproxy_jwks_refresh_total{result}", "Fetches of issuers' keys by result: success, failure."
        )
        self.credentials_expiry = registry.read(
            "signproxy_credentials_expiry_timestamp_seconds{storage}",
            "When the credentials of a storage expire: 0 while there are none, +Inf if they do not.",
            fold=Fold.MIN,
        )
        self.credentials_refresh = registry.read(
            "signproxy_credentials_refresh_total{result}",
            "Answers of credential providers by result: renewed, unchanged, failed.",
        )
        self._declare_upstreams(registry)
        self.audit_queue_depth = registry.read("signproxy_audit_queue_depth", "Audit events that wait to be written.")
        self.audit_written = registry.read("signproxy_audit_written_total", "Audit events that the sink took.")
        self.audit_dropped = registry.read("signproxy_audit_dropped_total", "Audit events lost with `on_error: allow`.")
        self.audit_refused = registry.read(
            "signproxy_audit_refused_total",
            "Audit events not accepted with `on_error: deny`; their requests were not served.",
        )
        self.audit_errors = registry.read("signproxy_audit_errors_total", "Audit writes and flushes that failed.")
        self.audit_backpressure = registry.read(
            "signproxy_audit_backpressure_total",
            "Times that requests were left unread for a moment because half of the audit queue was full.",
        )
        self._declare_segments(registry)

    def _declare_segments(self, registry: Registry) -> None:
        self.audit_lag = registry.read(
            "signproxy_audit_lag_seconds",
            "Age of the oldest audit event that a crash of the machine would lose; 0 while there is none.",
            fold=Fold.MAX,
        )
        self.audit_sealed = registry.read(
            "signproxy_audit_segments_sealed_total{kind}",
            "Sealed segments by kind, which is what sealed them: size, time, rotation, close.",
        )
        self.audit_shipped = registry.read(
            "signproxy_audit_segments_shipped_total", "Segments that were proved to be in the store, and deleted here."
        )
        self.audit_shipping_failures = registry.read(
            "signproxy_audit_shipping_failures_total", "Attempts to ship segments that failed."
        )
        self.audit_waiting = registry.read(
            "signproxy_audit_segments_waiting", "Sealed segments that are to be shipped.", fold=Fold.MAX
        )
        self.audit_waiting_bytes = registry.read(
            "signproxy_audit_waiting_bytes", "Size of the segments that are to be shipped.", fold=Fold.MAX
        )
        self.audit_shipping_lag = registry.read(
            "signproxy_audit_shipping_lag_seconds",
            "Time since the oldest segment was sealed that is to be shipped; 0 while there is none.",
            fold=Fold.MAX,
        )

    def _declare_upstreams(self, registry: Registry) -> None:
        self.upstream_requests = registry.read(
            "signproxy_upstream_requests_total{catalog,result}",
            "Calls to the upstream of a catalog by result: ok, refused (4xx), failed (5xx), unreachable, late, lost, "
            "invalid (no HTTP, no JSON, too large, a redirect).",
        )
        self.upstream_success = registry.read(
            "signproxy_upstream_last_success_timestamp_seconds{catalog}",
            "When the upstream of a catalog last answered with a status below 500; 0 before the first time.",
            fold=Fold.MAX,
        )
        self.upstream_in_flight = registry.read(
            "signproxy_upstream_requests_in_flight{catalog}", "Calls to the upstream of a catalog that are under way."
        )
        self.learned_tables = registry.read(
            "signproxy_learned_tables{catalog}",
            "Tables of a catalog that are known from its upstream, in the worker that knows the most.",
            fold=Fold.MAX,
        )
        self.learned_alarms = registry.read(
            "signproxy_learned_alarms_total{kind}",
            "Locations of learned tables that were not believed, by kind: disputed (another table's), outside (below "
            "no root of the catalog), unvouched (chosen by a caller).",
        )
        self.inventory_taken = registry.read(
            "signproxy_inventory_timestamp_seconds{catalog}",
            "When the last complete inventory of an upstream was begun, in the worker whose is the oldest; 0: none.",
            fold=Fold.MIN,
        )
        self.inventory_tables = registry.read(
            "signproxy_inventory_tables{catalog}",
            "Tables of the inventory of an upstream, or those that were listed so far.",
            fold=Fold.MAX,
        )

    def _declare_fleet(self, registry: Registry) -> None:
        self.policy_revision = registry.gauge(
            "signproxy_policy_revision_info{rev}", "1, with the digest of the policy in force.", fold=Fold.MAX
        )
        self.policy_epoch = registry.gauge(
            "signproxy_policy_epoch",
            "Accepted loads of the policy so far; of several workers the one that is behind.",
            fold=Fold.MIN,
        )
        self.config = registry.read(
            "signproxy_config_info{digest}", "1, with the digest of the settings in force.", fold=Fold.ONCE
        )
        self.config_reload = registry.counter(
            "signproxy_config_reload_total{result}",
            "Reloads of settings, policy, keys and certificates by result: success, failure.",
        )
        self.config_reload_seconds: Histogram = registry.histogram(
            "signproxy_config_reload_seconds",
            "Time from the beginning of a reload until it was in force on every worker, or refused.",
            RELOAD_BOUNDS,
        ).labels()
        self.config_accepted = registry.read(
            "signproxy_config_reload_last_success_timestamp_seconds",
            "When the configuration in force came into force on every worker.",
            fold=Fold.ONCE,
        )
        self.cert_expiry = registry.read(
            "signproxy_cert_expiry_timestamp_seconds{listener}",
            "When the certificate of a listener expires.",
            fold=Fold.MIN,
        )
        self.ready = registry.read("signproxy_ready", "1 if `/readyz` would answer 200.", fold=Fold.ONCE)
        self.draining = registry.read("signproxy_draining", "1 from SIGTERM on.", fold=Fold.ONCE)
        self.workers = registry.read("signproxy_workers", "Workers that answer.", fold=Fold.ONCE)
        self.workers_ready = registry.read(
            "signproxy_workers_ready", "Workers without a failing check.", fold=Fold.ONCE
        )
        self.workers_wanted = registry.read("signproxy_workers_wanted", "Workers that there should be.", fold=Fold.ONCE)
        self.worker_restarts = registry.read(
            "signproxy_worker_restarts_total", "Workers that ended unasked and were replaced."
        )
        for result in Result:
            # From the start: an increase from nothing to one is none to Prometheus.
            self.config_reload.labels(result.value)

    def _declare_process(self, registry: Registry, version: str) -> None:
        self.event_loop_lag = registry.read(
            "signproxy_event_loop_lag_seconds",
            "How late an event loop was at worst in the last half minute.",
            fold=Fold.MAX,
        )
        self.start_time = registry.read("signproxy_start_time_seconds", "When the server was started.", fold=Fold.ONCE)
        self._memory = registry.read(
            "signproxy_process_resident_memory_bytes",
            "Memory in use by all processes; pages that they share count for each of them.",
        )
        self._cpu = registry.read("signproxy_process_cpu_seconds_total", "CPU time of all processes.")
        self._open_files = registry.read(
            "signproxy_process_open_fds", "Open files and sockets of the process that has the most.", fold=Fold.MAX
        )
        self._most_files = registry.read(
            "signproxy_process_max_fds", "Files and sockets that a process may have open.", fold=Fold.MIN
        )
        build = registry.gauge(
            "signproxy_build_info{version,python}", "1, with the versions of signproxy and Python.", fold=Fold.MAX
        )
        build.labels(version, platform.python_version()).set(1)
