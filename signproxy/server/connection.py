"""Keep the connections of a server: how many there may be, whose they are, and how they end."""

from __future__ import annotations

import asyncio
import contextlib
from time import perf_counter_ns
from typing import Any, Protocol, cast, runtime_checkable

from aiohttp import web

from signproxy.config.settings import LimitSettings
from signproxy.server.exchange import Connection, Parsed
from signproxy.server.limits import Limits
from signproxy.server.plain import Head
from signproxy.server.reply import Reply
from signproxy.server.wire import not_http

STRANGERS_SHARE = 2
"""Of all connections one in two may be a stranger's; for one more the oldest of them ends, so that callers get in."""

_LAST_SECONDS = 0.1
"""For handlers to notice that they are cancelled, once all other time is up."""


@runtime_checkable
class AtOnce(Protocol):
    """A handler that may answer without waiting."""

    def at_once(self, head: Head, remote: str, body: bytes) -> Reply | None:
        """Return the answer, or None where something has to be waited for."""
        ...

    async def __call__(self, request: web.BaseRequest) -> Reply:
        """Answer any request."""
        ...


@runtime_checkable
class Limited(Protocol):
    """A handler that says how many connections there may be."""

    @property
    def limits(self) -> Limits:
        """What callers may use up."""
        ...


class DirectServer(web.Server):
    """A server whose connections answer at once where they can."""

    def __init__(self, handler: AtOnce, idle_limit: float, **options: Any) -> None:
        super().__init__(self._serve)
        self.idle_limit = idle_limit
        self.limits = handler.limits if isinstance(handler, Limited) else Limits(LimitSettings())
        self._handler = handler
        # Connections end idleness themselves. An unwanted body is let in by the handler, within its limits.
        self._options = {**options, "lingering_time": 0.0, "loop": self._loop}
        self._open: dict[Connection, None] = {}
        self._strangers: dict[Connection, None] = {}
        self._ending = False
        self._emptied: asyncio.Future[None] | None = None
        self._log_again = 0.0

    def __call__(self) -> Connection:  # type: ignore[override]  # aiohttp's own is made where it is needed
        """Make the protocol of a new connection."""
        return Connection(self, self._handler, self._loop)

    def opened(self, connection: Connection) -> None:
        """Count a connection, or end it if there are too many."""
        counts = self.limits.connections
        if counts.open >= counts.limit:
            counts.surplus += 1
            connection.abort()
            return
        counts.open += 1
        self._open[connection] = None
        self._strangers[connection] = None
        if len(self._strangers) > counts.limit // STRANGERS_SHARE:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            counts.surplus += 1
            oldest.abort()
        if self._ending:
            # It came while the listener was being closed. The way through aiohttp ends with its answer.
            connection.leave_to_aiohttp()

    def known(self, connection: Connection) -> None:
        """Take note that a connection is a caller's."""
        self._strangers.pop(connection, None)

    def closed(self, connection: Connection) -> None:
        """Uncount a connection."""
        self._strangers.pop(connection, None)
        if connection in self._open:
            del self._open[connection]
            self.limits.connections.open -= 1
        if self._emptied is not None and not self._open and not self._emptied.done():
            self._emptied.set_result(None)

    def parsed(self, connection: Connection) -> Parsed:
        """Make aiohttp's side of a connection."""
        return Parsed(self, connection, **self._options)

    def not_http(self, parsed: Parsed, error: BaseException | None) -> Reply:
        """Return the answer to what is no HTTP; a client that sends much of it fills no log."""
        self.limits.connections.unread += 1
        now = self._loop.time()
        if now >= self._log_again:
            self._log_again = now + 1.0
            parsed.log_exception("not HTTP", exc_info=error)
        reply = not_http()
        reply.hold = self.limits.stranger(perf_counter_ns())
        return reply

    @property
    def leaves_unread(self) -> bool:
        """Whether a request waits for the audit trail to catch up."""
        return any(connection.is_left_unread for connection in self._open)

    def pre_shutdown(self) -> None:
        """Close what is idle, and let everything else end with its answer."""
        self._ending = True
        for connection in list(self._open):
            connection.wind_down()

    async def shutdown(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - aiohttp's signature
        """Wait for what is in flight, then end it."""
        if self._open:
            self._emptied = self._loop.create_future()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._emptied
        await super().shutdown(_LAST_SECONDS)
        for connection in list(self._open):
            connection.abort()

    async def _serve(self, request: web.BaseRequest) -> Reply:
        connection = cast("Parsed", request.protocol).connection
        connection.begin()
        try:
            reply = await self._handler(request)
        finally:
            connection.end()
        connection.note(reply)
        if self._ending:
            reply.closes = True
        return reply
