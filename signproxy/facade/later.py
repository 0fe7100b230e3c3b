"""Keep work going whose caller is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class Later:
    """Tasks of which no request waits for the end."""

    __slots__ = ("_tasks",)

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Have it done beside everything else."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """Wait for what is still under way."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
