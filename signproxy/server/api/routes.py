"""Find the route of a raw request path: mount, catalog or prefix, and the table or the catalog call that it names."""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache

import msgspec

from signproxy.catalog.call import CallKind, CatalogCall, find_call
from signproxy.catalog.names import check_levels, decoded
from signproxy.errors import Reason, Refused
from signproxy.gate.request import CatalogAddress
from signproxy.model import BY_LOCATION, NAMESPACE_SEPARATOR, NamedTable, Target

MAX_SEGMENT = 4096
"""Longer than any namespace of a real catalog; bounds the work for a hostile path."""

_ROUTES_KEPT = 4096
"""Clients repeat the route of a table for each of its files."""
_KEPT_LENGTH = 512
"""Paths are read before the caller is known: what strangers make up must not add up to more than 2 MB."""

_WORDS_KEPT = 64
"""Names of catalogs and prefixes: few, and each is in the path of every call. One has 12 KiB at most."""

_WITHOUT_PREFIX = frozenset({CallKind.CONFIG.segments, CallKind.TOKENS.segments})

_RESERVED = frozenset({"api", "catalogs"})
# A separator inside a name would move a level; other control characters never belong to a name.
_CONTROL = re.compile(r"[\x00-\x1e\x7f-\x9f]")


class Endpoint(Enum):
    """What a route does, and the HTTP method that it takes."""

    SIGN = "POST"
    CONFIG = "GET"
    CALL = "*"
    """A catalog call, if it is one: which, its method and path say together."""
    KEYS = "POST", "s3-keys"
    """The second part keeps it from being another name of SIGN."""
    RESOLVE = "POST", "credentials/resolve"
    CONTAINER = "GET", "container-credentials"

    def __init__(self, method: str, _what: str = "") -> None:
        self.method = method


ROUTES = (
    ("v1/config", Endpoint.CONFIG),
    ("v1/s3-keys", Endpoint.KEYS),
    ("v1/credentials/resolve", Endpoint.RESOLVE),
    ("v1/aws/s3/sign", Endpoint.SIGN),
    ("s3-sign/v1/namespaces/{namespace}/tables/{table}", Endpoint.SIGN),
    ("s3-sign/v1/{prefix}/namespaces/{namespace}/tables/{table}", Endpoint.SIGN),
    ("v1/namespaces/{namespace}/tables/{table}/sign", Endpoint.SIGN),
    ("v1/{prefix}/namespaces/{namespace}/tables/{table}/sign", Endpoint.SIGN),
    ("v1/aws/container-credentials/{profile}", Endpoint.CONTAINER),
    ("{prefix}/v1/aws/s3/sign", Endpoint.SIGN),
    ("{prefix}/v1/s3-keys", Endpoint.KEYS),
    ("{prefix}/v1/credentials/resolve", Endpoint.RESOLVE),
)
"""Every route below a mount but catalog calls, which are the rest of `v1/`: `CallKind` has those.

In the order in which they are tried: static routes win over a {prefix} of the same spelling.
"""


def _by_length() -> dict[int, list[tuple[tuple[str, ...], Endpoint]]]:
    shapes: dict[int, list[tuple[tuple[str, ...], Endpoint]]] = {}
    for path, endpoint in ROUTES:
        shape = tuple(path.split("/"))
        shapes.setdefault(len(shape), []).append((shape, endpoint))
    return shapes


_SHAPES = _by_length()


class Route(msgspec.Struct, frozen=True, gc=False):
    """A parsed path. The catalog comes from the mount, the prefix from the path below it."""

    endpoint: Endpoint
    address: CatalogAddress
    target: Target = BY_LOCATION
    parts: tuple[str, ...] = ()
    """Of a catalog call the raw segments below `/v1/`, a prefix among them if there is one; else a profile's name."""


_routes: dict[str, Route] = {}


