"""Names in paths: decoded once, written in one spelling, and nothing that another server could read as another name."""

from __future__ import annotations

from urllib.parse import quote_plus, unquote, unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signproxy.catalog.names import (
    MAX_LEVELS,
    MAX_NAME,
    decode_namespace,
    decode_segment,
    decoded,
    encode_segment,
    name_problem,
    namespace_problem,
)
from signproxy.errors import Reason, Refused

_LEVEL = st.text(min_size=1, max_size=12).filter(lambda text: not name_problem(text))


@pytest.mark.parametrize(
    ("raw", "name"),
    (
        ("t", "t"),
        ("a+b", "a b"),
        ("a%20b", "a b"),
        ("a%2Bb", "a+b"),
        ("a%2bb", "a+b"),
        # Decoded once.
        ("a%252Fb", "a%2Fb"),
        ("a%2525", "a%25"),
        ("%C3%A9", "\u00e9"),
        ("a.b", "a.b"),
        ("a%3Bb", "a;b"),
        ("a%3Fb%23", "a?b#"),
        ("x" * MAX_NAME, "x" * MAX_NAME),
    ),
)
def test_a_segment_is_decoded_once(raw: str, name: str) -> None:
    """Java writes a space as a plus and PyIceberg as %20; decoding twice would name another table."""
    assert decode_segment(raw) == name


_REFUSED = (
    "",
    ".",
    "..",
    "...",
    "%2e",
    "%2E%2e",
    ".%2E",
    "%20..",
    "..;x",
    "..%3Bx",
    "%3Bx",
    "+",
    "a%2Fb",
    "a%2fb",
    "a%5Cb",
    "a\\b",
    "a%00b",
    "a%0Ab",
    "a%1Fb",
    "a%7Fb",
    "a%C2%80b",
    "%FF",
    "%C0%AF",
    "%",
    "%2",
    "%zz",
    "\u00e9",
    "x" * (MAX_NAME + 1),
    "%41" * (MAX_NAME + 1),
)


@pytest.mark.parametrize("raw", _REFUSED)
def test_what_two_servers_could_read_differently_is_refused(raw: str) -> None:
    """The upstream would be asked for another path than was judged."""
    for decode in (decode_segment, decode_namespace):
        if raw == "a%1Fb" and decode is decode_namespace:
            continue
        with pytest.raises(Refused) as refused:
            decode(raw)
        assert refused.value.reason is Reason.ROUTE_MALFORMED


@pytest.mark.parametrize(
    "raw",
    (
        *("%1F", "a%1F", "%1Fa", "a%1F%1Fb", "a%1Fb%2Fc", "a%1Fb%00", "%1F".join(["a" * 99] * 50)),
        # Two thousand levels were two thousand places above to look for, each as long as the path to it.
        "%1F".join("a" * (MAX_LEVELS + 1)),
        "%1f".join("a" * (MAX_LEVELS + 1)),
    ),
)
def test_a_level_that_is_none_is_refused(raw: str) -> None:
    """An empty level is a namespace here and its parent elsewhere."""
    with pytest.raises(Refused):
        decode_namespace(raw)


def test_levels_are_joined_by_the_unit_separator() -> None:
    """A policy's grants on the parent would not reach the namespace."""
    assert decode_namespace("a%1fb+c%1F%2E.") == "a\x1fb c\x1f.."
    assert encode_segment("a\x1fb c\x1f..") == "a%1Fb%20c%1F.."


def test_a_deep_namespace_is_one() -> None:
    """A namespace of a real catalog could not be reached."""
    assert decode_namespace("%1F".join("a" * MAX_LEVELS)) == "\x1f".join("a" * MAX_LEVELS)


def test_a_level_with_a_dot_is_one_level() -> None:
    """Iceberg's own server splits at `%2E`, and sees one level as signproxy does only where the dot is plain."""
    assert encode_segment(decode_namespace("a%2Eb")) == "a.b"


@given(
    st.lists(
        st.one_of(
            st.sampled_from([f"%{number:02x}" for number in range(256)] + [f"%{number:02X}" for number in range(256)]),
            st.characters(min_codepoint=0x20, max_codepoint=0x7E, exclude_characters="%"),
            st.sampled_from(("=", "==", "=41", "=3D", " ", "+", "_", ".")),
        ),
        max_size=30,
    ).map("".join)
)
def test_a_segment_is_decoded_as_the_standard_library_decodes_it(raw: str) -> None:
    """Of two decoders one could read another table's name."""
    try:
        expected = unquote_to_bytes(raw.replace("+", " ")).decode()
    except UnicodeDecodeError:
        with pytest.raises(Refused):
            decoded(raw)
    else:
        assert decoded(raw) == expected


@pytest.mark.parametrize("raw", ("%", "a%4", "%zz", "a=%\n41", "a\n", "a\tb", "\x7f", "ä"))
def test_what_no_client_sends_is_not_decoded(raw: str) -> None:
    """One server takes a stray sign for itself, another one drops it."""
    with pytest.raises(Refused) as refused:
        decoded(raw)
    assert refused.value.reason is Reason.ROUTE_MALFORMED


@given(levels=st.lists(_LEVEL, min_size=1, max_size=3), encode=st.sampled_from((encode_segment, quote_plus)))
def test_a_name_survives_the_way(levels: list[str], encode: object) -> None:
    """The table would not be found, or another one would."""
    assert callable(encode)
    namespace = "\x1f".join(levels)
    if namespace_problem(namespace):
        return
    raw = "%1F".join(encode(level) for level in levels)
    assert decode_namespace(raw) == namespace
    assert unquote(encode_segment(namespace)) == namespace
    assert decode_namespace(encode_segment(namespace)) == namespace


@given(raw=st.text(alphabet="ab.%+/2FfEe1;\\ \x00\u00e9", max_size=12))
def test_whatever_is_sent_on_says_the_same_in_any_spelling(raw: str) -> None:
    """A second decoder, more lenient than ours, would find another table."""
    try:
        name = decode_segment(raw)
    except Refused:
        return
    sent = encode_segment(name)
    assert unquote(sent, errors="strict") == name
    assert set(sent) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~%")
    assert sent.strip(".")
    assert decode_segment(sent) == name
