"""Read a table's location: a bucket and the literal text that its keys begin with."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

import msgspec

from signproxy.errors import Refused
from signproxy.s3.key import MAX_KEY_BYTES, check_key

MAX_PATH_BYTES = MAX_KEY_BYTES - 2
"""Leaves room for a slash and one character: below a longer location there can be no key."""

MAX_TEXT = 4096
"""Longer than any location that passes; ends the work on a hostile one before it begins."""

_KEPT = 512
"""Locations that were read lately; some 3 KiB each at most."""

_SCHEMES = frozenset({"s3", "s3a", "s3n"})
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.\-]{1,61}[a-z0-9]")
_IPV4 = re.compile(r"[0-9]+(?:\.[0-9]+){3}")
# Control, format and separator characters: invisible, so that two locations that look the same would differ.
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


class LocationInvalid(ValueError):
    """The text is no location of a table; the message never repeats text that is over-long."""


class Location(msgspec.Struct, frozen=True, gc=False):
    """A bucket and a path without slashes at its ends. The path is literal key text, never percent-decoded."""

    bucket: str
    path: str

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.path}" if self.path else f"s3://{self.bucket}"

    @property
    def prefix(self) -> str:
        """What every key below the location begins with; empty for a whole bucket."""
        return f"{self.path}/" if self.path else ""

    def contains(self, other: Location) -> bool:
        """Whether `other` lies below this location, by whole segments; a location does not contain itself."""
        below = f"{self.path}/" if self.path else ""
        return self.bucket == other.bucket and other.path.startswith(below) and self.path != other.path


def parse_location(text: str) -> Location:
    """Return the location that `s3://bucket/path` names; `s3a` and `s3n` mean `s3`, one trailing slash is dropped.

    Raise LocationInvalid, also for a bare bucket: a table that owned its bucket would own every other table in it.
    """
    location = parse_root(text)
    if not location.path:
        raise LocationInvalid(f"{text!r} is a whole bucket; a table's location needs a path")
    return location


known_location = lru_cache(_KEPT)(parse_location)
"""Does the same for the locations that an upstream names: it names those of a table again and again."""


def parse_root(text: str) -> Location:
    """Return the location of an allowed root, which may be a whole bucket. Raise LocationInvalid."""
    if len(text) > MAX_TEXT:
        raise LocationInvalid(f"a location of {len(text)} characters; at most {MAX_TEXT} are read")
    scheme, separator, rest = text.partition("://")
    if not separator or scheme not in _SCHEMES:
        raise LocationInvalid(f"{text!r} does not begin with s3://, s3a:// or s3n://")
    bucket, _, path = rest.partition("/")
    problem = bucket_problem(bucket)
    if problem:
        raise LocationInvalid(f"{text!r}: {problem}")
    path = path.removesuffix("/")
    if path or rest.endswith("//"):
        _check_path(text, path)
    return Location(bucket, path)


def bucket_problem(name: str) -> str:
    """Return what is wrong with a bucket name, or nothing."""
    if not _BUCKET.fullmatch(name):
        return f"bucket {name!r} is not 3 to 63 of a-z, 0-9, dot and hyphen, with a letter or digit at both ends"
    if ".." in name or _IPV4.fullmatch(name):
        return f"bucket {name!r} holds two dots in a row, or is an address"
    return ""


def _check_path(text: str, path: str) -> None:
    try:
        check_key(path)
    except Refused as refusal:
        raise LocationInvalid(f"{text!r}: {refusal.reason.code}") from None
    # Legal in keys, but a location that holds them was meant as a URI.
    if "?" in path or "#" in path:
        raise LocationInvalid(f"{text!r} holds a ? or #; a location is literal key text")
    if not path.isascii():
        for character in path:
            if unicodedata.category(character) in _INVISIBLE:
                raise LocationInvalid(f"{text!r} holds the invisible character U+{ord(character):04X}")
    if len(path.encode()) > MAX_PATH_BYTES:
        raise LocationInvalid(f"a location of {len(path.encode())} bytes; at most {MAX_PATH_BYTES} leave room for keys")
