"""Serve a handler on sockets, and end in two steps: accept nothing more, then finish what is in flight."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from aiohttp import web

from signproxy.server.api.connection import AtOnce, DirectServer
from signproxy.server.process.accepting import CLOSE_SECONDS, HEAR_SECONDS, Accepting, until
from signproxy.server.process.tls import CertificateHolder
from signproxy.telemetry import log

MAX_HEADER = 24 * 1024
"""A bearer token may have 16 KiB; aiohttp's own limit of 8 KiB would answer for us, in a form of its own."""

KEEPALIVE_SECONDS = 75.0
"""Java clients reuse a connection for a minute; what they still use must not be closed under them."""

FEW = 64
"""Connections of a handler that has no limits of its own: kubelet's, Prometheus' and an operator's, many times over."""

_log = log.get_logger("signproxy.http")

RequestHandler = AtOnce | Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class _WithoutContent(logging.Handler):
    """Pass on that something failed, and nothing of what was sent: aiohttp quotes headers, tokens among them."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[0] if record.exc_info else None
        _log.info("http request not understood", error=error.__name__ if error else "")


def _quiet_logger() -> logging.Logger:
    logger = logging.getLogger("signproxy.http")
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(_WithoutContent())
    return logger


class Listener:
    """A handler that is being served. To end: `stop_accepting`, then `finish`."""

    def __init__(self, server: web.Server, accepting: Accepting) -> None:
        self.addresses = accepting.addresses
        """`host:port` of each TCP socket, `unix:/path` of each Unix socket."""
        self._server = server
        self._accepting = accepting

    @classmethod
    async def open(
        cls,
        handler: RequestHandler,
        sockets: Sequence[socket.socket],
        *,
        certificate: CertificateHolder | None = None,
        keepalive: float = KEEPALIVE_SECONDS,
        section: str = "listen",
    ) -> Listener:
        """Serve on bound sockets, which are the listener's from now on; raise SettingsInvalid.

        With a certificate, TCP speaks TLS. A Unix socket never does: only this machine reaches it.
        """
        server = await _server(handler, keepalive)
        return cls(server, await Accepting.begin(server, sockets, certificate, section))

    @property
    def connections(self) -> int:
        """How many connections are open."""
        server = self._server
        # aiohttp knows only those that it was given.
        return server.limits.connections.open if isinstance(server, DirectServer) else len(server.connections)

    def stop_accepting(self) -> None:
        """Close the sockets; connections that are open are served on."""
        self._accepting.stop()

    async def finish(self, seconds: float) -> None:
        """Let requests in flight be answered for so long, then close all connections, also those.

        Requests whose body is still arriving are in flight. aiohttp's own way to end would not read on.
        """
        if await self._accepting.finish():
            # What they have to say is on its way: they connected before they could be told not to.
            await asyncio.sleep(min(HEAR_SECONDS, seconds))
        await until(lambda: not _is_busy(self._server), seconds)
        connections = [(each, each.transport) for each in self._server.connections]
        self._server.pre_shutdown()
        await self._server.shutdown(CLOSE_SECONDS)
        await until(lambda: all(each._manager is None for each, _ in connections), CLOSE_SECONDS)  # noqa: SLF001
        for _, transport in connections:
            if transport is not None:
                transport.abort()


async def _server(handler: RequestHandler, keepalive: float) -> web.Server:
    options: dict[str, Any] = {
        "access_log": None,
        "logger": _quiet_logger(),
        "max_field_size": MAX_HEADER,
        "max_line_size": MAX_HEADER,
    }
    if isinstance(handler, AtOnce):
        runner = web.AppRunner(handler.application(), **options)
        await runner.setup()
        assert runner.server is not None  # noqa: S101 - made by its setup
        return DirectServer(handler, runner.server, keepalive, **options)
    return _FewConnections(handler, keepalive_timeout=keepalive, **options)


class _FewConnections(web.Server):
    """A server of few clients. For one more the oldest connection ends: holding them all shuts no other client out."""

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Let it in."""
        super().connection_made(handler, transport)
        connections = self.connections
        if len(connections) > FEW:
            connections[0].force_close()


def _is_busy(server: web.Server) -> bool:
    """Whether a request is in flight, or is left unread for a moment."""
    unread = isinstance(server, DirectServer) and any(each.is_left_unread for each in server.guests.all())
    return unread or any(map(_in_flight, server.connections))


def _in_flight(connection: web.RequestHandler) -> bool:
    """Whether a request has begun, body or not, and is not answered yet; aiohttp has no public word for it."""
    return connection._request_in_progress or bool(connection._messages)  # noqa: SLF001
