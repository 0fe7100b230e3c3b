"""Read a price list: what requests and bytes cost, for all buckets and for single ones."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from signproxy.errors import Finding, Invalid

CLASSES = ("get", "head", "list", "put", "delete")
"""What requests are priced by."""

PER_REQUESTS = 1000
PER_BYTES = 10**9
MAX_BYTES = 1 << 20


class Prices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Prices of a bucket; what is left out costs what it costs by default, and nothing there."""

    requests: Mapping[str, float] = {}
    """By class: of a thousand requests."""
    egress: float | None = None
    """Of a gigabyte (10^9 bytes) that is read."""


class PriceList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A price list as a file holds it."""

    currency: str = ""
    default: Prices = Prices()
    buckets: Mapping[str, Prices] = {}

    def rows(self) -> Iterator[tuple[str, str, float, float]]:
        """Yield bucket ('' for all that have no prices of their own), class, price of a request, price of a byte."""
        for bucket, prices in {"": self.default, **self.buckets}.items():
            egress = self.default.egress if prices.egress is None else prices.egress
            for each in CLASSES:
                request = prices.requests.get(each, self.default.requests.get(each, 0.0))
                yield bucket, each, request / PER_REQUESTS, (egress or 0.0) / PER_BYTES


def read_prices(path: Path) -> PriceList:
    """Return the price list of a YAML or JSON file. Raise Invalid."""
    file = str(path)
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
        text = raw.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise _invalid(file, f"cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}") from None
    if len(raw) > MAX_BYTES:
        raise _invalid(file, f"is larger than {MAX_BYTES} bytes")
    try:
        found = msgspec.convert(_parsed(text, file), PriceList)
    except msgspec.ValidationError as error:
        raise _invalid(file, str(error)) from None
    for bucket, prices in {"": found.default, **found.buckets}.items():
        unknown = sorted(set(prices.requests) - set(CLASSES))
        if unknown:
            raise _invalid(file, f"{bucket or 'default'}: {unknown[0]!r} is none of {', '.join(CLASSES)}")
        if any(price < 0 for price in (*prices.requests.values(), prices.egress or 0.0)):
            raise _invalid(file, f"{bucket or 'default'}: a price is below zero")
    return found


def _parsed(text: str, file: str) -> Any:
    if file.endswith(".json"):
        try:
            return json.loads(text)
        except ValueError as error:
            raise _invalid(file, f"is no JSON: {error}") from None
    # A server's own dependency; only here, so that a bare Spark image, which lacks it, can read prices in JSON.
    import yaml  # noqa: PLC0415 - see above

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise _invalid(file, f"is no YAML: {str(error).splitlines()[0]}") from None


def _invalid(file: str, problem: str) -> Invalid:
    return Invalid([Finding(file, "", problem)])
