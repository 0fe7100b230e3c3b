"""Receive what comes over one connection, keep it, with bounded memory, until a reader wants it, and wait for it."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable

from signproxy.transfer.faults import MessageFault, MessageInvalid, SourceStalled, Stalled, Truncated
from signproxy.transfer.refusal import has_bare_ending

PIECE = 128 * 1024
"""Read at a time. More makes large bodies no quicker, and is kept by each connection whose receiver stalls."""

HELD = 64 * 1024
"""Received, and wanted by no reader yet: from there on the sender has to wait. More than any head."""

_ROUNDING = 0.005
"""Clocks of event loops count in milliseconds."""


class Wait:
    """What one task at a time waits for.

    Its timer is set when there is none yet, and looks again later where it comes too early: most waits end long
    before their time, and cost no timer of their own.
    """

    __slots__ = ("_due", "_loop", "_stalled", "_timer", "_waiter", "until")

    def __init__(self, loop: asyncio.AbstractEventLoop, stalled: type[Stalled]) -> None:
        self._loop = loop
        self._stalled = stalled
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = math.inf
        self.until = math.inf
        """When the waits from now on end, by the clock of the loop."""

    def limit(self, seconds: float | None) -> None:
        """Let the waits from now on end after that time, all together."""
        self.until = math.inf if seconds is None else self._loop.time() + seconds

    async def happened(self) -> None:
        """Return when it has happened, or the connection is lost. Raise `Stalled` when the time is up."""
        if self._waiter is not None:
            raise RuntimeError("another task waits for the same thing")
        waiter = self._waiter = self._loop.create_future()
        if self.until < self._due:
            self._arm()
        try:
            await waiter
        finally:
            self._waiter = None

    def wake(self) -> None:
        """Say that it has happened."""
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def end(self) -> None:
        """Say that nothing will happen any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._due = None, math.inf
        self.wake()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due = self.until
        self._timer = self._loop.call_at(self.until, self._look)

    def _look(self) -> None:
        self._timer, self._due = None, math.inf
        if self._waiter is None or self._waiter.done():
            return
        if self.until <= self._loop.time() + _ROUNDING:
            self._waiter.set_exception(self._stalled("nothing moved in time"))
        elif self.until < math.inf:
            self._arm()


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
