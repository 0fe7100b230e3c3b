"""Read what was found, and how far the inputs can be believed."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.pipeline.job import Days, Severity
from signproxy.pipeline.report.data import (
    LATENCY_BOUNDS,
    Distribution,
    FindingGroup,
    Gap,
    InputProblem,
    ReportedFinding,
    Revocations,
    Revoked,
    RunLine,
    Source,
    TrailSummary,
)
from signproxy.pipeline.report.queries.values import bucket, filled, overlapping, said, total, values_of
from signproxy.pipeline.schemas import DAY, TABLES
from signproxy.pipeline.warehouse import Warehouse

MOST_FINDINGS = 200
"""Of one class and severity; all of them are counted."""
MOST_ROWS = 50
_GAP = "audit_gap"
_FAULTS = ("audit_chain", "audit_segment")
_RUN = "job string, began_at string, seconds double, exit int, rows_in long, rows_bad long, problem string"
_SEVERITIES = [severity.word for severity in Severity]


def groups(warehouse: Warehouse, days: Days) -> tuple[FindingGroup, ...]:
    """Return the findings of each class: how many, and the weightiest one by one."""
    findings = overlapping(warehouse.read("findings"), days, "first_ts", "last_ts").withColumns(
        {
            "finding_id": said("finding_id"),
            "class": said("class"),
            # A severity that is not known must not hide a finding.
            "severity": F.when(F.col("severity").isin(*_SEVERITIES), F.col("severity")).otherwise(Severity.MEDIUM.word),
            "n": F.coalesce("n", F.lit(1)),
            "evidence": F.transform_values("evidence", lambda _, value: F.coalesce(value, F.lit(""))),
        }
    )
    by = ("class", "severity")
    order = Window.partitionBy(*by).orderBy(F.desc("n"), F.desc("last_ts"), "finding_id")
    shown = findings.withColumn("place", F.row_number().over(order)).where(F.col("place") <= MOST_FINDINGS)
    renamed = {"class": "class_", "first_ts": "first", "last_ts": "last"}
    rows = shown.orderBy(*by, "place").drop("place").withColumnsRenamed(renamed)
    listed: dict[tuple[str, str], list[ReportedFinding]] = {}
    for finding in values_of(ReportedFinding, rows):
        listed.setdefault((finding.class_, finding.severity), []).append(finding)
    counted = findings.groupBy(*by).agg(F.count(F.lit(1)).alias("count"), F.sum("n").alias("n")).orderBy(*by).collect()
    return tuple(
        FindingGroup(
            class_=row["class"],
            severity=row["severity"],
            count=row["count"],
            n=row["n"],
            findings=tuple(listed[row["class"], row["severity"]]),
        )
        for row in counted
    )


def trail(warehouse: Warehouse, days: Days, found: Sequence[FindingGroup]) -> TrailSummary:
    """Return the trail's own state; its gaps are those that `ingest` found."""
    ledger = overlapping(warehouse.read("segments"), days, "sealed_at", "sealed_at")
    verdicts = (
        ledger.groupBy(said("verdict").alias("verdict"))
        .agg(F.count(F.lit(1)).alias("n"), total("good").alias("good"), total("quarantined").alias("quarantined"))
        .collect()
    )
    gaps = [group for group in found if group.class_ == _GAP]
    return TrailSummary(
        segments=sum(row["n"] for row in verdicts),
        events=sum(row["good"] for row in verdicts),
        quarantined=sum(row["quarantined"] for row in verdicts),
        verdicts={row["verdict"]: row["n"] for row in sorted(verdicts, key=lambda each: str(each["verdict"]))},
        gaps=sum(group.count for group in gaps),
        missing=sum(group.n for group in gaps),
        faults=sum(group.count for group in found if group.class_ in _FAULTS),
        worst=tuple(_gap(one_gap) for group in gaps for one_gap in group.findings[:MOST_ROWS]),
    )


def revocations(warehouse: Warehouse, days: Days) -> Revocations:
    """Return how long withdrawn rights went on to work; a success at or before the revocation is none after it."""
    rows = overlapping(warehouse.read("revocation_latency"), days, "revoked_at", "revoked_at")
    late = rows.where(F.col("seconds") > 0)
    counts: dict[str, dict[int, int]] = {}
    placed = late.groupBy(said("kind").alias("kind"), bucket("seconds", LATENCY_BOUNDS).alias("place")).count()
    for row in placed.collect():
        counts.setdefault(row["kind"], {})[row["place"]] = row["count"]
    worst = late.orderBy(F.desc("seconds"), "principal").limit(MOST_ROWS)
    texts = {name: said(name) for name in ("principal", "resource", "kind")}
    return Revocations(
        latencies=Distribution(LATENCY_BOUNDS, {kind: filled(found, LATENCY_BOUNDS) for kind, found in counts.items()}),
        at_once=rows.where(F.coalesce("seconds", F.lit(0.0)) <= 0).count(),
        worst=values_of(Revoked, worst.withColumns(texts).drop("last_success")),
    )


def quality(warehouse: Warehouse, days: Days) -> tuple[InputProblem, ...]:
    """Return what the inputs lacked, and why lines of the trail were not taken."""
    lacking = (
        warehouse.read("data_quality", days)
        .groupBy(said("source").alias("source"), said("problem").alias("problem"))
        .agg(total("n").alias("n"), F.max("example").alias("example"), F.count_distinct(DAY).alias("days"))
        .orderBy(F.desc("n"), "source", "problem")
        .limit(MOST_ROWS)
    )
    bad = (
        warehouse.read("quarantine")
        .groupBy(said("reason").alias("problem"))
        .agg(F.count(F.lit(1)).alias("n"), F.max("segment").alias("example"))
        .orderBy(F.desc("n"), "problem")
        .limit(MOST_ROWS)
        .withColumn("source", F.lit("audit trail"))
    )
    return values_of(InputProblem, bad) + values_of(InputProblem, lacking)


def sources(warehouse: Warehouse, days: Days) -> tuple[Source, ...]:
    """Return the tables that there is something of."""
    found: list[Source] = []
    for described in TABLES.values():
        if not warehouse.exists(described.name):
            continue
        day = F.col(DAY) if DAY in described.columns.names else F.lit(None).cast("date")
        counted = warehouse.read(described.name, days).agg(
            F.lit(described.name).alias("table"),
            F.lit(described.summary).alias("summary"),
            F.count(F.lit(1)).alias("rows"),
            F.min(day).alias("first_day"),
            F.max(day).alias("last_day"),
        )
        found += values_of(Source, counted)
    return tuple(found)


def runs(warehouse: Warehouse) -> tuple[RunLine, ...]:
    """Return the last run of each job."""
    try:
        read = warehouse.read("segments").sparkSession.read.schema(_RUN).json(f"{warehouse.path}/runs/*.json")
        last = read.where(F.col("job").isNotNull()).groupBy("job").agg(F.max_by(F.struct("*"), "began_at").alias("run"))
        times = {"began_at": F.try_to_timestamp("began_at"), "seconds": F.coalesce("seconds", F.lit(0.0))}
        times["exit"] = F.coalesce("exit", F.lit(0))
        return values_of(RunLine, last.select("run.*").withColumns(times).orderBy("job"))
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return ()


def _gap(finding: ReportedFinding) -> Gap:
    told = finding.evidence
    return Gap(
        instance=told.get("instance", ""), boot_id=told.get("boot_id", ""), missing=told.get("missing", ""), n=finding.n
    )
