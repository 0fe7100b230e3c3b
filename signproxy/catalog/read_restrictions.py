"""Tell from an answer with a table whether the upstream keeps rows or columns of it from the caller that asked.

`read-restrictions` stands in the answers to load, create and register. An object without a row filter and without
projections restricts nothing, as if it were not there, and so does a filter that is always true. What is not known to
restrict nothing restricts: a member of a later specification, another type, a filter that cannot be read.
"""

from __future__ import annotations

import re

from signproxy.catalog.json_object import Members

RESTRICTIONS = "read-restrictions"

_SPACE = re.compile(rb"[ \t\r\n]+")
_LONGEST = 64
"""Bytes of what restricts nothing, with white space; what is longer is not looked at."""

_NOTHING = {
    "required-column-projections": frozenset({b"null", b"[]"}),
    "required-row-filter": frozenset({b"null", b"true", b'{"type":"true"}'}),
}
_ABSENT = frozenset({b"null"})


def restricts(members: Members) -> bool:
    """Whether an answer restricts what its reader may see of the table."""
    for name, value in members.values.items():
        if name.casefold() != RESTRICTIONS or value is None:
            continue
        if name != RESTRICTIONS or not isinstance(value, dict):
            return True
        for inner, raw in value.items():
            text = bytes(raw)
            if len(text) > _LONGEST or _SPACE.sub(b"", text) not in _NOTHING.get(inner, _ABSENT):
                return True
    return False
