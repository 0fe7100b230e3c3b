"""Read what the body of a catalog call names, and nothing else of it.

The body is sent on byte for byte, so everything that is judged here must be what the upstream finds in it: no member is
given twice, and none differs from a judged one by its case alone.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

import msgspec
from msgspec import Raw

from signproxy.catalog.call import CallKind, CatalogCall
from signproxy.catalog.json_object import JsonInvalid, check_spelling, read_list, read_object, read_string
from signproxy.catalog.names import name_problem, namespace_problem
from signproxy.errors import Reason, Refused
from signproxy.model import NAMESPACE_SEPARATOR

MAX_TABLES = 10_000
"""Of one transaction; each is judged by itself."""
AT_ONCE = 32
"""Of them: what is read, or judged, before others have their turn."""

Place = tuple[str, str]
"""A namespace, its levels joined by U+001F, and the name of a table or view in it."""


class NamespaceCreation(msgspec.Struct, frozen=True, gc=False):
    """A namespace that is to be created."""

    namespace: str


class Creation(msgspec.Struct, frozen=True, gc=False):
    """A table or view that is to be created or registered."""

    name: str
    staged: bool = False
    """Only prepared: it is created by the commit that follows."""
    overwrite: bool = False
    """It may take the place of a table that is there already."""


class Renaming(msgspec.Struct, frozen=True, gc=False):
    """A table or view that is to have another name."""

    source: Place
    destination: Place


class Commit(msgspec.Struct, frozen=True, gc=False):
    """Changes to one table or view."""

    place: Place
    creates: bool = False
    """It asserts that there is no such table yet, so that it can change none."""


class Transaction(msgspec.Struct, frozen=True, gc=False):
    """Changes to several tables."""

    commits: tuple[Commit, ...]


CallBody = NamespaceCreation | Creation | Renaming | Commit | Transaction


def reads_body(kind: CallKind) -> bool:
    """Whether the body says what the call is about, so that it has to be there whole before it is judged."""
    return kind in _READERS or kind is CallKind.COMMIT_TRANSACTION


def read_body(call: CatalogCall, content: bytes) -> CallBody | None:
    """Return what the body names; None where it is not looked at, or `read_transaction` does. Raise Refused."""
    read = _READERS.get(call.kind)
    if read is None:
        return None
    try:
        return read(call, read_object(content))
    except JsonInvalid as invalid:
        raise Refused(Reason.MESSAGE_MALFORMED, f"{call.kind.name.lower()}: {invalid}") from None


def _namespace_creation(_: CatalogCall, body: dict[str, Raw]) -> NamespaceCreation:
    check_spelling(body, frozenset({"namespace"}))
    return NamespaceCreation(_levels(_member(body, "namespace")))


def _table_creation(_: CatalogCall, body: dict[str, Raw]) -> Creation:
    check_spelling(body, frozenset({"name", "stage-create"}))
    return Creation(_name(body), staged=_is_true(body, "stage-create"))


def _registration(_: CatalogCall, body: dict[str, Raw]) -> Creation:
    check_spelling(body, frozenset({"name", "overwrite"}))
    return Creation(_name(body), overwrite=_is_true(body, "overwrite"))


def _renaming(_: CatalogCall, body: dict[str, Raw]) -> Renaming:
    check_spelling(body, frozenset({"source", "destination"}))
    return Renaming(_place(_member(body, "source")), _place(_member(body, "destination")))


def _commit(call: CatalogCall, body: dict[str, Raw]) -> Commit:
    """Read a commit to the table or view of the path; what the body calls it must be the same."""
    commit = _change(body, (call.namespace, call.name))
    if commit.place != (call.namespace, call.name):
        raise JsonInvalid("identifier is not the table of the path")
    return commit


def read_transaction(content: bytes, charge: Callable[[int], None]) -> Generator[None, None, Transaction]:
    """Return what a transaction changes; others have their turn between some tables and the next ones.

    How many they are is told to `charge` before they are read. Raise Refused (MESSAGE_MALFORMED), or what that raises.
    """
    try:
        body = read_object(content)
        yield
        check_spelling(body, frozenset({"table-changes"}))
        changes = read_list(_member(body, "table-changes"))
        if len(changes) > MAX_TABLES:
            raise JsonInvalid(f"{len(changes)} tables, at most {MAX_TABLES} are changed at a time")  # noqa: TRY301 - told with the others
        charge(len(changes))
        commits: list[Commit] = []
        for start in range(0, len(changes), AT_ONCE):
            yield
            commits += [_change(read_object(change), None) for change in changes[start : start + AT_ONCE]]
    except JsonInvalid as invalid:
        raise Refused(Reason.MESSAGE_MALFORMED, f"commit_transaction: {invalid}") from None
    return Transaction(tuple(commits))


_READERS: dict[CallKind, Callable[[CatalogCall, dict[str, Raw]], CallBody]] = {
    CallKind.CREATE_NAMESPACE: _namespace_creation,
    CallKind.CREATE_TABLE: _table_creation,
    CallKind.REGISTER_TABLE: _registration,
    CallKind.UPDATE_TABLE: _commit,
    CallKind.RENAME_TABLE: _renaming,
    CallKind.CREATE_VIEW: _table_creation,
    CallKind.REPLACE_VIEW: _commit,
    CallKind.RENAME_VIEW: _renaming,
    CallKind.REGISTER_VIEW: _registration,
}

_NULL = Raw(b"null")


def _change(body: dict[str, Raw], place: Place | None) -> Commit:
    check_spelling(body, frozenset({"identifier", "requirements"}))
    identifier = body.get("identifier")
    if place is None or (identifier is not None and identifier != _NULL):
        place = _place(_member(body, "identifier"))
    requirements = body.get("requirements")
    asserted = [] if requirements is None or requirements == _NULL else read_list(requirements)
    return Commit(place, creates=any(map(_asserts_create, asserted)))


def _asserts_create(requirement: Raw) -> bool:
    members = read_object(requirement)
    check_spelling(members, frozenset({"type"}))
    # Java reads the type in any case.
    return read_string(_member(members, "type")).lower() == "assert-create"


def _place(identifier: Raw) -> Place:
    members = read_object(identifier)
    check_spelling(members, frozenset({"namespace", "name"}))
    return _levels(_member(members, "namespace")), _name(members)


def _levels(value: Raw) -> str:
    levels = [read_string(level) for level in read_list(value)]
    namespace = NAMESPACE_SEPARATOR.join(levels)
    # One level that holds a separator would be two here.
    problem = namespace_problem(namespace) or ("" if namespace.count(NAMESPACE_SEPARATOR) < len(levels) else "splits")
    if problem:
        raise JsonInvalid(f"namespace {problem}")
    return namespace


def _name(members: dict[str, Raw]) -> str:
    name = read_string(_member(members, "name"))
    if problem := name_problem(name):
        raise JsonInvalid(f"name {problem}")
    return name


def _member(members: dict[str, Raw], name: str) -> Raw:
    value = members.get(name)
    if value is None:
        raise JsonInvalid(f"no {name!r}")
    return value


def _is_true(members: dict[str, Raw], name: str) -> bool:
    """Return a switch; whatever is not plainly off is on, as lenient parsers take `"true"` and 1 for it."""
    return members.get(name, _NULL) not in (_NULL, Raw(b"false"))
