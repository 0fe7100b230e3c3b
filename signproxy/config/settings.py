"""Declare every setting: its type, bounds, default and meaning; the reference page is made from this module."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import msgspec
from msgspec import Meta

from signproxy.config.audit import AuditFsync, ShipSettings
from signproxy.config.context import ContextSettings
from signproxy.config.identity import IdentitySettings
from signproxy.config.listening import (
    AllowRemote,
    Host,
    KeepaliveSeconds,
    Port,
    Socket,
    SocketMode,
    Tcp,
    TlsSettings,
)
from signproxy.config.s3 import S3Settings
from signproxy.config.sightings import SightingsSettings
from signproxy.config.storage import CredentialsSettings, StorageBinding
from signproxy.config.upstream import UpstreamSettings

MIN_SIGNATURE_SECONDS = 60
"""A signature outlives every client's cache of it (30 s) and the way to the store."""

MAX_SIGNATURE_SECONDS = 900
"""S3's own limit for the age of a signed request."""

Name = Annotated[str, Meta(min_length=1)]


class Loop(Enum):
    """The event loop."""

    AUTO = "auto"
    ASYNCIO = "asyncio"
    UVLOOP = "uvloop"


class AuditSinkKind(Enum):
    """Where audit events go."""

    STDOUT = "stdout"
    FILE = "file"
    SEGMENTS = "segments"


class OnAuditError(Enum):
    """What happens to requests that the audit trail cannot take."""

    DENY = "deny"
    ALLOW = "allow"


class LogLevel(Enum):
    """The least level that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class ListenSettings(msgspec.Struct, frozen=True):
    """Where clients reach signproxy."""

    tcp: Tcp = True
    host: Host = "127.0.0.1"
    port: Port = 8181
    allow_remote: AllowRemote = False
    tls: TlsSettings = TlsSettings()
    socket: Socket = ""
    socket_mode: SocketMode = "0660"
    reuse_port: Annotated[bool, Meta(description="Share the port with other processes (SO_REUSEPORT).")] = False
    keepalive_seconds: KeepaliveSeconds = 75


class AdminSettings(msgspec.Struct, frozen=True):
    """Where health and metrics are served. Kubelet probes reach the pod's address, not loopback."""

    enabled: Annotated[bool, Meta(description="Serve `/livez`, `/readyz`, `/startupz`, `/metrics` and `/status`.")] = (
        True
    )
    host: Host = "127.0.0.1"
    port: Port = 9181
    allow_remote: AllowRemote = False
    tls: TlsSettings = TlsSettings()
    socket: Socket = ""
    socket_mode: SocketMode = "0600"
    role: Annotated[
        str,
        Meta(
            description="The principal role whose bearer token opens `/status` from beyond loopback; none does where "
            "it is empty. Loopback and the Unix socket need no token."
        ),
    ] = ""


class ReloadSettings(msgspec.Struct, frozen=True):
    """How changed files are noticed: the settings file, policies, keys, secrets and certificates."""

    poll_seconds: Annotated[
        float,
        Meta(ge=0, le=3600, description="How often files are looked at; 0 leaves reloads to SIGHUP alone."),
    ] = 2.0


class LimitSettings(msgspec.Struct, frozen=True):
    """What one caller may use up, in each worker; what is beyond is answered 429 or 503 with `Retry-After`."""

    requests_per_second: Annotated[
        int, Meta(ge=1, le=10_000_000, description="Requests of one principal per second, on average.")
    ] = 2_000
    burst: Annotated[
        int, Meta(ge=1, le=10_000_000, description="Requests of one principal that may come at once after a pause.")
    ] = 4_000
    in_flight: Annotated[
        int, Meta(ge=1, le=100_000, description="Requests of one principal that may be waited for at a time.")
    ] = 64
    total_in_flight: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Requests of all callers that may be waited for at a time.")
    ] = 1_024
    unauthenticated_per_second: Annotated[
        int,
        Meta(ge=1, le=1_000_000, description="Refusals of unknown callers that are answered at once; others wait."),
    ] = 20
    connections: Annotated[
        int, Meta(ge=16, le=1_000_000, description="Open connections; one more is closed at once.")
    ] = 4_096


class PolicySettings(msgspec.Struct, frozen=True):
    """Where the policy is."""

    path: Annotated[str, Meta(description="A policy file, or a directory of them. Required.", extra={"path": True})] = (
        ""
    )


class SigningSettings(msgspec.Struct, frozen=True):
    """How signatures are made."""

    signature_ttl_seconds: Annotated[
        int,
        Meta(
            ge=MIN_SIGNATURE_SECONDS,
            le=MAX_SIGNATURE_SECONDS,
            description="How long a signature is good for; less than 900 is made by dating the request back.",
        ),
    ] = MAX_SIGNATURE_SECONDS
    client_cache: Annotated[
        bool,
        Meta(
            description="Let Iceberg Java reuse read signatures for 30 s. Its cache is shared by all users of a JVM, "
            "and repeated reads leave no audit event."
        ),
    ] = False


