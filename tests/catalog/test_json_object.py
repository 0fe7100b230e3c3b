"""Reading JSON where it stands: what is found is what every other parser finds, or nothing is."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from signproxy.catalog.json_object import (
    AT_ONCE,
    JsonInvalid,
    Most,
    check_spelling,
    object_in_pieces,
    read_list,
    read_members,
    read_object,
    read_string,
)
from tests.pieces import drained

_KEYS = st.text(max_size=4) | st.sampled_from(("a", "b", "location", "\\u0061", '"', "\\", ",", ":", "{"))
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=12,
)
_SPACES = st.sampled_from(("", " ", "\n  ", "\t", "\r\n"))


@given(value=st.dictionaries(_KEYS, _VALUES, max_size=5), data=st.data(), ascii_only=st.booleans())
def test_members_are_those_of_any_parser_byte_for_byte(
    value: dict[str, Any], data: st.DataObject, *, ascii_only: bool
) -> None:
    """A member that is cut at the wrong place would be another one for the client."""
    comma, colon = data.draw(_SPACES) + "," + data.draw(_SPACES), data.draw(_SPACES) + ":" + data.draw(_SPACES)
    text = json.dumps(value, separators=(comma, colon), ensure_ascii=ascii_only)
    text = f"{data.draw(_SPACES)}{text}{data.draw(_SPACES)}"
    members = read_members(text.encode())
    assert list(members.values) == list(value)
    for name, expected in value.items():
        raw = members.raw(name)
        assert raw is not None
        assert bytes(raw) in text.encode()
        assert json.loads(bytes(raw)) == expected
    one_level = read_object(text.encode())
    assert {name: json.loads(bytes(raw)) for name, raw in one_level.items()} == value


def _written(pairs: list[tuple[str, str]]) -> str:
    return "{" + ",".join(f"{key}:{value}" for key, value in pairs) + "}"


_REPEATED = (
    '{"a":1,"a":1}',
    '{"a":1,"a":2}',
    '{"a":1,"b":2,"a":3}',
    # The same key in another spelling.
    '{"a":1,"\\u0061":2}',
    '{"\\u0061":1,"a":2}',
    # Values of one length, and of which one begins as the other does.
    '{"a":"x","b":1,"a":"y"}',
    '{"a":12,"b":1,"a":1}',
    '{"a":1,"b":1,"a":12}',
    '{"a":[],"b":1,"a":[1]}',
    '{"a":{},"a":{"b":1}}',
    '{"a":{"b":1},"a":{}}',
    '{"a":null,"a":{"b":1}}',
    # A value that looks like what follows it.
    '{"a":"x,","b":1,"a":"x,"}',
    '{"a":"\\",\\"b\\":1","b":1,"a":"\\",\\"b\\":1"}',
    # Inside.
    '{"metadata":{"location":"s3://b/one","location":"s3://b/two"}}',
    '{"metadata":{"location":"s3://b/one","x":{"location":1},"location":"s3://b/one"}}',
)


@pytest.mark.parametrize("text", _REPEATED)
def test_a_member_that_is_given_twice_is_refused(text: str) -> None:
    """Some parsers take the first value and some the last: signproxy would judge what the client does not use."""
    with pytest.raises(JsonInvalid, match="given twice"):
        read_members(text.encode())


@pytest.mark.parametrize("text", [text for text in _REPEATED if "metadata" not in text])
def test_a_member_that_is_given_twice_is_refused_at_one_level_too(text: str) -> None:
    """A caller's body is judged by it and sent on as it is."""
    with pytest.raises(JsonInvalid, match="given twice"):
        read_object(text.encode())


@given(
    pairs=st.lists(
        st.tuples(
            st.sampled_from(('"a"', '"b"', '"\\u0061"', '"c"', '"\\u0063"', '","', '"\\\\"', '"\\\\u0061"')),
            st.sampled_from(("1", "12", '"x"', '"x,"', '",\\"a\\":1"', "{}", '{"a":1}', "[]", "[1]", "null", "true")),
        ),
        max_size=6,
    ),
)
def test_no_repetition_is_overlooked(pairs: list[tuple[str, str]]) -> None:
    """One spelling that is not seen is enough for a catalog that lies."""
    text = _written(pairs).encode()
    names = [json.loads(key) for key, _ in pairs]
    if len(set(names)) == len(names):
        assert list(read_members(text).values) == names
        assert list(read_object(text)) == names
    else:
        for read in (read_members, read_object):
            with pytest.raises(JsonInvalid):
                read(text)


