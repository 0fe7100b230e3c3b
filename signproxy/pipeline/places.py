"""Name securables so that what lies below what is a matter of joins: catalog, namespace, table or volume.

A place is the names from the catalog downwards, joined by U+001F as the levels of a namespace are in audit events. A
table's name and a volume's begin with a mark of their own, so that no namespace can pose as one.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

LEVEL = "\x1f"
TABLE_MARK = "\x1e"
VOLUME_MARK = "\x1d"


def place() -> Column:
    """Return the place that the columns catalog, namespace, table and volume name; what is empty or null is wider."""
    return F.concat_ws(LEVEL, *_names(), F.concat(F.lit(VOLUME_MARK), _named("volume")))


def table_place() -> Column:
    """Return the place of a table, of rows that know of no volumes."""
    return F.concat_ws(LEVEL, *_names())


def around(column: str, separator: str = LEVEL) -> Column:
    """Return the place in a column and all that it lies in, the catalog first."""
    parts = F.split(F.col(column), separator)
    return F.transform(F.sequence(F.lit(1), F.size(parts)), lambda end: F.array_join(F.slice(parts, 1, end), separator))


def above(column: str) -> Column:
    """Return all that the place in a column lies in, itself left out."""
    whole = around(column)
    return F.slice(whole, 1, F.size(whole) - 1)


def topmost(held: DataFrame) -> DataFrame:
    """Return (principal, place) without the places that lie in another one of the same principal."""
    known = held.select("principal", F.col("place").alias("wider"))
    covered = (
        held.select("principal", "place", F.explode(above("place")).alias("wider"))
        .join(known, ["principal", "wider"], "left_semi")
        .select("principal", "place")
        .distinct()
    )
    return held.join(covered, ["principal", "place"], "left_anti")


def both(one: DataFrame, other: DataFrame) -> DataFrame:
    """Return (principal, place) of what lies in places of both frames: the narrower place of each pair, once."""
    return _inside(one, other, around).union(_inside(other, one, above)).distinct()


def tables_below(tables: DataFrame) -> DataFrame:
    """Count the tables at or below each place."""
    each = tables.select(table_place().alias("table_place")).distinct()
    return (
        each.select(F.explode(around("table_place")).alias("place"))
        .groupBy("place")
        .agg(F.count(F.lit(1)).alias("tables"))
    )


def _inside(inner: DataFrame, outer: DataFrame, wider: Callable[[str], Column]) -> DataFrame:
    held = outer.select("principal", F.col("place").alias("wider"))
    return (
        inner.select("principal", "place", F.explode(wider("place")).alias("wider"))
        .join(held, ["principal", "wider"], "left_semi")
        .select("principal", "place")
    )


def _names() -> tuple[Column, ...]:
    return F.col("catalog"), _named("namespace"), F.concat(F.lit(TABLE_MARK), _named("table"))


def _named(column: str) -> Column:
    return F.nullif(F.col(column), F.lit(""))
