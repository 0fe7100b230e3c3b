"""Write moments and spans of time for people: in UTC, and in the unit that fits."""

from __future__ import annotations

from math import isfinite
from time import gmtime, strftime

_UNITS = ((86_400 * 2, 86_400, "d"), (3_600 * 2, 3_600, "h"), (60 * 2, 60, "min"), (0, 1, "s"))
"""From which span on, in which unit: `119 min` says more than `1 h`."""


def moment(unix: float) -> str:
    """Return a Unix time to the second; `never` for what has no time."""
    if not isfinite(unix) or unix <= 0:
        return "never"
    try:
        return strftime("%Y-%m-%d %H:%M:%S UTC", gmtime(unix))
    except (OverflowError, OSError, ValueError):
        return f"{unix:.0f} s"


def span(seconds: float) -> str:
    """Return a length of time in its fitting unit."""
    if not isfinite(seconds):
        return "for ever"
    length = abs(seconds)
    for least, size, unit in _UNITS:
        if length >= least:
            return f"{length / size:.0f} {unit}"
    raise AssertionError("every length is at least 0")


def ago(seconds: float) -> str:
    """Return how long ago something was; what lies ahead, because clocks differ, is now."""
    return f"{span(seconds)} ago" if seconds >= 1 else "just now"


def ahead(seconds: float) -> str:
    """Return how far ahead something is, or how long ago it was."""
    return f"in {span(seconds)}" if seconds >= 0 else f"{span(seconds)} ago"
