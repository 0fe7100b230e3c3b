"""Let go of what was begun for a request that has to wait and therefore begins anew."""

from __future__ import annotations

import inspect
from collections.abc import Coroutine
from types import CoroutineType


def forsake(awaitable: object) -> None:
    """Close a coroutine that is not going to be awaited, and those that it was given."""
    if isinstance(awaitable, CoroutineType):
        for given in inspect.getcoroutinelocals(awaitable).values():
            if isinstance(given, Coroutine):
                given.close()
    if isinstance(awaitable, Coroutine):
        awaitable.close()
