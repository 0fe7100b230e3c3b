"""Do long work on the loop piece by piece, one request at a time, so that every other one has its turn in between."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from time import perf_counter
from typing import TypeVar
from weakref import WeakKeyDictionary

from signproxy.errors import Refused
from signproxy.s3.bulk_delete import BulkDelete, DeleteRules, reading
from signproxy.s3.classify import content_of

T = TypeVar("T")

LONGEST = 0.00025
"""Seconds after which long work lets others have their turn: about what a request takes that is no work at all."""

_LOCKS: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


def one_at_a_time() -> asyncio.Lock:
    """Return what to hold while long work is done: one for all ways, so that a turn of the loop is one piece of it.

    It is never held while another party is waited for.
    """
    loop = asyncio.get_running_loop()
    lock = _LOCKS.get(loop)
    if lock is None:
        lock = _LOCKS[loop] = asyncio.Lock()
    return lock


class YieldTimer:
    """How long work has gone on since others had their turn."""

    __slots__ = ("_began",)

    def __init__(self) -> None:
        self._began = perf_counter()

    async def pause(self) -> None:
        """Let whatever waits for the loop be done, where this has gone on for long enough."""
        if perf_counter() - self._began >= LONGEST:
            await asyncio.sleep(0)
            self._began = perf_counter()


async def in_pieces(work: Generator[None, None, T]) -> T:
    """Return what a generator returns; others may have their turn wherever it yields, which is as often as can be."""
    turn = YieldTimer()
    while True:
        try:
            next(work)
        except StopIteration as end:
            done: T = end.value
            return done
        await turn.pause()


async def read_in_pieces(body: bytes | str, rules: DeleteRules) -> BulkDelete | Refused:
    """Return what a bulk delete asks for, or why it is refused: that is told once its turn among the checks comes."""
    try:
        content = content_of(body) if isinstance(body, str) else body
        return await in_pieces(reading(content, rules))
    except Refused as refused:
        return refused
