"""Tell how a server is doing: by each worker of itself, and of all of them together."""

from __future__ import annotations

import msgspec

from signproxy.credentials.slot import CredentialState
from signproxy.gate.refusals import Refusal
from signproxy.telemetry.families import Counted


class KeysReport(msgspec.Struct, frozen=True):
    """The verification keys of an issuer."""

    issuer: str
    keys: int
    age: float
    """Seconds since they were fetched; 0 for keys of files, infinite where they never were."""
    failures: int
    last_error: str


class AuditReport(msgspec.Struct, frozen=True):
    """The audit trail."""

    boot_id: str
    queued: int
    written: int
    dropped: int
    refused: int
    errors: int
    problem: str
    sealed: int = 0
    """Segments that this process sealed."""
    waiting: int = 0
    """Sealed segments that are to be shipped, of all processes that share the directory."""
    shipping_problem: str = ""
    """Why they are not; empty where they are."""


class InventoryReport(msgspec.Struct):
    """The inventory of an upstream's tables, as far as it was taken."""

    taken_at: float = 0.0
    """Unix time of the beginning of the last complete one; 0 before the first."""
    tables: int = 0
    """That it holds, or that were listed so far."""
    unreadable: tuple[str, ...] = ()
    """Tables that the upstream lists and cannot load, some of them."""
    problem: str = ""
    """Of the last attempt; empty once one succeeded after it."""


class UpstreamReport(msgspec.Struct, frozen=True):
    """The upstream of a catalog, and what was learned from it."""

    catalog: str
    uri: str
    last_success_at: float
    """Unix time; 0 before the first."""
    last_failure_at: float
    problem: str
    """Of the last failure; empty once there was a success after it."""
    in_flight: int
    tables: int
    """That are known."""
    inventory: InventoryReport | None = None
    """None where the settings want none."""


class CertificateReport(msgspec.Struct, frozen=True):
    """The certificate of a listener."""

    listener: str
    expires_at: float
    loaded_at: float


def ends_soon(left: float, life: float) -> bool:
    """Whether a certificate with so many seconds left is worth a word.

    It is in its last two weeks, or in the last fifth of a life that is short by design.
    """
    return left < min(14 * 86_400.0, life / 5)


class WorkerReport(msgspec.Struct, frozen=True):
    """One process that serves."""

    worker: int
    pid: int
    started_at: float
    problems: dict[str, str]
    """What keeps it from being ready, by check; empty text where all is well."""
    policy_rev: str
    policy_epoch: int
    config_digest: str
    keys: tuple[KeysReport, ...]
    credentials: tuple[CredentialState, ...]
    audit: AuditReport
    certificates: tuple[CertificateReport, ...]
    refusals: tuple[Refusal, ...]
    """The newest first."""
    connections: int
    in_flight: int
    lag_seconds: float
    """How late the event loop was, at worst, in the last seconds."""
    metrics: tuple[Counted, ...]
    upstreams: tuple[UpstreamReport, ...] = ()
    alarms: int = 0
    """Locations of learned tables that were not believed, since the start."""
    sightings_problem: str = ""
    """Why what is learned of places does not outlive the process, where it should."""


class ReloadReport(msgspec.Struct, frozen=True):
    """The last time that changed files were read."""

    at: float
    accepted: bool
    seconds: float
    changes: tuple[str, ...] = ()
    """What changed, in words."""
    findings: tuple[str, ...] = ()
    """Why nothing of it was taken over."""
    needs_restart: tuple[str, ...] = ()
    """Settings that changed and are read at the start only."""


class FleetReport(msgspec.Struct, frozen=True):
    """The server as a whole."""

    version: str
    draining: bool
    started_at: float
    wanted_workers: int
    workers: tuple[WorkerReport, ...]
    """Those that answered."""
    restarts: int
    """Workers that ended unasked and were replaced."""
    last_reload: ReloadReport | None
    certificates: tuple[CertificateReport, ...]
    """Those of listeners that no worker has."""
    last_accepted_at: float
    """Unix time from which the configuration in force was in force on every worker."""
