"""Reduce samples to the figures that are reported: a median, its spread, and ratios of paired rounds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Literal

import msgspec

Better = Literal["higher", "lower"]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One line of results.json. A result without `must` and `goal` is reported, not judged."""

    name: str
    value: float
    unit: str
    must: float | None = None
    goal: float | None = None
    better: Better
    against: str
    samples: int
    spread: tuple[float, float]
    """Smallest and largest sample."""
    date: str = ""
    commit: str = ""

    @property
    def passes(self) -> bool:
        """Say whether the must is met, where there is one."""
        return self.must is None or _reaches(self.value, self.must, self.better)

    @property
    def reaches_goal(self) -> bool:
        """Say whether the goal is met, where there is one."""
        return self.goal is None or _reaches(self.value, self.goal, self.better)


def result(
    name: str,
    samples: Sequence[float],
    *,
    unit: str,
    better: Better,
    against: str,
    must: float | None = None,
    goal: float | None = None,
) -> Result:
    """Return the median of the samples as a result."""
    rounded = [_significant(sample) for sample in samples]
    return Result(
        name=name,
        value=_significant(statistics.median(samples)),
        unit=unit,
        must=must,
        goal=goal,
        better=better,
        against=against,
        samples=len(samples),
        spread=(min(rounded), max(rounded)),
    )


def in_turns(names: Sequence[str], number: int) -> Sequence[str]:
    """Return who comes when in a round: every second round runs backwards, so that a drift favours no contender."""
    return names if number % 2 == 0 else names[::-1]


def lower_quartile(samples: Sequence[float]) -> float:
    """Return what three quarters of the samples exceed."""
    return statistics.quantiles(samples, n=4)[0] if len(samples) > 1 else samples[0]


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> list[float]:
    """Return the ratio of each round: what was measured side by side is compared, not the two medians.

    A neighbour's load or a slower clock then hits both sides of a fraction.
    """
    return [numerator / denominator for numerator, denominator in zip(numerators, denominators, strict=True)]


def _reaches(value: float, bar: float, better: Better) -> bool:
    return value >= bar if better == "higher" else value <= bar


def _significant(value: float) -> float:
    return float(f"{value:.4g}")
