"""Measure how far a principal's rights reach, how much of it was ever held at once, and how much was used."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.pipeline.lattice import READ_DATA, REMOTE_SIGN, SATISFY_DATA
from signproxy.pipeline.places import around, both, place, table_place, tables_below, topmost
from signproxy.pipeline.uses import TrailSpan, effective, table_uses

_KEYS = ("sign", "vend")
"""Ways that hand out something which can be stolen and used for itself; what is forwarded leaves nothing behind."""

SLICE_SECONDS = 60
"""No signature or key lives shorter, so that what begins in one slice overlaps, and one interval stands for it."""

_WINDOWS = (7, 30, 90)
_WILDCARDS = "[*?]"


def entitled(grants: DataFrame, tables: DataFrame) -> DataFrame:
    """Count the tables that each principal may read or write.

    Writing implies reading. Every way needs TABLE_REMOTE_SIGN besides. Nothing is expanded to tables: of each
    principal's places those count that lie in no other one of the same principal, with the tables that are below them.
    """
    held = grants.where(F.col("principal").isNotNull() & F.isnull(F.nullif(F.col("volume"), F.lit(""))))
    placed = held.select("principal", "privilege", place().alias("place"))
    readable, signed = (
        placed.where(F.col("privilege").isin(*SATISFY_DATA[needed])).select("principal", "place").distinct()
        for needed in (READ_DATA, REMOTE_SIGN)
    )
    reached = both(topmost(readable), topmost(signed))
    return reached.join(tables_below(tables), "place").groupBy("principal").agg(F.sum("tables").alias("entitled"))


def held(events: DataFrame) -> DataFrame:
    """Return, by principal and way, how many tables were open at once to a thief of everything that was valid.

    A table counts from the moment that something for it was handed out until the last of it ends.
    """
    ends = F.try_to_timestamp(F.col("expires_at"))
    handed = events.where(F.col("kind").isin(*_KEYS, "refresh") & (F.col("decision") == "allow")).select(
        effective().alias("principal"),
        F.when(F.col("kind") == "refresh", F.lit("vend")).otherwise(F.col("kind")).alias("mode"),
        # Compared millions of times, and only ever counted.
        F.xxhash64("catalog", "namespace", "table").alias("table"),
        "ts",
        ends.alias("ends"),
    )
    by = ("principal", "mode", "table")
    sliced = (
        handed.where(F.col("ends") > F.col("ts"))
        .groupBy(*by, F.floor(F.unix_seconds("ts") / SLICE_SECONDS).alias("slice"))
        .agg(F.min(F.unix_micros("ts")).alias("begins"), F.max(F.unix_micros("ends")).alias("ends"))
    )
    before = Window.partitionBy(*by).orderBy("begins").rowsBetween(Window.unboundedPreceding, -1)
    numbered = sliced.withColumn("until", F.max("ends").over(before)).withColumn(
        "island",
        F.count_if(F.col("until").isNull() | (F.col("begins") > F.col("until"))).over(
            Window.partitionBy(*by).orderBy("begins")
        ),
    )
    islands = numbered.groupBy(*by, "island").agg(F.min("begins").alias("begins"), F.max("ends").alias("ends"))
    steps = islands.select("principal", "mode", F.col("begins").alias("at"), F.lit(1).alias("step")).union(
        islands.select("principal", "mode", F.col("ends").alias("at"), F.lit(-1).alias("step"))
    )
    # At one moment ends come before beginnings: an end is not included.
    at_each = steps.groupBy("principal", "mode", "at").agg(F.sum("step").alias("step"))
    one = Window.partitionBy("principal", "mode").orderBy("at")
    swept = at_each.withColumns({"open": F.sum("step").over(one), "next": F.lead("at").over(one)})
    lasting = F.col("open") * (F.col("next") - F.col("at")) / 1e6
    return swept.groupBy("principal", "mode").agg(
        F.max("open").alias("held_max"), F.coalesce(F.sum(lasting), F.lit(0.0)).alias("exposure_table_seconds")
    )


def with_keys(events: DataFrame) -> DataFrame:
    """Return the events, and once more, as `vend`, those of catalog calls whose answers keys came with."""
    came_with = (F.col("kind") == "catalog") & (F.coalesce(F.col("access_key_id"), F.lit("")) != "")
    return events.union(events.where(came_with).withColumn("kind", F.lit("vend")))


def effective_reach(events: DataFrame, tables: DataFrame) -> DataFrame:
    """Return, by principal, how many tables the widest vended key opens, and how many beyond its own in all.

    What a key opens is what its prefixes say, held against where every table lies; a wildcard that is left in a prefix
    is taken for one.
    """
    keys = (
        events.where(F.col("kind").isin("vend", "refresh") & (F.col("decision") == "allow") & (F.size("prefixes") > 0))
        .select(effective().alias("principal"), place().alias("own"), "prefixes")
        .distinct()
    )
    prefixes = keys.select("*", F.explode("prefixes").alias("prefix")).withColumn(
        "prefix", F.regexp_replace("prefix", r"^s3[an]?://|/?\*?$", "")
    )
    lying = tables.select(table_place().alias("opened"), F.explode("locations").alias("text")).select(
        "opened", F.rtrim(F.regexp_replace("text", r"^s3[an]?://", ""), F.lit("/")).alias("location")
    )
    plain = prefixes.where(~F.col("prefix").rlike(_WILDCARDS))
    # A table lies below a prefix, or the prefix lies in the table: equal names on the way down, both ways.
    below = lying.select("opened", F.explode(around("location", "/")).alias("prefix"))
    inside = plain.select("*", F.explode(around("prefix", "/")).alias("location")).join(lying, "location")
    glob = F.concat(F.lit("^"), F.regexp_replace(_quoted("prefix"), r"\\\*|\\\?", ".*"))
    wild = prefixes.where(F.col("prefix").rlike(_WILDCARDS)).withColumn("glob", glob)
    matched = wild.join(lying, F.rlike(F.col("location"), F.col("glob")))
    columns = ("principal", "own", "prefixes", "opened")
    opened = (
        plain.join(below, "prefix")
        .select(*columns)
        .union(inside.select(*columns))
        .union(matched.select(*columns))
        .distinct()
    )
    each = opened.groupBy("principal", "own", "prefixes").agg(
        F.count(F.lit(1)).alias("opened"), F.count_if(F.col("opened") != F.col("own")).alias("beyond")
    )
    return each.groupBy("principal").agg(F.max("opened").alias("effective_max"), F.sum("beyond").alias("violations"))


def used_tables(used: DataFrame, trail: TrailSpan) -> DataFrame:
    """Count the tables that each principal touched in the last days of the trail."""
    each = table_uses(used)
    return each.groupBy("principal").agg(
        *(F.count_if(F.col("last") >= F.lit(trail.since(days))).alias(f"used_tables_{days}d") for days in _WINDOWS)
    )


def blast_radius(
    events: DataFrame, used: DataFrame, grants: DataFrame, tables: DataFrame, trail: TrailSpan
) -> DataFrame:
    """Return how much each principal could reach, held, and used: a row for each way that it came by.

    `reduction_factor` is how many times fewer tables a thief of everything valid would have opened than a static key
    that opens all of them; there is none where nothing was handed out.
    """
    events = with_keys(events)
    n_root = tables.select(table_place().alias("place")).distinct().agg(F.count(F.lit(1)).alias("n_root"))
    came = (
        events.where(F.col("kind").isin("sign", "forward", "vend") & (F.col("decision") == "allow"))
        .select(effective().alias("principal"), F.col("kind").alias("mode"))
        .distinct()
    )
    may = entitled(grants, tables)
    absent = may.join(came, "principal", "left_anti").select("principal", F.lit("none").alias("mode"))
    wide = effective_reach(events, tables).withColumn("mode", F.lit("vend"))
    seconds = max((trail.last - trail.first).total_seconds(), 1.0)
    counts = [f"used_tables_{days}d" for days in _WINDOWS]
    return (
        came.union(absent)
        .join(may, "principal", "left")
        .join(held(events), ["principal", "mode"], "left")
        .join(wide, ["principal", "mode"], "left")
        .join(used_tables(used, trail), "principal", "left")
        .crossJoin(F.broadcast(n_root))
        .fillna(0, ["entitled", "held_max", "exposure_table_seconds", *counts])
        .withColumns(
            {
                "held_avg": F.col("exposure_table_seconds") / F.lit(seconds),
                "reduction_factor": F.when(F.col("held_max") > 0, F.col("n_root") / F.col("held_max")),
                "over_entitlement": F.when(
                    F.col("entitled") > 0,
                    F.greatest(F.lit(0.0), F.lit(1.0) - F.col("used_tables_30d") / F.col("entitled")),
                ),
            }
        )
    )


def _quoted(column: str) -> Column:
    """Return text as a regular expression that matches just it."""
    return F.regexp_replace(F.col(column), r"([\\.+*?\[\]^$(){}|])", r"\\$1")
