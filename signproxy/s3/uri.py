"""Split a URI into origin, raw path and raw query under one strict grammar.

The grammar is matched on the string itself before any parser sees it: Python's parsers drop control
characters, disagree on backslashes and escapes, and resolve dot segments.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from signproxy.errors import Reason, Refused

MAX_URI = 8192
"""Longer than the longest key (1,024 bytes, each escaped) with its query; short enough to refuse cheaply."""

UNRESERVED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
_ESCAPE = "%[0-9A-Fa-f]{2}"
# Possessive: the alternatives exclude each other, so nothing is lost, and hostile input costs no backtracking.
_URI = re.compile(
    r"(https?://[a-z0-9.\-]++(?::[0-9]{1,5})?)"
    rf"((?:/(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/]++|{_ESCAPE})*+)?)"
    rf"(?:\?((?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?]++|{_ESCAPE})*+))?"
)


PLAIN = re.compile(r"(https?://[a-z0-9.\-]++(?::[0-9]{1,5})?)((?:/[A-Za-z0-9\-_~][A-Za-z0-9\-._~]*+)++)")
"""Nearly every URI of an engine: nothing escaped, no query, no segment that is empty or begins with a dot.

What it matches `split_uri` would split into the same origin and path, is its own canonical form, needs no decoding,
and holds a key that `check_key` lets pass: one match stands for four.
"""
PLAIN_LENGTH = 1024
"""The most of it that is matched."""


def split_uri(uri: str) -> tuple[str, str, str | None]:
    """Return origin, raw path (empty or with a leading slash) and raw query (None where there is no `?`)."""
    match = _URI.fullmatch(uri) if len(uri) <= MAX_URI else None
    if match is None:
        raise _refusal(uri)
    return match.groups()  # type: ignore[return-value]  # the pattern has exactly these three groups


_ASCII = {f"{byte:02{case}}": chr(byte) for byte in range(128) for case in "xX"}
# The escapes that the canonical form keeps: of bytes that are neither unreserved nor a slash, in upper case.
_KEPT = "|".join(
    f"%{high:X}[{lows}]"
    for high in range(16)
    if (lows := "".join(f"{low:X}" for low in range(16) if chr(high * 16 + low) not in UNRESERVED + "/"))
)
_CANONICAL = re.compile(rf"(?:[A-Za-z0-9\-._~/]++|{_KEPT})*+")


def is_canonical(raw_path: str) -> bool:
    """Whether decoding a path once and encoding it anew gives the very same text, as for most clients' paths."""
    return _CANONICAL.fullmatch(raw_path) is not None


def decode_once(raw: str) -> str:
    """Decode percent-escapes exactly once, as S3 does; a plus stays a plus."""
    if "%" not in raw:
        return raw
    first, *rest = raw.split("%")
    try:
        # Hive partitions: one or two escapes of ASCII characters, looked up instead of parsed.
        return first + "".join([_ASCII[part[:2]] + part[2:] for part in rest])
    except KeyError:
        pass
    try:
        return unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        raise Refused(Reason.KEY_ENCODING, f"{raw!r} does not decode to UTF-8") from None


def _refusal(uri: str) -> Refused:
    """Name the fault of a URI that the grammar does not match."""
    if len(uri) > MAX_URI:
        return Refused(Reason.URI_MALFORMED, f"{len(uri)} characters, at most {MAX_URI} are read")
    if "#" in uri:
        return Refused(Reason.URI_FRAGMENT, f"uri {uri!r}")
    authority = re.match(r"[A-Za-z]+://([^/?#]*)", uri)
    if authority is not None and "@" in authority[1]:
        return Refused(Reason.URI_USERINFO, f"uri {uri!r}")
    if authority is not None and authority[1] != authority[1].lower():
        # Java sends Host as spelled, Python's clients in lower case: no signature would fit both.
        return Refused(Reason.URI_MALFORMED, f"host in upper case: {authority[1]!r}")
    return Refused(Reason.URI_MALFORMED, f"uri {uri!r}")
