"""Say which decoded keys may be addressed at all, so that no two layers can disagree about the object."""

from __future__ import annotations

import re

from signproxy.errors import Reason, Refused

MAX_KEY_BYTES = 1024
"""S3's own limit."""
SHORT_KEY = MAX_KEY_BYTES // 4
"""Characters that are within the limit, whichever they are."""

# MinIO takes a backslash for a slash.
_SEPARATOR = re.compile(r"[/\\]")
_DOTS = (".", "..")
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\\]")


def check_key(key: str) -> None:
    """Refuse a decoded key that some store, proxy or client would read as another one."""
    # Plain keys, nearly all, are recognised by scans that run in C; `'' in text` sends the empty key the long way.
    if (
        not (key.isascii() and key.isprintable())
        or key[:1] in "/. ;"
        or "//" in key
        or "/." in key
        or "/ " in key
        or "/;" in key
        or "\\" in key
        or key[-1] == "/"
    ):
        _check_slowly(key)
    if len(key) > SHORT_KEY:
        check_length(key)


def check_s3_key(key: str, *, literal: bool) -> None:
    """Refuse what is no key of S3; where the store does not keep keys literally, also what it may read as another."""
    if len(key) > SHORT_KEY:
        check_length(key)
    if "\0" in key:
        raise Refused(Reason.KEY_CHARACTER, f"key {key!r}")
    if literal:
        return
    # A marker of a directory ends with a slash.
    if key.startswith("/") or "//" in key:
        raise Refused(Reason.KEY_EMPTY_SEGMENT, f"key {key!r}")
    check_dot_segments(key)


def check_length(key: str) -> None:
    """Refuse a key that is longer than S3's keys are; one of at most SHORT_KEY characters need not be asked about."""
    size = len(key.encode())
    if size > MAX_KEY_BYTES:
        raise Refused(Reason.KEY_TOO_LONG, f"key of {size} bytes")


def check_dot_segments(text: str) -> None:
    """Refuse dot segments in all the spellings that some store or proxy resolves, and what it reads as empty ones."""
    for segment in _SEPARATOR.split(text):
        name, semicolon, _ = segment.partition(";")
        read = name.strip()
        if read in _DOTS:
            raise Refused(Reason.KEY_DOT_SEGMENT, f"key {text!r}")
        if semicolon and not read:
            raise Refused(Reason.KEY_PATH_PARAMETER, f"key {text!r}")


def check_prefix(prefix: str) -> None:
    """Refuse a list prefix that no key could begin with; it may end with a slash or inside a segment."""
    if not prefix:
        raise Refused(Reason.LIST_PREFIX, "empty prefix")
    try:
        check_key(prefix.removesuffix("/"))
    except Refused as refusal:
        raise Refused(Reason.LIST_PREFIX, f"{refusal.reason.code}: {refusal.detail}") from None


def _check_slowly(key: str) -> None:
    if _FORBIDDEN.search(key):
        raise Refused(Reason.KEY_CHARACTER, f"key {key!r}")
    for segment in key.split("/"):
        # MinIO refuses dot segments padded with white space too, some stores trim it; servlet containers and
        # the proxies before them drop what follows a semicolon.
        name, semicolon, _ = segment.partition(";")
        read = name.strip()
        if read in _DOTS:
            raise Refused(Reason.KEY_DOT_SEGMENT, f"key {key!r}")
        if not read:
            raise Refused(Reason.KEY_PATH_PARAMETER if semicolon else Reason.KEY_EMPTY_SEGMENT, f"key {key!r}")
