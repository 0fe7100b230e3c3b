"""Find the event that may stand behind a request which nothing proves: the last for the same, if of one principal.

A signed request is of the same bucket, key and method as its event, by the same address or by a sidecar's loopback,
within the life of the signature. A forwarded one is of the same bucket, key and method, by any address, from when the
event says that it began. If two principals were given the same in that time, it is not known whose request it was.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.pipeline.matching import (
    CLOCK_SECONDS,
    LOOPBACK,
    MARKS,
    PROBABLE,
    REQUEST,
    SIGNATURE_SECONDS,
    TOLD,
    UNATTRIBUTED,
    WITHOUT_QUERY,
    KnownRequesters,
    is_one_of,
    no_null,
)


def by_neighbour(rest: DataFrame, happened: DataFrame, known: KnownRequesters) -> DataFrame:
    """Add the last event before a request that may stand behind it, where all that may are the same principal's."""
    asks = _may_be_neighbour(known)
    settled, asking = rest.where(~asks), rest.where(asks).select(*REQUEST)
    candidates = _candidates(happened, asking)
    is_forward = F.col("e_kind") == "forward"
    # The store sees signproxy's own address where it forwards.
    is_anywhere = is_forward | F.coalesce("e_remote_ip", F.lit("")).rlike(LOOPBACK)
    # Of a bucket with two logs, one may show what the other does not.
    shown = F.when(F.coalesce("e_stamped", F.lit(False)), F.array(F.lit(True))).otherwise(
        F.array(F.lit(True), F.lit(False))
    )
    # A forwarded request has its event when it is over; its store may log it at any time of that.
    lasted = F.when(is_forward, F.coalesce("e_total_us", F.lit(0)) / 1_000_000).otherwise(F.lit(0)).cast("long")
    begun = F.unix_seconds("e_ts") - lasted - CLOCK_SECONDS
    marks = candidates.select(
        F.explode(shown).alias("p_blind"),
        F.coalesce("e_bucket", F.lit("")).alias("p_bucket"),
        F.when(F.coalesce("e_key_count", F.lit(0)) > 0, F.lit(""))
        .otherwise(F.coalesce("e_key", F.lit("")))
        .alias("p_key"),
        F.col("e_method").alias("p_method"),
        F.when(is_anywhere, F.lit("")).otherwise(F.col("e_remote_ip")).alias("p_ip"),
        begun.alias("p_at"),
        (begun + lasted + SIGNATURE_SECONDS + 2 * CLOCK_SECONDS).alias("p_until"),
        F.struct(*TOLD).alias("p_event"),
    )
    # Once for its own address, and once for events that saw a sidecar's loopback.
    seen = asking.select(
        F.col("source").isin(*WITHOUT_QUERY).alias("p_blind"),
        F.coalesce("bucket", F.lit("")).alias("p_bucket"),
        F.coalesce("key", F.lit("")).alias("p_key"),
        F.col("method").alias("p_method"),
        F.explode(F.array_distinct(F.array(F.coalesce("remote_ip", F.lit("")), F.lit("")))).alias("p_ip"),
        F.unix_seconds("ts").alias("p_at"),
        F.struct(*REQUEST).alias("p_request"),
    )
    # The event that saw the same address counts before one that saw loopback.
    best = (
        _looking_back(marks.unionByName(seen, allowMissingColumns=True))
        .groupBy("p_request.request_key")
        .agg(
            F.min_by("p_request", "p_rank").alias("p_request"),
            F.min_by("p_event", "p_rank").alias("p_event"),
            F.bool_or("p_disputed").alias("p_disputed"),
        )
    )
    is_found = F.col("p_event").isNotNull()
    marked = {name: F.lit(False) for name in MARKS} | {"is_disputed": ~is_found & F.col("p_disputed")}
    found = best.select(
        "p_request.*",
        F.when(is_found, F.lit(PROBABLE)).otherwise(F.lit(UNATTRIBUTED)).alias("class"),
        *(F.col(f"p_event.{name}").alias(name) for name in TOLD),
        *(column.alias(name) for name, column in marked.items()),
    )
    return settled.withColumn("class", F.coalesce("class", F.lit(UNATTRIBUTED))).unionByName(
        found, allowMissingColumns=True
    )


def _candidates(happened: DataFrame, asking: DataFrame) -> DataFrame:
    """Return the events that may stand behind a request which shows neither stamp nor id.

    An event whose request bears its stamp for all to see is behind no request without one, nor one that knows the
    store's id of its request behind a request with another id.
    """
    blind = asking.where(F.col("source").isin(*WITHOUT_QUERY)).select(F.col("bucket").alias("blind")).distinct()
    nameless = asking.where(F.col("request_id").isNull()).select(F.col("bucket").alias("nameless")).distinct()
    signed = (F.col("e_kind") == "sign") & (F.col("e_decision") == "allow")
    # What was refused on its way may have been at the store.
    sent = (F.col("e_decision") != "deny") | (F.coalesce("e_upstream_us", F.lit(0)) > 0)
    is_unknown = F.coalesce("e_upstream_request_id", F.lit("")) == ""
    is_one_of_several = F.coalesce("e_upstream_repeats", F.lit(0)) > 0
    forwarded = (F.col("e_kind") == "forward") & sent & (is_unknown | is_one_of_several | F.col("nameless").isNotNull())
    hidden = ~F.coalesce("e_stamped", F.lit(False)) | F.col("blind").isNotNull()
    return (
        happened.where(F.col("e_kind").isin("sign", "forward"))
        .join(F.broadcast(blind), F.col("e_bucket") == F.col("blind"), "left")
        .join(F.broadcast(nameless), F.col("e_bucket") == F.col("nameless"), "left")
        .where((signed | forwarded) & hidden)
    )


def _may_be_neighbour(known: KnownRequesters) -> Column:
    """Whether a request may be one that shows no stamp: no other principal's key, and nothing against it."""
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
    """Return the requests, each with the last event before it, if there is one and all in reach are one principal's.

    Where several principals' are in reach it is disputed.
    """
    order = Window.partitionBy("p_blind", "p_bucket", "p_key", "p_method", "p_ip").orderBy(
        "p_at", F.col("p_request").isNotNull()
    )
    up_to = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    is_event = F.col("p_event").isNotNull()
    who = F.col("p_event.e_principal")
    last_who = F.last(F.col("p_event.e_principal"), ignorenulls=True).over(before)
    until = F.max("p_until").over(before)
    marked = rows.withColumns(
        {
            # How long a principal other than this event's could do what was given the same.
            "p_other": F.when(is_event & (who != last_who), until),
            "p_last": F.last("p_event", ignorenulls=True).over(up_to),
            "p_last_until": F.last("p_until", ignorenulls=True).over(up_to),
        }
    ).withColumn("p_other", F.max("p_other").over(up_to))
    is_near = F.col("p_at") <= F.col("p_last_until")
    is_disputed = no_null(is_near & (F.col("p_at") <= F.col("p_other")))
    event = F.when(is_near & ~is_disputed, F.col("p_last"))
    rank = F.when(event.isNull(), 2).when(F.col("p_ip") == "", 1).otherwise(0)
    return marked.where(F.col("p_request").isNotNull()).select(
        "p_request", event.alias("p_event"), rank.alias("p_rank"), is_disputed.alias("p_disputed")
    )
