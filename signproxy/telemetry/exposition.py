"""Write metrics in Prometheus' text format, version 0.0.4."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from math import isfinite

from signproxy.telemetry.families import Counted, Family, Labels, Type

_NOT_FINITE = {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def render(families: Iterable[Family], snapshot: Iterable[Counted]) -> bytes:
    """Return the values as a scrape answers them."""
    described = {family.name: family for family in families}
    return "".join(line for counted in snapshot for line in _metric(described[counted.name], counted)).encode()


def _metric(family: Family, counted: Counted) -> Iterator[str]:
    yield f"# HELP {family.name} {_help(family.help)}\n"
    yield f"# TYPE {family.name} {family.type.value}\n"
    for sample in sorted(counted.samples, key=lambda each: each.labels):
        if family.type is not Type.HISTOGRAM:
            yield f"{family.name}{_labels(family.labels, sample.labels)} {_number(sample.values[0])}\n"
            continue
        *counts, total = sample.values
        bounds = [*map(_number, family.bounds), "+Inf"]
        for bound, below in zip(bounds, accumulate(counts), strict=True):
            labels = _labels((*family.labels, "le"), (*sample.labels, bound))
            yield f"{family.name}_bucket{labels} {_number(below)}\n"
        labels = _labels(family.labels, sample.labels)
        yield f"{family.name}_sum{labels} {_number(total)}\n"
        yield f"{family.name}_count{labels} {_number(sum(counts))}\n"


def _labels(names: Labels, values: Labels) -> str:
    if not names:
        return ""
    return "{" + ",".join(f'{name}="{_value(value)}"' for name, value in zip(names, values, strict=True)) + "}"


def _value(text: str) -> str:
    return _sound(text).replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _help(text: str) -> str:
    return _sound(text).replace("\\", "\\\\").replace("\n", "\\n")


def _sound(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _number(value: float) -> str:
    if not isfinite(value):
        return _NOT_FINITE[repr(float(value))]
    return str(int(value)) if value == int(value) else repr(float(value))
