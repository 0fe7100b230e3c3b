"""Write numbers, times and strangers' text for people: grouped, in UTC, and unable to act on the page."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime

from markupsafe import Markup, escape

from signproxy.audit.neutralise import neutralise

MAX_NAME_CHARACTERS = 120
MAX_TEXT_CHARACTERS = 400
"""Longer text says nothing more to a reader; the JSON beside the page has it whole."""

_MOST_MARKS = 2
"""On one letter they are Vietnamese; three are no language, and cover the lines around them."""


def harmless(raw: str, limit: int = MAX_TEXT_CHARACTERS) -> str:
    """Return text in which nothing acts or hides: control, bidi and invisible characters and piles are escapes."""
    shown = neutralise(raw, limit)
    if shown.isascii():
        return shown
    written: list[str] = []
    marks = 0
    for character in shown:
        marks = marks + 1 if unicodedata.category(character) in ("Mn", "Me") else 0
        written.append(character if marks <= _MOST_MARKS else f"\\u{ord(character):04x}")
    return "".join(written)


def text(raw: str, limit: int = MAX_TEXT_CHARACTERS) -> Markup:
    """Return markup that shows exactly this text; letters from right to left turn nothing outside of it."""
    shown = harmless(raw, limit)
    return escape(shown) if shown.isascii() else Markup("<bdi>{}</bdi>").format(shown)


def plain(raw: str) -> Markup:
    """Return the same where only text may stand, such as the title of a page."""
    return escape(harmless(raw, MAX_NAME_CHARACTERS))


def name(raw: str) -> Markup:
    """Return a name as markup; a word in its place where there is none."""
    if not raw:
        return Markup('<span class="soft">none</span>')
    return Markup("<code>{}</code>").format(text(raw, MAX_NAME_CHARACTERS))


def shortened(raw: str, columns: int) -> str:
    """Return a name that takes up no more columns than this, with what is left out in its middle."""
    shown = harmless(raw, 4 * MAX_TEXT_CHARACTERS)
    if _width(shown) <= columns:
        return shown
    room = columns - 1
    # Names of one issuer or catalog differ at their end.
    head = _head(shown, room // 3)
    tail = _head(shown[::-1], room - _width(head))[::-1]
    return f"{head}…{tail}"


def beginning(names: Sequence[str]) -> str:
    """Return what all of these names begin with, up to the last slash or dot: an issuer, or a catalog."""
    if len(names) < 2:
        return ""
    # The least and the greatest have no more in common than all of them.
    least, greatest = min(names), max(names)
    common = next((least[:at] for at, (a, b) in enumerate(zip(least, greatest, strict=False)) if a != b), least)
    return common[: max(common.rfind("/"), common.rfind(".")) + 1]


def number(value: float) -> str:
    """Return a whole number with its thousands apart."""
    return f"{value:,.0f}"


def short(value: float) -> str:
    """Return a number in few characters, for an axis."""
    return _in_units(value, (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))) or _digits(value)


def percent(part: float, whole: float) -> str:
    """Return a share; never 0 % or 100 % where something is left."""
    if not whole:
        return "none"
    share = 100 * part / whole
    if part == whole:
        return "100 %"
    if share and share < 0.01:
        return "< 0.01 %"
    # Towards zero: 99.997 % of all requests are not all of them.
    down = math.floor(share * 100 + 1e-9) / 100
    return f"{min(down, 99.99):.2f}".rstrip("0").rstrip(".") + " %"


def size(value: float) -> str:
    """Return a number of bytes."""
    powers = (("PiB", 50), ("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10))
    return _in_units(value, [(unit, 1 << power) for unit, power in powers]) or f"{value:.0f} B"


def duration(seconds: float) -> str:
    """Return a length of time in two units at most."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{_digits(seconds)} s"
    whole = round(seconds)
    for unit, length, smaller, part in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= length:
            rest = whole % length // part
            return f"{whole // length:,} {unit} {rest} {smaller}" if rest else f"{whole // length:,} {unit}"
    return f"{whole} s"


def money(value: float) -> str:
    """Return an amount in whatever currency the price list is."""
    if value and abs(value) < 0.01:
        return f"{value:.4f}"
    return f"{value:,.2f}"


def moment(at: datetime | None) -> str:
    """Return a time in UTC, to the second."""
    return "" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def minute(at: datetime | None) -> str:
    """Return a time in UTC, to the minute."""
    return "" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def day(of: date | None) -> str:
    """Return a day."""
    return "" if of is None else of.isoformat()


def plural(count: float, one: str, many: str = "") -> str:
    """Return a count with the thing that is counted."""
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


def _in_units(value: float, units: Iterable[tuple[str, float]]) -> str:
    """Return a value in the largest unit that it has one of; empty where it has none."""
    return next((f"{_digits(value / length)} {unit}" for unit, length in units if abs(value) >= length), "")


def _digits(value: float) -> str:
    """Return three digits that count."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}".rstrip("0").rstrip(".")


def _width(shown: str) -> int:
    return sum(_columns(character) for character in shown)


def _head(shown: str, columns: int) -> str:
    taken = 0
    for at, character in enumerate(shown):
        taken += _columns(character)
        if taken > columns:
            return shown[:at]
    return shown


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
