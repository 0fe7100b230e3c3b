"""Hand something to a process that may hang, without hanging with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from signproxy.server.process.conversation import WorkerFailed
from signproxy.server.process.fleet import WorkerGone
from signproxy.telemetry import log

_log = log.get_logger("signproxy.workers")

T = TypeVar("T")


class Delivery(Generic[T]):
    """The way to one receiver, who gets everything in order.

    A sender waits until what it hands over has arrived, but not longer than `seconds`, and not at all while the
    receiver still owes something from before: a process that hangs must cost a second once, and not each time.
    """

    __slots__ = ("_late", "_seconds", "_send", "_under_way")

    def __init__(self, send: Callable[[T], Awaitable[object]], seconds: float) -> None:
        self._send = send
        self._seconds = seconds
        self._late = False
        self._under_way: set[asyncio.Task[None]] = set()

    async def hand(self, what: T) -> bool:
        """Return whether it has arrived by now. What has not arrives later, or the receiver is no more."""
        # A task of its own: a caller who goes away must not take it along.
        task = asyncio.get_running_loop().create_task(self._sent(what))
        self._under_way.add(task)
        task.add_done_callback(self._arrived)
        if self._late:
            return False
        _, pending = await asyncio.wait((task,), timeout=self._seconds)
        if pending and not self._late:
            self._late = True
            _log.warning("another process does not take in what was seen", seconds=self._seconds)
        return not pending

    async def _sent(self, what: T) -> None:
        try:
            await self._send(what)
        except WorkerGone:
            # One that takes its place hears of it at its start.
            _log.debug("another process is gone")
        except WorkerFailed as failed:
            _log.error("another process could not take in what was seen", problem=str(failed))

    def _arrived(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if not self._under_way:
            self._late = False
