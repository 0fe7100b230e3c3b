"""Find what the trail lacks: holes in its numbers, broken chains, and segments that could not be taken."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.pipeline.finding_specs import SPECS
from signproxy.pipeline.findings import named
from signproxy.pipeline.job import Severity
from signproxy.pipeline.sealed import SegmentVerdict

_GRAVE = (SegmentVerdict.ALTERED, SegmentVerdict.CONFLICT, SegmentVerdict.CONTRADICTS)


def audit_findings(ledger: DataFrame, events: DataFrame) -> DataFrame:
    """Return findings of every way in which the trail contradicts itself or lacks something."""
    parts = (between(ledger), inside(ledger, events), broken(ledger), faulty(ledger))
    return reduce(DataFrame.unionByName, parts)


def between(ledger: DataFrame) -> DataFrame:
    """Return the holes between the segments of each life of a process, and before the first."""
    lost = F.col("first_seq") - F.coalesce(F.col("_last"), F.lit(0)) - 1
    rows = _in_order(ledger).where(lost > 0)
    missing = _range(F.coalesce(F.col("_last"), F.lit(0)) + 1, F.col("first_seq") - 1)
    segments = F.col("number") - F.coalesce(F.col("_number"), F.lit(0)) - 1
    fix = F.lit(SPECS["audit_gap"].fixes["between"])
    return _finding(rows, "audit_gap", lost, fix, {"missing": missing, "missing_segments": segments})


def inside(ledger: DataFrame, events: DataFrame) -> DataFrame:
    """Return the holes within segments that name a longer range than they hold events."""
    width = F.col("last_seq") - F.col("first_seq") + 1
    holed = _taken(ledger).where(F.col("said") < width)
    order = Window.partitionBy("segment").orderBy("seq")
    steps = (
        events.select("segment", "seq")
        .join(F.broadcast(holed.select("segment")), "segment", "left_semi")
        .withColumn("_before", F.lag("seq").over(order))
        .where(F.col("seq") > F.col("_before") + 1)
    )
    ranges = steps.groupBy("segment").agg(
        F.array_join(F.sort_array(F.collect_list(_range(F.col("_before") + 1, F.col("seq") - 1))), ", ").alias("_gaps")
    )
    missing = F.coalesce(F.col("_gaps"), F.lit("not known: what is missing stands in quarantine"))
    rows = holed.join(ranges, "segment", "left")
    fix = F.lit(SPECS["audit_gap"].fixes["inside"])
    return _finding(rows, "audit_gap", width - F.col("said"), fix, {"missing": missing})


def broken(ledger: DataFrame) -> DataFrame:
    """Return the segments that say another digest of the one before them than it has."""
    follows = F.col("number") == F.coalesce(F.col("_number"), F.lit(0)) + 1
    differs = F.coalesce(F.col("previous_sha256"), F.lit("")) != F.coalesce(F.col("_sha256"), F.lit(""))
    rows = _in_order(ledger).where(follows & differs)
    evidence = {"says": F.col("previous_sha256"), "is": F.col("_sha256")}
    return _finding(rows, "audit_chain", F.lit(1), F.lit(SPECS["audit_chain"].fix), evidence)


def faulty(ledger: DataFrame) -> DataFrame:
    """Return the segments that were not taken, or not believed, unless there is a sound copy of the same name.

    Of two that contradict each other both are sound, by whatever names.
    """
    others = [F.lit(each) for each in SegmentVerdict.FAULTS if each != SegmentVerdict.CONFLICT]
    whole = ledger.where(F.col("verdict") == SegmentVerdict.WHOLE)
    sound = whole.select("segment", F.explode(F.array(*others)).alias("verdict"))
    rows = (
        ledger.where(F.col("verdict").isin(*SegmentVerdict.FAULTS))
        .join(sound, ["segment", "verdict"], "left_anti")
        .dropDuplicates(["segment", "verdict"])
    )
    advice = named({verdict: F.lit(text) for verdict, text in SPECS["audit_segment"].fixes.items()})
    severity = F.when(F.col("verdict").isin(*_GRAVE), F.lit(Severity.CRITICAL.word)).otherwise(Severity.HIGH.word)
    evidence = {"verdict": F.col("verdict"), "path": F.col("path")}
    lines = F.greatest(F.col("said"), F.lit(1))
    return _finding(rows, "audit_segment", lines, advice[F.col("verdict")], evidence, severity)


def _taken(ledger: DataFrame) -> DataFrame:
    return ledger.where(F.col("verdict").isin(*SegmentVerdict.TAKEN))


def _in_order(ledger: DataFrame) -> DataFrame:
    life = Window.partitionBy("boot_id").orderBy("number")
    return _taken(ledger).withColumns(
        {
            "_number": F.lag("number").over(life),
            "_last": F.lag("last_seq").over(life),
            "_sha256": F.lag("sha256").over(life),
            "_sealed_at": F.lag("sealed_at").over(life),
        }
    )


def _range(first: Column, last: Column) -> Column:
    alone = first.cast("string")
    return F.when(first == last, alone).otherwise(F.concat(alone, F.lit(" to "), last.cast("string")))


def _finding(
    rows: DataFrame, kind: str, n: Column, fix: Column, evidence: dict[str, Column], severity: Column | None = None
) -> DataFrame:
    about = {name: F.col(name) for name in ("segment", "instance", "boot_id", "number")}
    told = named({**about, **evidence})
    began = F.col("_sealed_at") if "_sealed_at" in rows.columns else F.lit(None).cast("timestamp")
    identity = F.concat_ws("|", F.lit(kind), "boot_id", "segment", told.cast("string"))
    return rows.select(
        F.substring(F.sha2(identity, 256), 1, 16).alias("finding_id"),
        F.lit(kind).alias("class"),
        (F.lit(SPECS[kind].severity) if severity is None else severity).alias("severity"),
        F.coalesce(began, F.col("sealed_at")).alias("first_ts"),
        F.col("sealed_at").alias("last_ts"),
        n.cast("long").alias("n"),
        *(F.lit("").alias(name) for name in ("principal", "table", "bucket")),
        told.alias("evidence"),
        fix.alias("fix"),
        F.lit("ingest").alias("job"),
    )
