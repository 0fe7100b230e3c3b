"""Read the last line of a segment from the last bytes of its file: it is a gzip member of its own."""

from __future__ import annotations

import hashlib
import os
import zlib
from pathlib import Path
from typing import NamedTuple

import msgspec

from signproxy.audit.segment import SegmentEnd
from signproxy.audit.unpack import UNREADABLE

TAIL = 4096
"""Bytes: the last line is some 300, and a gzip member of its own."""

_MAGIC = b"\x1f\x8b\x08"
_GZIP = 31
_PIECE = 1024 * 1024
_end_of = msgspec.json.Decoder(SegmentEnd).decode


class Trailer(NamedTuple):
    """The last line, and how many bytes it takes in the file: all before them is what its digest is of."""

    end: SegmentEnd
    size: int


def read_trailer(tail: bytes) -> Trailer | None:
    """Return the last line that a file's last bytes hold; None where they hold none: it was cut, or never sealed."""
    at = tail.rfind(_MAGIC)
    while at >= 0:
        end = _member(tail[at:])
        if end is not None:
            return Trailer(end, len(tail) - at)
        # Packed data may hold the same three bytes by chance.
        at = tail.rfind(_MAGIC, 0, at)
    return None


def trailer_of(path: Path) -> tuple[Trailer | None, str]:
    """Return a file's last line and the digest of all before it; of the whole file where it has none. Raise OSError."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL))
        trailer = read_trailer(file.read())
        left = size if trailer is None else size - trailer.size
        file.seek(0)
        while left and (piece := file.read(min(left, _PIECE))):
            digest.update(piece)
            left -= len(piece)
    return trailer, digest.hexdigest()


def _member(packed: bytes) -> SegmentEnd | None:
    unpacker = zlib.decompressobj(_GZIP)
    try:
        line = unpacker.decompress(packed, TAIL)
    except zlib.error:
        return None
    if not unpacker.eof or unpacker.unused_data or not line.endswith(b"\n"):
        return None
    try:
        return _end_of(line)
    except UNREADABLE:
        return None
