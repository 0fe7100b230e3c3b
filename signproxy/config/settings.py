"""Declare every setting: its type, bounds, default and meaning; the reference page is made from this module."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Annotated

import msgspec
from msgspec import Meta

from signproxy.config.addresses import advertised_url
from signproxy.config.container import ContainerSettings
from signproxy.config.fields import (
    AllowRemote,
    FileName,
    FileNames,
    Host,
    KeepaliveSeconds,
    Port,
    Socket,
    SocketMode,
    Tcp,
    Text,
    TlsSettings,
)
from signproxy.config.identity import IdentitySettings
from signproxy.config.s3 import S3Settings
from signproxy.config.storage import CredentialsSettings, StorageBinding
from signproxy.config.upstream import SightingsSettings, UpstreamSettings
from signproxy.errors import nearest

MIN_SIGNATURE_SECONDS = 60
"""A signature outlives every client's cache of it (30 s) and the way to the store."""

MAX_SIGNATURE_SECONDS = 900
"""S3's own limit for the age of a signed request."""


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
    reuse_port: bool = False
    """Share the port with other processes (SO_REUSEPORT)."""
    keepalive_seconds: KeepaliveSeconds = 75


class AdminSettings(msgspec.Struct, frozen=True):
    """Where health and metrics are served. Kubelet probes reach the pod's address, not loopback."""

    enabled: bool = True
    """Serve `/livez`, `/readyz`, `/startupz`, `/metrics` and `/status`."""
    host: Host = "127.0.0.1"
    port: Port = 9181
    allow_remote: AllowRemote = False
    tls: TlsSettings = TlsSettings()
    socket: Socket = ""
    socket_mode: SocketMode = "0600"
    role: str = ""
    """The principal role whose bearer token opens `/status` from beyond loopback; none does where it is empty. Loopback
    and the Unix socket need no token."""


class ReloadSettings(msgspec.Struct, frozen=True):
    """How changed files are noticed: the settings file, policies, keys, secrets and certificates."""

    poll_seconds: Annotated[float, Meta(ge=0, le=3600)] = 2.0
    """How often files are looked at; 0 leaves reloads to SIGHUP alone."""


class LimitSettings(msgspec.Struct, frozen=True):
    """What one caller may use up, in each worker; what is beyond is answered 429 or 503 with `Retry-After`."""

    requests_per_second: Annotated[int, Meta(ge=1, le=10_000_000)] = 2_000
    """Requests of one principal per second, on average."""
    burst: Annotated[int, Meta(ge=1, le=10_000_000)] = 4_000
    """Requests of one principal that may come at once after a pause."""
    in_flight: Annotated[int, Meta(ge=1, le=100_000)] = 64
    """Requests of one principal that may be waited for at a time."""
    total_in_flight: Annotated[int, Meta(ge=1, le=1_000_000)] = 1_024
    """Requests of all callers that may be waited for at a time."""
    unauthenticated_per_second: Annotated[int, Meta(ge=1, le=1_000_000)] = 20
    """Refusals of unknown callers that are answered at once; others wait."""
    connections: Annotated[int, Meta(ge=16, le=1_000_000)] = 4_096
    """Open connections; one more is closed at once."""


class PolicySettings(msgspec.Struct, frozen=True):
    """Where the policy is."""

    path: FileName = ""
    """A policy file, or a directory of them. Required."""


class SigningSettings(msgspec.Struct, frozen=True):
    """How signatures are made."""

    signature_ttl_seconds: Annotated[int, Meta(ge=MIN_SIGNATURE_SECONDS, le=MAX_SIGNATURE_SECONDS)] = (
        MAX_SIGNATURE_SECONDS
    )
    """How long a signature is good for; less than 900 is made by dating the request back."""
    client_cache: bool = False
    """Let Iceberg Java reuse read signatures for 30 s. Its cache is shared by all users of a JVM, and repeated reads
    leave no audit event."""


