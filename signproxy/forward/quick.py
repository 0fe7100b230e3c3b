"""Ask a store for what it answers at once: no task waits for it, and whatever is not so is handed on to one."""

from __future__ import annotations

from collections.abc import Callable

from signproxy.forward.addresses import Address
from signproxy.forward.exchange import HEAD_LIMIT
from signproxy.forward.pool import Pool
from signproxy.forward.relay import SMALL
from signproxy.forward.underway import Underway
from signproxy.transfer.channel import Channel
from signproxy.transfer.faults import MessageInvalid
from signproxy.transfer.head import BodyFraming, ResponseHead

# Looking a member up in its class calls Python code; the hot path does without.
_NONE, _SIZED = BodyFraming.NONE, BodyFraming.SIZED

Answered = Callable[[ResponseHead, bytes, bytes], None]
"""Takes the head of an answer, its bytes, and the whole body."""


class QuickExchange:
    """One request at a time to a store; its answer is told, or the conversation handed on."""

    __slots__ = (
        "_address", "_answered", "_channel", "_end", "_got", "_handed_on", "_head", "_lost", "_method", "_need",
        "_pool", "_receiver",
    )  # fmt: skip

    def __init__(self, answered: Answered, handed_on: Callable[[Underway], None]) -> None:
        self._answered = answered
        self._handed_on = handed_on
        # Made once: each look-up of a method makes it anew.
        self._receiver, self._lost = self._arrived, self._hand_on
        self._channel: Channel | None = None
        self._head: ResponseHead | None = None
        self._got = b""
        self._end = self._need = 0

    def ask(self, pool: Pool, address: Address, message: bytes, method: str) -> bool:
        """Send a request on a connection that was kept; False where there is none, and nothing was sent."""
        channel = pool.take(address)
        if channel is None:
            return False
        try:
            channel.write_soon(message)
        except ConnectionError:
            channel.abort()
            return False
        except BaseException:
            channel.abort()
            raise
        self._pool, self._address, self._method = pool, address, method
        self._channel = channel
        channel.divert(self._receiver)
        channel.watchers.append(self._lost)
        return True

    def hand_on(self) -> None:
        """Leave the answer to another exchange."""
        if self._channel is not None:
            self._hand_on()

    def _arrived(self, piece: memoryview) -> None:
        got = self._got + piece if self._got else bytes(piece)
        head = self._head
        if head is None:
            end = got.find(b"\r\n\r\n", 0, HEAD_LIMIT) + 4
            if end >= 4:
                head = self._read(got[:end])
            if head is None:
                self._got = got
                if end >= 4 or len(got) >= HEAD_LIMIT or not piece:
                    self._hand_on()
                return
            self._end, self._need = end, end + head.length
        size, need = len(got), self._need
        if size < need:
            self._got, self._head = got, head
            if not piece:
                self._hand_on()
            return
        channel, end = self._channel, self._end
        assert channel is not None  # noqa: S101 - it has just spoken
        self._forget(channel)
        try:
            self._answered(head, got[:end], got[end:] if size == need else got[end:need])
        except BaseException:
            # No request has the connection any more, so nothing else would end it.
            channel.abort()
            raise
        if size == need and not head.closes:
            self._pool.give_back(self._address, channel)
        else:
            # What is behind an answer would be taken for the next one.
            channel.abort()

    def _read(self, raw: bytes) -> ResponseHead | None:
        """Return the head of an answer that is small; of any other it is not looked at any further."""
        try:
            head = self._pool.heads.read(raw, self._method)
        except MessageInvalid:
            return None
        body = head.body
        if head.status < 200 or not (body is _NONE or (body is _SIZED and head.length <= SMALL)):
            return None
        return head

    def _hand_on(self) -> None:
        channel = self._channel
        assert channel is not None  # noqa: S101 - it is watched no longer than it is waited for
        got = self._got
        self._forget(channel)
        channel.put_back(got)
        self._handed_on(Underway(self._pool, self._address, channel))

    def _forget(self, channel: Channel) -> None:
        channel.restore()
        channel.watchers.remove(self._lost)
        self._channel = self._head = None
        self._got = b""
