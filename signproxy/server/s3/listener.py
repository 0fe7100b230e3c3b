"""Serve S3 on sockets, and end in two steps: accept nothing more, then finish what is in flight."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Sequence

from signproxy.errors import Finding, SettingsInvalid
from signproxy.server.guests import Guests
from signproxy.server.process.accepting import CLOSE_SECONDS, HEAR_SECONDS, accept_on, accepted, serve_accepted, until
from signproxy.server.process.sockets import address_of
from signproxy.server.process.tls import CertificateHolder
from signproxy.server.s3.connection import S3Connection, Serves

SECTION = "s3"

LAST_SECONDS = 0.5
"""For requests that are cancelled to leave their events, once all other time is up."""


class S3Listener:
    """The S3 listener of a process. To end: `finish`."""

    def __init__(
        self, handler: Serves, sockets: Sequence[socket.socket], certificate: CertificateHolder | None, keepalive: float
    ) -> None:
        self.addresses = tuple(map(address_of, sockets))
        """`host:port` of each TCP socket, `unix:/path` of each Unix socket."""
        self.guests: Guests[S3Connection] = Guests(handler.limits.connections)
        self._handler = handler
        self._keepalive = keepalive
        self._certificate = certificate
        self._bound = tuple(sockets)
        self._accepting: list[asyncio.AbstractServer] = []

    @classmethod
    async def open(
        cls,
        handler: Serves,
        sockets: Sequence[socket.socket],
        *,
        keepalive: float,
        certificate: CertificateHolder | None = None,
    ) -> S3Listener:
        """Serve on bound sockets, which are the listener's from now on; raise SettingsInvalid."""
        listener = cls(handler, sockets, certificate, keepalive)
        for bound in sockets:
            try:
                listener._accepting.append(await accept_on(listener._connection, bound, certificate))
            except OSError as error:
                # Two sockets may be bound to a port on which nothing listens yet.
                problem = f"cannot listen on {address_of(bound)}: {error.strerror}"
                listener.stop_accepting()
                for each in sockets:
                    each.close()
                raise SettingsInvalid([Finding("", SECTION, problem)]) from None
        return listener

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return self.guests.open

    def drain(self) -> None:
        """Let every connection end with its next answer, so that clients go elsewhere without losing a request."""
        self.guests.drain()

    def stop_accepting(self) -> None:
        """Close the sockets; connections that are open are served on."""
        for each in self._accepting:
            each.close()
        self._accepting.clear()
        self._bound = ()

    async def finish(self, seconds: float) -> None:
        """Let requests in flight be answered for so long, then close all connections, also those."""
        waiting = list(accepted(self._bound))
        self.stop_accepting()
        with contextlib.suppress(OSError):
            await asyncio.gather(*(serve_accepted(self._connection, each, self._certificate) for each in waiting))
        guests = self.guests
        guests.drain()
        if guests.open:
            # What they have to say may be on its way: they connected before anybody could tell them not to.
            await asyncio.sleep(min(HEAR_SECONDS, seconds))
        guests.wind_down()
        await until(lambda: not guests.open, seconds)
        if not guests.open:
            return
        guests.end()
        await until(lambda: not guests.open, max(LAST_SECONDS, CLOSE_SECONDS))

    def _connection(self) -> S3Connection:
        return S3Connection(self._handler, self.guests, self._keepalive)
