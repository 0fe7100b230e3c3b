"""Spell a key in all the ways on which some client, proxy, parser or store disagrees with another."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from random import Random

from tests.e2e.containment.draft import encode_key

Speller = Callable[[Random, str], str]


def _lower_hex(_chance: Random, key: str) -> str:
    return "".join(part.lower() if part.startswith("%") else part for part in _escapes(encode_key(key)))


def _raw_reserved(_chance: Random, key: str) -> str:
    kept = encode_key(key)
    for character in "=+:@!$&'()*,;":
        kept = kept.replace(f"%{ord(character):02X}", character)
    return kept


def _escape_some(chance: Random, key: str) -> str:
    return "".join(
        f"%{ord(character):02x}" if character.isascii() and chance.random() < 0.2 else encode_key(character)
        for character in key
    )


def _escape_all(_chance: Random, key: str) -> str:
    return "".join(f"%{byte:02X}" for byte in key.encode())


def _escape_slash(chance: Random, key: str) -> str:
    parts = encode_key(key).split("/")
    return "".join(part + chance.choice(("/", "%2F", "%2f")) for part in parts[:-1]) + parts[-1]


def _escape_twice(chance: Random, key: str) -> str:
    once = encode_key(key)
    place = chance.randrange(len(once))
    return once[:place] + chance.choice(("%252F", "%252f", "%2574", "%25252F")) + once[place:]


_DOTS = (
    "x/../",
    "./",
    "../",
    "x/%2e%2e/",
    "%2e/",
    "x/.%2E/",
    "x/..%2f",
    "x%2f..%2f",
    "x%2F%2E%2E%2F",
    "x/%252e%252e/",
    "x/..;/",
    "x/..;a=b/",
    "x/..%20/",
    "x/%20../",
    "x/...//",
    "x/..%5c",
    "x/%5c../",
    "x/..%00/",
    "x/%c0%ae%c0%ae/",
    "x/%uff0e%uff0e/",
    "x/\uff0e\uff0e/",
)


def _dot_segments(chance: Random, key: str) -> str:
    parts = encode_key(key).split("/")
    parts.insert(chance.randrange(len(parts)), chance.choice(_DOTS))
    return "/".join(parts).replace("//", "/", chance.randrange(2))


def _empty_segment(chance: Random, key: str) -> str:
    parts = encode_key(key).split("/")
    parts.insert(chance.randrange(len(parts) + 1), chance.choice(("", "", "%20", "%09", "%2F")))
    return "/".join(parts)


def _odd_byte(chance: Random, key: str) -> str:
    once = encode_key(key)
    place = chance.randrange(len(once) + 1)
    odd = chance.choice(
        ("%00", "%0a", "%0d%0a", "\t", "\n", "%5C", "\\", "%ff", "%c0%af", "%ed%a0%80", "%", "%zz", "%u0074", " ",
         "#", "?", "%3F", "%23", ";", ";x=1", "|", '"', "<", "\u00e9", "\u200b", "%E2%80%8B", "%7F", "%C2%85", "\x00")
    )  # fmt: skip
    return once[:place] + odd + once[place:]


def _case(chance: Random, key: str) -> str:
    place = chance.randrange(len(key))
    return encode_key(key[:place] + key[place:].swapcase())


def _unicode_form(chance: Random, key: str) -> str:
    return encode_key(unicodedata.normalize(chance.choice(("NFC", "NFD", "NFKC", "NFKD")), key))


def _full_width(chance: Random, key: str) -> str:
    place = chance.randrange(len(key))
    wide = "".join(chr(ord(c) + 0xFEE0) if c in "./t12" else c for c in key[place:])
    return encode_key(key[:place] + wide)


def _plus_for_space(_chance: Random, key: str) -> str:
    return encode_key(key).replace("%20", "+")


def _trailing(chance: Random, key: str) -> str:
    return encode_key(key) + chance.choice(("/", "//", "%2F", ".", "/.", "/..", "%20", "+", "/%2e%2e", "%00", "%"))


def _leading(chance: Random, key: str) -> str:
    return chance.choice(("/", "%2F", "./", "../", "%2e%2e/", "lake/", "?/", "//lake/", "\\", "%5c", "#")) + encode_key(
        key
    )


def _up_and_over(chance: Random, key: str) -> str:
    """Reach the key from inside a table, for a reader that resolves what signproxy must not."""
    inside = chance.choice(("wh/db/t1/", "wh/db/t1/data/", "open/u1/data/"))
    up = chance.choice(("../", "%2e%2e/", "..%2F", ".%2e/", "%252e%252e/", "..%5C", "..;/"))
    return inside + up * chance.randrange(1, 5) + encode_key(key)


SPELLERS: tuple[Speller, ...] = (
    _lower_hex,
    _raw_reserved,
    _escape_some,
    _escape_all,
    _escape_slash,
    _escape_twice,
    _dot_segments,
    _empty_segment,
    _odd_byte,
    _case,
    _unicode_form,
    _full_width,
    _plus_for_space,
    _trailing,
    _leading,
    _up_and_over,
)


def spell(chance: Random, key: str) -> tuple[str, str]:
    """Return a spelling of a key as it stands in a URI, and the name of the way it was made."""
    speller = chance.choice(SPELLERS)
    return speller(chance, key), speller.__name__.strip("_")


def _escapes(raw: str) -> list[str]:
    """Split a raw path into its escapes and what lies between them."""
    parts: list[str] = []
    place = 0
    while place < len(raw):
        width = 3 if raw[place] == "%" else 1
        parts.append(raw[place : place + width])
        place += width
    return parts
