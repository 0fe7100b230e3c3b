"""Read what the stores' own logs say: who is behind their requests, and what they cost."""

from __future__ import annotations

from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.pipeline.days import Days
from signproxy.pipeline.jobs.cost import charged, class_of
from signproxy.pipeline.report.data import (
    CLASSES,
    SIZE_BOUNDS,
    ClassCount,
    Costs,
    Distribution,
    TableCost,
    Unattributed,
    UnexplainedRequests,
)
from signproxy.pipeline.report.queries.values import bucket, filled, micros, moment, one, said, table_name, total
from signproxy.pipeline.schemas import DAY
from signproxy.pipeline.warehouse import Warehouse

MOST_TABLES = 30
MOST_ORIGINS = 50
_SERVED = (200, 206)


def classes(warehouse: Warehouse, days: Days) -> tuple[ClassCount, ...]:
    """Return how many requests were attributed how, the surest first."""
    rows = (
        warehouse.read("access_attribution", days)
        .groupBy(said("class").alias("class"))
        .agg(F.count(F.lit(1)).alias("n"), total("bytes_sent").alias("bytes"))
        .collect()
    )
    places = {name: place for place, name in enumerate(CLASSES)}
    found = [ClassCount(row["class"], row["n"], row["bytes"]) for row in rows]
    return tuple(sorted(found, key=lambda each: (places.get(each.name, len(places)), each.name)))


def unattributed(warehouse: Warehouse, days: Days) -> tuple[Unattributed, ...]:
    """Return the requests of each day, and those that nothing explains."""
    rows = (
        warehouse.read("access_attribution", days)
        .groupBy(DAY)
        .agg(
            F.count(F.lit(1)).alias("n"),
            F.count_if(F.col("class") == "unattributed").alias("unattributed"),
            F.count_if(F.col("class") == "probable").alias("probable"),
        )
        .where(F.col(DAY).isNotNull())
        .orderBy(DAY)
        .collect()
    )
    return tuple(Unattributed(row[DAY], row["n"], row["unattributed"], row["probable"]) for row in rows)


def origins(warehouse: Warehouse, days: Days) -> tuple[UnexplainedRequests, ...]:
    """Return where the requests that nothing explains went, the most first."""
    rows = (
        warehouse.read("access_attribution", days)
        .where(F.col("class") == "unattributed")
        .groupBy(
            said("bucket").alias("bucket"),
            said("op").alias("op"),
            F.coalesce("status", F.lit(0)).alias("status"),
            said("requester").alias("requester"),
        )
        .agg(F.count(F.lit(1)).alias("n"), micros(F.min("ts")).alias("first"), micros(F.max("ts")).alias("last"))
        .orderBy(F.desc("n"), "bucket", "op", "status", "requester")
        .limit(MOST_ORIGINS)
        .collect()
    )
    return tuple(
        UnexplainedRequests(
            bucket=row["bucket"],
            op=row["op"],
            status=row["status"],
            requester=row["requester"],
            n=row["n"],
            first=moment(row["first"]),
            last=moment(row["last"]),
        )
        for row in rows
    )


def costs(warehouse: Warehouse, days: Days) -> Costs:
    """Return what tables cost, the dearest first; by requests where nothing is priced."""
    priced = warehouse.read("table_cost", days).withColumn("place", table_name()).where(F.col("place") != "")
    each = priced.groupBy("place").agg(
        *(total(name).alias(name) for name in ("requests", "bytes", "cost", "small_file_tax"))
    )
    whole = one(
        each.agg(
            F.count(F.lit(1)).alias("tables"),
            *(total(name).alias(name) for name in ("requests", "bytes", "cost", "small_file_tax")),
        )
    )
    dearest = each.orderBy(F.desc("cost"), F.desc("requests"), "place").limit(MOST_TABLES).collect()
    return Costs(
        tables=tuple(
            TableCost(
                table=row["place"],
                requests=row["requests"],
                bytes=row["bytes"],
                cost=row["cost"],
                tax=row["small_file_tax"],
            )
            for row in dearest
        ),
        all_tables=whole["tables"],
        requests=whole["requests"],
        bytes=whole["bytes"],
        cost=whole["cost"],
        tax=whole["small_file_tax"],
        sizes=sizes(warehouse, days),
    )


def sizes(warehouse: Warehouse, days: Days) -> Distribution:
    """Return how many bytes each GET of an object read, each request once."""
    rows = (
        charged(warehouse.read("s3_access", days))
        .where((class_of() == "get") & F.col("status").isin(*_SERVED) & F.col("bytes_sent").isNotNull())
        .withColumn("bucket_of", bucket("bytes_sent", SIZE_BOUNDS))
        .groupBy("bucket_of")
        .count()
        .collect()
    )
    if not rows:
        return Distribution(SIZE_BOUNDS)
    return Distribution(SIZE_BOUNDS, {"GETs": filled({row["bucket_of"]: row["count"] for row in rows}, SIZE_BOUNDS)})
