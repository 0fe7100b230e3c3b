"""Count and measure cheaply, in a form that adds up over processes.

A child is looked up once, where the caller is made, and then costs one method call per event. prometheus_client shows
these numbers to scrapers (`exposition`); its own counters take a lock for each event, and know one process.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Generic, TypeVar

import msgspec

MAX_CHILDREN = 5000
"""Labels are closed sets, the largest being operations by reasons. More children than this is a label that a caller
can choose, which no memory outlasts."""

Labels = tuple[str, ...]


class Type(Enum):
    """The metric's type, as Prometheus calls it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Stability(Enum):
    """What an operator may build on."""

    STABLE = "stable"
    EXPERIMENTAL = "experimental"


_STABLE = Stability.STABLE


class Fold(Enum):
    """How the values of several processes become one. Counters and histograms always add up."""

    SUM = "sum"
    MIN = "min"
    MAX = "max"
    ONCE = "once"
    """Only the process that speaks for all of them has a value."""


class Family(msgspec.Struct, frozen=True):
    """What a metric is, apart from its values."""

    name: str
    type: Type
    help: str
    labels: Labels = ()
    stability: Stability = Stability.STABLE
    fold: Fold = Fold.SUM
    bounds: tuple[float, ...] = ()
    """Upper bounds of a histogram's buckets, without infinity."""


class Exemplar(msgspec.Struct, frozen=True):
    """One audit event among those that a number stands for. Event ids sort by time."""

    event_id: str
    value: float


class Sample(msgspec.Struct, frozen=True):
    """One child's value; of a histogram the count per bucket, the one above all bounds last, then the sum."""

    labels: Labels
    values: tuple[float, ...]
    exemplars: tuple[Exemplar | None, ...] = ()
    """The latest event: one for a counter, one for each bucket of a histogram. Empty where none is known."""


class Counted(msgspec.Struct, frozen=True):
    """A metric at one moment, as one process hands it to another."""

    name: str
    samples: tuple[Sample, ...]


class Counter:
    """A number that only grows."""

    __slots__ = ("event_id", "value")

    def __init__(self) -> None:
        self.value: float = 0
        self.event_id = ""
        """The latest audit event that was counted, where it is known."""

    def inc(self, amount: float = 1) -> None:
        """Add to the number."""
        self.value += amount

    def sample(self, labels: Labels) -> Sample:
        """Return what was counted so far."""
        return Sample(labels, (self.value,), (Exemplar(self.event_id, 1.0),) if self.event_id else ())


class Gauge:
    """A number that goes up and down."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def set(self, value: float) -> None:
        """Replace the number."""
        self.value = value

    def sample(self, labels: Labels) -> Sample:
        """Return the number of this moment."""
        return Sample(labels, (self.value,))


class Histogram:
    """How often values fell below each bound."""

    __slots__ = ("bounds", "counts", "latest", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        self.latest: list[tuple[str, float] | None] = [None] * (len(bounds) + 1)
        """The latest audit event of each bucket and its value, where it is known."""

    def observe(self, value: float, event_id: str = "") -> None:
        """Count a value, and remember the audit event that it belongs to, where there is one."""
        bucket = bisect_left(self.bounds, value)
        self.counts[bucket] += 1
        self.total += value
        if event_id:
            self.latest[bucket] = (event_id, value)

    def sample(self, labels: Labels) -> Sample:
        """Return what was observed so far."""
        exemplars = tuple(each and Exemplar(*each) for each in self.latest) if any(self.latest) else ()
        return Sample(labels, (*self.counts, self.total), exemplars)


C = TypeVar("C", Counter, Gauge, Histogram)


class ChildFamily(Generic[C]):
    """The counters, gauges or histograms of one name."""

    def __init__(self, family: Family, make: Callable[[], C]) -> None:
        self.family = family
        self._make: Callable[[], C] = make
        self._children: dict[Labels, C] = {}

    def labels(self, *labels: str) -> C:
        """Return the child with these label values; keep it instead of asking again."""
        child = self._children.get(labels)
        if child is None:
            name, names = self.family.name, self.family.labels
            if len(labels) != len(names):
                raise ValueError(f"{name} has the labels {names}, not {len(labels)}")
            if len(self._children) >= MAX_CHILDREN:
                raise ValueError(f"{name} has {MAX_CHILDREN} children already: one of its labels is no closed set")
            child = self._children.setdefault(labels, self._make())
        return child

    def samples(self) -> Iterator[Sample]:
        """Yield the values of this moment."""
        for labels, child in list(self._children.items()):
            yield child.sample(labels)


CounterFamily = ChildFamily[Counter]
HistogramFamily = ChildFamily[Histogram]


class GaugeFamily(ChildFamily[Gauge]):
    """The gauges of one name."""

    def replace(self, labels: Labels, value: float) -> None:
        """Set one child and forget the others, as an info metric needs it when its label changes."""
        self._children = {}
        self.labels(*labels).set(value)


class ReadFamily:
    """A number that is kept elsewhere and read when it is asked for."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self._read: Callable[[], Mapping[Labels, float]] = dict

    def read_from(self, read: Callable[[], Mapping[Labels, float]]) -> None:
        """Name the function that returns the values by label values."""
        self._read = read

    def samples(self) -> Iterator[Sample]:
        """Yield the values of this moment."""
        for labels, value in self._read().items():
            yield Sample(labels, (value,))


