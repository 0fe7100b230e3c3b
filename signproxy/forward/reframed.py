"""Frame verified data anew: in unsigned chunks, with the client's own checksum behind them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from signproxy.s3.aws_chunked import ChunkedPayload
from signproxy.s3.payload import CHUNK_END, MAX_REFRAMED_CHUNK, Payload, reframed_end, reframed_head


class Reframed:
    """Takes a client's chunks apart, and puts what was verified of them into chunks of its own."""

    __slots__ = ("_chunks", "_in_chunk", "_left")

    def __init__(self, chunks: ChunkedPayload, payload: Payload) -> None:
        self._chunks = chunks
        # Of the whole body, which the client's framing is checked against: it cannot bring more or less.
        self._left = payload.decoded_length or 0
        self._in_chunk = 0

    def feed(self, piece: memoryview) -> Iterator[bytes | memoryview]:
        """Take the next piece of the client's framing; return what goes to the store."""
        # Some of it is held until more follows, and the piece does not live that long.
        return self._framed(self._chunks.feed(bytes(piece)))

    def finish(self) -> Iterator[bytes | memoryview]:
        """Return the end: nothing of it before the client's own was seen and matches."""
        pieces, trailers = self._chunks.finish()
        yield from self._framed(pieces)
        yield reframed_end(trailers)

    def _framed(self, pieces: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
        for whole in pieces:
            piece = whole
            while piece:
                if not self._in_chunk:
                    yield reframed_head(self._left)
                    self._in_chunk = min(self._left, MAX_REFRAMED_CHUNK)
                part, piece = piece[: self._in_chunk], piece[self._in_chunk :]
                yield part
                self._in_chunk -= len(part)
                self._left -= len(part)
                if not self._in_chunk:
                    yield CHUNK_END
