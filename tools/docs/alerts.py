"""Suggest alerts, each with what to do when it rings."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Severity(Enum):
    """Whether an operator has to get up."""

    CRITICAL = "critical"
    WARNING = "warning"


class Alert(NamedTuple):
    """A rule for Prometheus; `held` is how long it has to be true."""

    name: str
    expression: str
    held: str
    severity: Severity
    remedy: str


ALERTS = (
    Alert(
        "SignproxyNotReady",
        "signproxy_ready == 0 and signproxy_draining == 0",
        "2m",
        Severity.CRITICAL,
        "`/readyz?verbose` names the failing check, `/status` what to do.",
    ),
    Alert(
        "SignproxyFailing",
        'sum(rate(signproxy_requests_total{decision="error",reason!="client_gone"}[5m]))'
        " / sum(rate(signproxy_requests_total[5m])) > 0.01",
        "10m",
        Severity.CRITICAL,
        "Requests fail for reasons that are not the caller's: `sum by (reason)` of the same tells which.",
    ),
    Alert(
        "SignproxyAuditRefuses",
        "increase(signproxy_audit_refused_total[5m]) > 0",
        "0m",
        Severity.CRITICAL,
        "Nothing is served that cannot be recorded: the audit volume is full, read-only, or its pipe is not read.",
    ),
    Alert(
        "SignproxyAuditLost",
        "increase(signproxy_audit_dropped_total[5m]) > 0",
        "0m",
        Severity.CRITICAL,
        "Requests are served without proof, as `audit.on_error: allow` says. Free the audit volume.",
    ),
    Alert(
        "SignproxyPolicySplit",
        "count by (instance) (signproxy_policy_revision_info) > 1",
        "1m",
        Severity.CRITICAL,
        "Workers of one server serve different policies, so a revoke does not bite everywhere. Restart it.",
    ),
    Alert(
        "SignproxyCredentialsExpiring",
        "signproxy_credentials_expiry_timestamp_seconds - time() < 300",
        "1m",
        Severity.CRITICAL,
        "A storage has no credentials, or soon will have none; its provider's last error is in `/status`.",
    ),
    Alert(
        "SignproxyKeysStale",
        "signproxy_jwks_age_seconds > 7200",
        "5m",
        Severity.WARNING,
        "An issuer's keys could not be fetched twice in a row. After 24 h they are dropped and its tokens are refused.",
    ),
    Alert(
        "SignproxyReloadRefused",
        'increase(signproxy_config_reload_total{result="failure"}[15m]) > 0',
        "0m",
        Severity.WARNING,
        "Changed files were not taken over; what was in force still is. `/status` and the log have the findings.",
    ),
    Alert(
        "SignproxyPodsDiffer",
        "count(count by (rev) (signproxy_policy_revision_info)) > 1",
        "15m",
        Severity.WARNING,
        "Pods serve different policies for longer than a ConfigMap takes to arrive: one has refused it, or is stuck.",
    ),
    Alert(
        "SignproxyUpstreamFails",
        'sum by (catalog) (rate(signproxy_upstream_requests_total{result!~"ok|refused"}[5m]))'
        " / sum by (catalog) (rate(signproxy_upstream_requests_total[5m])) > 0.1",
        "5m",
        Severity.WARNING,
        "The upstream of a catalog fails. Tables that are known go on being signed; `/status` has its last problem.",
    ),
    Alert(
        "SignproxyLocationNotBelieved",
        "increase(signproxy_learned_alarms_total[15m]) > 0",
        "0m",
        Severity.WARNING,
        "An upstream lets a table claim a place that is another's, or outside the roots. The log names both.",
    ),
    Alert(
        "SignproxyWorkersMissing",
        "signproxy_workers_ready < signproxy_workers_wanted and signproxy_draining == 0",
        "5m",
        Severity.WARNING,
        "Fewer workers serve than should. `/status` says what the others lack.",
    ),
    Alert(
        "SignproxyWorkersDie",
        "increase(signproxy_worker_restarts_total[1h]) > 2",
        "0m",
        Severity.WARNING,
        "Workers end unasked. Their last log lines say why; the memory limit is the usual reason.",
    ),
    Alert(
        "SignproxyCredentialsNotRenewed",
        'increase(signproxy_credentials_refresh_total{result="failed"}[15m]) > 3',
        "0m",
        Severity.WARNING,
        "A provider fails again and again; those in use are good until they expire.",
    ),
    Alert(
        "SignproxyCertificateExpiring",
        "signproxy_cert_expiry_timestamp_seconds - time() < 7 * 86400",
        "1h",
        Severity.WARNING,
        "Replace the certificate's files; they are taken up without a restart.",
    ),
    Alert(
        "SignproxySlow",
        "histogram_quantile(0.99, sum by (le) (rate("
        'signproxy_request_duration_seconds_bucket{stage="total"}[5m]))) > 0.1',
        "10m",
        Severity.WARNING,
        "A signature takes some 40 µs. Compare the stages, the lag of the event loop, and the CPU limit.",
    ),
    Alert(
        "SignproxyLoopLate",
        "signproxy_event_loop_lag_seconds > 0.5",
        "5m",
        Severity.WARNING,
        "Every caller waits that long: CPU throttling, or a machine that swaps.",
    ),
    Alert(
        "SignproxyDenialsRise",
        'sum by (reason) (rate(signproxy_requests_total{decision="deny"}[15m]))'
        ' > 5 * sum by (reason) (rate(signproxy_requests_total{decision="deny"}[1d] offset 1h)) + 1',
        "15m",
        Severity.WARNING,
        "Something is refused that was not: a changed policy, a job with a wrong identity, or a stranger.",
    ),
    Alert(
        "SignproxyConnectionsRejected",
        'increase(signproxy_connections_rejected_total{reason="surplus"}[5m]) > 0',
        "0m",
        Severity.WARNING,
        "More clients than `limits.connections`, or one that does not reuse its connections.",
    ),
    Alert(
        "SignproxyFilesRunOut",
        "signproxy_process_open_fds / signproxy_process_max_fds > 0.8",
        "5m",
        Severity.WARNING,
        "Raise the limit of open files, or lower `limits.connections`.",
    ),
    Alert(
        "SignproxyAuditQueue",
        "signproxy_audit_queue_depth > 5000",
        "2m",
        Severity.WARNING,
        "Audit events come faster than they are written; at `audit.queue` requests are refused.",
    ),
)
"""Thresholds are beginnings: a server that signs for one job and one that signs for a thousand differ."""
