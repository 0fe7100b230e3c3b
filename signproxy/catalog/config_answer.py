"""Say what `GET /v1/config` tells: the routes and properties by which a client finds the signer, and the upstream's."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

import msgspec
from msgspec import Raw

from signproxy.catalog.access_delegation import modes_asked
from signproxy.catalog.call import CallKind
from signproxy.catalog.client_properties import only_address, passed
from signproxy.catalog.json_object import JsonInvalid, member, read_list, read_object, read_string
from signproxy.catalog.names import encode_segment
from signproxy.catalog.signer_grant import SIGNER, SWITCH, mount_of
from signproxy.errors import Reason, Refused
from signproxy.policy.catalog import Catalog, Delegation

SIGN_ROUTES = (
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/sign",
    "POST /s3-sign/v1/{prefix}/namespaces/{namespace}/tables/{table}",
)
"""Every released client parses `METHOD path` strings; an object would break it."""

CREDENTIALS_ROUTE = CallKind.LOAD_CREDENTIALS.value
"""Answered here, whatever the upstream has, and never with the upstream's keys."""

TABLELESS_ENDPOINT = "v1/aws/s3/sign"
"""Without a leading slash, which breaks Iceberg Java up to 1.10.0 and PyIceberg."""


class ClientConfig(msgspec.Struct, frozen=True):
    """The specification's ConfigResponse."""

    defaults: dict[str, str]
    overrides: dict[str, str]
    endpoints: list[str]


def client_config(
    catalog: Catalog,
    public_url: str,
    *,
    signing: bool,
    delegation: str,
    listener: str = "",
    offered: Collection[Delegation] = (Delegation.REMOTE_SIGNING,),
) -> ClientConfig:
    """Return the configuration of a catalog; `public_url` is the operator's, never taken from a Host header.

    It is everything that a catalog without an upstream tells; with one, `config_answer` adds the upstream's.
    `listener` is the S3 listener's URL, for a client that signs by itself; empty where there is none. `offered` is
    what the caller may be given in a catalog that signs.
    """
    first = next((mode for mode in modes_asked(delegation) if mode in offered), None)
    asks = signing and first is Delegation.REMOTE_SIGNING
    store = only_address(catalog, "" if asks else listener)
    # A default, so that a client may reach the store by another of its endpoints; tables' answers override it.
    defaults = {} if store is None else store.properties
    overrides = {"prefix": encode_segment(catalog.name)}
    routes = [CREDENTIALS_ROUTE] if signing and Delegation.VENDED_CREDENTIALS in offered else []
    if not signing or Delegation.REMOTE_SIGNING not in offered:
        return ClientConfig(defaults, overrides, routes)
    overrides |= {
        "aws.remote-signing.enabled": "true",
        "s3.signer.uri": mount_of(public_url, catalog.name),
        # Table-less, so that clients that mix up tables, or read several, are served; found by location.
        "s3.signer.endpoint": TABLELESS_ENDPOINT,
    }
    if asks:
        # Only on request: iceberg-go fails on the first key, and PyIceberg obeys the second blindly.
        overrides |= {SWITCH: "true", **SIGNER}
    return ClientConfig(defaults, overrides, [*routes, *SIGN_ROUTES])


# Two are not asked of the client's catalog once there is a configuration; keys are signproxy's own to hand out.
_UNADVERTISED = {CallKind.CONFIG, CallKind.TOKENS, CallKind.LOAD_CREDENTIALS}
ADVERTISED = frozenset(kind.value for kind in CallKind if kind not in _UNADVERTISED)
"""The routes that an upstream may say to have. Others would not pass, so no client is told of them."""

_K = CallKind
DEFAULT_ROUTES = tuple(
    kind.value
    for kind in (
        _K.LIST_NAMESPACES, _K.CREATE_NAMESPACE, _K.LOAD_NAMESPACE, _K.DROP_NAMESPACE, _K.UPDATE_NAMESPACE,
        _K.LIST_TABLES, _K.CREATE_TABLE, _K.LOAD_TABLE, _K.UPDATE_TABLE, _K.DROP_TABLE, _K.REGISTER_TABLE,
        _K.REPORT_METRICS, _K.RENAME_TABLE, _K.COMMIT_TRANSACTION,
    )
)  # fmt: skip
"""What a server has that does not say, by the specification."""
VIEW_ROUTES = tuple(
    kind.value for kind in (_K.LIST_VIEWS, _K.LOAD_VIEW, _K.CREATE_VIEW, _K.REPLACE_VIEW, _K.DROP_VIEW, _K.RENAME_VIEW)
)
"""What it has besides if it says that it has views."""

_SAYS_VIEWS = "view-endpoints-supported"
_LIFETIME = re.compile(r"P(?:[0-9]{1,9}[YMWD]){0,4}(?:T(?:[0-9]{1,9}(?:\.[0-9]{1,9})?[HMS]){1,3})?")


class _Merged(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """The specification's ConfigResponse, with the field that few servers send."""

    defaults: dict[str, str]
    overrides: dict[str, str]
    endpoints: list[str]
    idempotency_key_lifetime: str = ""


_encode = msgspec.json.Encoder(order="deterministic").encode


def config_answer(upstream: bytes, own: ClientConfig) -> bytes:
    """Return the configuration for a client of the facade. Raise Refused (UPSTREAM_INVALID).

    `prefix` and `uri` are signproxy's, so that the client goes on talking to it; the upstream's prefix is for the code
    that builds the upstream's paths. `namespace-separator` is left out: clients send %1F, which is replaced.
    """
    try:
        told = read_object(upstream)
        defaults, overrides = _properties(told, "defaults"), _properties(told, "overrides")
        views = overrides.get(_SAYS_VIEWS, defaults.get(_SAYS_VIEWS, "false")).lower() == "true"
        merged = _Merged(
            defaults=defaults | own.defaults,
            overrides=overrides | own.overrides,
            endpoints=list(dict.fromkeys([*_routes(told, views=views), *own.endpoints])),
            idempotency_key_lifetime=_lifetime(told),
        )
    except JsonInvalid as invalid:
        raise Refused(Reason.UPSTREAM_INVALID, f"/v1/config of the upstream: {invalid}") from None
    return _encode(merged)


def _properties(told: dict[str, Raw], name: str) -> dict[str, str]:
    value = member(told, name)
    return {} if value is None else passed(read_object(value))


def _routes(told: dict[str, Raw], *, views: bool) -> Iterable[str]:
    value = member(told, "endpoints")
    given = [] if value is None else read_list(value)
    if not given:
        # Clients take an empty list for none at all. Signing adds to it, and what is sent replaces their own.
        return DEFAULT_ROUTES + VIEW_ROUTES if views else DEFAULT_ROUTES
    return (route for each in given if (route := read_string(each)) in ADVERTISED)


def _lifetime(told: dict[str, Raw]) -> str:
    value = member(told, "idempotency-key-lifetime")
    text = "" if value is None else read_string(value)
    return text if _LIFETIME.fullmatch(text) else ""
