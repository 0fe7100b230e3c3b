"""Play an upstream catalog on loopback, byte for byte: also one that is slow, breaks off, redirects or lies."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

PATIENCE = 20.0
"""Far longer than anything here takes."""


class Asked(NamedTuple):
    """A request as it arrived."""

    method: str
    target: str
    headers: dict[str, str]
    """By name in lower case; of repeated ones the last."""
    body: bytes
    connection: int
    """Which of the connections it came on."""

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]


class Line:
    """The way back to the client, for scripts that do more than answer."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def hang_up(self) -> None:
        self._writer.close()

    def reset(self) -> None:
        """End the connection as a crash does, with a reset."""
        found: socket.socket = self._writer.get_extra_info("socket")
        # Through the descriptor: asyncio's own wrapper lets no option of this kind through on every version.
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


Script = Callable[[Asked, Line], Awaitable[bytes | None]]


def answer(status: int = 200, body: object = None, headers: dict[str, str] | None = None) -> bytes:
    """Return a whole answer; a body that is no bytes is sent as JSON."""
    content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Scripted"]
    given = {"Content-Type": "application/json", **(headers or {})}
    if status not in (204, 304) and "Content-Length" not in given:
        given["Content-Length"] = str(len(content))
    lines += [f"{name}: {value}" for name, value in given.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + content


def chunked(body: bytes, size: int = 7, *, end: bool = True, headers: dict[str, str] | None = None) -> bytes:
    """Return an answer in chunks, without the last one where it is to break off."""
    lines = {"Content-Type": "application/json", "Transfer-Encoding": "chunked", **(headers or {})}
    head = "HTTP/1.1 200 Scripted\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items()) + "\r\n"
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    return head.encode() + chunks + (b"0\r\n\r\n" if end else b"")


def packed(body: object) -> bytes:
    """Return an answer that is compressed, asked for or not."""
    return answer(200, gzip.compress(json.dumps(body).encode()), {"Content-Encoding": "gzip"})


def error(status: int, kind: str, message: str = "no") -> bytes:
    """Return an error as the specification has it."""
    return answer(status, {"error": {"message": message, "type": kind, "code": status}})


class Scripted:
    """An upstream that does what its script says, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.script: Script = self._nothing
        self.url = ""
        self.connections = 0
        self._more = asyncio.Event()
        self.gone = asyncio.Event()
        """Set once a client ended a connection on which an answer was due."""

    async def _nothing(self, asked: Asked, line: Line) -> bytes:
        return error(404, "NotFoundException")

    def says(self, *answers: bytes) -> None:
        """Answer with these, one after the other, and with the last one from then on."""
        left = list(answers)

        async def script(asked: Asked, line: Line) -> bytes:
            return left.pop(0) if len(left) > 1 else left[0]

        self.script = script

    def does(self, step: Callable[[Line], Awaitable[None]]) -> None:
        """Do something else than answer to each request."""

        async def script(asked: Asked, line: Line) -> None:
            await step(line)

        self.script = script

    async def until_asked(self, count: int = 1) -> None:
        """Wait until there were so many requests."""
        async with asyncio.timeout(PATIENCE):
            while len(self.asked) < count:
                self._more.clear()
                await self._more.wait()

    @property
    def last(self) -> Asked:
        return self.asked[-1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        line = Line(writer)
        try:
            while True:
                asked = await _read(reader, number)
                if asked is None:
                    return
                self.asked.append(asked)
                self._more.set()
                playing = asyncio.ensure_future(self.script(asked, line))
                leaving = asyncio.ensure_future(reader.read(1))
                await asyncio.wait((playing, leaving), return_when=asyncio.FIRST_COMPLETED)
                if not playing.done():
                    self.gone.set()
                    playing.cancel()
                    await asyncio.gather(playing, return_exceptions=True)
                    return
                leaving.cancel()
                await asyncio.gather(leaving, return_exceptions=True)
                answered = playing.result()
                if answered is None:
                    return
                await line.send(answered)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.gone.set()
        finally:
            writer.close()


@asynccontextmanager
async def scripted(tls: ssl.SSLContext | None = None) -> AsyncIterator[Scripted]:
    """Serve on a free loopback port."""
    upstream = Scripted()
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(upstream._serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    upstream.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{port}"
    try:
        yield upstream
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


async def _read(reader: asyncio.StreamReader, connection: int) -> Asked | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.split("\r\n")[:-2]
    method, target, _ = first.split(" ")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    body = b""
    if headers.get("transfer-encoding") == "chunked":
        while size := int(await reader.readline(), 16):
            body += await reader.readexactly(size)
            await reader.readexactly(2)
        await reader.readexactly(2)
    elif "content-length" in headers:
        body = await reader.readexactly(int(headers["content-length"]))
    return Asked(method, target, headers, body, connection)