class ContextSettings(msgspec.Struct, frozen=True):
    """What signproxy gives its clients to carry: sealed, so that no other party can read it or change it."""

    secret_files: FileNames = ()
    """Secrets of at least 32 bytes, in files: the first one seals, each of them opens. Sidecars that serve the same
    clients share them. Without one, a random secret lasts as long as the process."""
    table_tokens: bool = False
    """Hand out tokens that are good for one table, in the table's configuration. Iceberg Java uses them in place of the
    caller's own until they end, and cannot renew them; PyIceberg ignores them."""
    table_token_seconds: Annotated[int, Meta(ge=60, le=7 * 86_400)] = 12 * 3_600
    """How long a table token lives, if the caller's own lives as long."""
    staged_seconds: Annotated[int, Meta(ge=60, le=86_400)] = 86_400
    """How long files are signed for a table that a client has begun to create and not committed."""


class AuditFsync(Enum):
    """When what was written is made to survive a crash of the machine."""

    REQUEST = "request"
    INTERVAL = "interval"


class ShipSettings(msgspec.Struct, frozen=True):
    """Where sealed segments are uploaded to, with signproxy's own credentials; nowhere, where no bucket is named."""

    storage: str = ""
    """A storage of the policy's catalogs, which `storages` binds to credentials."""
    bucket: str = ""
    """The bucket, to which only signproxy should write. Sealed segments go nowhere if it is empty."""
    prefix: str = ""
    """What stands before `audit/v1/…` in the keys; none, or ends with `/`."""
    ca_file: FileName = ""
    """Certificate authorities (PEM) to trust instead of the system's."""
    at_end_seconds: Annotated[float, Meta(ge=0, le=300)] = 5.0
    """For the last segments after SIGTERM; what is left is shipped by the next start."""

    @property
    def wanted(self) -> bool:
        """Whether anything is shipped."""
        return bool(self.bucket)

    def faults(self, storages: Iterator[str] | tuple[str, ...]) -> Iterator[tuple[str, str]]:
        """Yield key and problem of everything that contradicts itself."""
        known = tuple(storages)
        if not self.wanted:
            for name, value in (("storage", self.storage), ("prefix", self.prefix), ("ca_file", self.ca_file)):
                if value:
                    yield name, "has no effect without a bucket"
            return
        if not self.storage:
            yield "storage", "this key is missing; `bucket` needs it"
        elif self.storage not in known:
            yield "storage", f"storages binds no {self.storage!r}{nearest(self.storage, known)}"
        if self.prefix and not _is_prefix(self.prefix):
            yield "prefix", f"{self.prefix!r} has to end with a slash, without empty or dot segments, in plain letters"


class AuditSettings(msgspec.Struct, frozen=True):
    """Where the audit trail goes, and what happens when it cannot."""

    sink: AuditSinkKind = AuditSinkKind.STDOUT
    """Where events are written. Only `segments` can be verified: docs/audit.md."""
    path: FileName = ""
    """The file of `sink: file`."""
    directory: FileName = ""
    """The directory of `sink: segments`, below which `audit/v1/…` is."""
    instance: Annotated[str, Meta(max_length=63)] = ""
    """Who wrote a segment, in its name. Default: the host's or pod's name."""
    segment_mib: Annotated[int, Meta(ge=1, le=1024)] = 64
    """Lines of a segment, unpacked, with which it is sealed."""
    segment_seconds: Annotated[int, Meta(ge=1, le=86_400)] = 60
    """The age with which a segment is sealed."""
    spool_mib: Annotated[int, Meta(ge=0, le=1024 * 1024)] = 0
    """What all segments of the directory may take together. With more, none is begun and `on_error` decides; nothing is
    ever deleted to make room. 0: what the disk takes."""
    fsync: AuditFsync = AuditFsync.INTERVAL
    """`request` waits for the disk with each batch, so that a crash of the machine loses what came in the last 20 ms or
    so; `interval` once a second."""
    ship: ShipSettings = ShipSettings()
    on_error: OnAuditError = OnAuditError.DENY
    """`deny` serves nothing that a healthy writer did not accept; `allow` counts what is lost."""
    queue: Annotated[int, Meta(ge=100, le=1_000_000)] = 10_000
    """Events that may wait for the writer; each transfer through the S3 listener keeps one place. While half of what
    transfers do not keep is full, requests are left unread, for 5 s at most. At least twice `s3.limits.total_in_flight`
    where the S3 listener is on."""
    anonymous_per_minute: Annotated[int, Meta(ge=1, le=100_000)] = 60
    """Events of unauthenticated requests; the rest is counted in aggregates."""


