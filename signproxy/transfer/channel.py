"""Carry bytes over one connection, in both directions, with bounded memory."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Callable
from typing import cast

from signproxy.transfer.faults import Stalled, TargetStalled
from signproxy.transfer.receiving import Receiving, Wait

_CREDENTIALS = struct.Struct("3i")
_RESET = struct.pack("ii", 1, 0)
Buffer = bytes | bytearray | memoryview


class Channel(Receiving):
    """One connection of TCP, TLS or a Unix socket, whichever side began it.

    One task at a time may wait for what is received, and one for what is sent. Whatever waits ends with
    ConnectionError where the connection breaks, and with `Stalled` where its time is up.

        made ──connection_made──> open <──unpark── parked
                                  │  └─────park─────^ │
                                  │                   └─anything comes, or its end─┐
                                  ├─eof_received──> peer ended (it can be sent to) │
                                  ├─close──> what is to be sent goes out ─┐        │
                                  ├─abort──> closing <────────────────────┴────────┘
                                  └─the connection breaks─┐ │
                                                 lost <───┴─┘ connection_lost
    """

    __slots__ = (
        "_bare", "_resumed", "_room", "_send", "_soon", "is_full", "is_tls", "on_lost", "peer", "peer_uid", "watchers",
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self._bare = -1
        self._soon = b""
        self._send: Callable[[Buffer], None] | None = None
        self._room = Wait(self._loop, TargetStalled)
        self._resumed: Callable[[], None] | None = None
        self.is_full = False
        """Whether so much waits to be sent that nothing should be added."""
        self.watchers: list[Callable[[], None]] = []
        """What is called when the connection is lost. What adds itself takes itself out again."""
        self.on_lost: Callable[[], None] | None = None
        self.peer = ""
        self.peer_uid: int | None = None
        self.is_tls = False

    # -- between two uses ------------------------------------------------------------------------------------------

    def park(self) -> bool:
        """Keep the connection for later: nothing is expected on it, and whatever comes ends it.

        False where it cannot be used again: it ends, or has ended.
        """
        transport = self._transport
        if transport is None or transport.is_closing():
            return False
        if self._held or self._ended:
            self.abort()
            return False
        # What nothing asked for would be taken for the next answer.
        self._receiver = self._unasked
        if not self._keeps_reading:
            self.release()
        return True

    def unpark(self) -> bool:
        """Return whether a parked connection can be used."""
        self._receiver = None
        transport = self._transport
        return transport is not None and not transport.is_closing()

    def _unasked(self, _: memoryview) -> None:
        self.abort()

    # -- what is sent ----------------------------------------------------------------------------------------------

    def write(self, data: Buffer) -> None:
        """Send it when it can be. What was given must not change any more."""
        if self._send is None:
            raise self.lost or ConnectionResetError("there is no connection yet")
        if self._soon:
            self.send_now()
        self._send(data)

    def write_soon(self, data: bytes) -> None:
        """Send a whole message together with those of other connections, with the end of the loop's round."""
        if self._send is None:
            raise self.lost or ConnectionResetError("there is no connection yet")
        if not self._soon:
            # Sent in between, each message would wake its receiver from a sleep of its own, which costs more than it.
            self._loop.call_soon(self.send_now)
        self._soon += data

    def send_now(self) -> None:
        """Send what was to be sent soon."""
        data, self._soon = self._soon, b""
        if data and self._send is not None:
            try:
                self._send(data)
            except ConnectionError:
                # A caller that waits for an answer to it is told by the loss of the connection.
                self.abort()

    def write_view(self, view: memoryview) -> None:
        """Send what stands in memory that may change afterwards."""
        # Not on a transport that is closing: its socket's number may be another connection's before this one is lost.
        if self._bare < 0 or self.closed or self.unsent():
            self.write(bytes(view))
            return
        # Nothing waits before it, so that the socket may take it from where it stands: a copy of each piece costs as
        # much as a quarter of what TLS does.
        try:
            sent = os.write(self._bare, view)
        except OSError:
            # Full, or broken: the transport finds out, and reports it.
            sent = 0
        if sent < len(view):
            self.write(bytes(view[sent:]))

    async def drained(self, seconds: float | None = None) -> None:
        """Return when so little waits to be sent that more may be written."""
        self._room.limit(seconds)
        while self.is_full and self.lost is None:
            await self._room.happened()
        if self.lost is not None:
            raise self.lost

    async def flushed(self, seconds: float | None = None) -> None:
        """Return when nothing waits to be sent. With TLS some of it may wait below, encrypted."""
        self.send_now()
        transport = self._transport
        if transport is None or not transport.get_write_buffer_size():
            await self.drained()
            return
        # Writing counts as paused until there is nothing left.
        transport.set_write_buffer_limits(high=0)
        try:
            await self.drained(seconds)
        finally:
            if self.lost is None:
                transport.set_write_buffer_limits()

    def unsent(self) -> int:
        """Return how many bytes wait to be sent."""
        if self._transport is None or self.lost is not None:
            return 0
        return self._transport.get_write_buffer_size() + len(self._soon)

    def when_writable(self, resumed: Callable[[], None] | None) -> None:
        """Have a function called each time that there is room again."""
        self._resumed = resumed

    # -- its end ---------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._transport is None or self._transport.is_closing()

    def close(self) -> None:
        """End the connection when everything is sent."""
        if self._transport is not None:
            self.send_now()
            self._transport.close()

    def abort(self) -> None:
        """End the connection now, in a way that no peer takes for the end of a message."""
        if self._transport is not None and self.lost is None:
            bare = self._transport.get_extra_info("socket")
            if bare is not None and bare.family != socket.AF_UNIX:
                # A body that ends with its connection would else look complete.
                with contextlib.suppress(OSError):
                    bare.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._transport.abort()

    async def linger(self, seconds: float, most: int) -> None:
        """End the connection, but let the peer read the last answer before.

        Closed with bytes of the peer unread, it would be reset, and the answer thrown away at the other side. What
        the peer goes on to send is dropped, at most `most` bytes for `seconds`.
        """
        until = self._loop.time() + seconds
        # A peer that is gone already: ENOTCONN is no ConnectionError.
        with contextlib.suppress(OSError, Stalled):
            await self.flushed(seconds)
            if self._transport is not None and self._transport.can_write_eof():
                self._transport.write_eof()
            while most > 0 and (piece := await self.read(until - self._loop.time())):
                most -= len(piece)
        self.close()

    def descriptor(self) -> int | None:
        """Return the socket if its bytes are those that are read and written here: not those of TLS."""
        return None if self._bare < 0 or self.closed else self._bare

    # -- what the event loop calls ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        # Not asked by its type: uvloop's transports are no asyncio.Transport, though they do all of it.
        self._transport = cast("asyncio.Transport", transport)
        self._send = self._transport.write
        self.is_tls = transport.get_extra_info("sslcontext") is not None
        bare = transport.get_extra_info("socket")
        if bare is not None and not self.is_tls:
            self._bare = int(bare.fileno())
        if bare is not None and bare.family == socket.AF_UNIX:
            credentials = bare.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            self.peer_uid = _CREDENTIALS.unpack(credentials)[1]
        else:
            name = transport.get_extra_info("peername")
            self.peer = str(name[0]) if name else ""

    def eof_received(self) -> bool:
        """Take note that the peer has sent its last byte; it may still wait for an answer."""
        return super().eof_received() and not self.is_tls

    def pause_writing(self) -> None:
        """Take note that what is sent is not taken."""
        self.is_full = True

    def resume_writing(self) -> None:
        """Take note that more can be sent."""
        self.is_full = False
        if self._resumed is not None:
            self._resumed()
        self._room.wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self.lost = ConnectionResetError("the connection is closed" if exc is None else f"the connection broke: {exc}")
        # What they are bound to may be this connection.
        self._transport = self._send = self._receiver = None
        # The number may be another connection's from now on.
        self._bare = -1
        self._arrival.end()
        self._room.end()
        for lost in tuple(self.watchers):
            lost()
        if self.on_lost is not None:
            told, self.on_lost = self.on_lost, None
            told()
