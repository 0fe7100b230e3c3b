"""Say what `GET /v1/config` tells of signproxy itself: the routes and properties by which a client finds the signer."""

from __future__ import annotations

import msgspec

from signproxy.catalog.access import DELEGATION_HEADER, asks_for_signing
from signproxy.catalog.names import encode_segment
from signproxy.catalog.signer_grant import SIGNER, SWITCH, mount_of
from signproxy.catalog.store_address import only_address
from signproxy.policy.catalog import Catalog

__all__ = [
    "DELEGATION_HEADER",
    "SIGN_ROUTES",
    "TABLELESS_ENDPOINT",
    "ClientConfig",
    "asks_for_signing",
    "client_config",
]

SIGN_ROUTES = (
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/sign",
    "POST /s3-sign/v1/{prefix}/namespaces/{namespace}/tables/{table}",
)
"""Every released client parses `METHOD path` strings; an object would break it."""

TABLELESS_ENDPOINT = "v1/aws/s3/sign"
"""Without a leading slash, which breaks Iceberg Java up to 1.10.0 and PyIceberg."""


class ClientConfig(msgspec.Struct, frozen=True):
    """The specification's ConfigResponse."""

    defaults: dict[str, str]
    overrides: dict[str, str]
    endpoints: list[str]


def client_config(
    catalog: Catalog, public_url: str, *, signing: bool, delegation: str, listener: str = ""
) -> ClientConfig:
    """Return the configuration of a catalog; `public_url` is the operator's, never taken from a Host header.

    It is everything that a catalog without an upstream tells; with one, `config_answer` adds the upstream's.
    `listener` is the S3 listener's URL, for a client that signs by itself; empty where there is none.
    """
    asks = signing and asks_for_signing(delegation)
    store = only_address(catalog, "" if asks else listener)
    # A default, so that a client may reach the store by another of its endpoints; tables' answers override it.
    defaults = {} if store is None else store.properties
    overrides = {"prefix": encode_segment(catalog.name)}
    if not signing:
        return ClientConfig(defaults, overrides, [])
    overrides |= {
        "aws.remote-signing.enabled": "true",
        "s3.signer.uri": mount_of(public_url, catalog.name),
        # Table-less, so that clients that mix up tables, or read several, are served; found by location.
        "s3.signer.endpoint": TABLELESS_ENDPOINT,
    }
    if asks:
        # Only on request: iceberg-go fails on the first key, and PyIceberg obeys the second blindly.
        overrides |= {SWITCH: "true", **SIGNER}
    return ClientConfig(defaults, overrides, list(SIGN_ROUTES))
