"""Wait for what a test means, and not for a while; where the passing of time is meant, move the clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

PATIENCE = 20.0
"""Seconds: only a test that fails waits so long, and a busy machine is no failure."""


async def until(true: Callable[[], object]) -> None:
    """Wait, while the loop goes on, for what another task, a thread or the kernel does."""
    async with asyncio.timeout(PATIENCE):
        while not true():  # noqa: ASYNC110 - what is waited for is not announced
            await asyncio.sleep(0.002)


def blocked_until(true: Callable[[], object]) -> None:
    """Wait for what a thread or another process does."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.001)


async def turns(count: int = 10) -> None:
    """Let the loop go round: what does not wait for anything but its turn is done after that."""
    for _ in range(count):
        await asyncio.sleep(0)


class LoopClock:
    """The clock of the running loop, one of asyncio's own: what it waits for comes when a test moves it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._time = self._loop.time
        self._ahead = 0.0
        self._loop.time = lambda: self._time() + self._ahead  # type: ignore[method-assign]

    async def move(self, seconds: float) -> None:
        """Let so many seconds pass at once: of what is begun by now, all that waited for them goes on."""
        await turns()
        self._ahead += seconds
        await turns()


_REST = 0.05
"""Seconds within which what moves shows that it does."""


async def at_rest(value: Callable[[], object]) -> None:
    """Wait until a value stays what it is: for what stops by itself, without a word of it."""
    was = object()
    while was != (was := value()):  # noqa: ASYNC110 - see above
        await asyncio.sleep(_REST)


async def never() -> None:
    """Do not come back within a test; who waits gives up, or is cancelled."""
    # The loop holds on to a timer. What waits for an event that nothing can set may be collected as garbage.
    await asyncio.sleep(_LONGER_THAN_ANY_TEST)


_LONGER_THAN_ANY_TEST = 3600.0
