"""Serve a small handler on the S3 listener, and speak HTTP with it, byte for byte."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from signproxy.config.settings import LimitSettings
from signproxy.gate.limits import Limits
from signproxy.server.process.sockets import UnixSocket, bind_tcp
from signproxy.server.process.tls import CertificateHolder
from signproxy.server.s3.connection import S3Connection
from signproxy.server.s3.listener import S3Listener
from signproxy.server.s3.sequels import Handover
from signproxy.transfer.body import Incoming
from signproxy.transfer.faults import MessageFault, MessageInvalid
from signproxy.transfer.head import RequestHead

PATIENCE = 20.0


class Slow:
    """Answers with the request's target and body, once `released`; a target with `known` is a caller's."""

    def __init__(self, limits: LimitSettings | None = None) -> None:
        self.limits = Limits(limits or LimitSettings())
        self.released = asyncio.Event()
        self.released.set()
        self.begun = asyncio.Event()
        self.cancelled = 0
        self.malformed: list[MessageFault] = []
        self.guests: list[S3Connection] = []

    async def serve(self, guest: S3Connection, head: RequestHead, _lease: Handover | None = None) -> bool:
        self.guests.append(guest)
        self.begun.set()
        if "known" in head.target:
            guest.known()
        if "refused" in head.target:
            guest.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
            return False
        body = Incoming(guest, head.body, head.length)
        content = b""
        try:
            while piece := await body.read():
                content += piece
            await self.released.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        said = head.target.encode() + b" " + content
        closes = head.closes or guest.ending
        guest.write(
            b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%b\r\n" % (len(said), b"Connection: close\r\n" * closes) + said
        )
        return not closes

    async def serve_malformed(self, guest: S3Connection, invalid: MessageInvalid) -> None:
        self.malformed.append(invalid.fault)
        guest.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


@asynccontextmanager
async def serving(
    handler: Slow,
    *,
    certificate: CertificateHolder | None = None,
    unix: UnixSocket | None = None,
    keepalive: float = 75.0,
) -> AsyncIterator[S3Listener]:
    """Serve on a free loopback port, and on a Unix socket where one is given."""
    sockets = [*bind_tcp("127.0.0.1", 0), *([unix.socket] if unix else [])]
    listener = await S3Listener.open(handler, sockets, certificate=certificate, keepalive=keepalive)
    try:
        yield listener
    finally:
        await listener.finish(0)


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, address: str, tls: ssl.SSLContext | None = None) -> Client:
        kind, _, path = address.partition(":")
        if kind == "unix":
            return cls(*await asyncio.open_unix_connection(path))
        host, _, port = address.rpartition(":")
        return cls(*await asyncio.open_connection(host.strip("[]"), int(port), ssl=tls))

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def put(self, target: str = "/", body: bytes = b"x") -> bytes:
        """Send an upload; return the answer."""
        await self.send(
            b"PUT %b HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%b" % (target.encode(), len(body), body)
        )
        return await self.answer()

    async def answer(self) -> bytes:
        """Return the next answer, head and body."""
        async with asyncio.timeout(PATIENCE):
            head = await self.reader.readuntil(b"\r\n\r\n")
            for line in head.split(b"\r\n"):
                if line.lower().startswith(b"content-length:"):
                    return head + await self.reader.readexactly(int(line.partition(b":")[2]))
            return head

    async def ended(self) -> bytes:
        """Wait until the server closes; return what it still sent."""
        async with asyncio.timeout(PATIENCE):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""

    async def close(self) -> None:
        self.writer.close()
        try:
            async with asyncio.timeout(5):
                await self.writer.wait_closed()
        except (OSError, TimeoutError):
            pass
