"""Read the small files that settings name, tell every fault of several at once, and tell contents from others."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from signproxy.documents.files import read_together
from signproxy.errors import Finding, SettingsInvalid

MAX_SECRET_BYTES = 64 * 1024
"""Larger than any key or secret; a wrong path must not read a disk image into memory."""

T = TypeVar("T")
V = TypeVar("V")


def content_of(path: str, file: str, limit: int = MAX_SECRET_BYTES) -> bytes:
    """Return the content of a file that the setting at `path` names. Raise SettingsInvalid."""
    try:
        return read_together((Path(file),), limit=limit)[0]
    except OSError as error:
        raise SettingsInvalid([Finding("", path, f"{file!r} cannot be read: {error.strerror}")]) from None


def secret_of(path: str, file: str) -> bytes:
    """Return a secret; a newline that an editor added is not part of it. Raise SettingsInvalid."""
    return content_of(path, file).rstrip(b"\r\n")


def each_of(make: Callable[[str, V], T], named: Iterable[tuple[str, V]]) -> tuple[T, ...]:
    """Return what is made of each setting and its name. Raise SettingsInvalid with every fault of each of them."""
    made: list[T] = []
    findings: list[Finding] = []
    for name, value in named:
        try:
            made.append(make(name, value))
        except SettingsInvalid as invalid:
            findings += invalid.findings
    if findings:
        raise SettingsInvalid(findings)
    return tuple(made)


def digest_of(contents: Iterable[bytes]) -> str:
    """Return what tells the contents of files from others, so that workers know that they read the same.

    Not for logs or a status page: a secret that a person made up could be guessed and compared with it.
    """
    digest = hashlib.sha256()
    for content in contents:
        digest.update(b"%d:" % len(content) + content)
    return digest.hexdigest()
