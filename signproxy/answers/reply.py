"""Answer with one write: a response whose bytes are complete before aiohttp sees it, as the specification has it.

`web.Response` costs a third of a signature in header bookkeeping. `Reply` writes head and body itself, and
therefore owns what aiohttp would have done: keep-alive, the date, and that no reflected text can end a line.
"""

from __future__ import annotations

import time
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec
from aiohttp import HttpVersion11, web

from signproxy.errors import Reason, Refused
from signproxy.s3.codes import Worded

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
_encode = msgspec.json.Encoder().encode

JSON = "Content-Type: application/json\r\n"
NO_CACHE = "Cache-Control: no-cache\r\n"
NO_STORE = "Cache-Control: no-store\r\n"
PRIVATE = "Cache-Control: private\r\n"
"""Iceberg 1.12 keeps an answer for 30 s on this value in any spelling, without looking at principal or table."""

# Iceberg Java repeats a sign call only after 429, or 503 with Retry-After. A fault of our own is not repeated.
_RETRY = {
    Reason.KEYS_UNAVAILABLE: "Retry-After: 1\r\n",
    Reason.CREDENTIALS_UNAVAILABLE: "Retry-After: 1\r\n",
    Reason.SESSIONS_THROTTLED: "Retry-After: 5\r\n",
    Reason.SESSIONS_UNAVAILABLE: "Retry-After: 5\r\n",
    Reason.AUDIT_UNAVAILABLE: "Retry-After: 1\r\n",
    Reason.RATE_LIMITED: "Retry-After: 1\r\n",
    Reason.IN_FLIGHT_LIMITED: "Retry-After: 1\r\n",
    Reason.OVERLOADED: "Retry-After: 1\r\n",
    Reason.UPSTREAM_BUSY: "Retry-After: 1\r\n",
    # Iceberg Java asks five times: a catalog that restarts has half a minute.
    Reason.UPSTREAM_UNAVAILABLE: "Retry-After: 5\r\n",
    Reason.UPSTREAM_FAILED: "Retry-After: 5\r\n",
    Reason.INVENTORY_MISSING: "Retry-After: 5\r\n",
}


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


def answer(value: object, request_id: str, cache: str = NO_CACHE) -> Reply:
    """Return a 200 with a JSON body. The spelling of the header names is part of the contract."""
    return Reply(200, f"{JSON}{cache}X-Request-ID: {request_id}\r\n", _encode(value))


def lines_of(headers: Iterable[tuple[str, str]], request_id: str, cache: str = NO_CACHE) -> str:
    """Return the head of an answer that is passed on; no cache on the way may keep what belongs to one caller."""
    return f"{''.join(f'{name}: {value}' + _END for name, value in headers)}{cache}X-Request-ID: {request_id}\r\n"


def refusal(refused: Refused, request_id: str, form: object = None) -> Reply:
    """Return the error of a refusal: what the caller may know, never the operator's detail.

    `form` is the error as a client reads it that is none of Iceberg's.
    """
    reason, spec = refused.reason, refused.reason.value
    message = refused.words if isinstance(refused, Worded) else spec.message
    error = {"message": message, "type": spec.type, "code": spec.status, "request_id": request_id}
    lines = f"{JSON}{NO_CACHE}X-Request-ID: {request_id}\r\n{_RETRY.get(reason, '')}"
    if spec.status == 401:
        lines += 'WWW-Authenticate: Bearer realm="signproxy"\r\n'
    # What is left of an oversized or late body is not read, so the connection cannot go on.
    close = reason in (Reason.BODY_TOO_LARGE, Reason.BODY_TIMEOUT)
    return Reply(spec.status, lines, _encode({"error": error} if form is None else form), close=close)


def not_http() -> Reply:
    """Return the answer to bytes that are no request; they have no id either."""
    error = {"message": "Not a well-formed HTTP request", "type": "BadRequestException", "code": 400}
    return Reply(400, f"{JSON}{NO_CACHE}", _encode({"error": error}), close=True)


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
