"""Measure this process: as the kernel sees it (memory, open files, CPU time), and how late its event loop is.

Where there is no `/proc` the numbers are left out, which is what Prometheus' own clients do.
"""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections import deque
from collections.abc import Mapping
from math import inf
from pathlib import Path

TICK_SECONDS = 1.0
"""Often enough to meet whatever blocks for long, seldom enough to let an idle sidecar sleep."""

WINDOW_SECONDS = 30.0
"""Twice as long as between two usual scrapes, so that none of them misses a stall."""

_PAGE = os.sysconf("SC_PAGE_SIZE")
_MEMORY = Path("/proc/self/statm")
_FILES = Path("/proc/self/fd")

_NOTHING: Mapping[tuple[str, ...], float] = {}


def resident_memory() -> Mapping[tuple[str, ...], float]:
    """Return the bytes of memory in use, pages shared with other processes included."""
    try:
        return {(): int(_MEMORY.read_text().split()[1]) * _PAGE}
    except OSError:
        return _NOTHING


def open_files() -> Mapping[tuple[str, ...], float]:
    """Return how many files and sockets are open."""
    try:
        # Listing them opens one more.
        return {(): sum(1 for _ in _FILES.iterdir()) - 1}
    except OSError:
        return _NOTHING


def most_files() -> Mapping[tuple[str, ...], float]:
    """Return how many files and sockets may be open."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return {(): inf if limit == resource.RLIM_INFINITY else limit}


def cpu_time() -> Mapping[tuple[str, ...], float]:
    """Return the seconds of CPU that were used, in user and kernel mode."""
    return {(): time.process_time()}


class LoopLag:
    """A timer that compares when it was due with when it ran: whatever blocks the loop makes every caller wait.

    `start` needs a running loop.
    """

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
