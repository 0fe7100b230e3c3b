"""Declare the Iceberg REST catalogs that signproxy stands in front of."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import msgspec
from msgspec import Meta

Text = Annotated[str, Meta(min_length=1)]
Seconds = Annotated[float, Meta(gt=0, le=3600)]

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

    token_url: Annotated[str, Meta(description="The token endpoint of the authorization server.")] = ""
    client_id: Annotated[str, Meta(description="The client that signproxy is there.")] = ""
    client_secret_file: Annotated[
        str, Meta(description="Its secret, in a file; sent as HTTP Basic authentication.", extra={"path": True})
    ] = ""
    audience: Annotated[str, Meta(description="The `audience` that is asked for; left out where it is empty.")] = ""
    scope: Annotated[str, Meta(description="The `scope` that is asked for.")] = ""
    resource: Annotated[str, Meta(description="The `resource` that is asked for.")] = ""

    @property
    def given(self) -> bool:
        """Whether any of it is set."""
        return self != ExchangeSettings()


class InventorySettings(msgspec.Struct, frozen=True):
    """How all tables of an upstream are listed, so that a place that no table has is known to be free."""

    required: Annotated[
        bool,
        Meta(
            description="Take an inventory at the start, and believe no place that is new before it is complete; "
            "`/readyz` waits for it."
        ),
    ] = False
    refresh_seconds: Annotated[
        int,
        Meta(
            ge=60,
            le=7 * 86_400,
            description="When the next one is taken. One that is three times as old counts for nothing.",
        ),
    ] = 3_600
    token_file: Annotated[
        str,
        Meta(
            description="The token that lists and loads every table, in a file; with `token_forwarding: none` the "
            "upstream's own token is used where it is empty.",
            extra={"path": True},
        ),
    ] = ""
    connections: Annotated[int, Meta(ge=1, le=256, description="Tables that are loaded at a time.")] = 8
    page_size: Annotated[
        int, Meta(ge=0, le=100_000, description="Entries of a page of a list; 0 leaves it to the upstream.")
    ] = 1_000


class UpstreamSettings(msgspec.Struct, frozen=True):
    """The Iceberg REST catalog behind a catalog of the policy."""

    uri: Annotated[
        str,
        Meta(
            min_length=1,
            description="Its base URI, as a client would be given it: what stands before `/v1/config`.",
        ),
    ]
    warehouse: Annotated[str, Meta(description="The `warehouse` that its `/v1/config` is asked for.")] = ""
    prefix: Annotated[
        str,
        Meta(description="Its prefix, encoded as it stands in its paths; its `/v1/config` is asked where it is empty."),
    ] = ""
    namespace_separator: Annotated[
        str,
        Meta(
            pattern="^(?:|[A-Za-z0-9\\-._~!$&'()*+,=:@]|%[0-9A-Fa-f]{2})$",
            description="What separates the levels of a namespace in its paths, encoded: `%1F` in most. Its "
            "`/v1/config` is asked where it is empty and a namespace has several levels.",
        ),
    ] = ""
    allow_http: Annotated[
        bool,
        Meta(description="Use plain http beyond loopback: tokens and metadata then travel unencrypted."),
    ] = False
    ca_file: Annotated[
        str,
        Meta(
            description="Certificate authorities (PEM) to trust instead of the system's, also for its token endpoint.",
            extra={"path": True},
        ),
    ] = ""
    token_forwarding: Annotated[
        TokenForwarding,
        Meta(
            description="The token that it is shown: the caller's own (`same`), one that `exchange` gives for it, or "
            "(`none`) that of `token_file`, if any; it then cannot tell callers apart."
        ),
    ] = TokenForwarding.SAME
    token_file: Annotated[
        str, Meta(description="The token of `token_forwarding: none`, in a file.", extra={"path": True})
    ] = ""
    exchange: ExchangeSettings = ExchangeSettings()
    headers: Annotated[
        tuple[Text, ...],
        Meta(
            description="Headers of callers that are sent on beside those of the Iceberg protocol, such as "
            "`Polaris-Realm`."
        ),
    ] = ()
    offer_signing: Annotated[
        OfferSigning,
        Meta(
            description="Who is told in a table's configuration how to have requests signed: clients that send "
            "`X-Iceberg-Access-Delegation: remote-signing`, or all of them. iceberg-go fails on it."
        ),
    ] = OfferSigning.ON_REQUEST
    inventory: InventorySettings = InventorySettings()
    connections: Annotated[
        int,
        Meta(ge=1, le=10_000, description="Connections to it at a time, in each worker; as many again for changes."),
    ] = 64
    connect_seconds: Annotated[Seconds, Meta(description="For a connection to be there.")] = 3.0
    answer_seconds: Annotated[Seconds, Meta(description="From the end of a request to the head of its answer.")] = 60.0
    read_seconds: Annotated[Seconds, Meta(description="Between two parts of an answer.")] = 30.0
    load_seconds: Annotated[
        Seconds, Meta(description="For all of a table that a sign request waits for, or of a token exchange.")
    ] = 10.0
    max_answer_mib: Annotated[
        int, Meta(ge=1, le=1024, description="The largest answer that is rewritten, in MiB; a larger one is refused.")
    ] = 64
