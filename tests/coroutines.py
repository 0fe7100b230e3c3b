"""Run a coroutine that waits for nothing."""

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
