"""A store that does as it is told, badly if it is told so: one script for each connection, over a loopback socket."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Self

from tests.waiting import never

STAMP = re.compile(r"[?&]x-signproxy-id=([0-9A-Z]{26})$")
OK = b"HTTP/1.1 200 OK\r\nx-amz-request-id: UP1\r\nContent-Length: 0\r\n\r\n"


class Received(NamedTuple):
    """A request as it arrived: the bytes of its head, and its body without HTTP's framing."""

    head: bytes
    body: bytes

    @property
    def target(self) -> str:
        """Path and query without the stamp."""
        return STAMP.sub("", self.stamped_target)

    @property
    def stamp(self) -> str:
        """The event's id; empty where there is none."""
        found = STAMP.search(self.stamped_target)
        return found[1] if found else ""

    @property
    def stamped_target(self) -> str:
        """Path and query exactly."""
        return self.head.split(b" ", 2)[1].decode()

    @property
    def method(self) -> str:
        return self.head.split(b" ", 1)[0].decode()

    def header(self, name: str) -> str | None:
        for line in self.head.decode("latin-1").split("\r\n")[1:]:
            found, _, value = line.partition(": ")
            if found.lower() == name:
                return value
        return None


class Talk:
    """One connection, as the script sees it."""

    def __init__(self, upstream: Upstream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._upstream = upstream
        self.reader = reader
        self.writer = writer

    async def head(self) -> bytes:
        """Read the head of a request alone."""
        return await self.reader.readuntil(b"\r\n\r\n")

    async def request(self) -> Received:
        """Read a whole request and take note of it."""
        head = await self.head()
        received = Received(head, b"")
        length = received.header("content-length")
        if length is not None:
            received = Received(head, await self.reader.readexactly(int(length)))
        elif received.header("transfer-encoding") == "chunked":
            received = Received(head, await self._chunks())
        self._upstream.requests.append(received)
        return received

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, body: bytes = b"", status: str = "200 OK", headers: str = "") -> None:
        """Send an ordinary answer."""
        head = f"HTTP/1.1 {status}\r\nx-amz-request-id: UP1\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
        await self.send(head.encode("latin-1") + body)

    def reset(self) -> None:
        """End the connection with RST."""
        bare = self.writer.get_extra_info("socket")
        bare.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def stall(self) -> None:
        """Do nothing until the peer gives up."""
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(65_536):
                pass

    async def sleep(self) -> None:
        """Neither read nor write."""
        await never()

    async def _chunks(self) -> bytes:
        body = b""
        while size := int((await self.reader.readline()).rstrip(), 16):
            body += await self.reader.readexactly(size)
            assert await self.reader.readexactly(2) == b"\r\n"
        assert await self.reader.readexactly(2) == b"\r\n"
        return body


Script = Callable[[Talk], Awaitable[None]]


class Upstream:
    """Listens, and runs the scripts in their order, the last one for every further connection."""

    def __init__(self, *scripts: Script, tls: ssl.SSLContext | None = None) -> None:
        self.scripts = list(scripts)
        self.requests: list[Received] = []
        self.connections = 0
        self.failures: list[BaseException] = []
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def __aenter__(self) -> Self:
        await self.listen(0)
        return self

    async def listen(self, port: int) -> None:
        """Begin to listen, at a port of one's own choice if it is not 0."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()
        assert not self.failures, self.failures

    @property
    def open(self) -> int:
        """Connections that are still there."""
        return len(self._tasks)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        script = self.scripts[min(self.connections, len(self.scripts) - 1)]
        self.connections += 1
        try:
            await script(Talk(self, reader, writer))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        except Exception as failure:  # noqa: BLE001 - shown by the test that ran it
            self.failures.append(failure)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()
            self._tasks.discard(task)


async def serve(talk: Talk) -> None:
    """Answer every request of a connection with an empty 200."""
    while True:
        await talk.request()
        await talk.send(OK)


def serving(body: bytes, headers: str = "", status: str = "200 OK") -> Script:
    """Return a script that answers every request with this body."""

    async def script(talk: Talk) -> None:
        while True:
            await talk.request()
            await talk.answer(body, status, headers)

    return script
