"""Find the end of a body in what arrives, piece by piece and wherever the pieces are cut."""

from __future__ import annotations

import re
from typing import Protocol

from signproxy.transfer.faults import BodyInvalid, MessageFault

CHUNK_LINE_LIMIT = 64
"""A size, and nothing else: what some readers skip as an extension others read as data."""

_SIZE = re.compile(rb"[0-9a-fA-F]+")
_SIZE_LIMIT = 2**62

Decoded = tuple[list[memoryview], int]
"""Pieces of the body, and how many bytes of what arrived belong to the message."""


class Framing(Protocol):
    """How a body ends."""

    ended: bool

    @property
    def left(self) -> int | None:
        """Return how many bytes of the body are still to come; None where that is unknown."""
        ...

    def decode(self, data: memoryview) -> Decoded:
        """Return what of this is the body. Raise BodyInvalid."""
        ...


class Sized:
    """A body of as many bytes as its head says."""

    __slots__ = ("ended", "left")

    def __init__(self, length: int) -> None:
        self.left: int = length
        self.ended = not length

    def decode(self, data: memoryview) -> Decoded:
        """Return what of this is the body."""
        used = min(self.left, len(data))
        self.left -= used
        self.ended = not self.left
        return [data[:used]] if used else [], used


class UntilClose:
    """A body that ends with its connection."""

    __slots__ = ("ended",)

    left = None

    def __init__(self) -> None:
        self.ended = False

    def decode(self, data: memoryview) -> Decoded:
        """Return all of it."""
        return [data], len(data)


class Chunked:
    """A body in the chunks of `Transfer-Encoding: chunked`: sizes without extensions, and no trailers."""

    __slots__ = ("_begun", "_in_chunk", "_last", "_line", "ended")

    left = None

    def __init__(self) -> None:
        self.ended = False
        self._line = b""
        self._in_chunk = 0
        self._begun = False
        self._last = False

    def decode(self, data: memoryview) -> Decoded:
        """Return what of this is the body. Raise BodyInvalid."""
        pieces: list[memoryview] = []
        at = 0
        while at < len(data) and not self.ended:
            if self._in_chunk:
                piece = data[at : at + self._in_chunk]
                pieces.append(piece)
                self._in_chunk -= len(piece)
                at += len(piece)
            else:
                at += self._read_line(data, at)
        return pieces, at

    def _read_line(self, data: memoryview, at: int) -> int:
        """Read on in what stands between two chunks; return how many bytes of this belong to it."""
        known = len(self._line)
        line = self._line + bytes(data[at : at + CHUNK_LINE_LIMIT + 4 - known])
        # Behind a chunk its own line has to end before that of the next one begins.
        start = 2 if self._begun else 0
        if not b"\r\n".startswith(line[:start]):
            raise BodyInvalid(MessageFault.TRAILER if self._last else MessageFault.CHUNK_END)
        if self._last and len(line) >= start:
            self.ended = True
            return 2 - known
        end = line.find(b"\n", start)
        if end < 0:
            if len(line) - start > CHUNK_LINE_LIMIT + 1:
                raise BodyInvalid(MessageFault.CHUNK_LINE_TOO_LONG)
            self._line = line
            return len(line) - known
        self._line = b""
        self._in_chunk = _size_of(line[start : end + 1])
        self._last = not self._in_chunk
        self._begun = True
        return end + 1 - known


def _size_of(line: bytes) -> int:
    if not line.endswith(b"\r\n"):
        raise BodyInvalid(MessageFault.LINE_ENDING)
    digits = line[:-2]
    if len(digits) > CHUNK_LINE_LIMIT:
        raise BodyInvalid(MessageFault.CHUNK_LINE_TOO_LONG)
    if _SIZE.fullmatch(digits) is None:
        raise BodyInvalid(MessageFault.CHUNK_EXTENSION if b";" in digits else MessageFault.CHUNK_SIZE)
    size = int(digits, 16)
    if size >= _SIZE_LIMIT:
        raise BodyInvalid(MessageFault.CHUNK_SIZE)
    return size
