"""Wait for one thing to happen on a connection, for a bounded time."""

from __future__ import annotations

import asyncio
import math

from signproxy.transfer.faults import Stalled

_ROUNDING = 0.005
"""Clocks of event loops count in milliseconds."""


class Wait:
    """What one task at a time waits for.

    Its timer is set when there is none yet, and looks again later where it comes too early: most waits end long
    before their time, and cost no timer of their own.
    """

    __slots__ = ("_loop", "_stalled", "_timer", "_waiter", "until")

    def __init__(self, loop: asyncio.AbstractEventLoop, stalled: type[Stalled]) -> None:
        self._loop = loop
        self._stalled = stalled
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.until = math.inf

    def limit(self, seconds: float | None) -> None:
        """Let the waits from now on end after that time, all together."""
        self.until = math.inf if seconds is None else self._loop.time() + seconds

    async def happened(self) -> None:
        """Return when it has happened, or the connection is lost. Raise `Stalled` when the time is up."""
        if self._waiter is not None:
            raise RuntimeError("another task waits for the same thing")
        self._waiter = self._loop.create_future()
        self._arm()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def wake(self) -> None:
        """Say that it has happened."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def end(self) -> None:
        """Say that nothing will happen any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.wake()

    def _arm(self) -> None:
        if self.until == math.inf or (self._timer is not None and self._timer.when() <= self.until):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self.until, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._waiter is None or self._waiter.done():
            return
        if self.until <= self._loop.time() + _ROUNDING:
            self._waiter.set_exception(self._stalled("nothing moved in time"))
        else:
            self._arm()
