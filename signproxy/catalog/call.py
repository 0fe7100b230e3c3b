"""Know the calls of the Iceberg REST specification (1.12), and find the one that a request makes."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import msgspec

from signproxy.catalog.names import (
    decode_namespace,
    decode_segment,
    encode_namespace,
    encode_segment,
    name_problem,
    namespace_problem,
)
from signproxy.errors import Reason, Refused


class CallKind(Enum):
    """Every call that passes. The value is the route, spelled as `/v1/config` advertises it."""

    CONFIG = "GET /v1/config"
    TOKENS = "POST /v1/oauth/tokens"
    LIST_NAMESPACES = "GET /v1/{prefix}/namespaces"
    CREATE_NAMESPACE = "POST /v1/{prefix}/namespaces"
    LOAD_NAMESPACE = "GET /v1/{prefix}/namespaces/{namespace}"
    NAMESPACE_EXISTS = "HEAD /v1/{prefix}/namespaces/{namespace}"
    DROP_NAMESPACE = "DELETE /v1/{prefix}/namespaces/{namespace}"
    UPDATE_NAMESPACE = "POST /v1/{prefix}/namespaces/{namespace}/properties"
    LIST_TABLES = "GET /v1/{prefix}/namespaces/{namespace}/tables"
    CREATE_TABLE = "POST /v1/{prefix}/namespaces/{namespace}/tables"
    REGISTER_TABLE = "POST /v1/{prefix}/namespaces/{namespace}/register"
    LOAD_TABLE = "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}"
    TABLE_EXISTS = "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}"
    UPDATE_TABLE = "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}"
    DROP_TABLE = "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}"
    RENAME_TABLE = "POST /v1/{prefix}/tables/rename"
    COMMIT_TRANSACTION = "POST /v1/{prefix}/transactions/commit"
    REPORT_METRICS = "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics"
    LOAD_CREDENTIALS = "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials"
    PLAN_TABLE = "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan"
    FETCH_PLAN = "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}"
    CANCEL_PLAN = "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}"
    FETCH_TASKS = "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/tasks"
    LIST_VIEWS = "GET /v1/{prefix}/namespaces/{namespace}/views"
    CREATE_VIEW = "POST /v1/{prefix}/namespaces/{namespace}/views"
    LOAD_VIEW = "GET /v1/{prefix}/namespaces/{namespace}/views/{view}"
    VIEW_EXISTS = "HEAD /v1/{prefix}/namespaces/{namespace}/views/{view}"
    REPLACE_VIEW = "POST /v1/{prefix}/namespaces/{namespace}/views/{view}"
    DROP_VIEW = "DELETE /v1/{prefix}/namespaces/{namespace}/views/{view}"
    RENAME_VIEW = "POST /v1/{prefix}/views/rename"
    REGISTER_VIEW = "POST /v1/{prefix}/namespaces/{namespace}/register-view"

    def __init__(self, route: str) -> None:
        self.method = route.partition(" ")[0]
        self.segments = tuple(route.partition(" ")[2].removeprefix("/v1/").removeprefix("{prefix}/").split("/"))
        """Of the path below `/v1/{prefix}/`; those in braces stand for a name."""


class CatalogCall(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A call, by what it names."""

    kind: CallKind
    path: str
    """Below `/v1/{prefix}/`, as it goes to the upstream.

    It is written anew from the decoded names: of several spellings of one name a lenient upstream could read one as
    another name than signproxy did, and would then answer for a table that the caller was not judged for.
    """
    namespace: str = ""
    """Levels joined by U+001F."""
    name: str = ""
    """Of the table or view."""


_NAME = ""


def _routes() -> dict[tuple[str, ...], dict[str, CallKind]]:
    routes: dict[tuple[str, ...], dict[str, CallKind]] = {}
    for kind in CallKind:
        shape = tuple(_NAME if segment.startswith("{") else segment for segment in kind.segments)
        routes.setdefault(shape, {})[kind.method] = kind
    return routes


_ROUTES = _routes()
_MOST_PARTS = max(map(len, _ROUTES))


def find_call(method: str, parts: Sequence[str]) -> CatalogCall | None:
    """Return the call of a request; None where the path is none of the specification's.

    `parts` are the raw path's segments below `/v1/{prefix}/`, split before anything is decoded.

    Raise Refused: ROUTE_MALFORMED, or METHOD_NOT_ALLOWED where the specification has other methods for the path.
    """
    if not parts or len(parts) > _MOST_PARTS:
        return None
    kinds = _ROUTES.get(_shape_of(parts))
    if kinds is None:
        return None
    kind = kinds.get(method)
    if kind is None:
        raise Refused(Reason.METHOD_NOT_ALLOWED, f"{method} {'/'.join(parts)!r}")
    segments = kind.segments
    if "{namespace}" not in segments:
        return CatalogCall(kind=kind, path="/".join(parts))
    path = list(parts)
    namespace = decode_namespace(parts[1])
    path[1] = encode_namespace(namespace)
    names = []
    for index in range(3, len(parts), 2):
        names.append(decode_segment(parts[index]))
        path[index] = encode_segment(names[-1])
    # What may follow a table's name is the id of a plan.
    return CatalogCall(kind=kind, path="/".join(path), namespace=namespace, name=names[0] if names else "")


def table_path(namespace: str, name: str) -> str:
    """Return the path of a table, as in its calls. Raise Refused (TABLE_UNKNOWN) for one that no call could name."""
    if problem := namespace_problem(namespace) or name_problem(name):
        raise Refused(Reason.TABLE_UNKNOWN, f"table {name!r} in {namespace!r} {problem}")
    return f"namespaces/{encode_namespace(namespace)}/tables/{encode_segment(name)}"


def _shape_of(parts: Sequence[str]) -> tuple[str, ...]:
    """Return the path with its names left out: below `namespaces`, every second segment is one."""
    if parts[0] != "namespaces":
        return tuple(parts)
    return tuple(_NAME if index % 2 else part for index, part in enumerate(parts))
