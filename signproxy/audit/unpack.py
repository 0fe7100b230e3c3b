"""Unpack a segment as far as it goes: what a killed process left of it ends anywhere."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

MAX_LINE = 1024 * 1024
"""A hundred times the longest event."""
MAX_RAW = 4 * 1024 * 1024 * 1024
"""Bytes that are unpacked of one file at most: sixty times the largest segment, and no bomb."""

_GZIP = 31
_PIECE = 256 * 1024


class TornError(Exception):
    """A segment does not end where it should."""

    def __init__(self, where: str, *, damaged: bool) -> None:
        super().__init__(where)
        self.damaged = damaged
        """Something else follows than what belongs there; otherwise nothing does, as where a process was killed."""


def lines_of(path: Path) -> Iterator[bytes]:
    """Yield each whole line, its end included. Raise TornError behind the last one where more was begun, or OSError."""
    rest = b""
    for piece in _pieces(path):
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line + b"\n"
        if len(rest) > MAX_LINE:
            raise TornError(f"a line of more than {MAX_LINE} bytes", damaged=True)
    if rest:
        raise TornError("the last line", damaged=False)


def _pieces(path: Path) -> Iterator[bytes]:
    """Yield the unpacked bytes, piece by piece."""
    total = 0
    unpacker = zlib.decompressobj(_GZIP)
    began = False
    with path.open("rb") as file:
        while packed := file.read(_PIECE):
            while packed:
                began = True
                try:
                    data = unpacker.decompress(packed, _PIECE)
                except zlib.error:
                    raise TornError("packed data", damaged=True) from None
                packed = unpacker.unconsumed_tail
                if unpacker.eof:
                    packed = unpacker.unused_data
                    unpacker = zlib.decompressobj(_GZIP)
                    began = False
                total += len(data)
                if total > MAX_RAW:
                    raise TornError(f"more than {MAX_RAW} bytes", damaged=True)
                yield data
    if began:
        # What was read and did not fit into the last piece.
        yield unpacker.flush()
        if not unpacker.eof:
            raise TornError("packed data", damaged=False)
