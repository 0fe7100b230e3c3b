"""Wait for a connection for a bounded time: for one thing to happen on it, and for as long as anything moves."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from signproxy.transfer.faults import Stalled

_ROUNDING = 0.005
"""Clocks of event loops count in milliseconds."""

_LOOKS = 4
"""In the time that nothing may move. A transfer pays for a look now and then, and not for each piece."""


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


class IdleWatch:
    """Looks now and then at what a transfer has moved, and says so when that has not changed for too long."""

    __slots__ = ("_every", "_last", "_loop", "_moved", "_stalled", "_timer", "_unchanged")

    def __init__(self, seconds: float, moved: Callable[[], object], stalled: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._every = seconds / _LOOKS
        self._moved = moved
        self._stalled = stalled
        self._last = moved()
        self._unchanged = 0
        self._timer = self._loop.call_later(self._every, self._look)

    def stop(self) -> None:
        """Look no more."""
        self._timer.cancel()

    def _look(self) -> None:
        moved = self._moved()
        self._unchanged = self._unchanged + 1 if moved == self._last else 0
        self._last = moved
        if self._unchanged >= _LOOKS:
            self._stalled()
        else:
            self._timer = self._loop.call_later(self._every, self._look)
