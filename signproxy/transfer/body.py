"""Read and write the body of a message, to its exact end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from signproxy.transfer.channel import Buffer, Channel
from signproxy.transfer.faults import BodyInvalid, MessageFault, Truncated
from signproxy.transfer.framing import Chunked, Framing, Sized, UntilClose
from signproxy.transfer.head import BodyFraming

# Looking a member up in its class calls Python code; the hot path does without.
_NONE = BodyFraming.NONE
_NOTHING = Sized(0)
"""Every body that there is none of: nothing of it ever changes."""


class Inspect(Protocol):
    """What looks at a body on its way, and says what of it may go on. What it raises ends the transfer."""

    def feed(self, piece: memoryview) -> Iterable[bytes | memoryview]:
        """Return what may go on now. The piece is overwritten later: what is withheld has to be copied."""
        ...

    def finish(self) -> Iterable[bytes | memoryview]:
        """Return what was withheld, as the body is complete; or raise, and it never goes on."""
        ...


class Incoming:
    """The body of a message that is being received, without its framing."""

    __slots__ = ("_broken", "_framing", "_idle", "body", "channel", "ended")

    def __init__(self, channel: Channel, body: BodyFraming, length: int = 0, *, idle: float | None = None) -> None:
        self.channel = channel
        self.body = body
        self._idle = idle
        self._broken = False
        self._framing: Framing = _NOTHING if body is _NONE else _framing_of(body, length)
        self.ended = self._framing.ended
        """Whether it was read to its exact end: only then the next message can be read."""

    async def read(self) -> bytes:
        """Return the next piece, nothing at the end. Raise BodyInvalid, Truncated, Stalled or ConnectionError."""
        while not self.ended:
            if self._broken:
                raise Truncated("the rest of the body was given up")
            data = await self.channel.read(self._idle)
            if not data:
                self.end_of_connection()
                break
            view = memoryview(data)
            pieces = self.decode(view)
            if pieces:
                return data if len(pieces[0]) == len(data) else b"".join(pieces)
        return b""

    @property
    def left(self) -> int | None:
        """How many bytes are still to come, where that is known."""
        return self._framing.left

    def decode(self, view: memoryview) -> list[memoryview]:
        """Return what of this is the body; what is behind its end is left to the channel. Raise BodyInvalid."""
        try:
            pieces, used = self._framing.decode(view)
        except BodyInvalid:
            self._broken = True
            raise
        self.ended = self._framing.ended
        if used < len(view):
            self.channel.put_back(bytes(view[used:]))
        return pieces

    def end_of_connection(self) -> None:
        """Take note that nothing more comes. Raise Truncated where something is missing."""
        if self.body is not BodyFraming.UNTIL_CLOSE:
            self._broken = True
            raise Truncated("the connection ended within a body")
        self.ended = self._framing.ended = True

    def passed(self, count: int) -> None:
        """Take note of bytes of a sized body that went another way."""
        assert isinstance(self._framing, Sized)  # noqa: S101 - nothing else can be counted
        self._framing.left -= count
        self.ended = self._framing.ended = not self._framing.left

    def give_up(self) -> None:
        """Take note that bytes of it were lost, so that no reader goes on in its middle."""
        self._broken = True


class Outgoing:
    """The body of a message that is being sent, to be framed as its head has announced."""

    __slots__ = ("_idle", "body", "channel", "ended", "left")

    def __init__(self, channel: Channel, body: BodyFraming, length: int = 0, *, idle: float | None = None) -> None:
        self.channel = channel
        self.body = body
        self.left = length if body is BodyFraming.SIZED else 0
        self.ended = False
        self._idle = idle

    async def write(self, piece: Buffer) -> None:
        """Send a piece, and wait while too much waits to be sent. Raise BodyInvalid for more than was announced."""
        self.send(piece)
        await self.channel.drained(self._idle)

    async def end(self) -> None:
        """Send what ends the body. Raise BodyInvalid for less than was announced. Can be repeated."""
        self.finish()
        await self.channel.drained(self._idle)

    def send(self, piece: Buffer) -> None:
        """Send a piece without waiting; it may change afterwards."""
        size = len(piece)
        if not size:
            return
        if self.ended or self.body is BodyFraming.NONE or (self.body is BodyFraming.SIZED and size > self.left):
            raise BodyInvalid(MessageFault.BODY_TOO_LONG)
        if self.body is BodyFraming.CHUNKED:
            self.channel.write(b"".join((b"%x\r\n" % size, piece, b"\r\n")))
            return
        if self.body is BodyFraming.SIZED:
            self.left -= size
        if isinstance(piece, memoryview):
            self.channel.write_view(piece)
        else:
            self.channel.write(bytes(piece))

    def finish(self) -> None:
        """Send what ends the body, without waiting."""
        if self.left:
            raise BodyInvalid(MessageFault.BODY_TOO_SHORT)
        if not self.ended and self.body is BodyFraming.CHUNKED:
            self.channel.write(b"0\r\n\r\n")
        self.ended = True

    def passed(self, count: int) -> None:
        """Take note of bytes that went another way."""
        self.left -= count


def _framing_of(body: BodyFraming, length: int) -> Framing:
    match body:
        case BodyFraming.CHUNKED:
            return Chunked()
        case BodyFraming.UNTIL_CLOSE:
            return UntilClose()
        case BodyFraming.SIZED:
            return Sized(length)
        case BodyFraming.NONE:
            return _NOTHING
