"""Say who touched which table, by day, and by the engine's own word for its query."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.pipeline.job import JobContext, JobOutcome
from signproxy.pipeline.schemas import DAY
from signproxy.pipeline.uses import effective

_KINDS = ("sign", "forward", "vend", "refresh")
"""Kinds of events that open objects; a catalog's own calls and the server's notes open none."""

_TABLE = ("catalog", "namespace", "table")


def accesses(events: DataFrame) -> DataFrame:
    """Return the events that are about objects, each with what it stands for."""
    return events.where(F.col("kind").isin(*_KINDS)).withColumns(
        {
            "effective_principal": effective(),
            "weight": F.coalesce(F.col("count"), F.lit(1)),
            "moved": F.coalesce(F.col("bytes_in"), F.lit(0)) + F.coalesce(F.col("bytes_out"), F.lit(0)),
        }
    )


def access_daily(events: DataFrame) -> DataFrame:
    """Count accesses by principal, table, access, decision and day."""
    by = ("principal", "effective_principal", *_TABLE, "access", "decision", DAY)
    return (
        accesses(events)
        .groupBy(*by)
        .agg(
            F.sum("weight").alias("n"),
            F.sum("moved").alias("bytes"),
            F.approx_count_distinct("query_id").alias("queries"),
            F.min("ts").alias("first_ts"),
            F.max("ts").alias("last_ts"),
        )
    )


def access_queries(events: DataFrame) -> DataFrame:
    """Count what each query touched, where the engine said which query asks: its word, which nothing proves."""
    served = accesses(events).where((F.col("decision") == "allow") & (F.coalesce(F.col("query_id"), F.lit("")) != ""))
    table = F.concat_ws(".", *_TABLE)
    return served.groupBy("application", "query_id", "principal", DAY).agg(
        F.count_distinct(table).alias("tables"),
        F.sum(F.when(F.col("access").isin("read", "list"), F.col("weight")).otherwise(0)).alias("reads"),
        F.sum(F.when(F.col("access").isin("write", "delete"), F.col("weight")).otherwise(0)).alias("writes"),
        F.sum("moved").alias("bytes"),
        F.min("ts").alias("first_ts"),
        F.max("ts").alias("last_ts"),
    )


def run(context: JobContext) -> JobOutcome:
    """Count the days anew that were asked for; all of them where none were."""
    warehouse = context.warehouse
    events = warehouse.read("events", context.days)
    warehouse.replace_days("access_daily", access_daily(events), context.days)
    warehouse.replace_days("access_queries", access_queries(events), context.days)
    daily = warehouse.read("access_daily", context.days)
    found = daily.agg(F.sum("n").alias("n"), F.count(F.lit(1)).alias("rows")).first()
    return JobOutcome(rows_in=(found and found["n"]) or 0, rows_out=(found and found["rows"]) or 0)
