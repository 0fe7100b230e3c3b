"""Say which privileges a catalog call needs, and where: Polaris' operations, each by its own name."""

from __future__ import annotations

from urllib.parse import parse_qsl

import msgspec

from signproxy.catalog.call import CallKind, CatalogCall, Where
from signproxy.catalog.call_body import CallBody, Commit, Creation, NamespaceCreation, Renaming, Transaction
from signproxy.catalog.names import namespace_problem
from signproxy.errors import Reason, Refused
from signproxy.model import NAMESPACE_SEPARATOR
from signproxy.policy.privileges import Privilege

MAX_PARAMETERS = 32
MAX_QUERY = 16 * 1024
"""Characters: page tokens and chains of views are long, and nothing else is."""


class Need(msgspec.Struct, frozen=True, gc=False):
    """Privileges, all of them, at a place: a table or view, a namespace (`name` is None) or the catalog (both are)."""

    privileges: int
    namespace: str | None = None
    name: str | None = None
    made: str | None = None
    """The table that a commit makes in the namespace: it was staged before, and a token may be good for it."""


PURGE = int(Privilege.TABLE_DROP) | int(Privilege.TABLE_WRITE_DATA)
"""For a drop that deletes the files, too."""
TABLE_ARRIVES = int(Privilege.TABLE_LIST) | int(Privilege.TABLE_CREATE)
VIEW_ARRIVES = int(Privilege.VIEW_LIST) | int(Privilege.VIEW_CREATE)
"""At the namespace that a rename leads to."""
REPLACES_TABLE = int(Privilege.TABLE_FULL_METADATA)
"""At a table whose metadata a registration may replace, besides what creating it needs."""

_CREATES = CallKind.CREATE_TABLE.privileges
_CHANGES = CallKind.UPDATE_TABLE.privileges


def needs(call: CatalogCall, query: str, body: CallBody | None) -> tuple[Need, ...]:
    """Return what a call needs, each of them; never nothing. `body` is what `call_body.read_body` found.

    Where the body decides and was not read, the privilege is asked of the catalog itself.

    Raise Refused (ROUTE_MALFORMED) for a query that cannot be judged.
    """
    privileges = call.kind.privileges
    match body:
        case NamespaceCreation(namespace):
            return (Need(privileges, namespace.rpartition(NAMESPACE_SEPARATOR)[0] or None),)
        case Creation(name, overwrite=True) if call.kind is CallKind.REGISTER_TABLE:
            return Need(privileges, call.namespace), Need(REPLACES_TABLE, call.namespace, name)
        case Renaming(source, destination):
            arrives = TABLE_ARRIVES if call.kind is CallKind.RENAME_TABLE else VIEW_ARRIVES
            return Need(privileges, *source), Need(arrives, destination[0])
        case Commit() if call.kind is CallKind.UPDATE_TABLE:
            return (_of_commit(body),)
        case Transaction(commits):
            return tuple(dict.fromkeys(map(_of_commit, commits))) or (Need(privileges),)
        case _:
            return (_of_path(call, query),)


def needs_beforehand(call: CatalogCall) -> tuple[Need, ...]:
    """Return what a call needs one of, whatever its body says; nothing where the body alone tells the place."""
    if call.kind.where is Where.BODY:
        return ()
    if call.kind is CallKind.UPDATE_TABLE:
        return tuple(_of_commit(Commit((call.namespace, call.name), creates=creates)) for creates in (True, False))
    return (_of_path(call, ""),)


def parent_asked(query: str) -> str | None:
    """Return the namespace whose children are asked for; None for those at the top. Raise Refused."""
    given = [value for name, value in _parameters(query) if name.casefold() == "parent"]
    if len(given) > 1:
        raise Refused(Reason.ROUTE_MALFORMED, "the query names several parents")
    if not given or not given[0]:
        return None
    if problem := namespace_problem(given[0]):
        raise Refused(Reason.ROUTE_MALFORMED, f"the parent {given[0]!r} {problem}")
    return given[0]


def purges(query: str) -> bool:
    """Whether a drop asks for the files' deletion; whatever is not plainly `false` does. Raise Refused."""
    return any(
        name.casefold() == "purgerequested" and value.casefold() != "false" for name, value in _parameters(query)
    )


def _of_path(call: CatalogCall, query: str) -> Need:
    privileges = call.kind.privileges
    match call.kind.where:
        case Where.NOWHERE | Where.BODY:
            return Need(privileges)
        case Where.PARENT:
            return Need(privileges, parent_asked(query))
        case Where.NAMESPACE:
            return Need(privileges, call.namespace)
        case Where.TABLE | Where.VIEW:
            purge = call.kind is CallKind.DROP_TABLE and purges(query)
            return Need(PURGE if purge else privileges, call.namespace, call.name)


def _of_commit(commit: Commit) -> Need:
    namespace, name = commit.place
    if commit.creates:
        return Need(_CREATES, namespace, made=name)
    return Need(_CHANGES, namespace, name)


def _parameters(query: str) -> list[tuple[str, str]]:
    # Some servers take a semicolon for an ampersand; clients encode it.
    if ";" in query or not query.isascii() or len(query) > MAX_QUERY:
        raise Refused(Reason.ROUTE_MALFORMED, "the query is not encoded as parameters are")
    try:
        return parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS)
    except ValueError as error:
        raise Refused(Reason.ROUTE_MALFORMED, f"the query: {error}") from None
