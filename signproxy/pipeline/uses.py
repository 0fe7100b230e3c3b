"""Sum up what was used: who touched which place, what that needed, and when last."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.pipeline.lattice import (
    CALLS,
    COPIES,
    READ_DATA,
    REMOTE_SIGN,
    VOLUME_READ,
    VOLUME_WRITE,
    WRITE_DATA,
    WRITING_LISTS,
)
from signproxy.pipeline.places import place

_OBJECTS = ("sign", "forward", "vend", "refresh")
_CALL = "catalog"
_WRITES = ("write", "delete", "read-write")

NEEDS: dict[str, tuple[str, ...]] = {
    "read": (REMOTE_SIGN, READ_DATA),
    "write": (REMOTE_SIGN, WRITE_DATA),
    "volume-read": (VOLUME_READ,),
    "volume-write": (VOLUME_WRITE,),
    **{f"call-{call}": privileges for call, privileges in CALLS.items()},
}
"""What a use needs, by its kind. Keys are handed out for what would be signed, and for nothing else."""

_ON_TABLES = ("read", "write")


class TrailSpan(msgspec.Struct, frozen=True):
    """What the audit trail reaches over."""

    first: datetime
    last: datetime
    """Its last event: whatever is said of now is said of then, for what came later is not known."""

    def since(self, days: int) -> datetime:
        """Return the time so many days before its end."""
        return self.last - timedelta(days=days)

    @property
    def days(self) -> float:
        """How long it is."""
        return (self.last - self.first) / timedelta(days=1)


def trail_of(events: DataFrame) -> TrailSpan | None:
    """Return what the trail reaches over; None where it is empty."""
    found = events.agg(F.min("ts").alias("first"), F.max("ts").alias("last")).first()
    return None if found is None or found["first"] is None else TrailSpan(found["first"], found["last"])


def effective() -> Column:
    """Return whose rights an event was judged by."""
    return F.coalesce(F.nullif(F.col("effective_principal"), F.lit("")), F.col("principal"))


def uses(events: DataFrame, since: datetime) -> DataFrame:
    """Count what was allowed by principal, place and what it needed; `n` from a time on, `last` ever.

    What was served to an observed principal against the policy is no use of any grant. The rights are those of the
    effective principal. `rules` is there for copies alone, whose source is another table than the event's.
    """
    allowed = events.where(
        F.col("kind").isin(*_OBJECTS, _CALL)
        & (F.col("decision") == "allow")
        & (F.coalesce(F.col("observed"), F.lit("")) == "")
    )
    by = ("principal", "catalog", "namespace", "table", "volume", "need", "rules")
    weight = F.coalesce(F.col("count"), F.lit(1))
    counted = (
        allowed.withColumns(
            {
                "principal": effective(),
                "need": _need(),
                "rules": F.when(F.col("s3_op").isin(*COPIES), F.col("rule_id")),
                "weight": weight,
            }
        )
        .groupBy(*by)
        .agg(
            F.sum(F.when(F.col("ts") >= F.lit(since), F.col("weight")).otherwise(0)).alias("n"),
            F.max("ts").alias("last"),
        )
    )
    return counted.withColumn("place", place())


def table_uses(used: DataFrame) -> DataFrame:
    """Return (principal, place, last) of every table whose objects a principal touched."""
    tables = used.where(F.col("need").isin(*_ON_TABLES) & (F.coalesce(F.col("table"), F.lit("")) != ""))
    return tables.groupBy("principal", "place").agg(F.max("last").alias("last"))


def bearers(events: DataFrame) -> DataFrame:
    """Return (principal, principal_role) of every role that a principal came with."""
    pairs = events.where(F.size("roles") > 0).select("principal", "roles").distinct()
    return pairs.select("principal", F.explode("roles").alias("principal_role")).distinct()


def catalogs_with_calls(used: DataFrame) -> list[str]:
    """Return the catalogs whose own calls pass through here; of others, those calls leave no trace."""
    found = used.where(F.col("need").startswith("call-")).select("catalog").distinct().collect()
    return sorted(row["catalog"] for row in found if row["catalog"])


def _need() -> Column:
    writes = F.col("access").isin(*_WRITES) | F.col("s3_op").isin(*WRITING_LISTS)
    writes = F.coalesce(writes, F.lit(False))
    way = F.when(F.coalesce(F.col("volume"), F.lit("")) != "", F.lit("volume-")).otherwise(F.lit(""))
    data = F.concat(way, F.when(writes, F.lit("write")).otherwise(F.lit("read")))
    return F.when(F.col("kind") == _CALL, F.concat(F.lit("call-"), F.col("call"))).otherwise(data)
