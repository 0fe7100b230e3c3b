"""Read what the body of a catalog call names, and nothing else of it.

The body is sent on byte for byte, so everything that is judged here must be what the upstream finds in it: no member is
given twice, and none differs from a judged one by its case alone.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import NamedTuple, Protocol

import msgspec
from msgspec import Raw

from signproxy.catalog import json_object
from signproxy.catalog.call import CallKind, CatalogCall
from signproxy.catalog.json_object import JsonInvalid, Most, check_spelling, member, read_list, read_object, read_string
from signproxy.catalog.names import MAX_LEVELS, MAX_NAME, name_problem, namespace_problem
from signproxy.errors import Reason, Refused
from signproxy.model import NAMESPACE_SEPARATOR

MAX_COMMAS = 128 * 1024
"""Of one body, those inside strings included. The parser cannot be interrupted, and this bounds what it finds in one
go: 131,072 members take 30 ms. A schema of 25,000 columns has fewer, as have the updates that expire 60,000 snapshots
one by one."""
MAX_TABLES = 10_000
"""Of one transaction; each is judged by itself."""
MAX_REQUIREMENTS = 10_000
"""Of one table. Java sends one for each branch at most."""
MAX_UPDATES = 50_000
"""Of one table. Commits have tens; Java's older versions expire each snapshot with an update of its own."""
MAX_MEMBERS = 1000
"""Of any object but properties: the specification has none with more than twenty."""
MAX_PROPERTIES = 10_000
"""Of one table or namespace, in one call or update."""
MAX_NAMESPACE = 12 * (MAX_NAME + MAX_LEVELS)
"""Bytes of a namespace as JSON: JSON writes no character in more than twelve."""

_BYTES_PER_PART = 512
"""The parser passes over so many in the time in which one member is looked at."""

_TABLES = Most(MAX_TABLES, "tables of a transaction")
_REQUIREMENTS = Most(MAX_REQUIREMENTS, "requirements of a table")
_MEMBERS = Most(MAX_MEMBERS, "members of an object")
_LEVELS = Most(MAX_LEVELS, "levels of a namespace")

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


class Charges(Protocol):
    """Takes down what the parts of one body cost, before they are read. Each method may raise Refused."""

    def tables(self, count: int) -> None:
        """Charge tables of a transaction: each is judged besides."""

    def parts(self, count: int) -> None:
        """Charge members of objects and elements of arrays."""


class Pace:
    """How far one body is read: its parts are charged before they are read, and others have their turn in between."""

    __slots__ = ("_charges", "_done")

    def __init__(self, charges: Charges) -> None:
        self._charges = charges
        self._done = 0

    def tables(self, changes: Raw) -> list[Raw]:
        """Return the tables of a transaction. Raise JsonInvalid."""
        found = read_list(changes, _TABLES)
        self._charges.tables(len(found))
        self.done(0, changes)
        return found

    def elements(self, array: Raw | None, most: Most) -> list[Raw]:
        """Return the elements of an array; null, or one that is not there, has none. Raise JsonInvalid."""
        if array in (None, Raw(b"null")):
            return []
        found = read_list(array, most)
        self._charges.parts(len(found))
        self.done(0, array)
        return found

    def members(self, content: bytes | Raw) -> dict[str, Raw]:
        """Return the members of an object. Raise JsonInvalid."""
        found = read_object(content, _MEMBERS, self._charges.parts)
        self.done(1 + len(found), content)
        return found

    def done(self, parts: int, text: bytes | Raw = b"") -> None:
        """Take down that so many parts were looked at, and that the parser passed over a text."""
        self._done += parts + len(memoryview(text)) // _BYTES_PER_PART

    def charge(self, parts: int) -> None:
        """Charge parts that are read by other means."""
        self._charges.parts(parts)

    def is_due(self) -> bool:
        """Whether others are to have their turn now."""
        if self._done < json_object.AT_ONCE:
            return False
        self._done = 0
        return True


class ReadBody(NamedTuple):
    """A body as far as it was read."""

    said: CallBody | None
    """What it names; None for a kind of call whose path says all."""
    changes: list[dict[str, Raw]]
    """The body's own members; of a transaction those of each table."""


def reads_body(kind: CallKind) -> bool:
    """Whether the body says what the call is about, so that it has to be there whole before it is judged."""
    return kind in _READERS or kind in _IN_PIECES


def commas_in(kind: CallKind, content: bytes) -> int:
    """Return how many commas a body has: no parser finds more values in it, but for one. Raise Refused for too many."""
    found = content.count(b",")
    if found > MAX_COMMAS:
        raise Refused(Reason.MESSAGE_MALFORMED, f"{kind.word}: {found} commas, at most {MAX_COMMAS} are in a body")
    return found


