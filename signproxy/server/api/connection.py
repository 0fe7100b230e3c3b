"""Keep the connections of a server: how many there may be, whose they are, and how they end."""

from __future__ import annotations

import asyncio
import contextlib
from time import perf_counter_ns
from typing import Any, Protocol, cast, runtime_checkable

from aiohttp import web

from signproxy.answers.reply import Reply, not_http
from signproxy.gate.begun import Waiting
from signproxy.gate.limits import Limits
from signproxy.server.api.direct import DirectConnection
from signproxy.server.api.plain import Head
from signproxy.server.guests import Guests

_LAST_SECONDS = 0.1
"""For handlers to notice that they are cancelled, once all other time is up."""


@runtime_checkable
class AtOnce(Protocol):
    """A handler that may answer without a task."""

    limits: Limits

    def at_once(self, head: Head, remote: str, body: bytes) -> Reply | Waiting[Reply] | None:
        """Return the answer, or what waits for it; None for a request that is aiohttp's."""
        ...

    def application(self) -> web.Application:
        """Return what answers any request."""
        ...


class Parsed(web.RequestHandler):
    """aiohttp's side of a connection."""

    __slots__ = ("_server", "connection")

    def __init__(self, server: DirectServer, connection: DirectConnection, **options: Any) -> None:
        super().__init__(server, **options)
        self.connection = connection
        self._server = server

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Answer, later if the answer is to be held back."""
        if isinstance(resp, Reply):
            await self.connection.hold_back(resp)
        return await super().finish_response(request, resp, start_time)

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer what is no HTTP as any other refusal of a stranger."""
        if status != 400:
            return super().handle_error(request, status, exc, message)
        return self._server.not_http(self, exc)


class DirectServer(web.Server):
    """A server whose connections answer at once where they can."""

    def __init__(self, handler: AtOnce, application: web.Server, idle_limit: float, **options: Any) -> None:
        """`application` is the server that aiohttp would make of the handler's application."""
        super().__init__(self._serve, request_factory=application.request_factory)
        self._answer = application.request_handler
        self.idle_limit = idle_limit
        self.limits = handler.limits
        self._handler = handler
        # Connections end idleness themselves. An unwanted body is let in by the handler, within its limits.
        self._options = {**options, "lingering_time": 0.0, "loop": self._loop}
        self.guests: Guests[DirectConnection] = Guests(self.limits.connections)
        self._emptied: asyncio.Future[None] | None = None
        self._log_again = 0.0

    def __call__(self) -> DirectConnection:  # type: ignore[override]  # aiohttp's own is made where it is needed
        """Make the protocol of a new connection."""
        return DirectConnection(self, self._handler, self._loop)

    def opened(self, connection: DirectConnection) -> None:
        """Count a connection, or end it if there are too many."""
        if self.guests.arrive(connection) and self.guests.ending:
            # It came while the listener was being closed. The way through aiohttp ends with its answer.
            connection.leave_to_aiohttp()

    def closed(self, connection: DirectConnection) -> None:
        """Uncount a connection."""
        self.guests.leave(connection)
        if self._emptied is not None and not self.guests.open and not self._emptied.done():
            self._emptied.set_result(None)

    def parsed(self, connection: DirectConnection) -> Parsed:
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

    def pre_shutdown(self) -> None:
        """Close what is idle, and let everything else end with its answer."""
        self.guests.wind_down()

    async def shutdown(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - aiohttp's signature
        """Wait for what is in flight, then end it."""
        if self.guests.open:
            self._emptied = self._loop.create_future()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._emptied
        await super().shutdown(_LAST_SECONDS)
        tasks = [connection.task for connection in self.guests.all() if connection.task is not None]
        self.guests.end()
        # Each has an event to write.
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, request: web.BaseRequest) -> Reply:
        connection = connection_of(request)
        connection.begin()
        try:
            reply = cast("Reply", await self._answer(request))
        finally:
            connection.end()
        connection.note(reply)
        if self.guests.ending or self.limits.connections.draining:
            reply.closes = True
        return reply


def connection_of(request: web.BaseRequest) -> DirectConnection:
    """Return the connection that a request came over."""
    return cast("Parsed", request.protocol).connection
