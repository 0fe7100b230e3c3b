"""Tell the uses of one signature apart: the one that it was given for, a retry, and one too many."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.pipeline.matching import CACHE_SECONDS, SIGNATURE_SECONDS, no_null


def with_uses(judged: DataFrame) -> DataFrame:
    """Add whether a row is the same as the one before it, and whether it is a use too many of its signature.

    A use is an answer that the store gave to a client that had the signature. A client that got none that is whole asks
    again, by the same signature: such a use is a retry, if it is the same client's. The second use is the one that is
    too many.
    """
    # A log may count whole seconds: of one second, what was worth nothing came first.
    in_order = Window.partitionBy("stamp").orderBy(
        "ts", F.col("is_worthless").desc(), F.col("bytes_sent").asc_nulls_first(), "request_key"
    )
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    status = F.coalesce(F.col("status"), F.lit(0))
    answered = (status >= 200) & (status < 500) & ~status.isin(301, 307, 400, 401, 403)
    counts = F.col("holds") & ~F.col("is_part")
    failed = status >= 500
    reads = F.col("method") == "GET"
    # Null where the log does not tell, as versitygw's: what is not known is no excuse.
    cut = no_null(reads & (status == 200) & (F.col("bytes_sent") < F.col("object_size")))
    age = F.unix_timestamp("ts") - F.unix_timestamp("e_ts")
    since = F.unix_timestamp("ts") - F.unix_timestamp(F.col("first_use"))
    is_cached = F.coalesce(F.col("e_cacheable"), F.lit(False)) & (since <= CACHE_SECONDS)
    too_old = (age > SIGNATURE_SECONDS) & counts & ~F.col("is_claimed")
    last = F.struct("client", "is_worthless", "status", "bytes_sent", "object_size")
    # How much of a range was asked for stands in no log: of one that was cut off, the next answer has more.
    is_open = (F.col("last.status") == 206) | F.col("last.object_size").isNull()
    was_cut = no_null(reads & (F.col("last.status") < 300) & is_open & (F.col("last.bytes_sent") < F.col("bytes_sent")))
    is_retry = (F.col("last.client") == F.col("client")) & (F.col("last.is_worthless") | was_cut)
    # What signproxy itself sent again for one event, or page after page.
    own = no_null((F.col("e_kind") == "forward") & (F.col("tries") <= F.coalesce("e_upstream_repeats", F.lit(0))))
    again = F.col("is_used") & F.col("last").isNotNull() & ~is_cached & ~own
    return (
        judged.withColumn("is_worthless", failed | (status == 404) | cut)
        .withColumn(
            "is_repeated", F.coalesce(F.lag("request_key").over(in_order) == F.col("request_key"), F.lit(False))
        )
        .withColumns({"is_used": counts & answered, "is_tried": counts & (answered | failed) & ~F.col("is_repeated")})
        .withColumns(
            {
                "first_use": F.min(F.when(F.col("is_tried"), F.col("ts"))).over(before),
                "last": F.last(F.when(F.col("is_tried"), last), ignorenulls=True).over(before),
                "tries": F.count_if("is_tried").over(before),
            }
        )
        .withColumns(
            {
                "is_retried": no_null(again & is_retry & ~too_old),
                "is_replayed": no_null((again & ~is_retry) | too_old),
            }
        )
    )