def read_body(call: CatalogCall, content: bytes, pace: Pace) -> Generator[None, None, ReadBody]:
    """Return what the body names, and what was read of it. `commas_in` has bounded it.

    Raise Refused (MESSAGE_MALFORMED), or what `pace` raises.
    """
    try:
        members = pace.members(content)
        if pace.is_due():
            yield
        if call.kind in _IN_PIECES:
            return (yield from _IN_PIECES[call.kind](call, members, pace))
        read = _READERS.get(call.kind)
        return ReadBody(None if read is None else read(members, pace), [members])
    except JsonInvalid as invalid:
        raise Refused(Reason.MESSAGE_MALFORMED, f"{call.kind.word}: {invalid}") from None


def _namespace_creation(body: dict[str, Raw], pace: Pace) -> NamespaceCreation:
    check_spelling(body, frozenset({"namespace"}))
    return NamespaceCreation(_levels(_member(body, "namespace"), pace))


def _table_creation(body: dict[str, Raw], _: Pace) -> Creation:
    check_spelling(body, frozenset({"name", "stage-create"}))
    return Creation(_name(body), staged=_is_true(body, "stage-create"))


def _registration(body: dict[str, Raw], _: Pace) -> Creation:
    check_spelling(body, frozenset({"name", "overwrite"}))
    return Creation(_name(body), overwrite=_is_true(body, "overwrite"))


def _renaming(body: dict[str, Raw], pace: Pace) -> Renaming:
    check_spelling(body, frozenset({"source", "destination"}))
    return Renaming(_place(_member(body, "source"), pace), _place(_member(body, "destination"), pace))


def _commit(call: CatalogCall, body: dict[str, Raw], pace: Pace) -> Generator[None, None, ReadBody]:
    """Read a commit to the table or view of the path; what the body calls it must be the same."""
    commit = yield from _change(body, (call.namespace, call.name), pace)
    if commit.place != (call.namespace, call.name):
        raise JsonInvalid("identifier is not the table of the path")
    return ReadBody(commit, [body])


def _transaction(_: CatalogCall, body: dict[str, Raw], pace: Pace) -> Generator[None, None, ReadBody]:
    check_spelling(body, frozenset({"table-changes"}))
    changes: list[dict[str, Raw]] = []
    commits: list[Commit] = []
    for change in pace.tables(_member(body, "table-changes")):
        if pace.is_due():
            yield
        changes.append(pace.members(change))
        commits.append((yield from _change(changes[-1], None, pace)))
    return ReadBody(Transaction(tuple(commits)), changes)


_READERS: dict[CallKind, Callable[[dict[str, Raw], Pace], CallBody]] = {
    CallKind.CREATE_NAMESPACE: _namespace_creation,
    CallKind.CREATE_TABLE: _table_creation,
    CallKind.REGISTER_TABLE: _registration,
    CallKind.RENAME_TABLE: _renaming,
    CallKind.CREATE_VIEW: _table_creation,
    CallKind.RENAME_VIEW: _renaming,
    CallKind.REGISTER_VIEW: _registration,
}
_IN_PIECES: dict[CallKind, Callable[[CatalogCall, dict[str, Raw], Pace], Generator[None, None, ReadBody]]] = {
    CallKind.UPDATE_TABLE: _commit,
    CallKind.REPLACE_VIEW: _commit,
    CallKind.COMMIT_TRANSACTION: _transaction,
}


def _change(body: dict[str, Raw], place: Place | None, pace: Pace) -> Generator[None, None, Commit]:
    check_spelling(body, frozenset({"identifier", "requirements"}))
    if place is None or member(body, "identifier") is not None:
        place = _place(_member(body, "identifier"), pace)
    for requirement in pace.elements(member(body, "requirements"), _REQUIREMENTS):
        if pace.is_due():
            yield
        if _asserts_create(requirement, pace):
            return Commit(place, creates=True)
    return Commit(place)


def _asserts_create(requirement: Raw, pace: Pace) -> bool:
    members = pace.members(requirement)
    check_spelling(members, frozenset({"type"}))
    # Java reads the type in any case.
    return read_string(_member(members, "type")).lower() == "assert-create"


def _place(identifier: Raw, pace: Pace) -> Place:
    members = pace.members(identifier)
    check_spelling(members, frozenset({"namespace", "name"}))
    return _levels(_member(members, "namespace"), pace), _name(members)


def _levels(value: Raw, pace: Pace) -> str:
    size = len(memoryview(value))
    if size > MAX_NAMESPACE:
        raise JsonInvalid(f"namespace of {size} bytes, at most {MAX_NAMESPACE} are read")
    levels = [read_string(level) for level in pace.elements(value, _LEVELS)]
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
    return member(members, name) not in (None, Raw(b"false"))
