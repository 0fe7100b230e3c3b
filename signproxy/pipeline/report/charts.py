"""Hold what each of the report's charts shows; `templates/charts.jinja` draws it, by the macro of the chart's kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar

import msgspec

from signproxy.pipeline.report.data import HeatMap, PrincipalReach, QueryBreadth
from signproxy.pipeline.report.text import percent, plural, short

WIDTH = 960
_SHADES = 6
_BETWEEN = 39
"""Pixels of a legend's entry beside its text."""


_CHARACTER = 6.9
"""Pixels that a column of text takes up, on the safe side of what browsers' own fonts do."""


class Chart(msgspec.Struct, frozen=True):
    """What all charts have: read out, one is a picture with a title and a description."""

    macro: ClassVar[str]

    name: str
    title: str
    description: str


class Series(msgspec.Struct, frozen=True):
    """One kind of what is counted."""

    kind: str
    """The class of its shapes, which the style sheet gives a colour."""
    label: str
    values: tuple[float, ...]


class Columns(Chart, frozen=True, kw_only=True):
    """Counts as columns, stacked by kind: over time, or by size."""

    macro = "columns"

    labels: tuple[str, ...]
    """One below each column; some are left out where there is no room."""
    series: tuple[Series, ...]
    """From the bottom up."""
    x_title: str
    y_title: str
    tips: tuple[str, ...] = ()
    marks: tuple[tuple[int, str], ...] = ()
    """Lines before columns, with what they say."""
    write: Callable[[float], str] = short
    height: int = 280

    @property
    def most(self) -> float:
        """The height of the highest column."""
        return max(map(sum, zip(*(one.values for one in self.series), strict=True)), default=0)

    @property
    def entries(self) -> list[tuple[str, str]]:
        """The legend."""
        return [(one.kind, one.label) for one in self.series]

    def every(self, pitch: float) -> int:
        """Return how many columns are from one label to the next."""
        longest = max(map(text_width, self.labels), default=0.0)
        return max(1, int(-(-(longest + 10) // pitch)))


class Heat(Chart, frozen=True):
    """Who asked for what as a field of cells, darker for more, with a dot where something was refused."""

    macro = "heat"

    heat: HeatMap

    @property
    def most(self) -> int:
        """The requests of the darkest cell."""
        return max((cell.allow + cell.deny for cell in self.heat.cells), default=0)

    def shade(self, count: int) -> int:
        """Return how dark a cell is, from 1 to 6."""
        return min(_SHADES, 1 + int(log_share(count, self.most) * _SHADES * 0.999))


class ReachBars(Chart, frozen=True):
    """Granted against used: how many tables, with each power of ten as far from the next."""

    macro = "reach"

    reaches: Sequence[PrincipalReach]

    @property
    def scale(self) -> list[float]:
        """The ticks."""
        return powers(max((max(one.entitled, one.used, one.held) for one in self.reaches), default=1))


class Pareto(Chart, frozen=True):
    """The dearest tables, and which part of the whole they come to together."""

    macro = "pareto"

    measured: str
    bars: Sequence[tuple[str, float]]
    """Each table's name and what it comes to."""
    whole: float
    write: Callable[[float], str]


class Shares(Chart, frozen=True):
    """The parts of a whole as one bar, each at least so wide that it is seen."""

    macro = "shares"

    parts: Sequence[tuple[str, str, int]]
    """The class of each one's shape, its label, and how many there are."""

    @property
    def whole(self) -> int:
        """All of them."""
        return sum(count for _, _, count in self.parts)

    @property
    def rows(self) -> list[list[tuple[str, str]]]:
        """The legend, in rows that the chart is wide enough for."""
        rows: list[list[tuple[str, str]]] = [[]]
        taken = 0.0
        for kind, label, count in self.parts:
            shown = f"{label} {percent(count, self.whole)}"
            wide = _BETWEEN + text_width(shown)
            if rows[-1] and taken + wide > WIDTH:
                rows.append([])
                taken = 0.0
            rows[-1].append((kind, shown))
            taken += wide
        return rows


class Steps(Chart, frozen=True):
    """Which part of all queries touched no more than so many tables."""

    macro = "steps"

    breadth: Sequence[QueryBreadth]

    @property
    def scale(self) -> list[float]:
        """The ticks."""
        return powers(max((one.tables for one in self.breadth), default=1))

    @property
    def curve(self) -> list[tuple[float, float]]:
        """The curve's points, as shares of the chart's width and height."""
        most, whole = self.scale[-1], sum(one.queries for one in self.breadth)
        points = [(0.0, 0.0)]
        sofar = 0
        for one in sorted(self.breadth, key=lambda each: each.tables):
            x = log_share(one.tables, most)
            sofar += one.queries
            points += [(x, points[-1][1]), (x, sofar / whole)]
        return [*points, (1.0, points[-1][1])]

    @property
    def marks(self) -> list[tuple[float, float, str]]:
        """Points of the curve that say how many tables a share of the queries does not go beyond."""
        found = []
        for share in (0.5, 0.95):
            tables = quantile(self.breadth, share)
            says = f"{100 * share:.0f} % of queries: {plural(tables, 'table')} or fewer"
            found.append((log_share(tables, self.scale[-1]), share, says))
        return found


def quantile(breadth: Sequence[QueryBreadth], share: float) -> int:
    """Return the number of tables that this share of the queries does not go beyond."""
    whole = sum(one.queries for one in breadth)
    sofar = 0
    for one in sorted(breadth, key=lambda each: each.tables):
        sofar += one.queries
        if sofar >= share * whole:
            return one.tables
    return 0


def pixels(value: float) -> str:
    """Return a length as SVG has it."""
    return f"{value:.1f}".rstrip("0").rstrip(".")


def text_width(content: str) -> float:
    """Return about how wide text is."""
    return _CHARACTER * len(content)


def ticks(most: float, count: int = 4) -> list[float]:
    """Return round values from 0 to the first one that is not below `most`."""
    if most <= 0:
        return [0, 1]
    rough = most / count
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    # Counts have no halves.
    step = max(step, 1.0) if most >= 1 else step
    if step != int(step) and most >= 10:
        step = math.ceil(step)
    return [step * at for at in range(math.ceil(most / step - 1e-9) + 1)]


def powers(most: float) -> list[float]:
    """Return 0 and the powers of ten up to the first one that is not below `most`."""
    values = [0.0, 1.0]
    while values[-1] < most:
        values.append(values[-1] * 10)
    return values


def log_share(value: float, most: float) -> float:
    """Return where a value lies between 0 and the most, so that each power of ten is as far from the next."""
    return math.log10(1 + value) / math.log10(1 + most) if most > 0 else 0.0


def part(value: float, whole: float) -> float:
    """Return which part of the whole a value is; none of nothing."""
    return value / whole if whole else 0.0
