"""Declare the transparent mode: the listener that speaks S3, who may call it, and how it calls the stores."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import msgspec
from msgspec import Meta

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

Seconds = Annotated[float, Meta(gt=0, le=3600)]
Name = Annotated[str, Meta(min_length=1)]

MAX_KEY_SECONDS = 12 * 3_600
"""What STS allows for a role's session; a key cannot be called back, only its principal's rights can."""


class S3Identity(Enum):
    """A way in which a caller of the S3 listener shows who it is."""

    EMULATED = "emulated"
    BEARER = "bearer"
    POD = "pod"


class S3KeySettings(msgspec.Struct, frozen=True):
    """S3 keys that signproxy issues itself, sealed with `context.secret_files`."""

    max_seconds: Annotated[
        int,
        Meta(
            ge=60,
            le=MAX_KEY_SECONDS,
            description="The longest life of a key; it never outlives the token that asked for it.",
        ),
    ] = 3_600


class PodSettings(msgspec.Struct, frozen=True):
    """The identity of `pod`: every client that reaches the listener is the principal that the token names."""

    token_file: Annotated[
        str,
        Meta(
            description="The pod's own token, in a file that is read again when it changes: a projected "
            "service-account token of an issuer of `identity`.",
            extra={"path": True},
        ),
    ] = ""
    uids: Annotated[
        tuple[Annotated[int, Meta(ge=0, le=2**32 - 2)], ...],
        Meta(description="Users whose processes may use it through the Unix socket; all who can open it if empty."),
    ] = ()


WILDCARDS = ("0.0.0.0", "::")
"""Hosts to listen on that are no host's address."""


class S3LimitSettings(msgspec.Struct, frozen=True):
    """What transfers may use up, in each worker, beside `limits`; what is beyond is answered 503 `SlowDown`."""

    in_flight: Annotated[
        int, Meta(ge=1, le=100_000, description="Requests of one principal that may be served at a time.")
    ] = 512
    total_in_flight: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Requests of all callers that may be served at a time.")
    ] = 2_048
    max_object_mib: Annotated[
        int,
        Meta(ge=1, le=50 * 1024 * 1024, description="The largest body of one upload, in MiB; S3's own limit is 5 GiB."),
    ] = 5 * 1024
    idle_seconds: Annotated[
        Seconds, Meta(description="How long a client may send, or take, nothing of a body before it is cut off.")
    ] = 60.0


class S3UpstreamSettings(msgspec.Struct, frozen=True):
    """How the stores are called."""

    ca_file: Annotated[
        str,
        Meta(description="Certificate authorities (PEM) to trust instead of the system's.", extra={"path": True}),
    ] = ""
    connections: Annotated[
        int, Meta(ge=1, le=100_000, description="Connections to one host at a time, in each worker.")
    ] = 1_024
    idle_connections: Annotated[
        int, Meta(ge=0, le=10_000, description="Connections to one host that are kept for the next request.")
    ] = 128
    connect_seconds: Annotated[Seconds, Meta(description="For a connection to be there.")] = 5.0
    answer_seconds: Annotated[Seconds, Meta(description="From the end of a request to the head of its answer.")] = 60.0
    slow_answer_seconds: Annotated[
        Seconds, Meta(description="The same, for copies and for completing a multipart upload.")
    ] = 600.0
    idle_seconds: Annotated[
        Seconds, Meta(description="How long a store may send, or take, nothing of a body before it is given up.")
    ] = 60.0
    keepalive_seconds: Annotated[
        Seconds, Meta(description="How long an idle connection is kept; less than the store keeps it.")
    ] = 4.0


class S3Settings(msgspec.Struct, frozen=True):
    """The transparent mode: a listener that speaks S3, for clients that cannot have their requests signed."""

    enabled: Annotated[bool, Meta(description="Serve it.")] = False
    tcp: Tcp = True
    host: Host = "127.0.0.1"
    port: Port = 8182
    allow_remote: AllowRemote = False
    tls: TlsSettings = TlsSettings()
    socket: Socket = ""
    socket_mode: SocketMode = "0660"
    keepalive_seconds: KeepaliveSeconds = 75
    public_url: Annotated[
        str,
        Meta(
            description="The URL under which clients reach this listener; `steer` sends them there. "
            "Default: `http://` (`https://` with TLS) with `s3.host` and `s3.port`."
        ),
    ] = ""
    base_domains: Annotated[
        tuple[Name, ...],
        Meta(description="Hosts below which the first part of the name is a bucket: `<bucket>.<base domain>`."),
    ] = ()
    identities: Annotated[
        tuple[S3Identity, ...],
        Meta(
            description="How callers show who they are: with keys that signproxy issued (`emulated`), with a bearer "
            "token in `Authorization` or as the session token of an SDK (`bearer`), or by being in the pod (`pod`)."
        ),
    ] = (S3Identity.EMULATED, S3Identity.BEARER)
    keys: S3KeySettings = S3KeySettings()
    pod: PodSettings = PodSettings()
    limits: S3LimitSettings = S3LimitSettings()
    upstream: S3UpstreamSettings = S3UpstreamSettings()
    steer: Annotated[
        bool,
        Meta(
            description="Answer a sign request for a bulk delete without its body, which cannot be signed safely, "
            "with a `uri` that leads through this listener."
        ),
    ] = False

    @property
    def client_url(self) -> str:
        """The URL that clients can be told; empty where the listener is off, or has no address that is known before."""
        known = bool(self.public_url) or (self.tcp and self.port != 0 and self.host not in WILDCARDS)
        return self.advertised_url if self.enabled and known else ""

    @property
    def advertised_url(self) -> str:
        """The URL that clients are sent to, without a slash at its end."""
        if self.public_url:
            return self.public_url.rstrip("/")
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls.enabled else 'http'}://{host}:{self.port}"
