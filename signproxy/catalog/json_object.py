"""Read the members of a JSON object where they stand, and be sure that every parser finds the same ones.

A repeated key is read as its first value by some parsers and as its last by others. What is passed on byte for byte
and judged besides must not hold any, or signproxy would judge one table and its reader use another.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Raw

T = TypeVar("T")

Value = dict[str, Raw] | list[Raw] | str | int | float | bool | None
"""A member of which one more level was read."""

Span = tuple[int, int]

# Possessive throughout: hostile text costs one pass.
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_BEFORE_MEMBER = re.compile(rb"[ \t\r\n]*+[{,][ \t\r\n]*+(" + _STRING + rb")[ \t\r\n]*+:[ \t\r\n]*+", re.DOTALL)
_BEFORE_ELEMENT = re.compile(rb"[ \t\r\n]*+[\[,][ \t\r\n]*+")
_SCALAR = re.compile(_STRING + rb"|[\-+.0-9A-Za-z]++", re.DOTALL)
_END = {
    (dict, False): re.compile(rb"[ \t\r\n]*+\}"),
    (dict, True): re.compile(rb"[ \t\r\n]*+\{[ \t\r\n]*+\}"),
    (list, False): re.compile(rb"[ \t\r\n]*+\]"),
    (list, True): re.compile(rb"[ \t\r\n]*+\[[ \t\r\n]*+\]"),
}

_one_level = msgspec.json.Decoder(dict[str, Raw]).decode
_two_levels = msgspec.json.Decoder(dict[str, Value]).decode
_list = msgspec.json.Decoder(list[Raw]).decode
_string = msgspec.json.Decoder(str).decode


class JsonInvalid(ValueError):
    """The text is no JSON object that everybody reads alike."""


class Most(NamedTuple):
    """How many of something are read at most; `of` is what a refusal calls them."""

    limit: int
    of: str

    def check(self, found: int) -> None:
        """Raise JsonInvalid for more of them."""
        if found > self.limit:
            raise JsonInvalid(f"{found} {self.of}, at most {self.limit} are read")


ANY = Most(sys.maxsize, "members")
AT_ONCE = 64
"""Members that are looked at before others may have their turn: a tenth of a millisecond."""


class Members:
    """An object of which two levels were read; what lies deeper is neither parsed nor copied."""

    __slots__ = ("_content", "_spans", "values")

    def __init__(self, content: bytes, values: dict[str, Value], spans: dict[str, Span]) -> None:
        self._content = content
        self.values = values
        self._spans = spans

    def raw(self, name: str) -> memoryview | None:
        """Return the bytes of a member as they stand in the object; None where there is no such member."""
        span = self._spans.get(name)
        return None if span is None else memoryview(self._content)[span[0] : span[1]]


def read_members(content: bytes) -> Members:
    """Return the members of an object and of the objects in it, none of them given twice. Raise JsonInvalid.

    The two levels cost one pass: half of what reading an object and then one of its members would.
    """
    values = _decoded(_two_levels, content)
    return Members(content, values, _spans(content, values))


def read_object(content: bytes, most: Most = ANY, count: Callable[[int], None] | None = None) -> dict[str, Raw]:
    """Return the members of an object, none of them given twice. Raise JsonInvalid.

    How many there are is told to `count` before they are looked at.
    """
    looking = object_in_pieces(content, most, count)
    while True:
        try:
            next(looking)
        except StopIteration as end:
            members: dict[str, Raw] = end.value
            return members


def object_in_pieces(
    content: bytes, most: Most = ANY, count: Callable[[int], None] | None = None
) -> Generator[None, None, dict[str, Raw]]:
    """Do what `read_object` does; others have their turn between some members and the next ones."""
    text = bytes(content)
    values = _decoded(_one_level, text)
    most.check(len(values))
    if count is not None:
        count(len(values))
    position = 0
    for number, (name, value) in enumerate(values.items(), 1):
        position = _end_of(text, _after_name(text, position, name), value)
        if number % AT_ONCE == 0:
            yield
    _finished(text, values, position)
    return values


def read_list(content: bytes, most: Most = ANY) -> list[Raw]:
    """Return the elements of an array. Raise JsonInvalid."""
    elements = _decoded(_list, content)
    most.check(len(elements))
    return elements


def read_string(content: bytes) -> str:
    """Return a string. Raise JsonInvalid."""
    return _decoded(_string, content)


def check_spelling(names: Iterable[str], judged: frozenset[str]) -> None:
    """Refuse a name that differs from a judged one by its case alone: Go's parser takes it for the same.

    Raise JsonInvalid.
    """
    for name in names:
        if name not in judged and name.casefold() in judged:
            raise JsonInvalid(f"member {name!r}")


def _decoded(decode: Callable[[bytes], T], content: bytes) -> T:
    # A Raw, which is no bytes in truth, becomes some here.
    text = bytes(content)
    try:
        # What is skipped is not decoded, so that nothing else would notice.
        if not text.isascii():
            text.decode()
        return decode(text)
    except msgspec.MsgspecError as error:
        raise JsonInvalid(str(error)) from None
    except UnicodeDecodeError:
        raise JsonInvalid("not UTF-8") from None
    except RecursionError:
        raise JsonInvalid("nested too deeply") from None


def _spans(content: bytes, values: Mapping[str, Value | Raw]) -> dict[str, Span]:
    """Walk over the members that the parser found, and see that between and after them there is nothing else.

    The parser dropped every value of a repeated key but the last, and whatever was dropped is left over here. Each
    step begins where a member begins and ends where its value does, so that no text inside a value can pose as one.
    """
    spans: dict[str, Span] = {}
    position = 0
    for name, value in values.items():
        start = _after_name(content, position, name)
        position = _end_of(content, start, value)
        spans[name] = (start, position)
    _finished(content, values, position)
    return spans


def _finished(content: bytes, values: Mapping[str, Value | Raw], position: int) -> None:
    # The parser saw that nothing follows the object.
    _matched(_END[dict, not values], content, position)


def _end_of(content: bytes, start: int, value: Value | Raw) -> int:
    """Return where a value ends that begins here."""
    match value:
        case Raw():
            # Strings, objects and arrays end themselves; after a number the next step sees whether there is more.
            if not content.startswith(value, start):
                raise _repeated()
            return start + len(memoryview(value))
        case dict():
            position = start
            for name, inner in value.items():
                position = _end_of(content, _after_name(content, position, name), inner)
            return _matched(_END[dict, not value], content, position)
        case list():
            position = start
            for inner in value:
                position = _end_of(content, _matched(_BEFORE_ELEMENT, content, position), inner)
            return _matched(_END[list, not value], content, position)
        case _:
            return _matched(_SCALAR, content, start)


def _after_name(content: bytes, position: int, name: str) -> int:
    found = _BEFORE_MEMBER.match(content, position)
    if found is None or (found[1][1:-1] != name.encode() and read_string(found[1]) != name):
        raise _repeated()
    return found.end()


def _matched(pattern: re.Pattern[bytes], content: bytes, position: int) -> int:
    found = pattern.match(content, position)
    if found is None:
        raise _repeated()
    return found.end()


def _repeated() -> JsonInvalid:
    return JsonInvalid("a member is given twice")
