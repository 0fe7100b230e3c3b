"""Measure how late the event loop is: whatever blocks it makes every caller wait."""

from __future__ import annotations

import asyncio
from collections import deque

TICK_SECONDS = 1.0
"""Often enough to meet whatever blocks for long, seldom enough to let an idle sidecar sleep."""

WINDOW_SECONDS = 30.0
"""Twice as long as between two usual scrapes, so that none of them misses a stall."""


class LoopLag:
    """A timer that compares when it was due with when it ran. `start` needs a running loop."""

    __slots__ = ("_due", "_lates", "_loop", "_tick", "_timer")

    def __init__(self, *, tick: float = TICK_SECONDS, window: float = WINDOW_SECONDS) -> None:
        self._tick = tick
        self._lates: deque[float] = deque(maxlen=max(1, round(window / tick)))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    def start(self) -> None:
        """Begin to measure."""
        self._loop = asyncio.get_running_loop()
        self._arm(self._loop)

    def stop(self) -> None:
        """Measure no longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._loop = None

    def worst(self) -> float:
        """Return the longest delay in seconds within the window, one that lasts until now included."""
        if self._loop is None:
            return 0.0
        return max(self._loop.time() - self._due, 0.0, *self._lates)

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = loop.time() + self._tick
        self._timer = loop.call_at(self._due, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._lates.append(max(loop.time() - self._due, 0.0))
        self._arm(loop)
