"""Connect channels with each other on both kinds of event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import uvloop

from signproxy.transfer.body import Incoming
from signproxy.transfer.channel import Channel
from signproxy.transfer.head import BodyFraming
from signproxy.transfer.tls_channel import TlsChannel
from tests.authority import Authority

T = TypeVar("T")

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
SECONDS = 10.0
"""No wait of these tests is honest after that."""


def run(loop: str, main: Coroutine[Any, Any, T]) -> T:
    """Run a test on an event loop of that kind."""
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(asyncio.wait_for(main, SECONDS))


class Wire(Enum):
    """What a connection is made of."""

    TCP = "tcp"
    UNIX = "unix"
    TLS = "tls"


class Ends(NamedTuple):
    """A channel, and the one at the other end of its connection."""

    near: Channel
    far: Channel


@contextlib.asynccontextmanager
async def connected(wire: Wire = Wire.TCP, *, small: bool = False) -> AsyncIterator[Ends]:
    """Connect two channels; with `small` buffers in the kernel, so that little is under way."""
    loop = asyncio.get_running_loop()
    accepted: asyncio.Future[Channel] = loop.create_future()

    class Far(Channel):
        __slots__ = ()

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            accepted.set_result(self)

    with tempfile.TemporaryDirectory() as directory:
        listening, address = _listening(wire, directory, small=small)
        server_tls, client_tls = contexts() if wire is Wire.TLS else (None, None)
        if wire is Wire.UNIX:
            server = await loop.create_unix_server(Far, sock=listening)
        else:
            server = await loop.create_server(Far, sock=listening, ssl=server_tls)
        near: Channel
        dialled = socket.socket(listening.family)
        dialled.setblocking(False)
        if small:
            _shrink(dialled)
        await loop.sock_connect(dialled, address)
        if wire is Wire.UNIX:
            _, near = await loop.create_unix_connection(Channel, sock=dialled)
        elif client_tls is not None:
            near = await _secured(client_tls, dialled)
        else:
            _, near = await loop.create_connection(Channel, sock=dialled)
        far = await accepted
        server.close()
        try:
            yield Ends(near, far)
        finally:
            near.abort()
            far.abort()
            # Transports close their sockets in the loop's next rounds.
            for _ in range(5):
                await asyncio.sleep(0.001)


async def _secured(context: ssl.SSLContext, dialled: socket.socket) -> Channel:
    loop = asyncio.get_running_loop()
    _, channel = await loop.create_connection(lambda: TlsChannel(context, "localhost"), sock=dialled)
    await channel.secured()
    return channel


def _listening(wire: Wire, directory: str, *, small: bool) -> tuple[socket.socket, Any]:
    bound = socket.socket(socket.AF_UNIX if wire is Wire.UNIX else socket.AF_INET)
    bound.setblocking(False)
    if small:
        _shrink(bound)
    bound.bind(f"{directory}/s" if wire is Wire.UNIX else ("127.0.0.1", 0))
    bound.listen(8)
    return bound, bound.getsockname()


def _shrink(bound: socket.socket) -> None:
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 * 1024)


_made: list[tuple[ssl.SSLContext, ssl.SSLContext]] = []


def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return those of a server called localhost, and of a client that believes it."""
    if not _made:
        authority = Authority()
        pair = authority.issue("localhost")
        with tempfile.TemporaryDirectory() as directory:
            pair.write(Path(directory))
            server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            server.load_cert_chain(f"{directory}/tls.crt", f"{directory}/tls.key")
        _made.append((server, authority.trusting()))
    return _made[0]


async def read_all(channel: Channel, count: int) -> bytes:
    """Return exactly so many bytes of a channel."""
    body = Incoming(channel, BodyFraming.SIZED, count, idle=SECONDS)
    pieces: list[bytes] = []
    while not body.ended:
        pieces.append(await body.read())
    return b"".join(pieces)


def descriptors() -> int:
    """Return how many files this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))
