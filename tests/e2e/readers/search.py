"""Search with a seed that is told, and count what was met, so that no search becomes one of refusals alone."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random, SystemRandom
from types import ModuleType
from typing import Any, TypeVar

import pytest

SLICE = 4_000
"""Cases of a search on every change."""
WHOLE = 100_000
AMOUNTS = pytest.mark.parametrize(
    "cases",
    (
        pytest.param(SLICE, id="slice", marks=pytest.mark.ci),
        pytest.param(WHOLE, id="whole", marks=pytest.mark.timeout(3600)),
    ),
)

T = TypeVar("T")


class Search:
    """So many cases, each from the next choices of one seed."""

    def __init__(self, name: str, cases: int) -> None:
        self.seed = os.environ.get("READERS_SEED") or f"{SystemRandom().getrandbits(64):016x}"
        self.chance = Random(f"{name} {self.seed}")
        self.seen: Counter[str] = Counter()
        self._cases = cases
        self._number = 0
        # Captured, and shown of a search that failed.
        sys.stdout.write(f"{name}: {cases} cases, READERS_SEED={self.seed}\n")

    def __iter__(self) -> Iterator[int]:
        for number in range(self._cases):
            self._number = number
            yield number
        sys.stdout.write(f"{dict(self.seen)}\n")

    def told(self, *of: object) -> str:
        """Return what finds this case again."""
        return f"READERS_SEED={self.seed}, case {self._number}: {of!r}"

    def met(self, **shares: float) -> None:
        """Fail unless each outcome was met in at least this share of the cases."""
        for outcome, share in shares.items():
            assert self.seen[outcome] >= share * self._cases, (outcome, dict(self.seen))


def outcome_of(read: Callable[..., T], refusal: type[Exception], *of: object) -> T | str:
    """Return what a reader makes of a text: what it read, or the words of its refusal. Any other error is its own."""
    try:
        return read(*of)
    except refusal as refused:
        return f"{type(refused).__name__}: {refused}"


def counted(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, search: Search) -> None:
    """Count what is read as the first of its kind, by this function of a module: all else was known again."""
    strict = getattr(module, name)

    def read(*of: Any) -> Any:
        search.seen["as the first"] += 1
        return strict(*of)

    monkeypatch.setattr(module, name, read)


def bent(data: bytes, words: Sequence[bytes], chance: Random) -> bytes:
    """Return bytes with a word put in, or in place of some."""
    at = chance.randint(0, len(data))
    word = chance.choice(words) if chance.random() < 0.85 else chance.randbytes(1)
    return data[:at] + word + data[at + chance.choice((0, 0, 0, 1, 1, 4)) :]
