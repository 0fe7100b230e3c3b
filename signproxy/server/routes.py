"""Find the route of a raw request path: mount, catalog or prefix, and the table it names."""

from __future__ import annotations

import re
from enum import Enum
from urllib.parse import unquote_to_bytes

import msgspec

from signproxy.errors import Reason, Refused
from signproxy.gate.gate import CatalogAddress
from signproxy.model import BY_LOCATION, NAMESPACE_SEPARATOR, NamedTable, Target

MAX_SEGMENT = 4096
"""Longer than any namespace of a real catalog; bounds the work for a hostile path."""

_ROUTES_KEPT = 4096
"""Clients repeat the route of a table for each of its files."""
_KEPT_LENGTH = 512
"""Paths are read before the caller is known: what strangers make up must not add up to more than 2 MB."""

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

    def __init__(self, method: str, _what: str = "") -> None:
        self.method = method


class Route(msgspec.Struct, frozen=True, gc=False):
    """A parsed path. The catalog comes from the mount, the prefix from the path below it."""

    endpoint: Endpoint
    address: CatalogAddress
    target: Target = BY_LOCATION
    parts: tuple[str, ...] = ()
    """Of a catalog call the raw segments below `/v1/`, a prefix among them if there is one."""


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
        return _below(parts[2:], _decode(parts[1]), raw_path)
    return _below(parts, None, raw_path)


def _below(parts: list[str], catalog: str | None, raw_path: str) -> Route:
    # Static routes win over a {prefix} of the same spelling, so they are matched first.
    match parts:
        case ["v1", "config"]:
            return Route(Endpoint.CONFIG, CatalogAddress(catalog))
        case ["v1", "s3-keys"]:
            return Route(Endpoint.KEYS, CatalogAddress(catalog))
        case ["v1", "aws", "s3", "sign"]:
            return Route(Endpoint.SIGN, CatalogAddress(catalog))
        case ["s3-sign", "v1", "namespaces", namespace, "tables", table]:
            return _table(catalog, None, namespace, table)
        case ["s3-sign", "v1", prefix, "namespaces", namespace, "tables", table]:
            return _table(catalog, prefix, namespace, table)
        case ["v1", "namespaces", namespace, "tables", table, "sign"]:
            return _table(catalog, None, namespace, table)
        case ["v1", prefix, "namespaces", namespace, "tables", table, "sign"]:
            return _table(catalog, prefix, namespace, table)
        case [prefix, "v1", "aws", "s3", "sign"]:
            return Route(Endpoint.SIGN, CatalogAddress(catalog, prefix_of(prefix)))
        case [prefix, "v1", "s3-keys"]:
            return Route(Endpoint.KEYS, CatalogAddress(catalog, prefix_of(prefix)))
        case ["v1", *below] if below:
            return Route(Endpoint.CALL, CatalogAddress(catalog), parts=tuple(below))
        case _:
            raise Refused(Reason.ROUTE_UNKNOWN, f"path {raw_path!r}")


def _table(catalog: str | None, prefix: str | None, namespace: str, table: str) -> Route:
    levels = _decode(namespace, separator=True)
    if not all(levels.split(NAMESPACE_SEPARATOR)):
        raise Refused(Reason.ROUTE_MALFORMED, f"namespace {namespace!r} has an empty level")
    return Route(
        Endpoint.SIGN,
        CatalogAddress(catalog, None if prefix is None else prefix_of(prefix)),
        NamedTable(levels, _decode(table)),
    )


def prefix_of(raw: str) -> str:
    """Return the prefix that a segment is."""
    prefix = _decode(raw)
    if prefix in _RESERVED:
        raise Refused(Reason.ROUTE_UNKNOWN, f"{prefix!r} is a reserved name")
    return prefix


def _decode(raw: str, *, separator: bool = False) -> str:
    """Decode a segment once. Java form-encodes a space as a plus, PyIceberg sends %20; a plus itself is %2B."""
    try:
        text = unquote_to_bytes(raw.replace("+", " ")).decode("utf-8")
    except UnicodeDecodeError:
        raise Refused(Reason.ROUTE_MALFORMED, f"segment {raw!r} is not UTF-8") from None
    if not text or len(text) > MAX_SEGMENT or _CONTROL.search(text) or (not separator and NAMESPACE_SEPARATOR in text):
        raise Refused(Reason.ROUTE_MALFORMED, f"segment {raw!r}")
    return text