_BROKEN: tuple[tuple[bytes, str], ...] = (
    (b"", "truncated"),
    (b"{", "truncated"),
    (b'{"a":', "truncated"),
    (b'{"a":1}x', "trailing"),
    (b'{"a":1,}', "trailing comma"),
    (b"[]", "Expected `object`"),
    (b'"text"', "Expected `object`"),
    (b"null", "Expected `object`"),
    (b"<html>", "malformed"),
    # A byte order mark, which some parsers skip.
    (b'\xef\xbb\xbf{"a":1}', "malformed"),
    (b'{"a":NaN}', "malformed"),
    (b'{"a":[-Infinity]}', "malformed"),
    (b"{'a':1}", "malformed"),
    (b'{"a":"\xff"}', "not UTF-8"),
    (b'{"a":{"b":["\xff"]}}', "not UTF-8"),
    (b'{"\xff":1}', "not UTF-8"),
    (b'{"a":"\xed\xa0\x80"}', "not UTF-8"),
    # Overlong: a slash in two bytes.
    (b'{"a":["\xc0\xaf"]}', "not UTF-8"),
    (b'{"a":"\n"}', "malformed"),
    ('{"a":1}'.encode("utf-16"), "not UTF-8"),
    (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
    (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested too deeply"),
)


@pytest.mark.parametrize(("text", "problem"), _BROKEN, ids=lambda value: str(value)[:24])
def test_what_is_no_json_object_is_refused(text: bytes, problem: str) -> None:
    """A broken answer must end as one refusal, neither as a fault of signproxy nor as a table."""
    with pytest.raises(JsonInvalid, match=problem):
        read_members(text)
    with pytest.raises(JsonInvalid, match=problem):
        read_object(text)


def test_what_is_absent_has_no_bytes() -> None:
    """A caller of `raw` would copy something else."""
    members = read_members(b'{"a":null}')
    assert members.raw("b") is None
    raw = members.raw("a")
    assert raw is not None
    assert bytes(raw) == b"null"


def test_lists_and_strings() -> None:
    """Identifiers are made of them."""
    assert [read_string(each) for each in read_list(b'["a", "\\u00e9"]')] == ["a", "\u00e9"]
    for text in (b"{}", b'"a"', b"[1,", b"null"):
        with pytest.raises(JsonInvalid):
            read_list(text)
    for text in (b"1", b"null", b'"\\ud800"', b"[]"):
        with pytest.raises(JsonInvalid):
            read_string(text)


@pytest.mark.parametrize("name", ("Name", "NAME", "nAmE", "\u212aey"))
def test_a_name_in_another_case_is_refused(name: str) -> None:
    """Go's parser takes `Name` for `name`, and of both the last."""
    judged = frozenset({"name", "key"})
    check_spelling(["name", "other"], judged)
    with pytest.raises(JsonInvalid, match="member"):
        check_spelling(["name", name], judged)


def test_a_megabyte_in_one_value_is_not_parsed() -> None:
    """The facade would spend more on a table than on everything else together."""
    text = msgspec.json.encode({"metadata": {"snapshots": [{"id": number} for number in range(20_000)]}})
    members = read_members(text)
    metadata = members.values["metadata"]
    assert isinstance(metadata, dict)
    assert isinstance(metadata["snapshots"], msgspec.Raw)


def test_a_large_object_is_looked_at_piece_by_piece_and_counted_before() -> None:
    """Seven hundred thousand members took a second in which no other request had a turn."""
    text = _written([(f'"m{number}"', "1") for number in range(4 * AT_ONCE)]).encode()
    told: list[int] = []
    pieces = object_in_pieces(text, count=told.append)
    next(pieces)
    assert told == [4 * AT_ONCE]
    assert sum(1 for _ in pieces) == 3
    # What is wrong in the last piece is seen.
    with pytest.raises(JsonInvalid, match="given twice"):
        drained(object_in_pieces(text[:-1] + b',"m0":1}'))


def test_as_many_members_and_elements_are_read_as_are_asked_for() -> None:
    """The limit of a caller's body would be one less than it is said to be, or none."""
    most = Most(2, "things")
    assert len(read_object(b'{"a":1,"b":2}', most)) == len(read_list(b"[1,2]", most)) == 2
    counted: list[int] = []
    for read in (
        lambda: read_object(b'{"a":1,"b":2,"c":3}', most, counted.append),
        lambda: read_list(b"[1,2,3]", most),
    ):
        with pytest.raises(JsonInvalid, match=r"^3 things, at most 2 are read$"):
            read()
    assert counted == []