F = TypeVar("F", CounterFamily, GaugeFamily, HistogramFamily, ReadFamily)


class Registry:
    """Every metric of a process, in the order of their declaration."""

    def __init__(self) -> None:
        self._families: dict[str, CounterFamily | GaugeFamily | HistogramFamily | ReadFamily] = {}

    def counter(self, name: str, text: str, *, stability: Stability = _STABLE) -> CounterFamily:
        """Declare counters; the names of labels stand behind the name, as in `a_total{op,decision}`."""
        return self._add(CounterFamily(_family(name, Type.COUNTER, text, stability), Counter))

    def gauge(self, name: str, text: str, *, fold: Fold = Fold.SUM, stability: Stability = _STABLE) -> GaugeFamily:
        """Declare gauges."""
        return self._add(GaugeFamily(_family(name, Type.GAUGE, text, stability, fold), Gauge))

    def histogram(
        self, name: str, text: str, bounds: tuple[float, ...], *, stability: Stability = _STABLE
    ) -> HistogramFamily:
        """Declare histograms with these upper bounds."""
        if not bounds or list(bounds) != sorted(set(bounds)):
            raise ValueError(f"the bounds of {name} must grow")
        family = _family(name, Type.HISTOGRAM, text, stability, bounds=bounds)
        return self._add(HistogramFamily(family, lambda: Histogram(bounds)))

    def read(self, name: str, text: str, *, fold: Fold = Fold.SUM, stability: Stability = _STABLE) -> ReadFamily:
        """Declare numbers that are kept elsewhere: counters where the name ends with `_total`, else gauges."""
        kind = Type.COUNTER if name.partition("{")[0].endswith("_total") else Type.GAUGE
        return self._add(ReadFamily(_family(name, kind, text, stability, fold)))

    def families(self) -> list[Family]:
        """Return what every metric is, for the documentation."""
        return [each.family for each in self._families.values()]

    def snapshot(self) -> tuple[Counted, ...]:
        """Return every value of this process at this moment."""
        return tuple(Counted(name, tuple(each.samples())) for name, each in self._families.items())

    def _add(self, family: F) -> F:
        name = family.family.name
        if name in self._families:
            raise ValueError(f"two metrics are called {name}")
        self._families[name] = family
        return family


def _family(
    declared: str, kind: Type, text: str, stability: Stability, fold: Fold = Fold.SUM, bounds: tuple[float, ...] = ()
) -> Family:
    name, _, labels = declared.removesuffix("}").partition("{")
    return Family(name, kind, text, tuple(labels.split(",")) if labels else (), stability, fold, bounds)


def add_up(families: Iterable[Family], snapshots: Iterable[tuple[Counted, ...]]) -> tuple[Counted, ...]:
    """Return the values of several processes as if they were one's."""
    folds = {family.name: family.fold for family in families}
    totals: dict[str, dict[Labels, Sample]] = {name: {} for name in folds}
    for snapshot in snapshots:
        for counted in snapshot:
            total = totals[counted.name]
            for sample in counted.samples:
                held = total.get(sample.labels)
                total[sample.labels] = sample if held is None else _folded(folds[counted.name], held, sample)
    return tuple(Counted(name, tuple(total.values())) for name, total in totals.items())


def lasting(families: Iterable[Family], snapshot: tuple[Counted, ...]) -> tuple[Counted, ...]:
    """Return what stays true of a process that is no more: what it counted, and none of its states."""
    gauges = {family.name for family in families if family.type is Type.GAUGE}
    return tuple(counted for counted in snapshot if counted.name not in gauges)


def _folded(fold: Fold, one: Sample, other: Sample) -> Sample:
    match fold:
        case Fold.SUM:
            values = tuple(a + b for a, b in zip(one.values, other.values, strict=True))
            return Sample(one.labels, values, _latest(one.exemplars, other.exemplars))
        case Fold.MIN:
            return min(one, other, key=lambda sample: sample.values)
        case Fold.MAX | Fold.ONCE:
            return max(one, other, key=lambda sample: sample.values)


def _latest(ones: tuple[Exemplar | None, ...], others: tuple[Exemplar | None, ...]) -> tuple[Exemplar | None, ...]:
    if not ones or not others:
        return ones or others
    return tuple(
        max(one, other, key=lambda each: each.event_id) if one and other else one or other
        for one, other in zip(ones, others, strict=True)
    )
