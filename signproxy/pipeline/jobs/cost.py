"""Say what each table costs in requests and bytes, and how much of it small files make."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.errors import Finding, Invalid
from signproxy.pipeline.job import JobContext, JobOutcome, options_of
from signproxy.pipeline.matching import PARTS_OF_A_REQUEST
from signproxy.pipeline.schemas import DAY

SMALL_BYTES = 8 << 20
"""A file below this is read in one request, and more of them mean more requests for the same data."""
TARGET_BYTES = 128 << 20
"""The file that small ones could be parts of, read in ranges of `SMALL_BYTES` or more."""

CLASSES = ("get", "head", "list", "put", "delete")
"""What requests are priced by."""

PER_REQUESTS = 1000
PER_BYTES = 10**9
MAX_BYTES = 1 << 20

_TABLE = ("catalog", "namespace", "table")


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
    return requests.where(served & ~F.coalesce(F.col("op").isin(*PARTS_OF_A_REQUEST), F.lit(False))).join(
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


def run(context: JobContext) -> JobOutcome:
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
    small = options_of(context, "cost")["small_mib"] << 20
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
        return JobOutcome(notes=("there are no requests of these days",))
    unit = f" {prices.currency}" if prices.currency else ""
    return JobOutcome(
        found["requests"],
        found["rows"],
        notes=(f"{found['cost']:,.2f}{unit}, of which {found['tax']:,.2f} for small files",),
        numbers={"cost": found["cost"], "small_file_tax": found["tax"]},
    )


class Prices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Prices of a bucket; what is left out costs what it costs by default, and nothing there."""

    requests: Mapping[str, float] = {}
    """By class: of a thousand requests."""
    egress: float | None = None
    """Of a gigabyte (10^9 bytes) that is read."""


class PriceList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A price list as a file holds it."""

    currency: str = ""
    default: Prices = Prices()
    buckets: Mapping[str, Prices] = {}

    def rows(self) -> Iterator[tuple[str, str, float, float]]:
        """Yield bucket ('' for all that have no prices of their own), class, price of a request, price of a byte."""
        for bucket, prices in {"": self.default, **self.buckets}.items():
            egress = self.default.egress if prices.egress is None else prices.egress
            for each in CLASSES:
                request = prices.requests.get(each, self.default.requests.get(each, 0.0))
                yield bucket, each, request / PER_REQUESTS, (egress or 0.0) / PER_BYTES


def read_prices(path: Path) -> PriceList:
    """Return the price list of a YAML or JSON file. Raise Invalid."""
    file = str(path)
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
        text = raw.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise _invalid(file, f"cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}") from None
    if len(raw) > MAX_BYTES:
        raise _invalid(file, f"is larger than {MAX_BYTES} bytes")
    # Of JSON no other library is asked: a bare Spark image, which lacks the one for YAML, can read prices in JSON.
    language, decode = ("JSON", msgspec.json.decode) if file.endswith(".json") else ("YAML", msgspec.yaml.decode)
    try:
        found = msgspec.convert(decode(text), PriceList)
    except msgspec.ValidationError as error:
        raise _invalid(file, str(error)) from None
    except msgspec.DecodeError as error:
        raise _invalid(file, f"is no {language}: {str(error).splitlines()[0]}") from None
    for bucket, prices in {"default": found.default, **found.buckets}.items():
        unknown = sorted(set(prices.requests) - set(CLASSES))
        if unknown:
            raise _invalid(file, f"{bucket}: {unknown[0]!r} is none of {', '.join(CLASSES)}")
        if any(price < 0 for price in (*prices.requests.values(), prices.egress or 0.0)):
            raise _invalid(file, f"{bucket}: a price is below zero")
    return found


def _invalid(file: str, problem: str) -> Invalid:
    return Invalid([Finding(file, "", problem)])
