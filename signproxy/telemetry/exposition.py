"""Show the numbers of all processes to a scraper, in the format that it asks for.

Only a scrape imports this module, and prometheus_client with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar as ShownExemplar
from prometheus_client.utils import floatToGoString

from signproxy.telemetry.families import Counted, Exemplar, Family, Labels, Sample, Type

_FORMATS = re.compile(
    r"(text/plain; version=(0\.0\.4|1\.0\.0)|application/openmetrics-text; version=1\.0\.0); charset=utf-8"
    r"(; escaping=(allow-utf-8|underscores|dots|values))?"
)
_UNITS = ("seconds", "bytes")


class Exposition(msgspec.Struct, frozen=True):
    """What a scrape is answered."""

    content_type: str
    body: bytes


def expose(families: Iterable[Family], snapshot: Iterable[Counted], accept: str) -> Exposition:
    """Return the values in the format that the header `Accept` prefers: Prometheus' text or OpenMetrics."""
    registry = CollectorRegistry()
    registry.register(SnapshotCollector(families, snapshot))
    encode, content_type = _encoder(accept)
    return Exposition(content_type, encode(registry))


class SnapshotCollector(Collector):
    """Hands the values of one moment to prometheus_client. `describe` lets the registry refuse names that clash."""

    def __init__(self, families: Iterable[Family], snapshot: Iterable[Counted]) -> None:
        self._families = {family.name: family for family in families}
        self._snapshot = tuple(snapshot)

    def describe(self) -> Iterator[Metric]:
        """Yield every metric without values."""
        for family in self._families.values():
            yield _metric(family, ())

    def collect(self) -> Iterator[Metric]:
        """Yield every metric with its values."""
        for counted in self._snapshot:
            yield _metric(self._families[counted.name], sorted(counted.samples, key=lambda each: each.labels))


def _encoder(accept: str) -> tuple[Callable[[Collector], bytes], str]:
    try:
        encode, content_type = choose_encoder(accept)
    except (TypeError, ValueError):
        # It compares versions as numbers, and a scraper may send any text.
        return choose_encoder("")
    # The version is repeated as it was asked for: one that does not exist would be claimed in the answer's head.
    return (encode, content_type) if _FORMATS.fullmatch(content_type) else choose_encoder("")


def _metric(family: Family, samples: Iterable[Sample]) -> Metric:
    name = family.name.removesuffix("_total")
    text = _sound(family.help)
    unit = next((unit for unit in _UNITS if name.endswith(f"_{unit}")), "")
    match family.type:
        case Type.COUNTER:
            counter = CounterMetricFamily(name, text, labels=family.labels, unit=unit)
            for sample in samples:
                (exemplar,) = _exemplars(sample) or (None,)
                counter.add_metric(_values(sample.labels), sample.values[0], exemplar=exemplar)
            return counter
        case Type.GAUGE:
            gauge = GaugeMetricFamily(name, text, labels=family.labels, unit=unit)
            for sample in samples:
                gauge.add_metric(_values(sample.labels), sample.values[0])
            return gauge
        case Type.HISTOGRAM:
            histogram = HistogramMetricFamily(name, text, labels=family.labels, unit=unit)
            bounds = [*map(floatToGoString, family.bounds), "+Inf"]
            for sample in samples:
                *counts, total = sample.values
                exemplars = _exemplars(sample) or [None] * len(bounds)
                buckets = zip(bounds, accumulate(counts), exemplars, strict=True)
                histogram.add_metric(_values(sample.labels), [_bucket(*each) for each in buckets], total)
            return histogram


def _bucket(
    bound: str, count: float, exemplar: ShownExemplar | None
) -> tuple[str, float] | tuple[str, float, ShownExemplar]:
    return (bound, count) if exemplar is None else (bound, count, exemplar)


def _exemplars(sample: Sample) -> list[ShownExemplar | None]:
    return [None if each is None else _shown(each) for each in sample.exemplars]


def _shown(exemplar: Exemplar) -> ShownExemplar:
    return ShownExemplar({"event_id": exemplar.event_id}, exemplar.value)


def _values(labels: Labels) -> list[str]:
    return [_sound(label) for label in labels]


def _sound(text: str) -> str:
    """Return text that UTF-8 can write: names in settings may hold halves of surrogate pairs."""
    return text.encode("utf-8", "backslashreplace").decode()
