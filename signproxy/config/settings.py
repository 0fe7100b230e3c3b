"""Declare every setting: its type, bounds, default and meaning; the reference page is made from this module."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import msgspec
from msgspec import Meta

from signproxy.config.identity import IdentitySettings
from signproxy.config.storage import CredentialsSettings, StorageBinding

MIN_SIGNATURE_SECONDS = 60
"""A signature outlives every client's cache of it (30 s) and the way to the store."""

MAX_SIGNATURE_SECONDS = 900
"""S3's own limit for the age of a signed request."""

Name = Annotated[str, Meta(min_length=1)]
Host = Annotated[str, Meta(min_length=1, description="Address to listen on; `localhost`, IPv4 or IPv6.")]
Port = Annotated[int, Meta(ge=0, le=65535, description="Port to listen on; 0 takes a free one.")]
AllowRemote = Annotated[
    bool, Meta(description="Listen beyond loopback. Traffic is not encrypted: something in front must do that.")
]


class Loop(Enum):
    """The event loop."""

    AUTO = "auto"
    ASYNCIO = "asyncio"
    UVLOOP = "uvloop"


class AuditSinkKind(Enum):
    """Where audit events go."""

    STDOUT = "stdout"
    FILE = "file"


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

    host: Host = "127.0.0.1"
    port: Port = 8181
    allow_remote: AllowRemote = False
    reuse_port: Annotated[bool, Meta(description="Share the port with other processes (SO_REUSEPORT).")] = False
    keepalive_seconds: Annotated[
        int,
        Meta(ge=5, le=3600, description="How long an idle connection is kept. Java clients reuse theirs for a minute."),
    ] = 75


class AdminSettings(msgspec.Struct, frozen=True):
    """Where health and metrics are served. Kubelet probes reach the pod's address, not loopback."""

    enabled: Annotated[bool, Meta(description="Serve `/livez`, `/readyz`, `/startupz` and `/metrics`.")] = True
    host: Host = "127.0.0.1"
    port: Port = 9181
    allow_remote: AllowRemote = False


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

    sink: Annotated[AuditSinkKind, Meta(description="Where events are written.")] = AuditSinkKind.STDOUT
    path: Annotated[str, Meta(description="The file of `sink: file`.", extra={"path": True})] = ""
    on_error: Annotated[
        OnAuditError,
        Meta(description="`deny` serves nothing that a healthy writer did not accept; `allow` counts what is lost."),
    ] = OnAuditError.DENY
    queue: Annotated[int, Meta(ge=100, le=1_000_000, description="Events that may wait for the writer.")] = 10_000
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


class Settings(msgspec.Struct, frozen=True):
    """All settings. What the policy may not say stands here, for only the operator edits it."""

    listen: ListenSettings = ListenSettings()
    admin: AdminSettings = AdminSettings()
    public_url: Annotated[
        str,
        Meta(
            description="The URL under which clients reach signproxy, advertised to them. "
            "Default: `http://` with `listen.host` and `listen.port`."
        ),
    ] = ""
    loop: Annotated[Loop, Meta(description="The event loop; `auto` takes uvloop where it is installed.")] = Loop.AUTO
    policy: PolicySettings = PolicySettings()
    identity: IdentitySettings = IdentitySettings()
    credentials: CredentialsSettings = CredentialsSettings()
    storages: Annotated[
        dict[Name, StorageBinding],
        Meta(description="Binds each storage that the policy declares, by its name, to credentials and hosts."),
    ] = {}
    signing: SigningSettings = SigningSettings()
    audit: AuditSettings = AuditSettings()
    drain: DrainSettings = DrainSettings()
    log: LogSettings = LogSettings()

    @property
    def advertised_url(self) -> str:
        """The URL that clients are told, without a slash at its end."""
        if self.public_url:
            return self.public_url.rstrip("/")
        host = f"[{self.listen.host}]" if ":" in self.listen.host else self.listen.host
        return f"http://{host}:{self.listen.port}"

    @property
    def accepted_unsafe(self) -> frozenset[str]:
        """The storages whose unchecked headers the operator accepts by name."""
        return frozenset(name for name, binding in self.storages.items() if binding.accept_unchecked_headers)

    @property
    def accepted_unhashed(self) -> frozenset[str]:
        """The storages whose unchecked payloads the operator accepts by name."""
        return frozenset(name for name, binding in self.storages.items() if binding.accept_unchecked_payload)
