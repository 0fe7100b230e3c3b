"""Spell a key as it may stand in a URI: as honest clients do, and in the ways on which parsers and stores disagree."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from urllib.parse import quote

from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[int]], int]


def _pick(draw: Draw, options: tuple[str, ...]) -> str:
    return options[draw(st.integers(0, len(options) - 1))]


def encoded(key: str) -> str:
    """Encode as SDKs do."""
    return quote(key, safe="/~")


def _canonical(_draw: Draw, key: str) -> str:
    return encoded(key)


def _lower_hex(_draw: Draw, key: str) -> str:
    raw = encoded(key)
    return "".join(
        letter.lower() if "%" in raw[max(0, place - 2) : place] else letter for place, letter in enumerate(raw)
    )


def _raw_reserved(_draw: Draw, key: str) -> str:
    return quote(key, safe="/~-._!$&'()*+,;=:@")


def _all_escaped(_draw: Draw, key: str) -> str:
    return "".join(f"%{byte:02X}" for byte in key.encode())


def _one_escaped(draw: Draw, key: str) -> str:
    place = draw(st.integers(0, len(key) - 1))
    return encoded(key[:place]) + "".join(f"%{byte:02x}" for byte in key[place].encode()) + encoded(key[place + 1 :])


def _escaped_slash(draw: Draw, key: str) -> str:
    parts = encoded(key).split("/")
    return "".join(part + _pick(draw, ("/", "%2F", "%2f")) for part in parts[:-1]) + parts[-1]


HONEST = (_canonical, _canonical, _lower_hex, _raw_reserved, _all_escaped, _one_escaped, _escaped_slash)


def _encoded_twice(draw: Draw, key: str) -> str:
    raw = encoded(key)
    place = draw(st.integers(0, len(raw)))
    return raw[:place] + _pick(draw, ("%252F", "%252f", "%252e%252e", "%2574", "%25252F", "%25")) + raw[place:]


_DOTS = (
    "x/../", "./", "../", "x/%2e%2e/", "%2E/", "x/.%2e/", "x/%2e./", "x/..%2f", "x%2f..%2f", "x/%252e%252e/", "x/..;/",
    "x/..;a=b/", "x/..%20/", "x/%20../", ".../", "x/..%5c", "x/%5c../", "x/..%00/", "x/%c0%ae%c0%ae/", "x/%uff0e/",
    "x/\uff0e\uff0e/", "x/%EF%BC%8E%EF%BC%8E/", "x/..%E2%80%8B/", "x/..%C2%A0/", "x/..%C2%85/", "..%2F..%2F",
)  # fmt: skip
_EMPTY = ("/", "%2F", "%20/", "%09/", "%E3%80%80/", ";/", ";a/", "%3B/")
_ODD = (
    "%00", "%0A", "%0d%0a", "\t", "\n", "%5C", "\\", "%FF", "%c0%af", "%ed%a0%80", "%", "%zz", "%u0074", " ", "#", "?",
    "%3F", "%23", ";", ";x=1", "|", '"', "<", "\u00e9", "\u200b", "%E2%80%8B", "%7F", "%C2%85", "\x00", "\ud800", "+",
    "&", "@", ":", "%40", "*", "'", "{", "^", "`", "%F4%90%80%80", "%E2%80%A8", "%EF%BB%BF", "\r",
)  # fmt: skip


def _segment_inserted(draw: Draw, key: str) -> str:
    parts = encoded(key).split("/")
    place = draw(st.integers(0, len(parts) - 1))
    return "/".join((*parts[:place], _pick(draw, _DOTS + _EMPTY) + parts[place], *parts[place + 1 :]))


def _odd_inserted(draw: Draw, key: str) -> str:
    raw = encoded(key)
    place = draw(st.integers(0, len(raw)))
    return raw[:place] + _pick(draw, _ODD) + raw[place:]


def _other_case(draw: Draw, key: str) -> str:
    place = draw(st.integers(0, len(key) - 1))
    return encoded(key[:place] + key[place:].swapcase())


def _other_form(draw: Draw, key: str) -> str:
    forms = ("NFC", "NFD", "NFKC", "NFKD")
    return encoded(unicodedata.normalize(_pick(draw, forms), key))  # type: ignore[arg-type]  # the names are the four


def _full_width(draw: Draw, key: str) -> str:
    place = draw(st.integers(0, len(key) - 1))
    wide = chr(ord(key[place]) + 0xFEE0) if "!" <= key[place] <= "~" else key[place]
    return encoded(key[:place] + wide + key[place + 1 :])


def _end_added(draw: Draw, key: str) -> str:
    ends = ("/", "//", "%2F", ".", "/.", "/..", "%20", "+", "/%2e%2e", "%00", "%", ";", ".json", "%0A", " ")
    return encoded(key) + _pick(draw, ends)


def _start_added(draw: Draw, key: str) -> str:
    starts = ("/", "%2F", "./", "../", "%2e%2e/", "my-bucket/", "?/", "//my-bucket/", "\\", "%5c", "#", "%20")
    return _pick(draw, starts) + encoded(key)


def _up_and_over(draw: Draw, key: str) -> str:
    """Reach a key from inside a table, for a reader that resolves what a signer must not."""
    inside = _pick(draw, ("wh/t1/", "wh/t1/data/", "by/l1/x/"))
    up = _pick(draw, ("../", "%2e%2e/", "..%2F", ".%2e/", "%252e%252e/", "..%5C", "..;/", "..%20/"))
    return inside + up * draw(st.integers(1, 4)) + encoded(key)


HOSTILE = (
    _encoded_twice, _segment_inserted, _odd_inserted, _odd_inserted, _other_case, _other_form, _full_width, _end_added,
    _start_added, _up_and_over,
)  # fmt: skip
