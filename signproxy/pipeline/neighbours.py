"""Find the event that may stand behind a request which nothing proves: the last one for the same, and nobody else's.

An event is behind a request for the same bucket, key and method, by the same address or by a sidecar's loopback, within
the life of a signature. If two principals were given the same in that time, nobody can tell whose request it was.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.pipeline.matching import (
    CLOCK_SECONDS,
    COLUMNS,
    LOOPBACK,
    PROBABLE,
    REQUEST,
    SIGNATURE_SECONDS,
    TOLD,
    UNATTRIBUTED,
    WITHOUT_QUERY,
    Known,
    is_one_of,
    no_null,
)


def by_neighbour(rest: DataFrame, happened: DataFrame, known: Known) -> DataFrame:
    """Add the last event before a request that may stand behind it, where all that may are the same principal's."""
    asks = _may_be_neighbour(known)
    settled, asking = rest.where(~asks), rest.where(asks).select(*REQUEST)
    # An event whose request bears its stamp for all to see is behind no request without one.
    blind = asking.where(F.col("source").isin(*WITHOUT_QUERY)).select(F.col("bucket").alias("blind")).distinct()
    signed = happened.where((F.col("e_kind") == "sign") & (F.col("e_decision") == "allow"))
    candidates = signed.join(F.broadcast(blind), F.col("e_bucket") == F.col("blind"), "left").where(
        ~F.coalesce("e_stamped", F.lit(False)) | F.col("blind").isNotNull()
    )
    is_loopback = F.coalesce("e_remote_ip", F.lit("")).rlike(LOOPBACK)
    # Of a bucket with two logs, one may show what the other does not.
    shown = F.when(F.coalesce("e_stamped", F.lit(False)), F.array(F.lit(True))).otherwise(
        F.array(F.lit(True), F.lit(False))
    )
    marks = candidates.select(
        F.explode(shown).alias("p_blind"),
        F.col("e_bucket").alias("p_bucket"),
        F.when(F.coalesce("e_key_count", F.lit(0)) > 0, F.lit(""))
        .otherwise(F.coalesce("e_key", F.lit("")))
        .alias("p_key"),
        F.col("e_method").alias("p_method"),
        F.when(is_loopback, F.lit("")).otherwise(F.col("e_remote_ip")).alias("p_ip"),
        (F.unix_seconds("e_ts") - CLOCK_SECONDS).alias("p_at"),
        F.struct(*TOLD).alias("p_event"),
        F.lit(None).cast(asking.schema).alias("p_request"),
    )
    # Once for its own address, and once for events that saw a sidecar's loopback.
    seen = asking.select(
        F.col("source").isin(*WITHOUT_QUERY).alias("p_blind"),
        F.col("bucket").alias("p_bucket"),
        F.coalesce("key", F.lit("")).alias("p_key"),
        F.col("method").alias("p_method"),
        F.explode(F.array_distinct(F.array(F.coalesce("remote_ip", F.lit("")), F.lit("")))).alias("p_ip"),
        F.unix_seconds("ts").alias("p_at"),
        F.lit(None).cast(marks.schema["p_event"].dataType).alias("p_event"),
        F.struct(*REQUEST).alias("p_request"),
    )
    # The event that saw the same address counts before one that saw loopback.
    best = (
        _looking_back(marks.unionByName(seen))
        .groupBy("p_request.request_key")
        .agg(F.min_by("p_request", "p_rank").alias("p_request"), F.min_by("p_event", "p_rank").alias("p_event"))
    )
    is_found = F.col("p_event").isNotNull()
    found = best.select(
        "p_request.*",
        F.when(is_found, F.lit(PROBABLE)).otherwise(F.lit(UNATTRIBUTED)).alias("class"),
        *(F.col(f"p_event.{name}").alias(name) for name in TOLD),
        F.lit(False).alias("is_replayed"),
        *(F.lit(None).cast(rest.schema[name].dataType).alias(name) for name in COLUMNS if name.startswith("bad_")),
    )
    return settled.withColumn("class", F.coalesce("class", F.lit(UNATTRIBUTED))).unionByName(found)


def _may_be_neighbour(known: Known) -> Column:
    """Whether a request may be one that was signed without a stamp: nobody else's key, and nothing against it."""
    own = is_one_of(known.proxy) if known.proxy else F.lit(True)
    return no_null(
        F.col("class").isNull()
        & F.col("stamp").isNull()
        & ~F.col("is_claimed")
        & ~F.col("is_part")
        & F.col("requester").isNotNull()
        & F.col("method").isNotNull()
        & F.col("ts").isNotNull()
        & own
    )


def _looking_back(rows: DataFrame) -> DataFrame:
    """Return the requests, each with the last event before it, if there is one and all in reach are one principal's."""
    order = Window.partitionBy("p_blind", "p_bucket", "p_key", "p_method", "p_ip").orderBy(
        "p_at", F.col("p_request").isNotNull()
    )
    up_to = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    who = F.col("p_event.e_principal")
    last_who = F.last(F.col("p_event.e_principal"), ignorenulls=True).over(before)
    last_at = F.last(F.when(F.col("p_event").isNotNull(), F.col("p_at")), ignorenulls=True).over(before)
    marked = rows.withColumns(
        {
            # When somebody else than this event's principal was last given the same.
            "p_other": F.when(F.col("p_event").isNotNull() & (who != last_who), last_at),
            "p_last": F.last("p_event", ignorenulls=True).over(up_to),
            "p_last_at": F.last(F.when(F.col("p_event").isNotNull(), F.col("p_at")), ignorenulls=True).over(up_to),
        }
    ).withColumn("p_other", F.last("p_other", ignorenulls=True).over(up_to))
    reach = SIGNATURE_SECONDS + 2 * CLOCK_SECONDS
    near = (F.col("p_at") - F.col("p_last_at") <= reach) & (
        F.col("p_other").isNull() | (F.col("p_at") - F.col("p_other") > reach)
    )
    event = F.when(near, F.col("p_last"))
    rank = F.when(event.isNull(), 2).when(F.col("p_ip") == "", 1).otherwise(0)
    return marked.where(F.col("p_request").isNotNull()).select(
        "p_request", event.alias("p_event"), rank.alias("p_rank")
    )
