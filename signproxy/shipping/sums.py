"""Say what a file holds in the ways in which a store says what it has."""

from __future__ import annotations

import hashlib
import os
import stat
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import msgspec

_PIECE = 1024 * 1024


class Sums(msgspec.Struct, frozen=True):
    """Size and digests of a file's content."""

    size: int
    sha256: str
    md5: str

    @property
    def checksum(self) -> str:
        """The SHA-256 as S3's checksum headers have it."""
        return b64encode(bytes.fromhex(self.sha256)).decode()

    def proved_by(self, headers: Mapping[str, str]) -> bool:
        """Whether a store's answer proves that it has exactly this.

        An ETag that is another proves nothing: that of an object encrypted with KMS is no digest.
        """
        return headers.get("x-amz-checksum-sha256") == self.checksum or headers.get("ETag", "").strip('"') == self.md5


def open_segment(path: Path) -> BinaryIO:
    """Open a file of the spool. Raise OSError for a link, which may lead to what is not to be sent, and for a pipe."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(22, "no regular file", path.name)
    return os.fdopen(fd, "rb")


def sums_of(path: Path) -> Sums:
    """Read a file whole. Raise OSError."""
    sha256, md5, size = hashlib.sha256(), hashlib.md5(usedforsecurity=False), 0
    with open_segment(path) as file:
        while piece := file.read(_PIECE):
            sha256.update(piece)
            md5.update(piece)
            size += len(piece)
    return Sums(size, sha256.hexdigest(), md5.hexdigest())
