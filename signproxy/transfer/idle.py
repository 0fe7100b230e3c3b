"""Look now and then whether a transfer still moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

_LOOKS = 4
"""In the time that nothing may move. A transfer pays for a look now and then, and not for each piece."""


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
