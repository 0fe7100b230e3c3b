"""Do in one go what the product does piece by piece."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


def drained(work: Generator[None, None, T]) -> T:
    """Return what a generator returns."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            done: T = end.value
            return done
