"""Carry bytes over one connection, in both directions, with bounded memory."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import cast

from signproxy.transfer.faults import MessageFault, MessageInvalid, SourceStalled, Stalled, TargetStalled, Truncated
from signproxy.transfer.outbox import outbox_of
from signproxy.transfer.refusal import has_bare_ending
from signproxy.transfer.scratch import Scratch
from signproxy.transfer.waits import Wait

HELD = 64 * 1024
"""Received, and wanted by no reader yet: from there on the sender has to wait. More than any head."""

_CREDENTIALS = struct.Struct("3i")
_RESET = struct.pack("ii", 1, 0)
Buffer = bytes | bytearray | memoryview


_scratch = Scratch()


class Channel(asyncio.BufferedProtocol):
    """One connection of TCP, TLS or a Unix socket, whichever side began it.

    One task at a time may wait for what is received, and one for what is sent. Whatever waits ends with
    ConnectionError where the connection breaks, and with `Stalled` where its time is up.
    """

    __slots__ = (
        "_arrival", "_bare", "_ended", "_held", "_keeps_reading", "_loop", "_lost", "_outbox", "_parked", "_pieces",
        "_receiver", "_resumed", "_room", "_scratch", "_soon", "_transport", "_watchers", "_write_paused", "is_tls",
        "on_lost", "peer", "peer_uid",
    )  # fmt: skip

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._scratch = _scratch.plain
        self._transport: asyncio.Transport | None = None
        self._bare = -1
        self._outbox = outbox_of(self._loop)
        self._soon = b""
        self._pieces: deque[bytes] = deque()
        self._held = 0
        self._keeps_reading = True
        self._ended = False
        self._parked = False
        self._lost: ConnectionError | None = None
        self._receiver: Callable[[memoryview], None] | None = None
        self._arrival = Wait(self._loop, SourceStalled)
        self._room = Wait(self._loop, TargetStalled)
        self._write_paused = False
        self._resumed: Callable[[], None] | None = None
        self._watchers: list[Callable[[], None]] = []
        self.on_lost: Callable[[], None] | None = None
        self.peer = ""
        self.peer_uid: int | None = None
        self.is_tls = False

    # -- what is received ------------------------------------------------------------------------------------------

    async def head(self, limit: int, seconds: float) -> bytes | None:
        """Return the next head with its empty line; None if the peer ended the connection before its first byte.

        All of it has to be there after `seconds`. Raise MessageInvalid for what can no longer become a head within
        the limit.
        """
        searched = 0
        self._arrival.limit(seconds)
        while True:
            if self._held:
                data = self._pieces[0] if len(self._pieces) == 1 else self._join()
                end = data.find(b"\r\n\r\n", max(0, searched - 3), limit)
                if end >= 0:
                    self._drop(end + 4)
                    return data[: end + 4]
                if len(data) >= limit:
                    raise MessageInvalid(MessageFault.HEAD_TOO_LARGE)
                if has_bare_ending(data, searched):
                    raise MessageInvalid(MessageFault.LINE_ENDING)
                searched = len(data)
            if self._ended and not self._held:
                return None
            if self._lost is not None:
                raise self._lost
            if self._ended:
                raise Truncated("the connection ended within a head")
            self.release()
            await self._arrival.happened()

    async def read(self, seconds: float | None = None) -> bytes:
        """Return what is there, waiting if there is nothing; nothing at the end of the connection."""
        if not self._held:
            self._arrival.limit(seconds)
            while not self._held:
                if self._ended:
                    return b""
                if self._lost is not None:
                    raise self._lost
                self.release()
                await self._arrival.happened()
        self._held -= len(self._pieces[0])
        return self._pieces.popleft()

    def unread(self) -> int:
        """Return how many bytes were received and not taken."""
        return self._held

    def take(self, limit: int) -> bytes:
        """Return what is there without waiting, at most `limit` bytes."""
        if not self._pieces or limit <= 0:
            return b""
        data = self._pieces[0] if len(self._pieces) == 1 else self._join()
        data = data[:limit]
        self._drop(len(data))
        return data

    def put_back(self, data: bytes) -> None:
        """Let what was read too far be read again."""
        if data:
            self._pieces.appendleft(data)
            self._held += len(data)

    @property
    def has_ended(self) -> bool:
        """Whether the peer has sent its last byte, and said so."""
        return self._ended

    def divert(self, receiver: Callable[[memoryview], None]) -> None:
        """Hand what arrives to a receiver instead of keeping it, until `restore`.

        It sees memory that the next arrival overwrites, and an empty piece at the end of the connection.
        """
        self._receiver = receiver

    def restore(self) -> None:
        """Keep again what arrives."""
        self._receiver = None

    def hold(self) -> None:
        """Let the sender wait."""
        if self._keeps_reading and not self._ended and self._transport is not None:
            self._keeps_reading = False
            self._transport.pause_reading()

    def release(self) -> None:
        """Let the sender go on."""
        if not self._keeps_reading and not self._ended and self._transport is not None:
            self._keeps_reading = True
            self._transport.resume_reading()

    def park(self) -> None:
        """Keep the connection for later: nothing is expected on it, and whatever comes ends it."""
        self._parked = True
        if self._held or self._ended:
            self.abort()
        else:
            self.release()

    def unpark(self) -> bool:
        """Return whether a parked connection can be used."""
        self._parked = False
        return not self.closed

    # -- what is sent ----------------------------------------------------------------------------------------------

    def write(self, data: Buffer) -> None:
        """Send it when it can be. What was given must not change any more."""
        if self._lost is not None or self._transport is None:
            raise self._lost or ConnectionResetError("there is no connection yet")
        if self._soon:
            self.send_now()
        self._transport.write(data)

    def write_soon(self, data: bytes) -> None:
        """Send a whole message together with those of other connections, with the end of the loop's round."""
        if self._lost is not None or self._transport is None:
            raise self._lost or ConnectionResetError("there is no connection yet")
        if not self._soon:
            self._outbox.add(self, self._loop)
        self._soon += data

    def send_now(self) -> None:
        """Send what was to be sent soon."""
        data, self._soon = self._soon, b""
        if data and self._lost is None:
            try:
                self.write(data)
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
        while self._write_paused and self._lost is None:
            await self._room.happened()
        if self._lost is not None:
            raise self._lost

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
            if self._lost is None:
                transport.set_write_buffer_limits()

    def unsent(self) -> int:
        """Return how many bytes wait to be sent."""
        if self._transport is None or self._lost is not None:
            return 0
        return self._transport.get_write_buffer_size() + len(self._soon)

    @property
    def is_full(self) -> bool:
        """Whether so much waits to be sent that nothing should be added."""
        return self._write_paused

    def when_writable(self, resumed: Callable[[], None] | None) -> None:
        """Have a function called each time that there is room again."""
        self._resumed = resumed

    # -- its end ---------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._lost is not None or self._transport is None or self._transport.is_closing()

    def watch(self, lost: Callable[[], None]) -> None:
        """Have a function called when the connection is lost; see `unwatch`."""
        self._watchers.append(lost)

    def unwatch(self, lost: Callable[[], None]) -> None:
        """Take back a `watch`."""
        if lost in self._watchers:
            self._watchers.remove(lost)

    @property
    def lost(self) -> ConnectionError | None:
        """How the connection was lost."""
        return self._lost

    def close(self) -> None:
        """End the connection when everything is sent."""
        if self._transport is not None:
            self.send_now()
            self._transport.close()

    def abort(self) -> None:
        """End the connection now, in a way that no peer takes for the end of a message."""
        if self._transport is not None and self._lost is None:
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

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Say where to read to."""
        return self._scratch

    def buffer_updated(self, nbytes: int) -> None:
        """Take what arrived."""
        # What a receiver takes is most of what arrives.
        (self._receiver or self._take)(self._scratch[:nbytes])

    def eof_received(self) -> bool:
        """Take note that the peer has sent its last byte; it may still wait for an answer."""
        self._ended = True
        if self._parked:
            self.abort()
        elif self._receiver is not None:
            self._receiver(self._scratch[:0])
        self._arrival.wake()
        return not self.is_tls

    def pause_writing(self) -> None:
        """Take note that what is sent is not taken."""
        self._write_paused = True

    def resume_writing(self) -> None:
        """Take note that more can be sent."""
        self._write_paused = False
        if self._resumed is not None:
            self._resumed()
        self._room.wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._lost = ConnectionResetError("the connection is closed" if exc is None else f"the connection broke: {exc}")
        self._transport = None
        # The number may be another connection's from now on.
        self._bare = -1
        self._arrival.end()
        self._room.end()
        for lost in tuple(self._watchers):
            lost()
        self._watchers.clear()
        if self.on_lost is not None:
            told, self.on_lost = self.on_lost, None
            told()

    # -- what is held ----------------------------------------------------------------------------------------------

    def _take(self, view: memoryview) -> None:
        if self._receiver is not None:
            self._receiver(view)
            return
        if self._parked:
            self.abort()
            return
        self._pieces.append(bytes(view))
        self._held += len(view)
        if self._held >= HELD:
            self.hold()
        self._arrival.wake()

    def _join(self) -> bytes:
        data = b"".join(self._pieces)
        self._pieces.clear()
        self._pieces.append(data)
        return data

    def _drop(self, count: int) -> None:
        """Forget the first bytes of the one piece that is left."""
        rest = self._pieces.popleft()[count:]
        self._held -= count
        if rest:
            self._pieces.appendleft(rest)
