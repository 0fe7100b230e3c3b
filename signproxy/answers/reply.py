"""Answer with one write: a response whose bytes are complete before aiohttp sees it.

`web.Response` costs a third of a signature in header bookkeeping. This class writes head and body itself, and
therefore owns what aiohttp would have done: keep-alive, the date, and that no reflected text can end a line.
"""

from __future__ import annotations

import time
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING

from aiohttp import HttpVersion11, web

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiohttp.abc import AbstractStreamWriter

    from signproxy.gate.limits import Hold

_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Content Too Large",
    429: "Too Many Requests",
    499: "Client Closed Request",
    503: "Service Unavailable",
}
_WITHOUT_CONTENT = frozenset({204, 304})
"""RFC 9110, section 8.6: not even a length."""
_CLOSE = "Connection: close\r\n\r\n"
_END = "\r\n"
_STATUS_LINES = {status: f"HTTP/1.1 {status} {reason}\r\n" for status, reason in _REASONS.items()}


class Reply(web.StreamResponse):
    """A finished answer. `headers` are written as spelled: Java looks for `Cache-Control` exactly so."""

    __slots__ = ("_content", "_lines", "_pieces", "_writer", "closes", "hold", "known")

    def __init__(
        self, status: int, lines: str, body: bytes, *, pieces: Sequence[bytes | memoryview] = (), close: bool = False
    ) -> None:
        """`pieces` follow the body; what is large comes in them, and is not copied to be joined."""
        # StreamResponse's own state is never used: what aiohttp reads of an answer is overridden below.
        self._lines = lines
        self._content = body
        self._pieces = pieces
        self._status = status
        self._writer: AbstractStreamWriter | None = None
        # Whether the connection ends with this answer, and how long it is held back: its sender may decide.
        self.closes = close
        self.hold: Hold | None = None
        # Whether it is a known caller's; None where the status tells.
        self.known: bool | None = None

    @property
    def status(self) -> int:
        return self._status

    @property
    def keep_alive(self) -> bool | None:
        return not self.closes

    def whole(self) -> bytes:
        """Return head and body, without the pieces, as they go onto the wire."""
        size = len(self._content)
        if self._pieces:
            size += sum(map(len, self._pieces))
        length = "" if self._status in _WITHOUT_CONTENT else f"Content-Length: {size}\r\n"
        head = (
            f"{_STATUS_LINES.get(self._status) or _status_line(self._status)}{self._lines}{length}"
            f"Date: {http_date(int(time.time()))}\r\n{_CLOSE if self.closes else _END}"
        )
        return head.encode("latin-1") + self._content

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Take note of the request; nothing is written before the end."""
        self._writer = request.writer
        self.closes = self.closes or not request.keep_alive or request.version < HttpVersion11
        if request.method == "HEAD":
            self._content, self._pieces = b"", ()
        return self._writer

    async def write_eof(self, data: bytes = b"") -> None:  # noqa: ARG002 - aiohttp's signature
        """Write head and body at once, and then the pieces."""
        assert self._writer is not None  # noqa: S101 - aiohttp calls prepare first
        await self._writer.write(self.whole())
        for piece in self._pieces:
            await self._writer.write(piece)


def _status_line(status: int) -> str:
    """Return the line of a status that only an upstream gives; the words mean nothing to a client."""
    try:
        return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
    except ValueError:
        return f"HTTP/1.1 {status} Other\r\n"


@lru_cache(maxsize=2)
def http_date(second: int) -> str:
    """Return a time as HTTP writes it; made once, and shared by all answers of a second."""
    return formatdate(second, usegmt=True)
