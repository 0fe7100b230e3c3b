"""Declare the transparent mode: the listener that speaks S3, who may call it, and how it calls the stores."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import msgspec
from msgspec import Meta

from signproxy.config.addresses import WILDCARDS, advertised_url
from signproxy.config.fields import (
    AllowRemote,
    FileName,
    Host,
    KeepaliveSeconds,
    Port,
    Seconds,
    Socket,
    SocketMode,
    Tcp,
    Text,
    TlsSettings,
)

MAX_KEY_SECONDS = 12 * 3_600
"""What STS allows for a role's session; a key cannot be called back, only its principal's rights can."""


class S3Identity(Enum):
    """A way in which a caller of the S3 listener shows who it is."""

    EMULATED = "emulated"
    BEARER = "bearer"
    POD = "pod"


class S3KeySettings(msgspec.Struct, frozen=True):
    """S3 keys that signproxy issues itself, sealed with `context.secret_files`."""

    max_seconds: Annotated[int, Meta(ge=60, le=MAX_KEY_SECONDS)] = 3_600
    """The longest life of a key; it never outlives the token that asked for it."""


class PodSettings(msgspec.Struct, frozen=True):
    """The identity of `pod`: every client that reaches the listener is the principal that the token names."""

    token_file: FileName = ""
    """The pod's own token, in a file that is read again when it changes: a projected service-account token of an issuer
    of `identity`."""
    uids: tuple[Annotated[int, Meta(ge=0, le=2**32 - 2)], ...] = ()
    """Users whose processes may use it through the Unix socket; all who can open it if empty."""


class S3LimitSettings(msgspec.Struct, frozen=True):
    """What transfers may use up, in each worker, beside `limits`; what is beyond is answered 503 `SlowDown`."""

    in_flight: Annotated[int, Meta(ge=1, le=100_000)] = 512
    """Requests of one principal that may be served at a time."""
    total_in_flight: Annotated[int, Meta(ge=1, le=1_000_000)] = 2_048
    """Requests of all callers that may be served at a time."""
    max_object_mib: Annotated[int, Meta(ge=1, le=50 * 1024 * 1024)] = 5 * 1024
    """The largest body of one upload, in MiB; S3's own limit is 5 GiB."""
    idle_seconds: Seconds = 60.0
    """How long a client may send, or take, nothing of a body before it is cut off."""


class S3UpstreamSettings(msgspec.Struct, frozen=True):
    """How the stores are called."""

    ca_file: FileName = ""
    """Certificate authorities (PEM) to trust instead of the system's."""
    connections: Annotated[int, Meta(ge=1, le=100_000)] = 1_024
    """Connections to one host at a time, in each worker."""
    idle_connections: Annotated[int, Meta(ge=0, le=10_000)] = 128
    """Connections to one host that are kept for the next request."""
    connect_seconds: Seconds = 5.0
    """For a connection to be there."""
    answer_seconds: Seconds = 60.0
    """From the end of a request to the head of its answer."""
    slow_answer_seconds: Seconds = 600.0
    """The same, for copies and for completing a multipart upload."""
    idle_seconds: Seconds = 60.0
    """How long a store may send, or take, nothing of a body before it is given up."""
    keepalive_seconds: Seconds = 4.0
    """How long an idle connection is kept; less than the store keeps it."""


class S3Settings(msgspec.Struct, frozen=True):
    """The transparent mode: a listener that speaks S3, for clients that cannot have their requests signed."""

    enabled: bool = False
    """Serve it."""
    tcp: Tcp = True
    host: Host = "127.0.0.1"
    port: Port = 8182
    allow_remote: AllowRemote = False
    tls: TlsSettings = TlsSettings()
    socket: Socket = ""
    socket_mode: SocketMode = "0660"
    keepalive_seconds: KeepaliveSeconds = 75
    public_url: str = ""
    """The URL under which clients reach this listener; `steer` sends them there. Default: `http://` (`https://` with
    TLS) with `s3.host` and `s3.port`."""
    base_domains: tuple[Text, ...] = ()
    """Hosts below which the first part of the name is a bucket: `<bucket>.<base domain>`."""
    identities: tuple[S3Identity, ...] = (S3Identity.EMULATED, S3Identity.BEARER)
    """How callers show who they are: with keys that signproxy issued (`emulated`), with a bearer token in
    `Authorization` or as the session token of an SDK (`bearer`), or by being in the pod (`pod`)."""
    keys: S3KeySettings = S3KeySettings()
    pod: PodSettings = PodSettings()
    limits: S3LimitSettings = S3LimitSettings()
    upstream: S3UpstreamSettings = S3UpstreamSettings()
    steer: bool = False
    """Answer a sign request for a bulk delete without its body, which cannot be signed safely, with a `uri` that leads
    through this listener."""

    @property
    def client_url(self) -> str:
        """The URL that clients can be told; empty where the listener is off, or has no address that is known before."""
        known = bool(self.public_url) or (self.tcp and self.port != 0 and self.host not in WILDCARDS)
        return self.advertised_url if self.enabled and known else ""

    @property
    def advertised_url(self) -> str:
        """The URL that clients are sent to, without a slash at its end."""
        return advertised_url(self.public_url, self.host, self.port, tls=self.tls.enabled)
