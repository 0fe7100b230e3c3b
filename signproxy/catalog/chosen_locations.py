"""Read the places that the body of a catalog call chooses for tables and namespaces.

They are the caller's choice, and nothing else: the upstream may store whatever it is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

import msgspec
from msgspec import Raw

from signproxy.catalog.call import CallKind, CatalogCall
from signproxy.catalog.call_body import AT_ONCE, CallBody, Commit, Creation, NamespaceCreation, Transaction
from signproxy.catalog.json_object import JsonInvalid, check_spelling, read_list, read_object, read_string
from signproxy.errors import Reason, Refused
from signproxy.inventory.catalog_draft import LOCATION_PROPERTIES

NAMESPACE_LOCATION = "location"
"""The property of a namespace below which upstreams put the tables that no caller chose a place for."""

_NAMESPACE_PROPERTIES = frozenset({NAMESPACE_LOCATION, "default-base-location", "managed-location"})
"""What catalogs call it. A property that differs by its case alone is judged as well."""


class ChosenLocations(msgspec.Struct, frozen=True, gc=False):
    """What a call chooses for one table, or (`name` is empty) for a namespace."""

    namespace: str
    name: str
    locations: tuple[str, ...]
    """As the caller spells them."""
    creates: bool = True
    """There is no such table or namespace before the call."""


def may_choose(kind: CallKind) -> bool:
    """Whether a call of this kind can choose a place, so that its body has to be read."""
    return kind in _READERS


def read_chosen(
    call: CatalogCall, body: CallBody | None, content: bytes
) -> Generator[None, None, tuple[ChosenLocations, ...]]:
    """Return what the call chooses; nothing where the upstream is left to choose. `body` is what names it.

    Others have their turn between some tables of a transaction and the next ones. Raise Refused (MESSAGE_MALFORMED) for
    a choice that two parsers could read as two.
    """
    read = _READERS.get(call.kind)
    if read is None:
        return ()
    chosen: list[ChosenLocations] = []
    try:
        for number, each in enumerate(read(call, body, read_object(content)), 1):
            if each.locations:
                chosen.append(each)
            if number % AT_ONCE == 0:
                yield
    except JsonInvalid as invalid:
        raise Refused(Reason.MESSAGE_MALFORMED, f"{call.kind.name.lower()}: {invalid}") from None
    return tuple(chosen)


def _of_creation(call: CatalogCall, body: CallBody | None, members: dict[str, Raw]) -> Iterator[ChosenLocations]:
    check_spelling(members, frozenset({"location", "properties"}))
    name = body.name if isinstance(body, Creation) else ""
    yield ChosenLocations(call.namespace, name, (*_text(members, "location"), *_of_properties(members, "properties")))


def _of_registration(call: CatalogCall, body: CallBody | None, members: dict[str, Raw]) -> Iterator[ChosenLocations]:
    check_spelling(members, frozenset({"metadata-location"}))
    name = body.name if isinstance(body, Creation) else ""
    # What is in the file is known once the upstream has read it; the table can lie around the file at best.
    folders = tuple(file.rpartition("/")[0] for file in _text(members, "metadata-location"))
    yield ChosenLocations(call.namespace, name, folders)


def _of_commit(_: CatalogCall, body: CallBody | None, members: dict[str, Raw]) -> Iterator[ChosenLocations]:
    if isinstance(body, Commit):
        yield _of_change(body, members)


def _of_transaction(_: CatalogCall, body: CallBody | None, members: dict[str, Raw]) -> Iterator[ChosenLocations]:
    changes = read_list(members["table-changes"])
    commits = body.commits if isinstance(body, Transaction) else ()
    for commit, change in zip(commits, changes, strict=True):
        yield _of_change(commit, read_object(change))


def _of_namespace(_: CatalogCall, body: CallBody | None, members: dict[str, Raw]) -> Iterator[ChosenLocations]:
    check_spelling(members, frozenset({"properties"}))
    namespace = body.namespace if isinstance(body, NamespaceCreation) else ""
    yield ChosenLocations(namespace, "", tuple(_of_namespace_properties(members, "properties")))


def _of_namespace_change(call: CatalogCall, _: CallBody | None, members: dict[str, Raw]) -> Iterator[ChosenLocations]:
    check_spelling(members, frozenset({"updates"}))
    found = tuple(_of_namespace_properties(members, "updates"))
    yield ChosenLocations(call.namespace, "", found, creates=False)


_Reader = Callable[[CatalogCall, CallBody | None, dict[str, Raw]], Iterator[ChosenLocations]]

_READERS: dict[CallKind, _Reader] = {
    CallKind.CREATE_NAMESPACE: _of_namespace,
    CallKind.UPDATE_NAMESPACE: _of_namespace_change,
    CallKind.CREATE_TABLE: _of_creation,
    CallKind.REGISTER_TABLE: _of_registration,
    CallKind.UPDATE_TABLE: _of_commit,
    CallKind.COMMIT_TRANSACTION: _of_transaction,
}

_NULL = Raw(b"null")


def _of_change(commit: Commit, change: dict[str, Raw]) -> ChosenLocations:
    check_spelling(change, frozenset({"updates"}))
    updates = change.get("updates", _NULL)
    found: list[str] = []
    for update in () if updates == _NULL else read_list(updates):
        members = read_object(update)
        check_spelling(members, frozenset({"action", "location", "updates", "updated"}))
        # Java reads the action in any case.
        match "".join(_text(members, "action")).lower():
            case "set-location":
                found += _text(members, "location")
            case "set-properties":
                # The second is the former name of the first, and is still read.
                found += (*_of_properties(members, "updates"), *_of_properties(members, "updated"))
            case _:
                pass
    return ChosenLocations(*commit.place, tuple(found), creates=commit.creates)


def _of_properties(members: dict[str, Raw], name: str) -> Iterator[str]:
    properties = members.get(name, _NULL)
    if properties != _NULL:
        given = read_object(properties)
        for key in LOCATION_PROPERTIES:
            yield from _text(given, key)


def _of_namespace_properties(members: dict[str, Raw], name: str) -> Iterator[str]:
    properties = members.get(name, _NULL)
    if properties != _NULL:
        given = read_object(properties)
        for key in given:
            if key.casefold() in _NAMESPACE_PROPERTIES:
                yield from _text(given, key)


def _text(members: dict[str, Raw], name: str) -> tuple[str, ...]:
    value = members.get(name, _NULL)
    return () if value == _NULL else (read_string(value),)
