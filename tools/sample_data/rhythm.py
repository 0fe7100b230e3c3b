"""Say how much is going on when: services all day, analysts at work, batch jobs at night, and weekends for all."""

from __future__ import annotations

from math import exp
from time import gmtime

SLOT = 600
"""Seconds that share one rate."""

KINDS = ("service", "analyst", "batch")
_SUNDAY, _SATURDAY = 6, 5


def weights(at: int) -> tuple[float, float, float]:
    """Return how busy each kind of principal is, at a Unix time."""
    moment = gmtime(at)
    hour = moment.tm_hour + moment.tm_min / 60
    is_weekend = moment.tm_wday in (_SATURDAY, _SUNDAY)
    service = (0.8 if is_weekend else 1.0) * (0.7 + 0.6 * _bell(hour, 14, 5))
    analyst = (0.06 if is_weekend else 1.0) * (_bell(hour, 10, 1.6) + 0.8 * _bell(hour, 15, 2))
    batch = (0.7 if is_weekend else 1.0) * (2.6 * _bell(hour, 2.5, 1.3) + 0.5 * _bell(hour, 12, 0.5))
    if moment.tm_mday == 1:
        # The month's reports.
        batch *= 1.5
    return service, analyst, batch


def _bell(hour: float, middle: float, width: float) -> float:
    return exp(-(((hour - middle) / width) ** 2))