class AuditSettings(msgspec.Struct, frozen=True):
    """Where the audit trail goes, and what happens when it cannot."""

    sink: Annotated[
        AuditSinkKind,
        Meta(description="Where events are written. Only `segments` can be verified: docs/audit.md."),
    ] = AuditSinkKind.STDOUT
    path: Annotated[str, Meta(description="The file of `sink: file`.", extra={"path": True})] = ""
    directory: Annotated[
        str, Meta(description="The directory of `sink: segments`, below which `audit/v1/…` is.", extra={"path": True})
    ] = ""
    instance: Annotated[
        str, Meta(max_length=63, description="Who wrote a segment, in its name. Default: the host's or pod's name.")
    ] = ""
    segment_mib: Annotated[
        int, Meta(ge=1, le=1024, description="Lines of a segment, unpacked, with which it is sealed.")
    ] = 64
    segment_seconds: Annotated[int, Meta(ge=1, le=86_400, description="The age with which a segment is sealed.")] = 60
    spool_mib: Annotated[
        int,
        Meta(
            ge=0,
            le=1024 * 1024,
            description="What all segments of the directory may take together. With more, none is begun and `on_error` "
            "decides; nothing is ever deleted to make room. 0: what the disk takes.",
        ),
    ] = 0
    fsync: Annotated[
        AuditFsync,
        Meta(
            description="`request` waits for the disk with each batch, so that a crash of the machine loses what came "
            "in the last 50 ms or so; `interval` once a second."
        ),
    ] = AuditFsync.INTERVAL
    ship: ShipSettings = ShipSettings()
    on_error: Annotated[
        OnAuditError,
        Meta(description="`deny` serves nothing that a healthy writer did not accept; `allow` counts what is lost."),
    ] = OnAuditError.DENY
    queue: Annotated[
        int,
        Meta(
            ge=100,
            le=1_000_000,
            description="Events that may wait for the writer; each transfer through the S3 listener keeps one place. "
            "While half of what transfers do not keep is full, requests are left unread, for 5 s at most. At least "
            "twice `s3.limits.total_in_flight` where the S3 listener is on.",
        ),
    ] = 10_000
    anonymous_per_minute: Annotated[
        int,
        Meta(ge=1, le=100_000, description="Events of unauthenticated requests; the rest is counted in aggregates."),
    ] = 60


class DrainSettings(msgspec.Struct, frozen=True):
    """What happens between SIGTERM and the end."""

    delay_seconds: Annotated[
        int,
        Meta(ge=0, le=600, description="Keep answering, with `Connection: close`; 5 where clients outlive the server."),
    ] = 0
    timeout_seconds: Annotated[
        int, Meta(ge=1, le=600, description="Time for requests in flight; keep it below the pod's grace period.")
    ] = 25


class LogSettings(msgspec.Struct, frozen=True):
    """What is logged; always as JSON lines on standard error."""

    level: Annotated[LogLevel, Meta(description="The least level that is logged.")] = LogLevel.INFO
    allowed_sample: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000_000_000,
            description="Log one of so many served requests: 1 logs each, 0 none. Refusals are always logged, in a "
            "bounded number. A line costs more than a signature.",
        ),
    ] = 0


class Settings(msgspec.Struct, frozen=True):
    """All settings. What the policy may not say stands here, for only the operator edits it."""

    listen: ListenSettings = ListenSettings()
    admin: AdminSettings = AdminSettings()
    s3: S3Settings = S3Settings()
    public_url: Annotated[
        str,
        Meta(
            description="The URL under which clients reach signproxy, advertised to them. "
            "Default: `http://` (`https://` with TLS) with `listen.host` and `listen.port`."
        ),
    ] = ""
    loop: Annotated[Loop, Meta(description="The event loop; `auto` takes uvloop where it is installed.")] = Loop.AUTO
    workers: Annotated[
        int, Meta(ge=1, le=256, description="Processes that share the port; one per core at most is of use.")
    ] = 1
    reload: ReloadSettings = ReloadSettings()
    limits: LimitSettings = LimitSettings()
    policy: PolicySettings = PolicySettings()
    identity: IdentitySettings = IdentitySettings()
    credentials: CredentialsSettings = CredentialsSettings()
    storages: Annotated[
        dict[Name, StorageBinding],
        Meta(description="Binds each storage that the policy declares, by its name, to credentials and hosts."),
    ] = {}
    upstreams: Annotated[
        dict[Name, UpstreamSettings],
        Meta(description="The Iceberg REST catalog behind each catalog of the policy that has `tables: upstream`."),
    ] = {}
    sightings: SightingsSettings = SightingsSettings()
    signing: SigningSettings = SigningSettings()
    context: ContextSettings = ContextSettings()
    audit: AuditSettings = AuditSettings()
    drain: DrainSettings = DrainSettings()
    log: LogSettings = LogSettings()

    @property
    def advertised_url(self) -> str:
        """The URL that clients are told, without a slash at its end."""
        if self.public_url:
            return self.public_url.rstrip("/")
        host = f"[{self.listen.host}]" if ":" in self.listen.host else self.listen.host
        return f"{'https' if self.listen.tls.enabled else 'http'}://{host}:{self.listen.port}"

    @property
    def accepted_unsafe(self) -> frozenset[str]:
        """The storages whose unchecked headers the operator accepts by name."""
        return frozenset(name for name, binding in self.storages.items() if binding.accept_unchecked_headers)

    @property
    def accepted_unhashed(self) -> frozenset[str]:
        """The storages whose unchecked payloads the operator accepts by name."""
        return frozenset(name for name, binding in self.storages.items() if binding.accept_unchecked_payload)
