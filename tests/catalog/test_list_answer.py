"""Lists, without what their reader may not see."""

from __future__ import annotations

import json

import pytest

from signproxy.catalog.list_answer import MAX_TOKEN, list_answer
from signproxy.errors import Reason, Refused
from tests.pieces import drained


def everything(_namespace: str, _name: str | None) -> bool:
    return True


def told(value: object, seen: set[tuple[str, str | None]] | None = None) -> object:
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    visible = everything if seen is None else lambda namespace, name: (namespace, name) in seen
    return json.loads(drained(list_answer(content, visible)))


TABLES = {
    "identifiers": [
        {"namespace": ["a"], "name": "t"},
        {"namespace": ["a", "b"], "name": "t"},
        {"namespace": ["a"], "name": "u"},
    ],
    "next-page-token": "opaque==",
}
NAMESPACES = {"namespaces": [["a"], ["a", "b"], ["c.d"]], "next-page-token": None}


def test_what_may_be_seen_is_shown() -> None:
    """Users would look in vain for their tables."""
    assert told(TABLES) == TABLES
    assert told(NAMESPACES) == NAMESPACES


def test_what_may_not_be_seen_is_not_shown() -> None:
    """A name alone tells of other people's work."""
    assert told(TABLES, {("a\x1fb", "t"), ("a", None)}) == {
        "identifiers": [{"namespace": ["a", "b"], "name": "t"}],
        "next-page-token": "opaque==",
    }
    assert told(NAMESPACES, {("a\x1fb", None), ("c\x1fd", None)}) == {
        "namespaces": [["a", "b"]],
        "next-page-token": None,
    }
    # A page of others' tables is empty, and not the last one.
    assert told(TABLES, set()) == {"identifiers": [], "next-page-token": "opaque=="}


@pytest.mark.parametrize(
    "value",
    (
        {},
        {"identifiers": []},
        {"namespaces": None},
        {"identifiers": [], "next-page-token": ""},
        {"next-page-token": None},
    ),
)
def test_pages_are_kept_as_they_are(value: dict[str, object]) -> None:
    """A client that is given an empty token asks for ever, and one that is given none stops."""
    assert told(value) == value


def test_anything_else_in_a_list_goes() -> None:
    """Keys could stand in it."""
    noted = {
        "identifiers": [{"namespace": ["a"], "name": "t", "config": {"k": "v"}}],
        "storage-credentials": [1],
        "x": 1,
    }
    assert told(noted) == {"identifiers": [{"namespace": ["a"], "name": "t"}]}


@pytest.mark.parametrize(
    "identifier",
    (
        {"namespace": ["a\x1fb"], "name": "t"},
        {"namespace": [], "name": "t"},
        {"namespace": [""], "name": "t"},
        {"namespace": ["a", ""], "name": "t"},
        {"namespace": ["a"], "name": ""},
        {"namespace": ["a"], "name": "b/c"},
        {"namespace": ["a"], "name": ".."},
        {"namespace": ["a/b"], "name": "t"},
        {"namespace": ["a"], "name": "t\x1fu"},
    ),
)
def test_a_name_that_no_call_could_have_is_not_shown(identifier: dict[str, object]) -> None:
    """One level that looks like two would be judged as the two."""
    assert told({"identifiers": [identifier]}) == {"identifiers": []}
    assert identifier["name"] != "t" or told({"namespaces": [identifier["namespace"]]}) == {"namespaces": []}


@pytest.mark.parametrize(
    "content",
    (
        b"",
        b"[]",
        b'{"identifiers":{}}',
        b'{"identifiers":[{"name":"t"}]}',
        b'{"identifiers":[{"namespace":"a","name":"t"}]}',
        b'{"identifiers":[{"namespace":["a"],"name":null}]}',
        b'{"identifiers":["a.t"]}',
        b'{"namespaces":["a"]}',
        b'{"namespaces":[[1]]}',
        b'{"next-page-token":1}',
        b'{"namespaces":[["\xff"]]}',
        b'\xef\xbb\xbf{"namespaces":[]}',
        b'{"namespaces":' + b"[" * 100_000,
        json.dumps({"next-page-token": "x" * (MAX_TOKEN + 1)}).encode(),
    ),
    ids=lambda content: str(content)[:30],
)
def test_a_list_that_is_none_is_refused(content: bytes) -> None:
    """A list that cannot be read cannot be filtered."""
    with pytest.raises(Refused) as refused:
        told(content)
    assert refused.value.reason is Reason.UPSTREAM_INVALID


def test_of_two_lists_of_one_name_the_client_gets_the_one_that_was_filtered() -> None:
    """The other one would pass unseen."""
    content = b'{"namespaces":[["secret"]],"namespaces":[["a"]]}'
    assert told(content, {("a", None)}) == {"namespaces": [["a"]]}


@pytest.mark.parametrize("member", ("identifiers", "namespaces"))
def test_a_long_list_is_filtered_piece_by_piece(member: str) -> None:
    """Every other caller would wait for the last of ten thousand names."""
    named: list[object] = [[str(number)] for number in range(1000)]
    if member == "identifiers":
        named = [{"namespace": levels, "name": "t"} for levels in named]
    seen = {(str(number), "t" if member == "identifiers" else None) for number in range(0, 1000, 2)}
    pieces = list_answer(json.dumps({member: named}).encode(), lambda namespace, name: (namespace, name) in seen)
    assert sum(1 for _ in pieces) == 1000 // 16 + 1
    assert told({member: named}, seen) == {member: named[::2]}
