"""Run a coroutine until it has to wait, without a task; what has to wait goes on in one, from where it stands.

Nearly every request is answered without waiting for anything. A task for each of them would cost more than the
decision; beginning anew in one, where something has to be waited for, would do everything twice.

    begin ──> runs ──waits for nothing──> its result
                └────has to wait──> Waiting ──awaited in a task, from there on──> its result
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_beginning = False
"""Whether a coroutine runs before its first wait. Of one thread: the loop's, or that of a command."""


class Waiting(Generic[T]):
    """A coroutine that waits. To be awaited once, in a task, or to be closed."""

    __slots__ = ("_coroutine", "_first")

    def __init__(self, coroutine: Coroutine[Any, Any, T], first: object) -> None:
        self._coroutine = coroutine
        self._first = first

    def __await__(self) -> Generator[Any, Any, T]:
        """Wait for what it waits for, and go on."""
        step: object = self._first
        while True:
            try:
                sent = yield step
            except BaseException as thrown:  # noqa: BLE001 - it is handed to the code that waits, whatever it is
                go_on = partial(self._coroutine.throw, thrown)
            else:
                go_on = partial(self._coroutine.send, sent)
            try:
                step = go_on()
            except StopIteration as end:
                value: T = end.value
                return value

    def close(self) -> None:
        """End it where it stands."""
        self._coroutine.close()


def begin(coroutine: Coroutine[Any, Any, T]) -> T | Waiting[T]:
    """Return what a coroutine returns, or what it waits for. Raise what it raises.

    Until its first wait it runs in no task: whatever needs one, a timeout above all, comes after `in_task`.
    """
    global _beginning  # noqa: PLW0603 - a task that happens to run is not the one that it will go on in
    former, _beginning = _beginning, True
    try:
        first = coroutine.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    finally:
        _beginning = former
    return Waiting(coroutine, first)


class _NextTurn:
    """A wait for nothing but the next turn of the loop."""

    def __await__(self) -> Generator[None, None, None]:
        yield


async def in_task() -> None:
    """Go on in a task of its own."""
    if _beginning:
        await _NextTurn()


async def waited(answer: Awaitable[T], before: Callable[[], None] | None = None) -> T:
    """Return an answer, awaited in a task; `before` may refuse to wait. What is not awaited is closed."""
    try:
        if before is not None:
            before()
        await in_task()
    except BaseException:
        if isinstance(answer, Coroutine):
            answer.close()
        raise
    return await answer
