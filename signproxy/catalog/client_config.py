"""Answer `GET /v1/config`: the routes and properties with which a stock client finds the signer."""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from signproxy.policy.catalog import Catalog

SIGN_ROUTES = (
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/sign",
    "POST /s3-sign/v1/{prefix}/namespaces/{namespace}/tables/{table}",
)
"""Every released client parses `METHOD path` strings; an object would break it."""

TABLELESS_ENDPOINT = "v1/aws/s3/sign"
"""Without a leading slash, which breaks Iceberg Java up to 1.10.0 and PyIceberg."""

DELEGATION_HEADER = "X-Iceberg-Access-Delegation"
_REMOTE_SIGNING = "remote-signing"


class ClientConfig(msgspec.Struct, frozen=True):
    """The specification's ConfigResponse."""

    defaults: dict[str, str]
    overrides: dict[str, str]
    endpoints: list[str]


def client_config(catalog: Catalog, public_url: str, *, signing: bool, delegation: str) -> ClientConfig:
    """Return the configuration of a catalog; `public_url` is the operator's, never taken from a Host header."""
    overrides = {"prefix": quote(catalog.name, safe="")}
    if not signing:
        return ClientConfig({}, overrides, [])
    overrides |= {
        "aws.remote-signing.enabled": "true",
        "s3.signer.uri": f"{public_url.rstrip('/')}/catalogs/{quote(catalog.name, safe='')}/",
        # Table-less, so that clients that mix up tables, or read several, are served; found by location.
        "s3.signer.endpoint": TABLELESS_ENDPOINT,
    }
    if asks_for_signing(delegation):
        # Only on request: iceberg-go fails on the first key, and PyIceberg obeys the second blindly.
        overrides |= {
            "s3.remote-signing-enabled": "true",
            "s3.signer": "S3V4RestSigner",
            "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
        }
    return ClientConfig({}, overrides, list(SIGN_ROUTES))


def asks_for_signing(delegation: str) -> bool:
    """Whether the access-delegation header names remote signing."""
    return _REMOTE_SIGNING in (mode.strip() for mode in delegation.split(","))
