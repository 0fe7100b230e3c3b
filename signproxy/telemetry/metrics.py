"""Declare every metric of the server.

No metric has a principal or a table as a label: those numbers belong to the audit trail.
"""

from __future__ import annotations

import platform

from signproxy.telemetry.exposition import render
from signproxy.telemetry.families import Counted, Counter, Family, Fold, Registry, Type, add_up

# A sign takes some 40 µs, a body that arrives slowly up to 10 s.
STAGE_BOUNDS = (
    25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 1.0, 5.0,
)  # fmt: skip
# A policy of ten tables takes milliseconds, one of a million a minute.
RELOAD_BOUNDS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0)

_MICROSECOND = 1e-6


_ALLOWED = "allowed"
"""The reason code of what is served; this leaf imports no other."""


class Metrics:
    """The metrics of one process. Each server makes its own; nothing is global."""

    def __init__(self, version: str) -> None:
        self._registry = registry = Registry()
        self.requests = registry.counter(
            "signproxy_requests_total",
            "Requests by S3 operation (empty if it was not reached), decision and reason code.",
            ("op", "decision", "reason"),
        )
        self.stage_seconds = registry.histogram(
            "signproxy_request_duration_seconds",
            "Time that requests spent in a stage: authz, sign, total.",
            STAGE_BOUNDS,
            ("stage",),
        )
        self.jwks_age_seconds = registry.read(
            "signproxy_jwks_age_seconds",
            Type.GAUGE,
            "Seconds since an issuer's keys were last fetched successfully.",
            ("issuer",),
            fold=Fold.MAX,
        )
        self.jwks_refresh = registry.counter(
            "signproxy_jwks_refresh_total", "Fetches of issuers' keys by result: success, failure.", ("result",)
        )
        self.policy_revision = registry.gauge(
            "signproxy_policy_revision_info", "1, with the digest of the policy in force.", ("rev",), fold=Fold.MAX
        )
        self.policy_epoch = registry.gauge(
            "signproxy_policy_epoch",
            "Accepted loads of the policy so far; of several workers the one that is behind.",
            fold=Fold.MIN,
        )
        self.policy_reload = registry.counter(
            "signproxy_policy_reload_total", "Loads of the policy by result: success, failure.", ("result",)
        )
        self.policy_reload_seconds = registry.histogram(
            "signproxy_policy_reload_seconds", "Time that loading the policy took.", RELOAD_BOUNDS
        )
        self.audit_queue_depth = registry.read(
            "signproxy_audit_queue_depth", Type.GAUGE, "Audit events that wait to be written."
        )
        self.audit_written = registry.read(
            "signproxy_audit_written_total", Type.COUNTER, "Audit events that the sink took."
        )
        self.audit_dropped = registry.read(
            "signproxy_audit_dropped_total", Type.COUNTER, "Audit events lost with `on_error: allow`."
        )
        self.audit_refused = registry.read(
            "signproxy_audit_refused_total",
            Type.COUNTER,
            "Audit events not accepted with `on_error: deny`; their requests were not served.",
        )
        self.audit_errors = registry.read(
            "signproxy_audit_errors_total", Type.COUNTER, "Audit writes and flushes that failed."
        )
        self.credentials_expiry = registry.read(
            "signproxy_credentials_expiry_timestamp_seconds",
            Type.GAUGE,
            "When the credentials of a storage expire: 0 while there are none, +Inf if they do not.",
            ("storage",),
            fold=Fold.MIN,
        )
        build = registry.gauge(
            "signproxy_build_info",
            "1, with the versions of signproxy and Python.",
            ("version", "python"),
            fold=Fold.MAX,
        )
        build.labels(version, platform.python_version()).set(1)
        self._signed: dict[str, Counter] = {}
        self._authz = self.stage_seconds.labels("authz")
        self._sign = self.stage_seconds.labels("sign")
        self._total = self.stage_seconds.labels("total")

    def signed(self, op: str, authz_us: int, sign_us: int, total_us: int) -> None:
        """Count and measure a signed request: one call, because it is made for each of them."""
        counter = self._signed.get(op)
        if counter is None:
            counter = self._signed[op] = self.requests.labels(op, "allow", _ALLOWED)
        counter.value += 1
        self._authz.observe(authz_us * _MICROSECOND)
        self._sign.observe(sign_us * _MICROSECOND)
        self._total.observe(total_us * _MICROSECOND)

    def answered(self, op: str, decision: str, reason: str, total_us: int) -> None:
        """Count and measure any other request."""
        self.requests.labels(op, decision, reason).inc()
        self._total.observe(total_us * _MICROSECOND)

    def families(self) -> list[Family]:
        """Return what every metric is, for the documentation."""
        return self._registry.families()

    def snapshot(self) -> tuple[Counted, ...]:
        """Return the values of this process, to be added to those of others."""
        return self._registry.snapshot()

    def render(self, *others: tuple[Counted, ...]) -> bytes:
        """Return the exposition of this process together with the snapshots of others."""
        families = self.families()
        return render(families, add_up(families, (self.snapshot(), *others)))


def all_metrics() -> list[Family]:
    """Return every metric, for the table in the documentation."""
    return Metrics("").families()
