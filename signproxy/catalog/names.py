"""Decode the names in a catalog call once, and write them in the one spelling that is sent on."""

from __future__ import annotations

import re
from binascii import a2b_qp
from functools import partial
from urllib.parse import quote

from signproxy.errors import Reason, Refused
from signproxy.model import NAMESPACE_SEPARATOR

MAX_NAME = 4096
"""Characters of a path segment: longer than any namespace of a real catalog; bounds the work for a hostile path."""

MAX_LEVELS = 64
"""Of a namespace: each place above it may be asked for, and each of its names is that much longer."""

SEPARATOR = quote(NAMESPACE_SEPARATOR)
"""Between the levels of a namespace in a path. Every server has to understand it, whatever else it advertises."""

# No client sends a control character, and a line break would be one of quoted printable's own.
_NOT_OF_A_PATH = re.compile(r"%(?![0-9A-Fa-f]{2})|[\x00-\x1f\x7f]")
# The separator of levels is looked for by itself. A slash is decoded by some servers before they split the path.
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f/\\]")


def decode_segment(raw: str) -> str:
    """Return the name that a path segment holds: Java writes a space as a plus, PyIceberg as %20.

    Raise Refused (ROUTE_MALFORMED), also for what another server could read as something else.
    """
    name = decoded(raw)
    if problem := name_problem(name):
        raise _malformed(raw, problem)
    return name


def decode_namespace(raw: str) -> str:
    """Return the levels of a namespace, joined by U+001F. Raise Refused (ROUTE_MALFORMED)."""
    check_levels(raw)
    namespace = decoded(raw)
    if problem := namespace_problem(namespace):
        raise _malformed(raw, problem)
    return namespace


def check_levels(raw: str) -> None:
    """Refuse a namespace, as it stands in a path, for its levels: to decode a thousand of them is much work."""
    if raw.upper().count(SEPARATOR) + raw.count(NAMESPACE_SEPARATOR) >= MAX_LEVELS:
        raise _malformed(raw[:MAX_NAME], f"has more than {MAX_LEVELS} levels")


def decoded(raw: str) -> str:
    """Return the text that a path segment stands for. Raise Refused (ROUTE_MALFORMED) for an escape that is none.

    A path of escapes throughout takes `unquote` as long as ten requests, and the sender need not be known. Quoted
    printable has the same escapes, but for the sign before them, and is decoded in one go.
    """
    if not raw.isascii() or len(raw) > 3 * MAX_NAME or _NOT_OF_A_PATH.search(raw):
        raise _malformed(raw[:MAX_NAME], "is not encoded as a path segment is")
    try:
        return a2b_qp(raw.replace("=", "=3D").replace("+", " ").replace("%", "=")).decode()
    except UnicodeDecodeError:
        raise _malformed(raw, "is not UTF-8") from None


encode_segment = partial(quote, safe="")
"""Returns a name as it stands in a path, or the levels of a namespace: their separator is encoded like the rest."""


def name_problem(name: str, *, is_level: bool = False) -> str:
    """Return why no table or view, or no level among others of a namespace, can be called so; or nothing."""
    if not name:
        return "is empty"
    if len(name) > MAX_NAME:
        return f"has {len(name)} characters"
    if _FORBIDDEN.search(name):
        return "holds a control character, a slash or a backslash"
    # Some readers trim white space and dots, or drop what follows a `;`. Beside a separator, dots are no segment.
    return "" if is_level or name.partition(";")[0].strip().strip(".") else "is a dot segment"


def namespace_problem(namespace: str) -> str:
    """Return why these levels, joined by U+001F, are no namespace, or nothing."""
    if NAMESPACE_SEPARATOR not in namespace:
        return name_problem(namespace)
    if len(namespace) > MAX_NAME:
        return f"has {len(namespace)} characters"
    if namespace.count(NAMESPACE_SEPARATOR) >= MAX_LEVELS:
        return f"has more than {MAX_LEVELS} levels"
    levels = namespace.split(NAMESPACE_SEPARATOR)
    return next(filter(None, (name_problem(level, is_level=True) for level in levels)), "")


def _malformed(raw: str, problem: str) -> Refused:
    return Refused(Reason.ROUTE_MALFORMED, f"segment {raw!r} {problem}")
