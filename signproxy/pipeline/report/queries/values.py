"""Bring small answers from Spark, with times that do not depend on where this runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TypeVar

import msgspec
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it
from pyspark.sql.types import TimestampType

from signproxy.pipeline.job import Days
from signproxy.pipeline.places import LEVEL

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

T = TypeVar("T", bound=msgspec.Struct)


def values_of(kind: type[T], rows: DataFrame) -> tuple[T, ...]:
    """Return rows as values of a kind, whose fields are named as the columns; what is null is the field's default."""
    times = {field.name for field in rows.schema.fields if isinstance(field.dataType, TimestampType)}
    found = rows.select(*(micros(name).alias(name) if name in times else name for name in rows.columns)).collect()
    values = []
    for row in found:
        held = {name: value for name, value in row.asDict().items() if value is not None}
        values.append(kind(**held | {name: moment(held[name]) for name in times & held.keys()}))
    return tuple(values)


def micros(column: str | Column) -> Column:
    """Return a time as a number: Spark hands times over in the zone of the process that asks."""
    return F.unix_micros(F.col(column) if isinstance(column, str) else column)


def moment(value: int | None) -> datetime | None:
    """Return the time that a number stands for."""
    return None if value is None else _EPOCH + value * _MICROSECOND


def midnight(day: date) -> datetime:
    """Return when a day begins."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def said(name: str) -> Column:
    """Return a text column, empty where it is null."""
    return F.coalesce(F.col(name), F.lit(""))


def total(column: Column | str) -> Column:
    """Return a sum, 0 of nothing."""
    return F.coalesce(F.sum(column), F.lit(0))


def table_name() -> Column:
    """Return the full name of a row's table, empty where it has none."""
    namespace = F.translate(said("namespace"), LEVEL, ".")
    full = F.concat_ws(".", F.nullif(said("catalog"), F.lit("")), F.nullif(namespace, F.lit("")), F.col("table"))
    return F.when(said("table") != "", full).otherwise(F.lit(""))


def overlapping(frame: DataFrame, days: Days, first: str, last: str) -> DataFrame:
    """Return the rows whose time touches the days; those without a time as well."""
    if days.first is not None:
        frame = frame.where(F.coalesce(F.to_date(last) >= F.lit(days.first), F.lit(True)))
    if days.last is not None:
        frame = frame.where(F.coalesce(F.to_date(first) <= F.lit(days.last), F.lit(True)))
    return frame


def bucket(column: str, bounds: Sequence[float]) -> Column:
    """Return the place of a value among the bounds, each of which belongs to the bucket below it."""
    chosen = F.when(F.col(column) <= F.lit(bounds[0]), F.lit(0))
    for place, bound in enumerate(bounds[1:], start=1):
        chosen = chosen.when(F.col(column) <= F.lit(bound), F.lit(place))
    return chosen.otherwise(F.lit(len(bounds)))


def filled(counts: dict[int, int], bounds: Sequence[float]) -> tuple[int, ...]:
    """Return a count for each bucket."""
    return tuple(counts.get(place, 0) for place in range(len(bounds) + 1))


def one(frame: DataFrame) -> Row:
    """Return the one row of an aggregate without groups."""
    row = frame.first()
    if row is None:
        raise LookupError("an aggregate without groups has one row")
    return row
