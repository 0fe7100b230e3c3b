"""Frame verified data anew: as one unsigned chunk, with the client's own checksum behind it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from signproxy.s3.aws_chunked import ChunkedPayload
from signproxy.s3.payload import Payload, reframed_end, reframed_head


class Reframed:
    """Takes a client's chunks apart, and puts what was verified of them into one."""

    __slots__ = ("_begun", "_chunks", "_payload")

    def __init__(self, chunks: ChunkedPayload, payload: Payload) -> None:
        self._chunks = chunks
        self._payload = payload
        self._begun = False

    def feed(self, piece: memoryview) -> Iterator[bytes | memoryview]:
        """Take the next piece of the client's framing; return what goes to the store."""
        # Some of it is held until more follows, and the piece does not live that long.
        return self._framed(self._chunks.feed(bytes(piece)))

    def finish(self) -> Iterator[bytes | memoryview]:
        """Return the end: nothing of it before the client's own was seen and matches."""
        pieces, trailers = self._chunks.finish()
        yield from self._framed(pieces)
        yield reframed_end(self._payload, trailers)

    def _framed(self, pieces: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
        if not self._begun:
            self._begun = True
            yield reframed_head(self._payload)
        yield from pieces
