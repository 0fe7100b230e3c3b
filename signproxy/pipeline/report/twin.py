"""Hold a table of figures once: a page shows it for people, a CSV file beside it has it for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from enum import Enum

import msgspec
from markupsafe import Markup, escape

from signproxy.pipeline.report import text

Value = str | int | float | datetime | date | None


class ColumnKind(Enum):
    """How the values of a column are shown."""

    TEXT = "text"
    NAME = "name"
    NUMBER = "number"
    SIZE = "size"
    DURATION = "duration"
    SHARE = "share"
    MONEY = "money"
    TIME = "time"
    DAY = "day"

    @property
    def is_figure(self) -> bool:
        """Whether its values stand below one another at their right."""
        return self in _FIGURES


class Column(msgspec.Struct, frozen=True):
    """A column."""

    title: str
    kind: ColumnKind

    @property
    def field(self) -> str:
        """Its name in CSV."""
        return self.title.lower().replace(" ", "_")


class Twin(msgspec.Struct, frozen=True):
    """A table; the first column names its rows."""

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]


def twin(name: str, caption: str, columns: str, rows: Iterable[Sequence[Value]]) -> Twin:
    """Return a table. Its columns are titles with their kinds, as in `Day:day, Requests`; without one it is number."""
    parted = (part.partition(":") for part in columns.split(", "))
    shaped = tuple(Column(title, ColumnKind(kind or "number")) for title, _, kind in parted)
    return Twin(name, caption, shaped, tuple(map(tuple, rows)))


def shown(value: Value, kind: ColumnKind) -> Markup:
    """Return a value as markup."""
    match value:
        case None:
            return Markup("")
        case datetime():
            return Markup('<time datetime="{}">{}</time>').format(value.isoformat(), text.moment(value))
        case date():
            return escape(text.day(value))
        case str():
            return text.name(value) if kind is ColumnKind.NAME else text.text(value)
        case _:
            return escape(_FIGURES.get(kind, _FIGURES[ColumnKind.NUMBER])(value))


_FIGURES: dict[ColumnKind, Callable[[float], str]] = {
    ColumnKind.SIZE: text.size,
    ColumnKind.DURATION: text.duration,
    ColumnKind.SHARE: lambda share: text.percent(share, 1),
    ColumnKind.MONEY: text.money,
    ColumnKind.NUMBER: lambda value: text.number(value) if value == int(value) else f"{value:,.1f}",
}
