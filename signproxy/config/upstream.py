"""Declare the Iceberg REST catalogs that signproxy stands in front of, and where it keeps what it learns of them."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import msgspec
from msgspec import Meta

from signproxy.config.fields import FileName, Seconds, Text

MAX_UPSTREAMS = 100
"""Each has its own connections, and its own lines among the metrics."""


class TokenForwarding(Enum):
    """Which token an upstream is shown."""

    SAME = "same"
    EXCHANGE = "exchange"
    NONE = "none"


class OfferSigning(Enum):
    """Which clients are told how to have their requests signed."""

    ON_REQUEST = "on-request"
    ALWAYS = "always"


class ExchangeSettings(msgspec.Struct, frozen=True):
    """Where callers' tokens are exchanged (RFC 8693)."""

    token_url: str = ""
    """The token endpoint of the authorization server."""
    client_id: str = ""
    """The client that signproxy is there."""
    client_secret_file: FileName = ""
    """Its secret, in a file; sent as HTTP Basic authentication."""
    audience: str = ""
    """The `audience` that is asked for; left out where it is empty."""
    scope: str = ""
    """The `scope` that is asked for."""
    resource: str = ""
    """The `resource` that is asked for."""


class InventorySettings(msgspec.Struct, frozen=True):
    """How all tables of an upstream are listed, so that a place that no table has is known to be free."""

    required: bool = False
    """Take an inventory at the start, and believe no place that is new before it is complete; `/readyz` waits for
    it."""
    refresh_seconds: Annotated[int, Meta(ge=60, le=7 * 86_400)] = 3_600
    """When the next one is taken. One that is three times as old counts for nothing."""
    token_file: FileName = ""
    """The token that lists and loads every table, in a file; with `token_forwarding: none` the upstream's own token is
    used where it is empty."""
    connections: Annotated[int, Meta(ge=1, le=256)] = 8
    """Tables that are loaded at a time."""
    page_size: Annotated[int, Meta(ge=0, le=100_000)] = 1_000
    """Entries of a page of a list; 0 leaves it to the upstream."""


class UpstreamSettings(msgspec.Struct, frozen=True):
    """The Iceberg REST catalog behind a catalog of the policy."""

    uri: Annotated[str, Meta(min_length=1)]
    """Its base URI, as a client would be given it: what stands before `/v1/config`."""
    warehouse: str = ""
    """The `warehouse` that its `/v1/config` is asked for."""
    prefix: str = ""
    """Its prefix, encoded as it stands in its paths; its `/v1/config` is asked where it is empty."""
    namespace_separator: Annotated[str, Meta(pattern="^(?:|[A-Za-z0-9\\-._~!$&'()*+,=:@]|%[0-9A-Fa-f]{2})$")] = ""
    """What separates the levels of a namespace in its paths, encoded: `%1F` in most. Its `/v1/config` is asked where it
    is empty and a namespace has several levels."""
    allow_http: bool = False
    """Use plain http beyond loopback: tokens and metadata then travel unencrypted."""
    ca_file: FileName = ""
    """Certificate authorities (PEM) to trust instead of the system's, also for its token endpoint."""
    token_forwarding: TokenForwarding = TokenForwarding.SAME
    """The token that it is shown: the caller's own (`same`), one that `exchange` gives for it, or (`none`) that of
    `token_file`, if any; it then cannot tell callers apart."""
    token_file: FileName = ""
    """The token of `token_forwarding: none`, in a file."""
    exchange: ExchangeSettings = ExchangeSettings()
    headers: tuple[Text, ...] = ()
    """Headers of callers that are sent on beside those of the Iceberg protocol, such as `Polaris-Realm`."""
    offer_signing: OfferSigning = OfferSigning.ON_REQUEST
    """Who is told in a table's configuration how to have requests signed: clients that send
    `X-Iceberg-Access-Delegation: remote-signing`, or all of them. iceberg-go fails on it."""
    inventory: InventorySettings = InventorySettings()
    connections: Annotated[int, Meta(ge=1, le=10_000)] = 64
    """Connections to it at a time, in each worker; as many again for changes."""
    connect_seconds: Seconds = 3.0
    """For a connection to be there."""
    answer_seconds: Seconds = 60.0
    """From the end of a request to the head of its answer."""
    read_seconds: Seconds = 30.0
    """Between two parts of an answer."""
    load_seconds: Seconds = 10.0
    """For all of a table that a sign request waits for, or of a token exchange."""
    max_answer_mib: Annotated[int, Meta(ge=1, le=1024)] = 64
    """The largest answer that is rewritten, in MiB; a larger one is refused."""


class OnSightingsFault(Enum):
    """What a start does with a file that cannot be read."""

    REFUSE = "refuse"
    ANEW = "anew"


class SightingsSettings(msgspec.Struct, frozen=True):
    """What is known of the places of an upstream's tables, for longer than a process lives."""

    file: FileName = ""
    """Where it is kept, sealed with the first of `context.secret_files`; nowhere if it is empty. All workers share it.
    Its directory must be writable, and to signproxy alone."""
    on_fault: OnSightingsFault = OnSightingsFault.REFUSE
    """What a start does with a file that is damaged, foreign, or sealed with another secret: `refuse` to start, or put
    it aside as `<file>.unreadable` and begin `anew`."""
    max_mib: Annotated[int, Meta(ge=1, le=4_096)] = 256
    """The largest that the file becomes."""
    max_tables: Annotated[int, Meta(ge=1_000, le=5_000_000)] = 100_000
    """Tables whose places are remembered, of all catalogs, in each worker; some 1 KiB each. An inventory with more is
    not complete."""
