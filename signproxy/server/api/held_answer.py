"""Hold one answer of a connection back for a while: the caller asks too much, or too early."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from signproxy.answers.reply import Reply
from signproxy.gate.limits import Hold


class HeldAnswer:
    """The answer of one connection that is held back, if one is: the connection's own, or one that aiohttp sends."""

    __slots__ = ("_hold", "_loop", "_over", "_timer", "_waiting", "reply")

    def __init__(self, loop: asyncio.AbstractEventLoop, over: Callable[[], None]) -> None:
        """`over` is called once the time is up."""
        self._loop = loop
        self._over = over
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: asyncio.Future[None] | None = None
        self._hold: Hold | None = None
        self.reply: Reply | None = None
        """The connection's own."""

    @property
    def is_there(self) -> bool:
        """Whether one is held back."""
        return self.reply is not None or self._waiting is not None

    def begin(self, reply: Reply, hold: Hold) -> bool:
        """Hold an answer back; False if too many are, which ends the connection."""
        if not hold.among.begin():
            reply.closes = True
            return False
        self.reply, self._hold = reply, hold
        self._timer = self._loop.call_later(hold.seconds, self._over)
        return True

    async def wait(self, reply: Reply, hold: Hold) -> None:
        """Wait as long as an answer of aiohttp's is held back; if too many are, end the connection with it instead."""
        if not hold.among.begin():
            reply.closes = True
            return
        try:
            self._waiting = self._loop.create_future()
            self._timer = self._loop.call_later(hold.seconds, self._over)
            await self._waiting
        finally:
            hold.among.end()
            self._waiting = None
            self._forget_timer()

    def end(self) -> Reply | None:
        """Let aiohttp's answer go out, or return the connection's own, which is to be sent now."""
        if self._waiting is not None:
            if not self._waiting.done():
                self._waiting.set_result(None)
            return None
        reply, hold = self.reply, self._hold
        if reply is not None and hold is not None:
            self.reply = self._hold = None
            self._forget_timer()
            hold.among.end()
        return reply

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
