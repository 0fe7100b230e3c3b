"""Members of JSON that are found where they stand are those that a parser finds."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from signproxy.catalog.json_object import JsonInvalid, Members, read_members, read_object
from signproxy.errors import Refused
from signproxy.signing.sign_way import read_message
from tests.e2e.readers.search import AMOUNTS, Search, bent, outcome_of

NAMES = ('"a"', '"b"', '"config"', '"\\u0061"', '"A"', '"metadata"', '""', '"\\""', '"é"', '"a\\/b"', '"s3.endpoint"')
SCALARS = (
    "1",
    "-0",
    "1.5e3",
    "true",
    "null",
    '"x"',
    '"a\\"b"',
    '"{"',
    '"\\u007d,"',
    '"é"',
    "[]",
    "{}",
    "NaN",
    "01",
    '"\\ud800"',
)
WORDS = (
    b",", b"{", b"}", b"[", b"]", b":", b'"', b"\\", b" ", b"\n", b"\x00", b"\xc3", b"\xff", b'"a":1,', b'"a":{},',
    b"1", b"//", b"\\u0061", b"null", b'"uri":"x",',
)  # fmt: skip
SIGN = (
    b'{"region":"us-west-2","uri":"https://h/b/k","method":"GET","headers":{"Range":["x"]},"properties":{"a":"b"}}',
    b'{"region": "r", "uri": "u", "method": "PUT", "headers": {}, "body": null, "provider": "s3", "more": [{"a": []}]}',
)


def value_of(chance: Random, depth: int) -> str:
    """Return a value as some serializer may write it."""
    kind = chance.random()
    blank = chance.choice(("", "", " ", "\n\t"))
    if depth and kind < 0.4:
        members = [
            f"{chance.choice(NAMES)}{blank}:{blank}{value_of(chance, depth - 1)}" for _ in range(chance.randint(0, 3))
        ]
        if members and chance.random() < 0.25:
            # One of them again, as often with the same value as with another one.
            again = chance.choice(members)
            if chance.random() < 0.5:
                again = f"{again.partition(':')[0]}:{value_of(chance, depth - 1)}"
            members.insert(chance.randint(0, len(members)), again)
        return "{" + blank + f"{blank},".join(members) + blank + "}"
    if depth and kind < 0.55:
        return f"[{blank}{','.join(value_of(chance, depth - 1) for _ in range(chance.randint(0, 3)))}{blank}]"
    return chance.choice(SCALARS)


class _Repeated(ValueError):
    """A member is given twice."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if len(names) != len(set(names)):
        raise _Repeated
    return dict(pairs)


@AMOUNTS
def test_members_are_those_that_any_parser_finds(cases: int) -> None:
    """One location of a table would be judged, and another one used by its reader."""
    search = Search("members of JSON", cases)
    chance = search.chance
    for _ in search:
        text = value_of(chance, 3).encode("utf-8", "surrogatepass")
        if not text.startswith(b"{") and chance.random() < 0.8:
            text = b'{"config":' + text + b"}"
        if chance.random() < 0.3:
            text = bent(text, WORDS, chance)
        for read in (read_members, read_object):
            found: Any = outcome_of(read, JsonInvalid, text)
            if isinstance(found, str):
                search.seen["refused"] += 1
                continue
            search.seen["read"] += 1
            # The last of repeated members, as most parsers have it: where one was repeated, it was in vain.
            expected = json.loads(text, strict=False)
            told = found.values if isinstance(found, Members) else found
            assert list(told) == list(expected), search.told(text)
            for name, value in expected.items():
                raw: Any = found.raw(name) if isinstance(found, Members) else told[name]
                assert json.loads(bytes(raw), strict=False) == value or "NaN" in text.decode(), search.told(text)
            # One level is judged by the reader of one, and two by the reader of two.
            first = json.loads(text, strict=False, object_pairs_hook=lambda pairs: pairs)
            _once(first)
            if isinstance(found, Members):
                for (_, value), kept in zip(first, expected.values(), strict=True):
                    if isinstance(kept, dict):
                        _once(value)
    search.met(read=0.3, refused=0.3)


@AMOUNTS
def test_a_sign_message_is_what_any_parser_makes_of_it(cases: int) -> None:
    """A client's own JSON library wrote it, and may read a repeated member or an escape otherwise."""
    search = Search("sign messages", cases)
    chance = search.chance
    for _ in search:
        text = chance.choice(SIGN)
        for _ in range(chance.choice((0, 1, 1, 2))):
            text = bent(text, WORDS, chance)
        found: Any = outcome_of(read_message, Refused, text)
        if isinstance(found, str):
            search.seen["refused"] += 1
            continue
        search.seen["read"] += 1
        expected = json.loads(text.decode(errors="replace"), strict=False)
        for name in ("region", "uri", "method", "headers", "properties"):
            assert getattr(found, name) == expected.get(name), search.told(text)
        assert (found.body, found.provider) == (expected.get("body"), expected.get("provider")), search.told(text)
    search.met(read=0.2, refused=0.3)
