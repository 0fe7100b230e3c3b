"""Know the calls of the Iceberg REST specification (1.12), and find the one that a request makes."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Self

import msgspec

from signproxy.catalog.names import (
    decode_namespace,
    decode_segment,
    encode_segment,
    name_problem,
    namespace_problem,
)
from signproxy.errors import Reason, Refused
from signproxy.policy.privileges import Privilege


class Where(Enum):
    """The place of a call at which a privilege is needed."""

    NOWHERE = "none"
    """Nothing is needed but to be known in the catalog."""
    PARENT = "parent namespace, or catalog"
    NAMESPACE = "namespace"
    TABLE = "table"
    VIEW = "view"
    BODY = "as the body says"


class AnswerChange(Enum):
    """What is changed in a 200 of the upstream."""

    MERGED = "merged with signproxy's own: `config_answer`"
    SIGNER = "keys out, facts learned, signer in: `read_table`, `TableAnswer.with_grant`"
    LEARNED = "facts learned, the table alone passes: `read_table`, `TableAnswer.of_commit`"
    FILTERED = "what may not be seen is left out: `list_answer`"
    FIELDS = "only the specification's members pass, keys never: `plain_answer`"
    EMPTY = "has no body"


_NAMESPACE = "/v1/{prefix}/namespaces/{namespace}"
_TABLE = _NAMESPACE + "/tables/{table}"
_VIEW = _NAMESPACE + "/views/{view}"
_P, _A = Privilege, AnswerChange


class CallKind(Enum):
    """Every call that passes: its route, what it needs where, as far as its path says, and what becomes of its answer.

    The value is the route, spelled as `/v1/config` advertises it.
    """

    _value_: str
    CONFIG = ("GET", "/v1/config", Where.NOWHERE, 0, _A.MERGED)
    TOKENS = ("POST", "/v1/oauth/tokens", Where.NOWHERE, 0, _A.FIELDS)
    LIST_NAMESPACES = ("GET", "/v1/{prefix}/namespaces", Where.PARENT, _P.NAMESPACE_LIST, _A.FILTERED)
    CREATE_NAMESPACE = ("POST", "/v1/{prefix}/namespaces", Where.BODY, _P.NAMESPACE_CREATE, _A.FIELDS)
    LOAD_NAMESPACE = ("GET", _NAMESPACE, Where.NAMESPACE, _P.NAMESPACE_READ_PROPERTIES, _A.FIELDS)
    NAMESPACE_EXISTS = ("HEAD", _NAMESPACE, Where.NAMESPACE, _P.NAMESPACE_LIST, _A.EMPTY)
    DROP_NAMESPACE = ("DELETE", _NAMESPACE, Where.NAMESPACE, _P.NAMESPACE_DROP, _A.EMPTY)
    UPDATE_NAMESPACE = (
        "POST",
        _NAMESPACE + "/properties",
        Where.NAMESPACE,
        _P.NAMESPACE_WRITE_PROPERTIES,
        _A.FIELDS,
    )
    LIST_TABLES = ("GET", _NAMESPACE + "/tables", Where.NAMESPACE, _P.TABLE_LIST, _A.FILTERED)
    CREATE_TABLE = ("POST", _NAMESPACE + "/tables", Where.NAMESPACE, _P.TABLE_CREATE, _A.SIGNER)
    REGISTER_TABLE = ("POST", _NAMESPACE + "/register", Where.NAMESPACE, _P.TABLE_CREATE, _A.SIGNER)
    LOAD_TABLE = ("GET", _TABLE, Where.TABLE, _P.TABLE_READ_PROPERTIES, _A.SIGNER)
    TABLE_EXISTS = ("HEAD", _TABLE, Where.TABLE, _P.TABLE_LIST, _A.EMPTY)
    UPDATE_TABLE = ("POST", _TABLE, Where.TABLE, _P.TABLE_WRITE_PROPERTIES, _A.LEARNED)
    DROP_TABLE = ("DELETE", _TABLE, Where.TABLE, _P.TABLE_DROP, _A.EMPTY)
    RENAME_TABLE = ("POST", "/v1/{prefix}/tables/rename", Where.BODY, _P.TABLE_DROP, _A.EMPTY)
    COMMIT_TRANSACTION = (
        "POST",
        "/v1/{prefix}/transactions/commit",
        Where.BODY,
        _P.TABLE_WRITE_PROPERTIES,
        _A.EMPTY,
    )
    # A client that loaded a table reports on it; Polaris asks for nothing at all.
    REPORT_METRICS = ("POST", _TABLE + "/metrics", Where.TABLE, _P.TABLE_READ_PROPERTIES, _A.EMPTY)
    LOAD_CREDENTIALS = ("GET", _TABLE + "/credentials", Where.TABLE, _P.TABLE_READ_DATA, _A.FIELDS)
    # A plan tells the least and greatest value of columns, and every file's name.
    PLAN_TABLE = ("POST", _TABLE + "/plan", Where.TABLE, _P.TABLE_READ_DATA, _A.FIELDS)
    FETCH_PLAN = ("GET", _TABLE + "/plan/{plan-id}", Where.TABLE, _P.TABLE_READ_DATA, _A.FIELDS)
    CANCEL_PLAN = ("DELETE", _TABLE + "/plan/{plan-id}", Where.TABLE, _P.TABLE_READ_DATA, _A.EMPTY)
    FETCH_TASKS = ("POST", _TABLE + "/tasks", Where.TABLE, _P.TABLE_READ_DATA, _A.FIELDS)
    LIST_VIEWS = ("GET", _NAMESPACE + "/views", Where.NAMESPACE, _P.VIEW_LIST, _A.FILTERED)
    CREATE_VIEW = ("POST", _NAMESPACE + "/views", Where.NAMESPACE, _P.VIEW_CREATE, _A.FIELDS)
    LOAD_VIEW = ("GET", _VIEW, Where.VIEW, _P.VIEW_READ_PROPERTIES, _A.FIELDS)
    VIEW_EXISTS = ("HEAD", _VIEW, Where.VIEW, _P.VIEW_LIST, _A.EMPTY)
    REPLACE_VIEW = ("POST", _VIEW, Where.VIEW, _P.VIEW_WRITE_PROPERTIES, _A.FIELDS)
    DROP_VIEW = ("DELETE", _VIEW, Where.VIEW, _P.VIEW_DROP, _A.EMPTY)
    RENAME_VIEW = ("POST", "/v1/{prefix}/views/rename", Where.BODY, _P.VIEW_DROP, _A.EMPTY)
    REGISTER_VIEW = ("POST", _NAMESPACE + "/register-view", Where.NAMESPACE, _P.VIEW_CREATE, _A.FIELDS)

    def __new__(cls, method: str, path: str, *_: object) -> Self:
        """Make a member whose value is its route."""
        kind = object.__new__(cls)
        kind._value_ = f"{method} {path}"
        return kind

    def __init__(self, method: str, path: str, where: Where, privileges: int, change: AnswerChange) -> None:
        self.method = method
        self.word = self.name.lower()
        """What it is called in events, metrics and refusals."""
        self.segments = tuple(path.removeprefix("/v1/").removeprefix("{prefix}/").split("/"))
        """Of the path below `/v1/{prefix}/`; those in braces stand for a name."""
        self.where = where
        self.privileges = int(privileges)
        self.change = change


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
    # The path with its names left out: below `namespaces`, every second segment is one.
    shape = [_NAME if index % 2 else part for index, part in enumerate(parts)] if parts[0] == "namespaces" else parts
    kinds = _ROUTES.get(tuple(shape))
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
    path[1] = encode_segment(namespace)
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
    return f"namespaces/{encode_segment(namespace)}/tables/{encode_segment(name)}"
