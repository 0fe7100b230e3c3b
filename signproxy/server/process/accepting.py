"""Accept connections on bound sockets, whatever is spoken on them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from signproxy.errors import Finding, SettingsInvalid
from signproxy.server.process.sockets import BACKLOG, address_of
from signproxy.server.process.tls import CertificateHolder

HANDSHAKE_SECONDS = 10.0
"""A client that opens a connection and says nothing holds half a megabyte of buffers."""

CLOSE_SECONDS = 1.0
"""For answers that are on their way, and for the other side's farewell, which TLS waits for."""

HEAR_SECONDS = 0.1
"""For the first bytes of a client that has just connected, when the server ends."""

LOOK_SECONDS = 0.02
"""Between two looks at what is in flight; only while a server ends."""

MakeProtocol = Callable[[], asyncio.BaseProtocol]


class Accepting:
    """Bound sockets on which connections are accepted."""

    def __init__(
        self, make: MakeProtocol, sockets: Sequence[socket.socket], certificate: CertificateHolder | None
    ) -> None:
        self.addresses = tuple(map(address_of, sockets))
        """`host:port` of each TCP socket, `unix:/path` of each Unix socket."""
        self._make = make
        self._certificate = certificate
        self._bound = tuple(sockets)
        self._servers: list[asyncio.AbstractServer] = []

    @classmethod
    async def begin(
        cls, make: MakeProtocol, sockets: Sequence[socket.socket], certificate: CertificateHolder | None, section: str
    ) -> Accepting:
        """Serve on sockets, which are closed in the end. Raise SettingsInvalid, which names the section of settings."""
        accepting = cls(make, sockets, certificate)
        for bound in sockets:
            try:
                accepting._servers.append(await accept_on(make, bound, certificate))
            except OSError as error:
                # Two sockets may be bound to a port on which nothing listens yet.
                problem = f"cannot listen on {address_of(bound)}: {error.strerror}"
                accepting.stop()
                for each in sockets:
                    each.close()
                raise SettingsInvalid([Finding("", section, problem)]) from None
        return accepting

    def stop(self) -> None:
        """Close the sockets; connections that are open are served on."""
        for each in self._servers:
            each.close()
        self._servers.clear()
        self._bound = ()

    async def finish(self) -> bool:
        """Close the sockets, and serve what the kernel has accepted already; return whether there was any."""
        waiting = list(accepted(self._bound))
        self.stop()
        with contextlib.suppress(OSError):
            await asyncio.gather(*(serve_accepted(self._make, each, self._certificate) for each in waiting))
        return bool(waiting)


async def accept_on(
    make: MakeProtocol, bound: socket.socket, certificate: CertificateHolder | None
) -> asyncio.AbstractServer:
    """Serve on a bound socket. With a certificate TCP speaks TLS; a Unix socket never does. Raise OSError."""
    loop = asyncio.get_running_loop()
    # Here, for uvloop keeps it to itself where it fails.
    bound.listen(BACKLOG)
    if bound.family == socket.AF_UNIX:
        # From Python 3.13 on, each process that closes its copy of the socket would remove the file of all of them.
        keeping: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
        return await loop.create_unix_server(make, sock=bound, backlog=BACKLOG, **keeping)
    return await loop.create_server(make, sock=bound, backlog=BACKLOG, **tls_options(certificate))


async def serve_accepted(make: MakeProtocol, client: socket.socket, certificate: CertificateHolder | None) -> None:
    """Serve a connection that the kernel has accepted already. Raise OSError."""
    client.setblocking(False)
    tls = tls_options(certificate) if client.family != socket.AF_UNIX else {}
    await asyncio.get_running_loop().connect_accepted_socket(make, client, **tls)


def tls_options(certificate: CertificateHolder | None) -> dict[str, Any]:
    """Return what the loop has to be told for TLS; nothing where it is off."""
    if certificate is None:
        return {}
    return {
        "ssl": certificate.context,
        "ssl_handshake_timeout": HANDSHAKE_SECONDS,
        "ssl_shutdown_timeout": CLOSE_SECONDS,
    }


def accepted(bound: Iterable[socket.socket]) -> Iterator[socket.socket]:
    """Accept the connections that the kernel has made already: closing a socket resets them, a fault to clients."""
    for each in bound:
        each.setblocking(False)
        with contextlib.suppress(OSError):
            for _ in range(BACKLOG):
                yield each.accept()[0]


async def until(holds: Callable[[], bool], seconds: float) -> None:
    """Wait until it holds, or for so long."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not holds() and loop.time() < deadline:  # noqa: ASYNC110 - nothing tells when it changes
        await asyncio.sleep(LOOK_SECONDS)
