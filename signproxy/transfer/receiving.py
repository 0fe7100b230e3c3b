"""Receive what comes over one connection, and keep it, with bounded memory, until a reader wants it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from signproxy.transfer.faults import MessageFault, MessageInvalid, SourceStalled, Truncated
from signproxy.transfer.refusal import has_bare_ending
from signproxy.transfer.waits import Wait

PIECE = 128 * 1024
"""Read at a time. More makes large bodies no quicker, and is kept by each connection whose receiver stalls."""

HELD = 64 * 1024
"""Received, and wanted by no reader yet: from there on the sender has to wait. More than any head."""


class _Scratch(threading.local):
    """The memory that all connections of a thread's event loop read into: each hands on what it got before the next."""

    def __init__(self) -> None:
        self.plain = memoryview(bytearray(PIECE))


_scratch = _Scratch()


class Receiving(asyncio.BufferedProtocol):
    """The half of a connection that receives.

    What arrives goes to the receiver that it was diverted to, or is held for a reader. One task at a time may wait for
    it; its wait ends with ConnectionError where the connection breaks, and with `Stalled` where its time is up.
    """

    __slots__ = (
        "_arrival", "_ended", "_held", "_keeps_reading", "_loop", "_receiver", "_scratch", "_transport", "lost",
    )  # fmt: skip

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._scratch = _scratch.plain
        self._transport: asyncio.Transport | None = None
        self._held = b""
        self._keeps_reading = True
        self._ended = False
        self._receiver: Callable[[memoryview], None] | None = None
        self._arrival = Wait(self._loop, SourceStalled)
        self.lost: ConnectionError | None = None
        """How the connection was lost."""

    async def head(self, limit: int, seconds: float) -> bytes | None:
        """Return the next head with its empty line; None if the peer ended the connection before its first byte.

        All of it has to be there after `seconds`. Raise MessageInvalid for what can no longer become a head within
        the limit.
        """
        searched, until = 0, 0.0
        while True:
            data = self._held
            if data:
                end = data.find(b"\r\n\r\n", max(0, searched - 3), limit) + 4
                if end >= 4:
                    self._held = data[end:]
                    return data[:end]
                if len(data) >= limit:
                    raise MessageInvalid(MessageFault.HEAD_TOO_LARGE)
                if has_bare_ending(data, searched):
                    raise MessageInvalid(MessageFault.LINE_ENDING)
                searched = len(data)
            elif self._ended:
                return None
            if self.lost is not None:
                raise self.lost
            if self._ended:
                raise Truncated("the connection ended within a head")
            if not until:
                self._arrival.until = until = self._loop.time() + seconds
            if not self._keeps_reading:
                self.release()
            await self._arrival.happened()

    async def read(self, seconds: float | None = None) -> bytes:
        """Return what is there, waiting if there is nothing; nothing at the end of the connection."""
        if not self._held:
            self._arrival.limit(seconds)
            while not self._held:
                if self._ended:
                    return b""
                if self.lost is not None:
                    raise self.lost
                self.release()
                await self._arrival.happened()
        data, self._held = self._held, b""
        return data

    def unread(self) -> int:
        """Return how many bytes were received and not taken."""
        return len(self._held)

    def take(self) -> bytes:
        """Return what is there without waiting."""
        data, self._held = self._held, b""
        return data

    def take_whole(self, length: int) -> bytes | None:
        """Return so many bytes without waiting; None where fewer are there, and nothing is taken."""
        data = self._held
        if len(data) < length:
            return None
        self._held = data[length:]
        return data[:length]

    def put_back(self, data: bytes) -> None:
        """Let what was read too far be read again."""
        self._held = data + self._held

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

    # -- what the event loop calls ---------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Say where to read to."""
        return self._scratch

    def buffer_updated(self, nbytes: int) -> None:
        """Take what arrived."""
        piece = self._scratch[:nbytes]
        if self._receiver is not None:
            self._receiver(piece)
            return
        self._held = self._held + piece if self._held else bytes(piece)
        if len(self._held) >= HELD:
            self.hold()
        self._arrival.wake()

    def eof_received(self) -> bool:
        """Take note that the peer has sent its last byte; it may still wait for an answer."""
        self._ended = True
        if self._receiver is not None:
            self._receiver(self._scratch[:0])
        self._arrival.wake()
        return True
