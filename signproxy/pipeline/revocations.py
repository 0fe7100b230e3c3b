"""Find out what was withdrawn, and how long each withdrawn right went on to work, by the way it was used in."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.pipeline.findings import FindingClass, table_name
from signproxy.pipeline.lattice import READ_DATA, REMOTE_SIGN, WRITE_DATA

RELOAD_SECONDS = 60
"""A policy is in force on every worker that soon after it was changed; a decision that is later knew of it."""

_SUBJECT = ("principal", "privilege", "resource")


def revocations(lines: DataFrame, events: DataFrame) -> DataFrame:
    """Return what was withdrawn, when, and until when it was: `principal, privilege, resource, revoked_at, until`.

    An export may say it itself, in lines of the kind `revoked`. Otherwise it follows from two exports in succession:
    what stands in one and not in the next, and is not implied there by a grant further up, was withdrawn when an event
    first names the later one's `policy_rev`, or, if none does, when that was printed.
    """
    at = F.col("exported_at").try_cast("timestamp")
    heads = lines.where(F.col("kind") == "policy").select("file", "policy_rev", at.alias("printed"))
    first_seen = events.join(F.broadcast(heads.select("policy_rev").distinct()), "policy_rev", "left_semi")
    # The policy was in force when it decided; the event of a transfer is written when that has ended.
    decided = F.coalesce(F.col("decided_at").try_cast("timestamp"), F.col("ts"))
    in_force = first_seen.groupBy("policy_rev").agg(F.min(decided).alias("seen"))
    order = Window.orderBy("printed")
    succession = (
        heads.join(in_force, "policy_rev", "left")
        .withColumn("since", F.least("seen", "printed"))
        .withColumns({"next": F.lead("file").over(order), "gone_at": F.lead("since").over(order)})
        .select("file", "next", "gone_at")
    )
    granted = lines.where(F.col("kind") == "grant").select(
        "file", *_SUBJECT, F.col("granted_at").try_cast("timestamp").alias("granted_at")
    )
    later = granted.select(
        F.col("file").alias("next"), F.col("principal"), F.col("privilege"), F.col("resource").alias("up")
    )
    up = _and_what_is_above(F.col("resource"))
    gone = (
        granted.join(F.broadcast(succession), "file")
        .where(F.col("next").isNotNull())
        .withColumn("up", F.explode(up))
        .join(later.withColumn("stands", F.lit(1)), ["next", "principal", "privilege", "up"], "left")
        .groupBy(*_SUBJECT, "gone_at")
        .agg(F.max("stands").alias("stands"))
        .where(F.col("stands").isNull())
        .select(*_SUBJECT, F.col("gone_at").alias("revoked_at"))
    )
    said = lines.where(F.col("kind") == "revoked").select(
        *_SUBJECT, F.col("withdrawn_at").try_cast("timestamp").alias("revoked_at")
    )
    # What an export says of itself is more exact than what follows from two of them.
    known = said.select(*_SUBJECT).distinct()
    every = said.unionByName(gone.join(known, list(_SUBJECT), "left_anti")).dropDuplicates([*_SUBJECT, "revoked_at"])
    again = (
        granted.where(F.col("granted_at").isNotNull()).select(*_SUBJECT, F.col("granted_at").alias("again")).distinct()
    )
    return (
        every.join(again, list(_SUBJECT), "left")
        .groupBy(*_SUBJECT, "revoked_at")
        .agg(F.min(F.when(F.col("again") > F.col("revoked_at"), F.col("again"))).alias("until"))
        .where(F.col("revoked_at").isNotNull() & F.col("principal").isNotNull())
    )


def uses_after(revoked: DataFrame, attributed: DataFrame) -> DataFrame:
    """Return each served request of a right that was withdrawn, with what was withdrawn, once for each resource."""
    status = F.coalesce(F.col("status"), F.lit(0))
    served = attributed.where(
        F.col("class").isin("stamp", "request_id", "session")
        & (F.col("decision") == "allow")
        & (status.between(200, 299) | (status == 304))
    )
    rights = revoked.select(
        F.col("principal").alias("r_principal"), "privilege", "resource", "revoked_at", F.col("until").alias("r_until")
    )
    who = F.coalesce("effective_principal", "principal")
    within = F.col("ts") >= F.date_trunc("second", F.col("revoked_at"))
    before_again = F.col("r_until").isNull() | (F.col("ts") < F.col("r_until"))
    joined = served.withColumn("r_principal", who).join(F.broadcast(rights), "r_principal")
    # The withdrawn right is on the row's table, or above it.
    covers = F.array_contains(_and_what_is_above(F.concat(F.lit("table:"), table_name())), F.col("resource"))
    needed = joined.where(within & before_again & covers & _needs())
    return needed.groupBy("request_key", "resource", "revoked_at").agg(
        *(F.first(name).alias(name) for name in attributed.columns if name != "request_key"),
        F.first("r_principal").alias("r_principal"),
    )


def latency(revoked: DataFrame, uses: DataFrame) -> DataFrame:
    """Return the seconds from each revoke to the last success, by way; 0, and no way, where nothing succeeded."""
    way = F.when(F.col("way").isin("vend", "refresh"), F.lit("vend")).otherwise(F.col("way"))
    worked = uses.groupBy(F.col("r_principal").alias("principal"), "resource", "revoked_at", way.alias("kind")).agg(
        F.max("ts").alias("last_success"), F.count(F.lit(1)).alias("n")
    )
    seconds = F.greatest(F.lit(0), F.unix_timestamp("last_success") - F.unix_timestamp("revoked_at"))
    each = revoked.select("principal", "resource", "revoked_at").distinct()
    return each.join(worked, ["principal", "resource", "revoked_at"], "left").select(
        "principal",
        "resource",
        F.coalesce("kind", F.lit("")).alias("kind"),
        "revoked_at",
        "last_success",
        F.coalesce(seconds, F.lit(0)).cast("double").alias("seconds"),
        F.coalesce("n", F.lit(0)).alias("n"),
    )


def late(uses: DataFrame, reload_seconds: int = RELOAD_SECONDS) -> DataFrame:
    """Return the uses that no signature's, session's or reload's life accounts for, shaped for `findings_of`.

    A decision after the revoke is late, whatever it allowed; so is the use of vended keys after their end. A transfer
    that was decided before the revoke and ended after it is not late.
    """
    decided_at = F.coalesce("decided_at", "event_ts")
    decided = F.unix_timestamp(decided_at) - F.unix_timestamp("revoked_at")
    over = F.col("way").isin("vend", "refresh") & (
        F.unix_timestamp("ts") > F.unix_timestamp(F.col("expires_at").try_cast("timestamp")) + reload_seconds
    )
    is_late = (decided > reload_seconds) | F.coalesce(over, F.lit(False))
    return uses.where(is_late).withColumn("faults", F.array(F.lit(FindingClass.LATE_AFTER_REVOKE.code)))


def _and_what_is_above(resource: Column) -> Column:
    """Return a resource and all that a grant on which reaches it: `table:lake.sales.orders` up to `catalog:lake`."""
    name = F.substring_index(resource, ":", -1)
    parts = F.split(name, "[.]")
    catalog = F.concat(F.lit("catalog:"), F.element_at(parts, 1))
    count = F.size(parts)
    namespaces = F.transform(
        F.when(count >= 2, F.sequence(F.lit(2), count)).otherwise(F.array().cast("array<int>")),
        lambda length: F.concat(F.lit("namespace:"), F.array_join(F.slice(parts, F.lit(1), length), ".")),
    )
    return F.array_distinct(F.concat(F.array(resource), namespaces, F.array(catalog)))


def _needs() -> Column:
    """Whether the row needed the privilege."""
    reads = F.col("method").isin("GET", "HEAD")
    needed = {READ_DATA: reads, WRITE_DATA: ~reads, REMOTE_SIGN: F.col("way").isin("sign", "forward")}
    held = [F.when(F.col("privilege") == privilege, condition) for privilege, condition in needed.items()]
    return F.coalesce(*held, F.lit(False))
