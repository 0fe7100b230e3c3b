"""Hold what was granted against what was used, and say which grants could go."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.pipeline.lattice import (
    BREADTH,
    CALLS_ANYWHERE,
    NEVER_SEEN,
    READ_DATA,
    REMOTE_SIGN,
    SATISFIED_BY,
    SEEN_ON_OBJECTS,
)
from signproxy.pipeline.places import around, place
from signproxy.pipeline.uses import NEEDS, TrailSpan


class GrantState:
    """What became of a grant, as `grant_use` says it."""

    USED = "used"
    UNUSED = "unused"
    TOO_YOUNG = "too_young"
    NOT_OBSERVED = "not_observed"
    """Its use would leave no trace here, so that nothing is said of it."""


class Action:
    """What is recommended."""

    WITHDRAW_GRANT = "withdraw_grant"
    """No principal that has it uses it."""
    TAKE_ROLE = "take_role"
    """One principal uses nothing of a role that others use."""
    WAIT = "wait"
    """It would be withdrawn, had the trail been kept for long enough."""


class Period(msgspec.Struct, frozen=True):
    """From when on a grant counts as unused."""

    trail: TrailSpan
    age: int = 90
    """Days without use, and as long must a grant have stood."""
    observed: int | None = None
    """Days that the trail must reach over before anything is recommended; None: as `age`."""

    @property
    def suffices(self) -> bool:
        """Whether the trail is long enough to speak of disuse. A first and a last day may be begun ones."""
        return self.trail.days + 1 >= (self.age if self.observed is None else self.observed)


def stood_on(grants: DataFrame, used: DataFrame) -> DataFrame:
    """Return (grant_id, n, last) of the grants that uses stood on.

    A use stands on the narrowest privilege that its principal has for it, at whatever level and by whatever role: of
    reading and writing that both allow to read, reading is in use. So whatever is not in use can go at once, and every
    use still stands.
    """
    wanted = used.sparkSession.createDataFrame(
        [
            (kind, needed, given, BREADTH[given])
            for kind, needs in NEEDS.items()
            for needed in needs
            for given in (needed, *SATISFIED_BY[needed])
        ],
        "need string, needed string, privilege string, breadth int",
    )
    anywhere = [f"call-{call}" for call in CALLS_ANYWHERE]
    held = grants.select("grant_id", "principal", "privilege", "catalog", place().alias("granted"))
    placed = used.where(~F.col("need").isin(*anywhere)).select(
        "principal", "need", "place", "n", "last", F.explode(around("place")).alias("granted")
    )
    stood = _narrowest(placed.join(held.drop("catalog"), ["principal", "granted"]), wanted)
    loose = used.where(F.col("need").isin(*anywhere)).select("principal", "need", "place", "catalog", "n", "last")
    # Where a call names places that the event lacks, whatever may have allowed it counts.
    might = loose.join(held, ["principal", "catalog"]).join(F.broadcast(wanted), ["need", "privilege"])
    each = stood.union(might.select("grant_id", "n", "last")).union(_copied(grants, used))
    return each.groupBy("grant_id").agg(F.sum("n").alias("n"), F.max("last").alias("last"))


def grant_use(grants: DataFrame, used: DataFrame, period: Period, catalogs: Sequence[str]) -> DataFrame:
    """Return each grant with its use and its state; `catalogs` are those whose own calls are seen."""
    since = F.lit(period.trail.since(period.age))
    seen = F.col("privilege").isin(*SEEN_ON_OBJECTS) | (
        F.col("catalog").isin(*catalogs) & ~F.col("privilege").isin(*NEVER_SEEN)
    )
    state = (
        F.when(F.col("last_used") >= since, F.lit(GrantState.USED))
        .when(F.col("granted_at") > since, F.lit(GrantState.TOO_YOUNG))
        .when(~seen, F.lit(GrantState.NOT_OBSERVED))
        .otherwise(F.lit(GrantState.UNUSED))
    )
    use = stood_on(grants, used).select("grant_id", F.col("n").alias("uses_90d"), F.col("last").alias("last_used"))
    return (
        grants.drop("event_date")
        .join(use, "grant_id", "left")
        .withColumn("uses_90d", F.coalesce(F.col("uses_90d"), F.lit(0)))
        .withColumn("state", state)
    )


def recommendations(judged: DataFrame, period: Period) -> DataFrame:
    """Return what could be taken from the policy without taking a use from any principal.

    A policy grants to roles: a grant can go where none of those who have it uses it; a principal can lose a role of
    which it uses nothing.
    """
    unused = F.col("state") == GrantState.UNUSED
    as_written = ("via_role", "privilege", "resource", "catalog", "namespace", "table", "volume")
    whole = (
        judged.groupBy(*as_written)
        .agg(
            F.min(unused).alias("idle"),
            F.min("grant_id").alias("grant_id"),
            F.count_distinct("principal").alias("principals"),
            F.max("last_used").alias("last_used"),
        )
        .where("idle")
    )
    action = Action.WITHDRAW_GRANT if period.suffices else Action.WAIT
    days = F.lit(f" in {min(period.age, round(period.trail.days + 0.5))} days")
    withdrawn = whole.drop("idle").withColumns(
        {
            "action": F.lit(action),
            "reason": F.when(F.col("principals") == 0, F.lit("no principal has it")).otherwise(
                F.concat(F.lit("none of "), F.col("principals"), F.lit(" principals used it"), days)
            ),
        }
    )
    # What goes altogether need not be taken from a principal.
    left = judged.where(F.col("principal").isNotNull() & F.col("principal_role").isNotNull()).join(
        whole.select(*as_written[:3]), list(as_written[:3]), "left_anti"
    )
    taken = (
        left.where("declared")
        .groupBy("principal", "principal_role")
        .agg(F.min(unused).alias("idle"), F.min("grant_id").alias("grant_id"), F.max("last_used").alias("last_used"))
        .where("idle")
        .drop("idle")
        .withColumns(
            {
                "action": F.lit(Action.TAKE_ROLE if period.suffices else Action.WAIT),
                "principals": F.lit(1).cast("bigint"),
                "reason": F.concat(F.lit("the principal used nothing of the role"), days),
            }
        )
    )
    return withdrawn.unionByName(taken, allowMissingColumns=True)


def _narrowest(matched: DataFrame, wanted: DataFrame) -> DataFrame:
    """Return (grant_id, n, last) of those with the least breadth, for each use and each privilege that it needs."""
    each = (
        matched.join(F.broadcast(wanted), ["need", "privilege"])
        .groupBy("principal", "place", "need", "needed", "n", "last")
        .agg(F.collect_set(F.struct("breadth", "grant_id")).alias("found"))
    )
    least = F.array_min("found").getField("breadth")
    found = each.select("n", "last", F.explode("found").alias("one"), least.alias("least"))
    return found.where(F.col("one.breadth") == F.col("least")).select(
        F.col("one.grant_id").alias("grant_id"), "n", "last"
    )


def _copied(grants: DataFrame, used: DataFrame) -> DataFrame:
    """Return (grant_id, n, last) of the grants that copies read their source by: those that their rules name."""
    readers = sorted({given for needed in (READ_DATA, REMOTE_SIGN) for given in (needed, *SATISFIED_BY[needed])})
    readers += ["VOLUME_READ_DATA", "VOLUME_WRITE_DATA", "VOLUME_MANAGE"]
    copies = used.where(F.col("rules").isNotNull()).select("principal", "rules", "n", "last")
    held = grants.where(F.col("privilege").isin(*readers)).select(
        "grant_id", "principal", F.concat_ws("@", "via_role", "resource").alias("rule")
    )
    return (
        copies.join(held, "principal").where(F.contains(F.col("rules"), F.col("rule"))).select("grant_id", "n", "last")
    )
