"""Answer whole sign requests as they arrive, without a task of their own; leave everything else to aiohttp.

aiohttp makes a task, a request and a writer for each request, which costs more than the decision and the signature
together. A request that came in one piece, in the plainest form of HTTP/1.1, needs none of them. This reader is
strict instead of clever: whatever it does not recognise at first sight, byte for byte, goes to aiohttp's parser, and
so does everything that follows on that connection. It never holds bytes back, so the two cannot disagree on where a
message ends.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from time import monotonic
from typing import Any, Protocol, cast, runtime_checkable

from aiohttp import web

from signproxy.server.reply import Reply

MAX_UNREAD = 64 * 1024
"""Bytes of answers that a client may leave unread before it has to wait for each of them."""

_LINE = re.compile(r"(?m)^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t\x20-\x7e]*)\r\n")
_PATH = re.compile(r"/[!-~]*")
_VERSION = b" HTTP/1.1"

# What changes how the message is read or answered. `keep-alive` is what HTTP/1.1 means anyway.
_SPECIAL = frozenset({"Transfer-Encoding", "Expect", "Upgrade", "Content-Encoding", "Trailer", "Te"})


def read_plain(data: bytes) -> tuple[str, dict[str, str], bytes] | None:
    """Return path, headers and body if these bytes are exactly one plain POST, else None.

    Header names have to be spelled as in `Content-Length`, as the HTTP libraries of all Iceberg clients do: then no
    two spellings of one name can meet.
    """
    if not data.startswith(b"POST /"):
        return None
    line_end = data.find(b"\r\n")
    head_end = data.find(b"\r\n\r\n", line_end)
    if head_end < 0 or not data.endswith(_VERSION, 0, line_end):
        return None
    try:
        head = data[: head_end + 2].decode("ascii")
    except UnicodeDecodeError:
        return None
    lines = _LINE.findall(head, line_end + 2)
    headers: dict[str, str] = dict(lines)
    path = head[5 : line_end - len(_VERSION)]
    if (
        # Every line is a header, and none of them is there twice.
        len(lines) != head.count("\n") - 1
        or len(headers) != len(lines)
        or not ",".join(headers).istitle()
        or not _PATH.fullmatch(path)
        or "Host" not in headers
        or headers.get("Content-Length") != str(len(data) - head_end - 4)
        or headers.get("Connection", "keep-alive").lower() != "keep-alive"
        or not _SPECIAL.isdisjoint(headers)
    ):
        return None
    return path, headers, data[head_end + 4 :]


@runtime_checkable
class AtOnce(Protocol):
    """A handler that may answer without waiting."""

    def at_once(self, raw_path: str, headers: Mapping[str, str], remote: str, body: bytes) -> Reply | None:
        """Return the answer, or None where something has to be waited for."""
        ...

    async def __call__(self, request: web.BaseRequest) -> Reply:
        """Answer any request."""
        ...


class Connection(web.RequestHandler):
    """A connection that is answered directly until it sends anything else than plain requests."""

    __slots__ = ("_at_once", "_clock", "_idle_limit", "_idle_since", "_idle_timer", "_remote", "_wire")

    def __init__(self, manager: web.Server, handler: AtOnce, idle_limit: float, **options: Any) -> None:
        super().__init__(manager, **options)
        self._at_once: AtOnce | None = handler
        self._idle_limit = idle_limit
        self._clock = monotonic
        self._idle_since = 0.0
        self._idle_timer: asyncio.TimerHandle | None = None
        self._remote = ""
        self._wire: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; a connection that says nothing is closed like one that has nothing more to say."""
        super().connection_made(transport)
        # Not asked by its type: uvloop's transports are no asyncio.Transport, though they do all of it.
        self._wire = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self._remote = str(peer[0]) if isinstance(peer, tuple) else ""
        loop = asyncio.get_running_loop()
        self._clock = loop.time
        self._idle_since = loop.time()
        self._idle_timer = loop.call_later(self._idle_limit, self._close_if_idle)

    def connection_lost(self, exc: BaseException | None) -> None:
        """End, the timer with it."""
        self._leave_to_aiohttp()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Answer a plain request at once, or hand this and all that follows to aiohttp."""
        handler, wire = self._at_once, self._wire
        if handler is not None and wire is not None:
            if not data:
                # aiohttp pokes its parser when reading resumes; it has been given nothing yet.
                return
            plain = read_plain(data)
            if plain is not None and wire.get_write_buffer_size() <= MAX_UNREAD:
                path, headers, body = plain
                reply = handler.at_once(path, headers, self._remote, body)
                if reply is not None:
                    wire.write(reply.whole())
                    self._idle_since = self._clock()
                    if reply.closes:
                        wire.close()
                    return
            self._leave_to_aiohttp()
        super().data_received(data)

    def _leave_to_aiohttp(self) -> None:
        """From now on the timer is aiohttp's as well."""
        self._at_once = None
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    def _close_if_idle(self) -> None:
        loop = asyncio.get_running_loop()
        left = self._idle_since + self._idle_limit - loop.time()
        if left > 0:
            self._idle_timer = loop.call_later(left, self._close_if_idle)
        elif self._wire is not None:
            self._wire.close()


class DirectServer(web.Server):
    """A server whose connections answer at once where they can."""

    def __init__(self, handler: AtOnce, idle_limit: float, **options: Any) -> None:
        super().__init__(handler)
        self._direct = handler
        self._idle_limit = idle_limit
        self._options = options

    def __call__(self) -> Connection:
        """Make the protocol of a new connection."""
        loop = asyncio.get_running_loop()
        limit = self._idle_limit
        return Connection(self, self._direct, limit, loop=loop, keepalive_timeout=limit, **self._options)
