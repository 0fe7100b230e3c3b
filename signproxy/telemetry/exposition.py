"""Show the numbers of all processes to a scraper, in the format that it asks for.

Only a scrape imports this module, and prometheus_client with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import NamedTuple

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar as ShownExemplar
from prometheus_client.utils import floatToGoString

from signproxy.telemetry.families import Counted, Exemplar, Family, Labels, Sample, Type

_FORMATS = re.compile(
    r"(text/plain; version=(0\.0\.4|1\.0\.0)|application/openmetrics-text; version=1\.0\.0); charset=utf-8"
    r"(; escaping=(allow-utf-8|underscores|dots|values))?"
)
_TEXT, _OPEN_METRICS = "text/plain", "application/openmetrics-text"
_WEIGHT = re.compile(r"0(?:\.[0-9]*)?|1(?:\.0*)?")
_UNITS = ("seconds", "bytes")

Encoder = tuple[Callable[[Collector], bytes], str]
"""Writes the metrics; and the content type that it writes."""


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


class _Range(NamedTuple):
    """A format, or several, that a header `Accept` names (RFC 9110, section 12.5.1)."""

    media_type: str
    """In lower case; `text/*` and `*/*` name several."""
    parameters: str
    """With their semicolons, and without the weight."""
    weight: float
    """From 0, which is not accepted, to 1. One that is no weight counts as if it were not there."""

    @classmethod
    def of(cls, text: str) -> _Range:
        media_type, *parameters = text.split(";")
        weight, kept = 1.0, ""
        for parameter in parameters:
            name, _, value = parameter.partition("=")
            if name.strip().lower() != "q":
                kept += f";{parameter}"
            elif _WEIGHT.fullmatch(value.strip()):
                weight = float(value)
        return cls(media_type.strip().lower(), kept, weight)


class _Offer(NamedTuple):
    """A format that is accepted."""

    weight: float
    rank: int
    """What decides between equal weights: a named format before a wildcard's, and the newer before the oldest."""
    encoder: Encoder


def _encoder(accept: str) -> Encoder:
    """Return the format that is wanted most; Prometheus' older text where none is, or none that is written here."""
    ranges = [_Range.of(each) for each in accept.split(",") if each.strip()]
    offers = [*_named(ranges), *_unnamed(ranges)]
    return max(offers, key=lambda offer: (offer.weight, offer.rank)).encoder if offers else choose_encoder("")


def _named(ranges: list[_Range]) -> Iterator[_Offer]:
    """Yield the formats that are named, in the header's order."""
    for each in ranges:
        if each.media_type in (_TEXT, _OPEN_METRICS) and each.weight:
            try:
                encoder = choose_encoder(each.media_type + each.parameters)
            except (TypeError, ValueError):
                # It compares versions as numbers, and a scraper may send any text.
                continue
            content_type = encoder[1]
            # The version is repeated as it was asked for: one that does not exist would be claimed in the answer's
            # head. For a version that it does not write, the encoder is another format's.
            if _FORMATS.fullmatch(content_type) and content_type.startswith(f"{each.media_type};"):
                yield _Offer(each.weight, 1 if content_type == CONTENT_TYPE_PLAIN_0_0_4 else 2, encoder)


def _unnamed(ranges: list[_Range]) -> Iterator[_Offer]:
    """Yield the formats that only a wildcard accepts, as much as the narrowest one says."""
    by_type: dict[str, float] = {}
    for each in ranges:
        by_type[each.media_type] = max(each.weight, by_type.get(each.media_type, 0.0))
    for rank, (media_type, header) in enumerate(((_OPEN_METRICS, _OPEN_METRICS), (_TEXT, ""))):
        weight = by_type.get(f"{media_type.partition('/')[0]}/*", by_type.get("*/*", 0.0))
        if media_type not in by_type and weight:
            yield _Offer(weight, rank, choose_encoder(header))


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
