"""Ask upstreams for tables: one question for all who wait, and not more than a caller may cause."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine
from functools import partial

import msgspec

from signproxy.errors import Refused
from signproxy.telemetry.log import get_logger

_log = get_logger("signproxy.learned")

CALLERS_AT_MOST = 10_000
"""Callers whose questions are counted; one that is pushed out begins with a full allowance again."""

QuestionKey = tuple[str, str, str]
"""Catalog, table, and the caller where the answer is for that caller alone."""


class Allowance(msgspec.Struct, frozen=True, gc=False):
    """How many tables may be asked for because of one principal.

    A client that loads a table through the facade before it signs asks for none this way. What is left is a start
    with many tables in use, and a caller that guesses names.
    """

    per_second: float = 10.0
    burst: float = 50.0


class Questions:
    """Questions that are under way, and what each caller may still ask."""

    __slots__ = ("_allowance", "_spent", "_under_way")

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._under_way: dict[QuestionKey, asyncio.Task[None]] = {}
        # Principal -> what is left, and when that was so.
        self._spent: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def is_under_way(self, key: QuestionKey) -> bool:
        """Whether the question has been asked and not been answered."""
        return key in self._under_way

    def may_ask(self, principal: str, now: float) -> bool:
        """Whether a question may be asked because of a principal; counts it."""
        left, since = self._spent.get(principal, (self._allowance.burst, now))
        left = min(self._allowance.burst, left + max(0.0, now - since) * self._allowance.per_second)
        allowed = left >= 1.0
        self._spent[principal] = (left - 1.0 if allowed else left, now)
        self._spent.move_to_end(principal)
        if len(self._spent) > CALLERS_AT_MOST:
            self._spent.popitem(last=False)
        return allowed

    def begin(self, key: QuestionKey, question: Coroutine[object, object, None]) -> None:
        """Ask what is not under way. The question goes on if the caller that asked goes away: others may wait too."""
        task = asyncio.get_running_loop().create_task(question)
        self._under_way[key] = task
        task.add_done_callback(partial(self._done, key))

    async def answer(self, key: QuestionKey) -> None:
        """Wait for what is under way; raise what asking raised."""
        await asyncio.shield(self._under_way[key])

    async def aclose(self) -> None:
        """End what is under way."""
        tasks = tuple(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _done(self, key: QuestionKey, task: asyncio.Task[None]) -> None:
        del self._under_way[key]
        # Looked at here: the callers that waited may all be gone.
        fault = None if task.cancelled() else task.exception()
        if fault is not None and not isinstance(fault, Refused):
            _log.error("upstream not asked", error=f"{type(fault).__name__}: {fault}")
