"""Unpack a segment as far as it goes: what a killed process left of it ends anywhere."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

MAX_LINE = 1024 * 1024
"""A hundred times the longest event."""
MAX_RAW = 1280 * 1024 * 1024
"""Bytes that are unpacked of one file at most: the largest segment of the settings, and a batch that went beyond."""
MIN_LINE = 128
"""The shortest line of a segment is longer, and the shortest content of what gzip calls a member."""
MAX_SHORT = 1_000
"""Lines and members below that, of one file: each costs as much work as a long one, and a bomb holds a billion."""
MAX_CUT = 1_000
"""Members of one file that end in the midst of a line. A writer ends none there, so that there are no more members
than lines: whatever bounds the lines of a file bounds its members too."""

_GZIP = 31
_PACKED = 16 * 1024
"""Bytes that are unpacked at a time: what follows the end of a member is copied for the next one."""
_PIECE = 256 * 1024


UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What a line raises that is not what it should be: no JSON of its kind, no text, or nested without end."""


class TornError(Exception):
    """A segment does not end where it should."""

    def __init__(self, where: str, *, damaged: bool) -> None:
        super().__init__(where)
        self.damaged = damaged
        """Something else follows than what belongs there; otherwise nothing does, as where a process was killed."""


def lines_of(path: Path) -> Iterator[bytes]:
    """Yield each whole line, its end included. Raise TornError behind the last one where more was begun, or OSError."""
    begun: list[bytes] = []
    held = short = 0
    for piece in _pieces(path):
        first, *others = piece.split(b"\n")
        held += len(first)
        if held > MAX_LINE:
            raise TornError(f"a line of more than {MAX_LINE} bytes", damaged=True)
        begun.append(first)
        if not others:
            continue
        # Joined once, where the line ends: a line may come in thousands of pieces, and none is looked at again.
        *whole, rest = b"".join(begun), *others
        for line in whole:
            if len(line) < MIN_LINE:
                short += 1
                if short > MAX_SHORT:
                    raise TornError(f"more than {MAX_SHORT} lines of fewer than {MIN_LINE} bytes", damaged=True)
            yield line + b"\n"
        begun, held = [rest], len(rest)
    if held:
        raise TornError("the last line", damaged=False)


def _pieces(path: Path) -> Iterator[bytes]:
    """Yield the unpacked bytes, piece by piece; none of them is empty."""
    total = begun_at = short = cut = 0
    last = b""
    unpacker = zlib.decompressobj(_GZIP)
    began = False
    with path.open("rb") as file:
        while packed := file.read(_PACKED):
            while packed:
                began = True
                try:
                    data = unpacker.decompress(packed, _PIECE)
                except zlib.error:
                    raise TornError("packed data", damaged=True) from None
                packed = unpacker.unconsumed_tail
                total += len(data)
                last = data[-1:] or last
                if total > MAX_RAW:
                    raise TornError(f"more than {MAX_RAW} bytes", damaged=True)
                if unpacker.eof:
                    short += total - begun_at < MIN_LINE
                    cut += last != b"\n"
                    if short > MAX_SHORT:
                        raise TornError(f"more than {MAX_SHORT} members of fewer than {MIN_LINE} bytes", damaged=True)
                    if cut > MAX_CUT:
                        raise TornError(f"more than {MAX_CUT} members that end in the midst of a line", damaged=True)
                    packed = unpacker.unused_data
                    unpacker = zlib.decompressobj(_GZIP)
                    began = False
                    begun_at = total
                if data:
                    yield data
    if began:
        # What was read and did not fit into the last piece.
        if data := unpacker.flush():
            yield data
        if not unpacker.eof:
            raise TornError("packed data", damaged=False)