def find_route(raw_path: str) -> Route:
    """Return the route of a path as it stood in the request line, without its query."""
    route = _routes.get(raw_path)
    if route is None:
        route = _parse(raw_path)
        # Calls are as many as there are tables, and cost far more than this.
        if len(raw_path) <= _KEPT_LENGTH and route.endpoint is not Endpoint.CALL:
            if len(_routes) >= _ROUTES_KEPT:
                _routes.clear()
            _routes[raw_path] = route
    return route


def find_call_of(route: Route, method: str) -> tuple[CatalogAddress, CatalogCall]:
    """Return which catalog a route is for, and the call that it is. Raise Refused if it is none."""
    parts = route.parts
    # Static routes win over a {prefix} of the same spelling.
    call = find_call(method, parts)
    if call is not None:
        return route.address, call
    below = parts[1:]
    call = None if below in _WITHOUT_PREFIX else find_call(method, below)
    if call is None:
        raise Refused(Reason.ROUTE_UNKNOWN, f"path {'/'.join(parts)!r}")
    return CatalogAddress(route.address.name, _prefix_of(parts[0])), call


def _parse(raw_path: str) -> Route:
    segments = raw_path.split("/")
    if segments[0] or len(segments) < 2:
        raise Refused(Reason.ROUTE_MALFORMED, f"path {raw_path!r}")
    parts = segments[1:]
    # Mounts, longest first. `api` and `catalogs` are reserved, so nothing below / can be mistaken for them.
    if parts[:2] == ["api", "catalog"]:
        return _below(parts[2:], None, raw_path)
    if parts[0] == "api":
        return _below(parts[1:], None, raw_path)
    if parts[0] == "catalogs" and len(parts) > 1:
        return _below(parts[2:], _catalog_of(parts[1]), raw_path)
    return _below(parts, None, raw_path)


def _below(parts: list[str], catalog: str | None, raw_path: str) -> Route:
    for shape, endpoint in _SHAPES.get(len(parts), ()):
        if all(expected[0] == "{" or expected == part for expected, part in zip(shape, parts, strict=True)):
            named = {name[1:-1]: part for name, part in zip(shape, parts, strict=True) if name[0] == "{"}
            return _route(endpoint, catalog, **named)
    if len(parts) > 1 and parts[0] == "v1":
        return Route(Endpoint.CALL, CatalogAddress(catalog), parts=tuple(parts[1:]))
    raise Refused(Reason.ROUTE_UNKNOWN, f"path {raw_path!r}")


def _route(
    endpoint: Endpoint,
    catalog: str | None,
    prefix: str | None = None,
    namespace: str | None = None,
    table: str = "",
    profile: str | None = None,
) -> Route:
    target: Target = BY_LOCATION
    if namespace is not None:
        check_levels(namespace)
        levels = _decode(namespace, separator=True)
        if not all(levels.split(NAMESPACE_SEPARATOR)):
            raise Refused(Reason.ROUTE_MALFORMED, f"namespace {namespace!r} has an empty level")
        target = NamedTable(levels, _decode(table))
    parts = () if profile is None else (_decode(profile),)
    return Route(endpoint, CatalogAddress(catalog, None if prefix is None else _prefix_of(prefix)), target, parts)


@lru_cache(_WORDS_KEPT)
def _prefix_of(raw: str) -> str:
    """Return the prefix that a segment is."""
    prefix = _decode(raw)
    if prefix in _RESERVED:
        raise Refused(Reason.ROUTE_UNKNOWN, f"{prefix!r} is a reserved name")
    return prefix


def _decode(raw: str, *, separator: bool = False) -> str:
    """Decode a segment once. Java form-encodes a space as a plus, PyIceberg sends %20; a plus itself is %2B."""
    text = decoded(raw)
    if not text or len(text) > MAX_SEGMENT or _CONTROL.search(text) or (not separator and NAMESPACE_SEPARATOR in text):
        raise Refused(Reason.ROUTE_MALFORMED, f"segment {raw!r}")
    return text


_catalog_of = lru_cache(_WORDS_KEPT)(_decode)