class DrainSettings(msgspec.Struct, frozen=True):
    """What happens between SIGTERM and the end."""

    delay_seconds: Annotated[int, Meta(ge=0, le=600)] = 0
    """Keep answering, with `Connection: close`; 5 where clients outlive the server."""
    timeout_seconds: Annotated[int, Meta(ge=1, le=600)] = 25
    """Time for requests in flight; keep it below the pod's grace period."""


class LogSettings(msgspec.Struct, frozen=True):
    """What is logged; always as JSON lines on standard error."""

    level: LogLevel = LogLevel.INFO
    """The least level that is logged."""
    allowed_sample: Annotated[int, Meta(ge=0, le=1_000_000_000)] = 0
    """Log one of so many served requests: 1 logs each, 0 none. Refusals are always logged, in a bounded number. A line
    costs more than a signature."""


class Settings(msgspec.Struct, frozen=True):
    """All settings. What the policy may not say stands here, for only the operator edits it."""

    listen: ListenSettings = ListenSettings()
    admin: AdminSettings = AdminSettings()
    s3: S3Settings = S3Settings()
    public_url: str = ""
    """The URL under which clients reach signproxy, advertised to them. Default: `http://` (`https://` with TLS) with
    `listen.host` and `listen.port`."""
    loop: Loop = Loop.AUTO
    """The event loop; `auto` takes uvloop where it is installed."""
    workers: Annotated[int, Meta(ge=1, le=256)] = 1
    """Processes that share the port; one per core at most is of use."""
    reload: ReloadSettings = ReloadSettings()
    limits: LimitSettings = LimitSettings()
    policy: PolicySettings = PolicySettings()
    identity: IdentitySettings = IdentitySettings()
    credentials: CredentialsSettings = CredentialsSettings()
    storages: dict[Text, StorageBinding] = {}
    """Binds each storage that the policy declares, by its name, to credentials and hosts."""
    upstreams: dict[Text, UpstreamSettings] = {}
    """The Iceberg REST catalog behind each catalog of the policy that has `tables: upstream`."""
    sightings: SightingsSettings = SightingsSettings()
    signing: SigningSettings = SigningSettings()
    container_credentials: ContainerSettings = ContainerSettings()
    context: ContextSettings = ContextSettings()
    audit: AuditSettings = AuditSettings()
    drain: DrainSettings = DrainSettings()
    log: LogSettings = LogSettings()

    @property
    def advertised_url(self) -> str:
        """The URL that clients are told, without a slash at its end."""
        listen = self.listen
        return advertised_url(self.public_url, listen.host, listen.port, tls=listen.tls.enabled)

    @property
    def accepted_unsafe(self) -> frozenset[str]:
        """The storages whose unchecked headers the operator accepts by name."""
        return frozenset(name for name, binding in self.storages.items() if binding.accept_unchecked_headers)

    @property
    def accepted_unhashed(self) -> frozenset[str]:
        """The storages whose unchecked payloads the operator accepts by name."""
        return frozenset(name for name, binding in self.storages.items() if binding.accept_unchecked_payload)


def _is_prefix(prefix: str) -> bool:
    segments = prefix.removesuffix("/").split("/")
    plain = prefix.isascii() and prefix.isprintable()
    return prefix.endswith("/") and plain and not {"", ".", ".."} & set(segments)
