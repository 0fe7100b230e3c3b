"""Read the places that the body of a catalog call chooses for tables and namespaces.

They are the caller's choice, and nothing else: the upstream may store whatever it is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable

import msgspec
from msgspec import Raw

from signproxy.catalog.call import CallKind, CatalogCall
from signproxy.catalog.call_body import (
    MAX_PROPERTIES,
    MAX_UPDATES,
    Commit,
    Creation,
    NamespaceCreation,
    Pace,
    ReadBody,
    Transaction,
)
from signproxy.catalog.json_object import JsonInvalid, Most, check_spelling, member, object_in_pieces, read_string
from signproxy.errors import Reason, Refused
from signproxy.inventory.declared.catalog_draft import LOCATION_PROPERTIES

NAMESPACE_LOCATION = "location"
"""The property of a namespace below which upstreams put the tables that no caller chose a place for."""

_NAMESPACE_PROPERTIES = frozenset({NAMESPACE_LOCATION, "default-base-location", "managed-location"})
"""What catalogs call it. A property that differs by its case alone is judged as well."""

_UPDATES = Most(MAX_UPDATES, "updates of a table")
_PROPERTIES = Most(MAX_PROPERTIES, "properties")


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


def read_chosen(call: CatalogCall, body: ReadBody, pace: Pace) -> Generator[None, None, tuple[ChosenLocations, ...]]:
    """Return what the call chooses; nothing where the upstream is left to choose.

    Raise Refused (MESSAGE_MALFORMED) for a choice that two parsers could read as two, or what `pace` raises.
    """
    read = _READERS.get(call.kind)
    if read is None:
        return ()
    try:
        chosen = yield from read(call, body, pace)
    except JsonInvalid as invalid:
        raise Refused(Reason.MESSAGE_MALFORMED, f"{call.kind.word}: {invalid}") from None
    return tuple(each for each in chosen if each.locations)


_Choices = Generator[None, None, Iterable[ChosenLocations]]


def _of_creation(call: CatalogCall, body: ReadBody, pace: Pace) -> _Choices:
    (members,) = body.changes
    check_spelling(members, frozenset({"location", "properties"}))
    name = body.said.name if isinstance(body.said, Creation) else ""
    found = yield from _of_properties(members, "properties", pace)
    return (ChosenLocations(call.namespace, name, (*_text(members, "location"), *found)),)


def _of_registration(call: CatalogCall, body: ReadBody, _: Pace) -> _Choices:
    yield from ()
    (members,) = body.changes
    check_spelling(members, frozenset({"metadata-location"}))
    name = body.said.name if isinstance(body.said, Creation) else ""
    # What is in the file is known once the upstream has read it; the table can lie around the file at best.
    folders = tuple(file.rpartition("/")[0] for file in _text(members, "metadata-location"))
    return (ChosenLocations(call.namespace, name, folders),)


def _of_commits(_: CatalogCall, body: ReadBody, pace: Pace) -> _Choices:
    match body.said:
        case Commit() as commit:
            commits: tuple[Commit, ...] = (commit,)
        case Transaction(commits):
            pass
        case _:
            commits = ()
    chosen: list[ChosenLocations] = []
    for commit, change in zip(commits, body.changes, strict=True):
        chosen.append((yield from _of_change(commit, change, pace)))
    return chosen


def _of_namespace(_: CatalogCall, body: ReadBody, pace: Pace) -> _Choices:
    (members,) = body.changes
    check_spelling(members, frozenset({"properties"}))
    namespace = body.said.namespace if isinstance(body.said, NamespaceCreation) else ""
    found = yield from _of_namespace_properties(members, "properties", pace)
    return (ChosenLocations(namespace, "", found),)


def _of_namespace_change(call: CatalogCall, body: ReadBody, pace: Pace) -> _Choices:
    (members,) = body.changes
    check_spelling(members, frozenset({"updates"}))
    found = yield from _of_namespace_properties(members, "updates", pace)
    return (ChosenLocations(call.namespace, "", found, creates=False),)


_READERS: dict[CallKind, Callable[[CatalogCall, ReadBody, Pace], _Choices]] = {
    CallKind.CREATE_NAMESPACE: _of_namespace,
    CallKind.UPDATE_NAMESPACE: _of_namespace_change,
    CallKind.CREATE_TABLE: _of_creation,
    CallKind.REGISTER_TABLE: _of_registration,
    CallKind.UPDATE_TABLE: _of_commits,
    CallKind.COMMIT_TRANSACTION: _of_commits,
}


def _of_change(commit: Commit, change: dict[str, Raw], pace: Pace) -> Generator[None, None, ChosenLocations]:
    check_spelling(change, frozenset({"updates"}))
    found: list[str] = []
    for update in pace.elements(member(change, "updates"), _UPDATES):
        if pace.is_due():
            yield
        members = pace.members(update)
        check_spelling(members, frozenset({"action", "location", "updates", "updated"}))
        # Java reads the action in any case.
        match "".join(_text(members, "action")).lower():
            case "set-location":
                found += _text(members, "location")
            case "set-properties":
                found += yield from _of_properties(members, "updates", pace)
                # The former name of the same member, which is still read.
                found += yield from _of_properties(members, "updated", pace)
            case _:
                pass
    return ChosenLocations(*commit.place, tuple(found), creates=commit.creates)


def _of_properties(members: dict[str, Raw], name: str, pace: Pace) -> Generator[None, None, tuple[str, ...]]:
    given = yield from _properties(members, name, pace)
    return tuple(text for key in LOCATION_PROPERTIES for text in _text(given, key))


def _of_namespace_properties(members: dict[str, Raw], name: str, pace: Pace) -> Generator[None, None, tuple[str, ...]]:
    given = yield from _properties(members, name, pace)
    return tuple(text for key in given if key.casefold() in _NAMESPACE_PROPERTIES for text in _text(given, key))


def _properties(members: dict[str, Raw], name: str, pace: Pace) -> Generator[None, None, dict[str, Raw]]:
    properties = member(members, name)
    if properties is None:
        return {}
    given = yield from object_in_pieces(properties, _PROPERTIES, pace.charge)
    pace.done(len(given))
    return given


def _text(members: dict[str, Raw], name: str) -> tuple[str, ...]:
    value = member(members, name)
    return () if value is None else (read_string(value),)
