"""Read what the stores' own logs say: who is behind their requests, and what they cost."""

from __future__ import annotations

from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.pipeline.job import Days
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
from signproxy.pipeline.report.queries.values import bucket, filled, one, said, table_name, total, values_of
from signproxy.pipeline.schemas import DAY
from signproxy.pipeline.warehouse import Warehouse

MOST_TABLES = 30
MOST_ORIGINS = 50
_SERVED = (200, 206)


def classes(warehouse: Warehouse, days: Days) -> tuple[ClassCount, ...]:
    """Return how many requests were attributed how, the surest first."""
    rows = (
        warehouse.read("access_attribution", days)
        .groupBy(said("class").alias("name"))
        .agg(F.count(F.lit(1)).alias("n"), total("bytes_sent").alias("bytes"))
    )
    places = {name: place for place, name in enumerate(CLASSES)}
    found = values_of(ClassCount, rows)
    return tuple(sorted(found, key=lambda each: (places.get(each.name, len(places)), each.name)))


def unattributed(warehouse: Warehouse, days: Days) -> tuple[Unattributed, ...]:
    """Return the requests of each day, and those that nothing explains."""
    rows = (
        warehouse.read("access_attribution", days)
        .where(F.col(DAY).isNotNull())
        .groupBy(F.col(DAY).alias("day"))
        .agg(
            F.count(F.lit(1)).alias("total"),
            F.count_if(F.col("class") == "unattributed").alias("unattributed"),
            F.count_if(F.col("class") == "probable").alias("probable"),
        )
        .orderBy("day")
    )
    return values_of(Unattributed, rows)


def origins(warehouse: Warehouse, days: Days) -> tuple[UnexplainedRequests, ...]:
    """Return where the requests that nothing explains went, the most first."""
    rows = (
        warehouse.read("access_attribution", days)
        .where(F.col("class") == "unattributed")
        .groupBy(
            *(said(name).alias(name) for name in ("bucket", "op", "requester")),
            F.coalesce("status", F.lit(0)).alias("status"),
        )
        .agg(F.count(F.lit(1)).alias("n"), F.min("ts").alias("first"), F.max("ts").alias("last"))
        .orderBy(F.desc("n"), "bucket", "op", "status", "requester")
        .limit(MOST_ORIGINS)
    )
    return values_of(UnexplainedRequests, rows)


def costs(warehouse: Warehouse, days: Days) -> Costs:
    """Return what tables cost, the dearest first; by requests where nothing is priced."""
    priced = warehouse.read("table_cost", days).withColumn("table", table_name()).where(F.col("table") != "")
    sums = [total(name).alias(name) for name in ("requests", "bytes", "cost", "tax")]
    each = priced.withColumnRenamed("small_file_tax", "tax").groupBy("table").agg(*sums)
    whole = one(each.agg(F.count(F.lit(1)).alias("tables"), *sums))
    dearest = each.orderBy(F.desc("cost"), F.desc("requests"), "table").limit(MOST_TABLES)
    return Costs(
        tables=values_of(TableCost, dearest),
        all_tables=whole["tables"],
        requests=whole["requests"],
        bytes=whole["bytes"],
        cost=whole["cost"],
        tax=whole["tax"],
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
