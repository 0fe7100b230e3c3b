"""Read what formats a header `Accept` names, and how much each is wanted (RFC 9110, section 12.5.1)."""

from __future__ import annotations

import re
from typing import NamedTuple

_WEIGHT = re.compile(r"0(?:\.[0-9]*)?|1(?:\.0*)?")
_ANY = "*/*"


class MediaRange(NamedTuple):
    """A format, or several, that a client accepts."""

    media_type: str
    """In lower case; `text/*` and `*/*` name several."""
    parameters: str
    """With their semicolons, and without the weight."""
    weight: float
    """From 0, which is not accepted, to 1."""


def ranges_of(accept: str) -> list[MediaRange]:
    """Return the ranges in the header's order. A weight that is not one counts as if it were not there."""
    return [_range_of(each) for each in accept.split(",") if each.strip()]


def weight_by_wildcard(ranges: list[MediaRange], media_type: str) -> float:
    """Return how much a type is wanted that no range names: as the narrowest wildcard says; 0 where there is none."""
    for wildcard in (f"{media_type.partition('/')[0]}/*", _ANY):
        weights = [each.weight for each in ranges if each.media_type == wildcard]
        if weights:
            return max(weights)
    return 0.0


def _range_of(text: str) -> MediaRange:
    media_type, *parameters = text.split(";")
    weight, kept = 1.0, ""
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() != "q":
            kept += f";{parameter}"
        elif _WEIGHT.fullmatch(value.strip()):
            weight = float(value)
    return MediaRange(media_type.strip().lower(), kept, weight)
