"""Follow the framing of aws-chunked bodies: heads, data, trailer lines, and the one end that they have.

    signed      <size>;chunk-signature=<hex> CRLF data CRLF ... 0;chunk-signature=<hex> CRLF
    unsigned    <size> CRLF data CRLF ... 0 CRLF
    then        [name:value CRLF ...] CRLF

A declared size is never believed further than the data that came, and nothing is allocated for it.
"""

from __future__ import annotations

import re
from enum import Enum

from signproxy.errors import Reason, Refused
from signproxy.s3.faults import Fault, S3Refused

MAX_LINE = 1024
"""Bytes of a chunk's head or of a trailer; a signed head has about ninety."""
MAX_TRAILERS = 4

Piece = bytes | bytearray | memoryview
Data = bytes | memoryview

_SIGNED_HEAD = re.compile(rb"([0-9A-Fa-f]{1,16});chunk-signature=([0-9a-f]{64})")
_HEAD = re.compile(rb"([0-9A-Fa-f]{1,16})()")
# Some clients end the line twice, once with a line feed of their own.
_TRAILER = re.compile(rb"([A-Za-z0-9\-]{1,64}):[ \t]*([!-~]{0,512})[ \t]*\n?")


class _Next(Enum):
    """What comes next."""

    HEAD = "a chunk's head"
    DATA = "data"
    DATA_END = "the end of a chunk"
    TRAILER = "a trailer"
    NOTHING = "nothing"


class ChunkFraming:
    """The framing that was read so far. Who inherits says what is done with head, data, chunk and end."""

    __slots__ = ("_carry", "_decoded", "_decoded_length", "_head", "_left", "_next", "_trailers", "_with_trailer")

    def __init__(self, decoded_length: int, *, signed: bool, with_trailer: bool) -> None:
        self._carry = b""
        self._decoded = 0
        self._decoded_length = decoded_length
        self._head = _SIGNED_HEAD if signed else _HEAD
        self._left = 0
        self._next = _Next.HEAD
        self._trailers: list[tuple[str, str]] = []
        self._with_trailer = with_trailer

    @property
    def ended(self) -> bool:
        """Whether the end was seen."""
        return self._next is _Next.NOTHING

    def on_head(self, size: int, signature: str) -> None:
        """Take note of a chunk's head; of the final one with size 0."""

    def on_data(self, data: Data) -> None:
        """Take a piece of a chunk's data."""

    def on_chunk(self) -> None:
        """Take note that a chunk with data is complete."""

    def on_end(self, trailers: list[tuple[str, str]]) -> None:
        """Take note of the end, and of the trailer's lines before it."""

    def follow(self, piece: Piece) -> None:
        """Follow the next piece; raise Refused at the first byte that does not belong."""
        # What is held until the next piece must not change with the caller's buffer.
        view = memoryview(piece if isinstance(piece, bytes) else bytes(piece))
        position, length = 0, len(view)
        while position < length:
            if self._next is _Next.DATA:
                position += self._data(view[position : position + self._left])
            elif self._next is _Next.NOTHING:
                raise Refused(Reason.CHUNK_MALFORMED, f"{length - position} bytes after the end")
            else:
                position += self._part_of_line(view[position : position + MAX_LINE + 2])

    def check_ended(self) -> None:
        """Refuse a body that ended before its end."""
        if self._next is not _Next.NOTHING:
            raise Refused(Reason.CHUNK_INCOMPLETE, f"the body ended where {self._next.value} was to come")

    def _data(self, data: memoryview) -> int:
        self._left -= len(data)
        self.on_data(data)
        if not self._left:
            self.on_chunk()
            self._next = _Next.DATA_END
        return len(data)

    def _part_of_line(self, view: memoryview) -> int:
        """Take what belongs to the next line; return how many bytes that was."""
        carried = len(self._carry)
        text = self._carry + bytes(view)
        end = text.find(b"\r\n")
        if end < 0:
            self._carry = text
            if len(text) > MAX_LINE:
                raise Refused(Reason.CHUNK_MALFORMED, f"{self._next.value} is longer than {MAX_LINE} bytes")
            return len(view)
        self._carry = b""
        self._line(text[:end])
        return end + 2 - carried

    def _line(self, line: bytes) -> None:
        if self._next is _Next.HEAD:
            self._read_head(line)
        elif self._next is _Next.DATA_END:
            if line:
                raise Refused(Reason.CHUNK_MALFORMED, "a chunk is longer than its head says")
            self._next = _Next.HEAD
        elif line:
            self._read_trailer(line)
        else:
            self._next = _Next.NOTHING
            self.on_end(self._trailers)

    def _read_head(self, line: bytes) -> None:
        match = self._head.fullmatch(line)
        if match is None:
            raise Refused(Reason.CHUNK_MALFORMED, f"head {line[:120]!r}")
        size = int(match[1], 16)
        self._decoded += size
        if self._decoded > self._decoded_length or (not size and self._decoded < self._decoded_length):
            told = f"chunks of {self._decoded} bytes, announced were {self._decoded_length}"
            raise S3Refused(Reason.CHUNK_INCOMPLETE, Fault.LENGTHS, detail=told)
        self.on_head(size, match[2].decode())
        self._left = size
        self._next = _Next.DATA if size else _Next.TRAILER

    def _read_trailer(self, line: bytes) -> None:
        match = _TRAILER.fullmatch(line)
        if match is None or not self._with_trailer or len(self._trailers) == MAX_TRAILERS:
            told = f"trailer {line[:120]!r}"
            if self._head is _SIGNED_HEAD:
                # S3 itself takes the two apart.
                raise Refused(Reason.CHUNK_MALFORMED, told)
            raise S3Refused(Reason.CHUNK_MALFORMED, Fault.TRAILER_FORM, detail=told)
        self._trailers.append((match[1].decode().lower(), match[2].decode()))
