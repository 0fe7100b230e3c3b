"""Run a coroutine that waits for nothing, or for its turn alone."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from signproxy.gate.begun import Waiting, begin

T = TypeVar("T")


def finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return what it returns; fail where it waits."""
    found = begin(coroutine)
    if isinstance(found, Waiting):
        found.close()
        raise TypeError("it waits for something")
    return found


def driven(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return what it returns, however often it lets others have their turn; fail where it waits for anything else."""
    while True:
        try:
            step = coroutine.send(None)
        except StopIteration as end:
            value: T = end.value
            return value
        if step is not None:
            coroutine.close()
            raise TypeError("it waits for something")
