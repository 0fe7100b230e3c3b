"""Read what signproxy decided: over time, by principal and table, against what was granted, and by query."""

from __future__ import annotations

from datetime import datetime, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.pipeline.findings import count_by
from signproxy.pipeline.grant_use import Action
from signproxy.pipeline.job import Days
from signproxy.pipeline.jobs.access import accesses
from signproxy.pipeline.report.data import Cell, GrantUse, HeatMap, PrincipalReach, QueryBreadth, Timeline, TimelineSlot
from signproxy.pipeline.report.queries.values import micros, midnight, moment, one, said, table_name, total, values_of
from signproxy.pipeline.schemas import DAY
from signproxy.pipeline.warehouse import Warehouse

MOST = 40
"""Rows and columns of the field of who asked for what: more cannot be read."""
MOST_REACHES = 25
_HOURLY_DAYS = 3
_DAILY_DAYS = 92
_VERDICTS = ("allow", "deny", "error")


def timeline(warehouse: Warehouse, days: Days) -> Timeline:
    """Return decisions by hour, day or week, so that there are neither few columns nor too many; none is left out."""
    daily = warehouse.read("access_daily", days)
    span = one(daily.agg(F.min(DAY).alias("first"), F.max(DAY).alias("last")))
    if span["first"] is None:
        return Timeline()
    first, last = span["first"], span["last"]
    count = (last - first).days + 1
    if count <= _HOURLY_DAYS and warehouse.exists("events"):
        events = accesses(warehouse.read("events", days)).withColumnRenamed("weight", "n")
        found = _by_verdict(events.withColumn("at", F.date_trunc("hour", "ts")))
        return Timeline("hour", _slots(found, midnight(first), midnight(last + timedelta(1)), timedelta(hours=1)))
    unit, step = ("day", timedelta(1)) if count <= _DAILY_DAYS else ("week", timedelta(7))
    found = _by_verdict(daily.withColumn("at", F.date_trunc(unit, F.col(DAY).cast("timestamp"))))
    begin = first if unit == "day" else first - timedelta(first.weekday())
    return Timeline(unit, _slots(found, midnight(begin), midnight(last + timedelta(1)), step))


def heat(warehouse: Warehouse, days: Days) -> HeatMap:
    """Return the busiest principals and tables, and what each of the ones asked of each of the others."""
    pairs = (
        warehouse.read("access_daily", days)
        .withColumn("place", table_name())
        .where((F.col("place") != "") & (said("principal") != ""))
        .groupBy("principal", "place")
        .agg(*(total(F.when(F.col("decision") == verdict, F.col("n"))).alias(verdict) for verdict in _VERDICTS))
    )
    counted = one(
        pairs.agg(F.count_distinct("principal").alias("principals"), F.count_distinct("place").alias("tables"))
    )
    principals, tables = _busiest(pairs, "principal"), _busiest(pairs, "place")
    rows = {name: at for at, name in enumerate(principals)}
    columns = {name: at for at, name in enumerate(tables)}
    cells = pairs.where(F.col("principal").isin(*principals) & F.col("place").isin(*tables)).collect() if rows else []
    return HeatMap(
        principals=principals,
        tables=tables,
        cells=tuple(
            Cell(rows[cell["principal"]], columns[cell["place"]], cell["allow"], cell["deny"])
            for cell in cells
            if cell["allow"] or cell["deny"]
        ),
        all_principals=counted["principals"],
        all_tables=counted["tables"],
    )


def rights(warehouse: Warehouse) -> GrantUse:
    """Return who may reach the most, and whether grants are used: both are of the last export, whichever days."""
    counts = {"root": "n_root", "entitled": "entitled", "held": "held_max", "used": "used_tables_90d"}
    each = (
        warehouse.read("blast_radius")
        .groupBy(said("principal").alias("principal"))
        .agg(
            F.array_join(F.array_sort(F.collect_set(F.nullif("mode", F.lit("none")))), ", ").alias("mode"),
            *(
                F.coalesce(F.max(column), F.lit(0)).alias(name)
                for name, column in {**counts, "violations": "violations"}.items()
            ),
        )
    )
    whole = one(
        each.agg(
            F.count(F.lit(1)).alias("n"),
            F.max("root").alias("root"),
            F.median("entitled").alias("entitled"),
            F.median("used").alias("used"),
        )
    )
    widest = each.drop("root").orderBy(F.desc("entitled"), F.desc("used"), "principal").limit(MOST_REACHES)
    withdrawable = F.col("action").isin(Action.WITHDRAW_GRANT, Action.TAKE_ROLE)
    return GrantUse(
        reaches=values_of(PrincipalReach, widest),
        principals=whole["n"],
        all_tables=whole["root"] or 0,
        median_entitled=whole["entitled"] or 0.0,
        median_used=whole["used"] or 0.0,
        states=count_by(warehouse.read("grant_use").select(said("state").alias("state")), "state"),
        withdrawable=warehouse.read("recommendations").where(withdrawable).count(),
    )


def breadth(warehouse: Warehouse, days: Days) -> tuple[QueryBreadth, ...]:
    """Return how many queries touched how many tables; one that went on past midnight counts once."""
    each = (
        warehouse.read("access_queries", days)
        .groupBy("application", "query_id", "principal")
        .agg(F.coalesce(F.max("tables"), F.lit(0)).alias("tables"))
    )
    return values_of(QueryBreadth, each.groupBy("tables").agg(F.count(F.lit(1)).alias("queries")).orderBy("tables"))


def _by_verdict(rows: DataFrame) -> dict[tuple[datetime, str], int]:
    found = rows.groupBy("at", "decision").agg(total("n").alias("n")).select(micros("at").alias("at"), "decision", "n")
    counts: dict[tuple[datetime, str], int] = {}
    for row in found.collect():
        at = moment(row["at"])
        if at is not None:
            counts[at, row["decision"]] = row["n"]
    return counts


def _slots(
    counts: dict[tuple[datetime, str], int], first: datetime, end: datetime, step: timedelta
) -> tuple[TimelineSlot, ...]:
    slots = []
    while first < end:
        slots.append(TimelineSlot(first, *(counts.get((first, verdict), 0) for verdict in _VERDICTS)))
        first += step
    return tuple(slots)


def _busiest(pairs: DataFrame, column: str) -> tuple[str, ...]:
    asked = F.col("allow") + F.col("deny")
    rows = pairs.groupBy(column).agg(F.sum(asked).alias("asked")).orderBy(F.desc("asked"), column).limit(MOST).collect()
    return tuple(row[column] for row in rows)
