"""Serve a small handler on a listener, and speak HTTP with it, byte for byte."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from aiohttp import web

from signproxy.answers.reply import Reply
from signproxy.config.settings import LimitSettings
from signproxy.gate.limits import Limits
from signproxy.server.api.connection import AtOnce, DirectServer
from signproxy.server.api.listener import KEEPALIVE_SECONDS, Listener, RequestHandler
from signproxy.server.api.plain import Head
from signproxy.server.process.sockets import UnixSocket, bind_tcp
from signproxy.server.process.tls import CertificateHolder

TEXT = "Content-Type: text/plain\r\n"


class Slow:
    """Answers `POST /at-once` within the connection; everything else with its body, once `released`."""

    def __init__(self) -> None:
        self.limits = Limits(LimitSettings())
        self.released = asyncio.Event()
        self.released.set()
        self.begun = asyncio.Event()
        self.cancelled = 0

    def at_once(self, head: Head, remote: str, body: bytes) -> Reply | None:
        return Reply(200, TEXT, b"at once " + body) if head.path == "/at-once" else None

    def application(self) -> web.Application:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self.read)
        return application

    async def read(self, request: web.Request) -> web.StreamResponse:
        self.begun.set()
        try:
            body = await request.read()
            await self.released.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return Reply(200, TEXT, b"read " + body)


async def listen(
    stack: AsyncExitStack,
    handler: RequestHandler,
    host: str,
    port: int,
    *,
    keepalive: float = KEEPALIVE_SECONDS,
    shutdown: float = 25.0,
) -> str:
    """Serve a handler on TCP until `stack` closes; return the address that was bound."""
    listener = await Listener.open(handler, bind_tcp(host, port), keepalive=keepalive)
    stack.push_async_callback(listener.finish, shutdown)
    return listener.addresses[0]


@asynccontextmanager
async def serving(
    handler: Slow | None = None, certificate: CertificateHolder | None = None, unix: UnixSocket | None = None
) -> AsyncIterator[Listener]:
    """Serve on a free loopback port, and on a Unix socket where one is given."""
    sockets = [*bind_tcp("127.0.0.1", 0), *([unix.socket] if unix else [])]
    listener = await Listener.open(handler or Slow(), sockets, certificate=certificate)
    try:
        yield listener
    finally:
        await listener.finish(0)


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, address: str, tls: ssl.SSLContext | None = None) -> Client:
        """Connect to what `Listener.addresses` says."""
        kind, _, path = address.partition(":")
        if kind == "unix":
            return cls(*await asyncio.open_unix_connection(path))
        host, _, port = address.rpartition(":")
        return cls(*await asyncio.open_connection(host.strip("[]"), int(port), ssl=tls))

    @property
    def tls(self) -> ssl.SSLObject:
        found = self._writer.get_extra_info("ssl_object")
        assert isinstance(found, ssl.SSLObject)
        return found

    @property
    def serial(self) -> int:
        """The serial number of the certificate that the server showed."""
        shown = self.tls.getpeercert()
        assert shown is not None
        return int(str(shown["serialNumber"]), 16)

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def post(self, path: str = "/", body: bytes = b"x") -> bytes:
        """Send a request; return the body of the answer."""
        await self.send(
            b"POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(body)) + body
        )
        return await self.answer()

    async def answer(self) -> bytes:
        """Return the body of the next answer."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        length = next(line for line in head.split(b"\r\n") if line.startswith(b"Content-Length:"))
        return await self._reader.readexactly(int(length.partition(b":")[2]))

    async def ended(self) -> bytes:
        """Wait until the server closes; return what it still sent."""
        async with asyncio.timeout(20):
            try:
                return await self._reader.read()
            except ConnectionResetError:
                return b""

    async def close(self) -> None:
        self._writer.close()
        try:
            async with asyncio.timeout(5):
                await self._writer.wait_closed()
        except (OSError, TimeoutError):
            pass


async def server_of(handler: AtOnce, idle: float = 75.0, **options: Any) -> DirectServer:
    """Return a server for connections that a test makes by itself."""
    runner = web.AppRunner(handler.application(), **options)
    await runner.setup()
    assert runner.server is not None
    return DirectServer(handler, runner.server, idle, **options)
