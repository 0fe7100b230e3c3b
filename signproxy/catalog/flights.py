"""Let those who want the same thing at the same time ask once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Flights(Generic[K, V]):
    """The questions that are under way, by what they ask. No answer is kept here, a failure least of all.

    A key has to hold everything that the answer depends on: callers that join get the same answer or failure.
    """

    def __init__(self) -> None:
        self._under_way: dict[K, asyncio.Task[V]] = {}

    async def join(self, key: K, ask: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """Return what `ask` answers, or what it answers to the caller that came first with this key."""
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.get_running_loop().create_task(ask())
            task.add_done_callback(lambda done: self._land(key, done))
        # The caller that asked first may go away; those that joined still wait.
        return await asyncio.shield(task)

    def __len__(self) -> int:
        return len(self._under_way)

    async def aclose(self) -> None:
        """End what is under way."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _land(self, key: K, task: asyncio.Task[V]) -> None:
        del self._under_way[key]
        if not task.cancelled():
            # Looked at, so that a failure which no caller waits for any more is not logged as forgotten.
            task.exception()
