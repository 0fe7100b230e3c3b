"""Hold a table of figures once: a page shows it for people, a CSV file beside it has it for programs."""

from __future__ import annotations

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
        return self in (ColumnKind.NUMBER, ColumnKind.SIZE, ColumnKind.DURATION, ColumnKind.SHARE, ColumnKind.MONEY)


class Column(msgspec.Struct, frozen=True):
    """A column."""

    title: str
    kind: ColumnKind = ColumnKind.NUMBER
    name: str = ""
    """In CSV; from the title if it is not given."""

    @property
    def field(self) -> str:
        """Its name in CSV."""
        return self.name or self.title.lower().replace(" ", "_")


class Twin(msgspec.Struct, frozen=True, kw_only=True):
    """A table; the first column names its rows."""

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]


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
            return escape(_figure(value, kind))


def _figure(value: float, kind: ColumnKind) -> str:
    match kind:
        case ColumnKind.SIZE:
            return text.size(value)
        case ColumnKind.DURATION:
            return text.duration(value)
        case ColumnKind.SHARE:
            return text.percent(value, 1)
        case ColumnKind.MONEY:
            return text.money(value)
        case _:
            return text.number(value) if value == int(value) else f"{value:,.1f}"
