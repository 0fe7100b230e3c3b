"""Say what each table costs in requests and bytes, and how much of it small files make."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.errors import Finding, Invalid
from signproxy.pipeline.job import JobContext, Outcome
from signproxy.pipeline.prices import PriceList, read_prices
from signproxy.pipeline.schemas import DAY

SMALL_BYTES = 8 << 20
"""A file below this is read in one request, and more of them mean more requests for the same data."""
TARGET_BYTES = 128 << 20
"""The file that small ones could be parts of, read in ranges of `SMALL_BYTES` or more."""

_TABLE = ("catalog", "namespace", "table")
_NOT_CHARGED = ("BATCH.DELETE.OBJECT", "REST.COPY.OBJECT_GET", "REST.COPY.PART_GET")
"""Rows that belong to a request which has a row of its own: a bulk delete's keys, the source of a copy."""


def class_of() -> Column:
    """Return what a request is priced by, from its operation's name and its method."""
    op = F.upper(F.coalesce(F.col("op"), F.lit("")))
    method = F.upper(F.coalesce(F.col("method"), F.lit("")))
    deletes = op.contains("DELETE") | (method == "DELETE") | op.contains("ABORT")
    lists = op.contains("LIST") | op.rlike(r"^REST\.GET\.(BUCKET|UPLOADS|UPLOAD|LOCATION)") | op.contains("GETBUCKET")
    return (
        F.when(deletes, F.lit("delete"))
        .when(lists, F.lit("list"))
        .when((method == "HEAD") | op.startswith("HEAD") | op.startswith("REST.HEAD"), F.lit("head"))
        .when((method == "GET") | op.startswith("GET") | op.startswith("REST.GET"), F.lit("get"))
        .otherwise(F.lit("put"))
    )


def charged(requests: DataFrame) -> DataFrame:
    """Return the requests that a store charges for, each once: not its own failures, nor what it logs twice.

    What two logs of the same bucket and day tell counts by the access log.
    """
    own = requests.where(F.col("source") == "aws").select("bucket", DAY).distinct()
    again = own.withColumn("source", F.lit("cloudtrail"))
    served = F.coalesce(F.col("status"), F.lit(200)) < 500
    return requests.where(served & ~F.coalesce(F.col("op").isin(*_NOT_CHARGED), F.lit(False))).join(
        F.broadcast(again), ["bucket", DAY, "source"], "left_anti"
    )


def table_cost(requests: DataFrame, prices: PriceList, small: int = SMALL_BYTES) -> DataFrame:
    """Count and price requests and bytes by table, bucket and class.

    The small-file tax is what the reads of small data files cost beyond those that the same bytes would have needed in
    files of `TARGET_BYTES`. Metadata is small by nature and never taxed.
    """
    size = F.coalesce(F.col("object_size"), F.col("bytes_sent"), F.lit(0))
    is_small = (
        (F.col("class") == "get")
        & (size > 0)
        & (size < small)
        & ~F.coalesce(F.contains(F.col("key"), F.lit("/metadata/")), F.lit(False))
    )
    sent = F.coalesce(F.col("bytes_sent"), F.lit(0))
    counted = (
        charged(requests)
        .withColumn("class", class_of())
        .groupBy(*_TABLE, "bucket", "class", DAY)
        .agg(
            F.count(F.lit(1)).alias("requests"),
            F.sum(sent).alias("bytes"),
            F.count_if(is_small).alias("small_gets"),
            F.sum(F.when(is_small, sent).otherwise(0)).alias("small_bytes"),
        )
    )
    spark = requests.sparkSession
    priced = spark.createDataFrame(
        list(prices.rows()), "priced_bucket string, class string, request double, byte double"
    )
    named = list(prices.buckets)
    price_of = F.when(F.col("bucket").isin(*named), F.col("bucket")).otherwise(F.lit("")) if named else F.lit("")
    least = F.ceil(F.col("small_bytes") / F.lit(TARGET_BYTES))
    return (
        counted.withColumn("priced_bucket", price_of)
        .join(F.broadcast(priced), ["priced_bucket", "class"])
        .withColumns(
            {
                "cost": F.col("requests") * F.col("request") + F.col("bytes") * F.col("byte"),
                "small_file_tax": F.greatest(F.col("small_gets") - least, F.lit(0)) * F.col("request"),
            }
        )
        .drop("priced_bucket", "request", "byte")
    )


def run(context: JobContext) -> Outcome:
    """Price the attributed requests of the days that were asked for."""
    path = context.options.get("prices")
    if not path:
        raise Invalid([Finding("", "--prices", "names a price list (YAML or JSON)")])
    prices = read_prices(Path(path))
    warehouse = context.warehouse
    requests = warehouse.read("access_attribution", context.days)
    if requests.isEmpty():
        raise Invalid(
            [Finding("", "access_attribution", "holds nothing of these days: run `signproxy pipeline reconcile` first")]
        )
    small = int(context.options.get("small_mib") or SMALL_BYTES >> 20) << 20
    warehouse.replace_days("table_cost", table_cost(requests, prices, small), context.days)
    found = (
        warehouse.read("table_cost", context.days)
        .agg(
            F.sum("requests").alias("requests"),
            F.sum("cost").alias("cost"),
            F.sum("small_file_tax").alias("tax"),
            F.count(F.lit(1)).alias("rows"),
        )
        .first()
    )
    if found is None or not found["rows"]:
        return Outcome(notes=("there are no requests of these days",))
    unit = f" {prices.currency}" if prices.currency else ""
    return Outcome(
        found["requests"],
        found["rows"],
        notes=(f"{found['cost']:,.2f}{unit}, of which {found['tax']:,.2f} for small files",),
        numbers={"cost": found["cost"], "small_file_tax": found["tax"]},
    )
