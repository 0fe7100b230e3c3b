"""Serve S3 on sockets, and end in two steps: accept nothing more, then finish what is in flight."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

from signproxy.server.guests import Guests
from signproxy.server.process.accepting import CLOSE_SECONDS, HEAR_SECONDS, Accepting, until
from signproxy.server.process.tls import CertificateHolder
from signproxy.server.s3.connection import S3Connection, Serves

SECTION = "s3"

LAST_SECONDS = 0.5
"""For requests that are cancelled to leave their events, once all other time is up."""


class S3Listener:
    """The S3 listener of a process. To end: `finish`."""

    def __init__(self, guests: Guests[S3Connection], accepting: Accepting) -> None:
        self.addresses = accepting.addresses
        """`host:port` of each TCP socket, `unix:/path` of each Unix socket."""
        self.guests = guests
        self._accepting = accepting

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
        guests: Guests[S3Connection] = Guests(handler.limits.connections)

        def connection() -> S3Connection:
            return S3Connection(handler, guests, keepalive)

        return cls(guests, await Accepting.begin(connection, sockets, certificate, SECTION))

    def drain(self) -> None:
        """Let every connection end with its next answer, so that clients go elsewhere without losing a request."""
        self.guests.drain()

    async def finish(self, seconds: float) -> None:
        """Let requests in flight be answered for so long, then close all connections, also those."""
        await self._accepting.finish()
        guests = self.guests
        guests.drain()
        if guests.open:
            # What they have to say may be on its way: they connected before they could be told not to.
            await asyncio.sleep(min(HEAR_SECONDS, seconds))
        guests.wind_down()
        await until(lambda: not guests.open, seconds)
        if not guests.open:
            return
        guests.end()
        await until(lambda: not guests.open, max(LAST_SECONDS, CLOSE_SECONDS))
