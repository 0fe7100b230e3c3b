"""Read the members of a JSON object where they stand, and be sure that every parser finds the same ones.

A repeated key is read as its first value by some parsers and as its last by others. What is passed on byte for byte
and judged besides must not hold any, or signproxy would judge one table and its reader use another.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Generator, Iterable
from functools import partial
from itertools import islice
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

_NULL = Raw(b"null")

_one_level = msgspec.json.Decoder(dict[str, Raw]).decode
_two_levels = msgspec.json.Decoder(dict[str, Value]).decode
_list = msgspec.json.Decoder(list[Raw]).decode
_string = msgspec.json.Decoder(str).decode


class JsonInvalid(ValueError):
    """The text is no JSON object that every parser reads alike."""


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


class Members(NamedTuple):
    """An object of which two levels were read; what lies deeper is neither parsed nor copied."""

    content: bytes
    values: dict[str, Value]
    spans: dict[str, Span]

    def raw(self, name: str) -> memoryview | None:
        """Return the bytes of a member as they stand in the object; None where there is no such member."""
        span = self.spans.get(name)
        return None if span is None else memoryview(self.content)[span[0] : span[1]]


def read_members(content: bytes) -> Members:
    """Return the members of an object and of the objects in it, none of them given twice. Raise JsonInvalid.

    The two levels cost one pass: half of what reading an object and then one of its members would.
    """
    values = _decoded(_two_levels, content)
    spans: dict[str, Span] = {}
    # The parser saw that nothing follows the object.
    _matched(_END[dict, not values], content, _past(content, 0, values.items(), spans))
    return Members(content, values, spans)


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
    members, position = iter(values.items()), 0
    for _ in range(len(values) // AT_ONCE):
        position = _past(text, position, islice(members, AT_ONCE))
        yield
    # The parser saw that nothing follows the object.
    _matched(_END[dict, not values], text, _past(text, position, members))
    return values


def read_list(content: bytes, most: Most = ANY) -> list[Raw]:
    """Return the elements of an array. Raise JsonInvalid."""
    elements = _decoded(_list, content)
    most.check(len(elements))
    return elements


def member(members: dict[str, Raw], name: str) -> Raw | None:
    """Return a member; None where it is missing or null."""
    value = members.get(name, _NULL)
    return None if value == _NULL else value


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


def _past(
    content: bytes, position: int, members: Iterable[tuple[str, Value | Raw]], spans: dict[str, Span] | None = None
) -> int:
    """Walk over members that the parser found, and see that between them there is nothing else; return where they end.

    The parser dropped every value of a repeated key but the last, and whatever was dropped is left over here. Each
    step begins where a member begins and ends where its value does, so that no text inside a value can pose as one.
    Where each value stands is put into `spans`.
    """
    for name, value in members:
        found = _BEFORE_MEMBER.match(content, position)
        if found is None or (found[1][1:-1] != name.encode() and read_string(found[1]) != name):
            raise _repeated()
        start = found.end()
        match value:
            case Raw():
                # Strings, objects and arrays end themselves; after a number the next step sees whether there is more.
                if not content.startswith(value, start):
                    raise _repeated()
                position = start + len(memoryview(value))
            case dict():
                position = _matched(_END[dict, not value], content, _past(content, start, value.items()))
            case list():
                position = _matched(_END[list, not value], content, _past_elements(content, start, value))
            case _:
                position = _matched(_SCALAR, content, start)
        if spans is not None:
            spans[name] = start, position
    return position


def _past_elements(content: bytes, position: int, elements: list[Raw]) -> int:
    for value in elements:
        start = _matched(_BEFORE_ELEMENT, content, position)
        if not content.startswith(value, start):
            raise _repeated()
        position = start + len(memoryview(value))
    return position


def _matched(pattern: re.Pattern[bytes], content: bytes, position: int) -> int:
    found = pattern.match(content, position)
    if found is None:
        raise _repeated()
    return found.end()


def _repeated() -> JsonInvalid:
    return JsonInvalid("a member is given twice")


read_string = partial(_decoded, _string)
"""Returns a string. Raises JsonInvalid."""
