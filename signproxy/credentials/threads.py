"""Run blocking calls beside the loop, a few at a time, so that one that hangs holds up nothing else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

LIMIT = 4
"""Calls of one provider that may be under way: enough for its storages, few enough if every one of them hangs."""

T = TypeVar("T")


class Threads:
    """A thread per call, at most `LIMIT` at a time.

    Not an executor: the threads of one are waited for at the end of the process, and stay in memory between two
    refreshes.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._free = asyncio.Semaphore(limit)

    async def run(self, call: Callable[[], T]) -> T:
        """Return what the call returns, or raise what it raises. A caller that gives up leaves it to end by itself."""
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        answer: Future[T] = Future()
        # From now on a caller that gives up changes nothing about it.
        answer.set_running_or_notify_cancel()

        def body() -> None:
            try:
                answer.set_result(call())
            except BaseException as error:  # noqa: BLE001 - the thread's outermost wrapper; the caller gets it
                answer.set_exception(error)
            # Only now: a call that was given up takes its place until it really ends. A loop that was closed meanwhile
            # has no caller left that waits.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._free.release)

        try:
            threading.Thread(target=body, name="signproxy-credentials", daemon=True).start()
        except RuntimeError:
            self._free.release()
            raise
        return await asyncio.wrap_future(answer)
