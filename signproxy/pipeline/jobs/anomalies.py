"""Find what stands out from weeks of habit: bursts of refusals, tables tried by the dozen, first uses of tables.

What a principal does in a short time is held against what it did in the two weeks before. The measure of a day is its
worst hour or minute, so that a job that fails every night at the same time is as usual as one that never fails. What is
usual is the median of the days before, quiet ones included, and how far they lie from it (MAD): neither moves for a
single bad day.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.pipeline.finding_specs import SPECS
from signproxy.pipeline.findings import count_by, evidence, finding_id
from signproxy.pipeline.job import Days, JobContext, JobOutcome
from signproxy.pipeline.places import place
from signproxy.pipeline.schemas import DAY
from signproxy.pipeline.uses import effective
from signproxy.pipeline.warehouse import Warehouse, within

JOB = "anomalies"
LEAST_DENIALS = 20
"""Refusals of a minute; a client that repeats a request ten times is no burst."""
LEAST_TABLES = 20
"""Tables that were refused within an hour."""
SETTLED_DAYS = 14
"""After so many days, what a principal touches for the first time is worth a line."""

DAYS = 14
LEAST_DAYS = 7
"""Days of trail before a day; with fewer, nothing is called unusual."""
DEVIATIONS = 6.0
"""How far from usual: one that is drawn from a normal distribution comes once in a billion."""

_OF_NORMAL = 1.4826
"""By which a MAD becomes a standard deviation, where that is what there is."""
_LEAST_SHARE = 0.1
"""Of a job that fails alike each night, a tenth more is no deviation."""

_OBJECTS = ("sign", "forward", "vend")
_TABLE = ("catalog", "namespace", "table")


def denials_by_minute(events: DataFrame) -> DataFrame:
    """Count the refusals of each principal by minute; `reasons` has their codes."""
    refused = events.where(F.col("decision") == "deny").withColumn("weight", F.coalesce(F.col("count"), F.lit(1)))
    by_reason = refused.groupBy("principal", DAY, F.date_trunc("minute", "ts").alias("minute"), "reason").agg(
        F.sum("weight").alias("each")
    )
    return by_reason.groupBy("principal", DAY, "minute").agg(
        F.sum("each").alias("n"),
        F.map_from_entries(F.collect_list(F.struct("reason", F.col("each").cast("string")))).alias("reasons"),
    )


def denial_bursts(by_minute: DataFrame, first_day: Column, least: int = LEAST_DENIALS) -> DataFrame:
    """Return the minutes with far more refusals than the worst minutes of the days before."""
    return unusual(by_minute, least, first_day)


def enumeration(events: DataFrame, first_day: Column, least: int = LEAST_TABLES) -> DataFrame:
    """Return the hours in which a principal was refused far more tables than ever in the days before.

    A principal that tends many tables by right is refused none of them.
    """
    asked = events.where(
        F.col("kind").isin(*_OBJECTS, "catalog") & (F.coalesce(F.col("table"), F.lit("")) != "")
    ).withColumn("place", place())
    denied = F.when(F.col("decision") == "deny", F.col("place"))
    by_table = asked.groupBy("principal", DAY, F.date_trunc("hour", "ts").alias("hour"), "place").agg(
        F.count_if(denied.isNotNull()).alias("refusals"), F.min("ts").alias("first_ts"), F.max("ts").alias("last_ts")
    )
    by_hour = by_table.groupBy("principal", DAY, "hour").agg(
        F.count(F.lit(1)).alias("tables"),
        F.count_if(F.col("refusals") > 0).alias("refused"),
        F.min("first_ts").alias("first_ts"),
        F.max("last_ts").alias("last_ts"),
    )
    return unusual(by_hour, least, first_day, "refused").drop("median", "mad")


def first_seen(events: DataFrame) -> DataFrame:
    """Return when each principal first used each table, by access."""
    used = events.where(
        F.col("kind").isin(*_OBJECTS) & (F.col("decision") == "allow") & (F.coalesce(F.col("table"), F.lit("")) != "")
    )
    first = used.groupBy(effective().alias("principal"), *_TABLE, "access").agg(F.min("ts").alias("first_ts"))
    return first.withColumn(DAY, F.to_date("first_ts"))


def settled(first: DataFrame, days: int = SETTLED_DAYS) -> DataFrame:
    """Return the first uses of those who had been there for a while, and of no other access to the table before."""
    began = first.groupBy("principal").agg(F.min("first_ts").alias("began"))
    tables = first.groupBy("principal", *_TABLE).agg(F.min("first_ts").alias("touched"))
    late = F.col("first_ts") >= F.col("began") + F.make_dt_interval(F.lit(days))
    return (
        first.join(began, "principal")
        .join(tables, ["principal", *_TABLE])
        .where(late & (F.col("first_ts") == F.col("touched")))
        .drop("began", "touched")
    )


def burst_findings(bursts: DataFrame) -> DataFrame:
    """Return bursts as findings: one for each principal and day."""
    told = {
        "minutes": F.count(F.lit(1)),
        "worst_minute": F.max_by("minute", "n"),
        "worst": F.max("n"),
        "usual": F.max("median"),
        "reasons": F.max_by(F.to_json("reasons"), "n"),
    }
    return _found("denial_burst", bursts, ("principal", DAY), ("minute", "minute", F.sum("n")), told)


def enumeration_findings(hours: DataFrame) -> DataFrame:
    """Return enumeration as findings: one for each principal and day."""
    told = {"hours": F.count(F.lit(1)), "tables": F.max("tables"), "refused_tables": F.max("refused")}
    return _found("enumeration", hours, ("principal", DAY), ("first_ts", "last_ts", F.sum("refused")), told)


def first_findings(first: DataFrame) -> DataFrame:
    """Return first uses as findings, which are information: one for each principal and table."""
    told = {"access": F.array_join(F.array_sort(F.collect_set("access")), ",")}
    return _found("first_seen", first, ("principal", *_TABLE), ("first_ts", "first_ts", F.count(F.lit(1))), told)


def run(context: JobContext) -> JobOutcome:
    """Judge the days that were asked for by the two weeks before each; all of them where none were."""
    warehouse, days = context.warehouse, context.days
    whole = warehouse.read("events")
    span = whole.agg(F.min(DAY).alias("first")).first()
    first_day: date | None = None if span is None else span["first"]
    if first_day is None:
        return JobOutcome(notes=("there are no events",))
    began = F.lit(first_day)
    earliest = None if days.first is None else days.first - timedelta(days=DAYS)
    events = within(whole, Days(earliest, days.last))
    context.progress.begin(JOB, 3, "tables")
    # First is first of all, whatever days are looked at.
    every = first_seen(whole).persist()
    found = {
        "denial_bursts": denial_bursts(denials_by_minute(events), began),
        "enumeration": enumeration(events, began),
        "first_seen": every,
    }
    for name, rows in found.items():
        warehouse.replace_days(name, within(rows, days), days)
        context.progress.advance(1)
    context.progress.end()
    _find(warehouse, every, days)
    every.unpersist()
    return _outcome(context)


def _find(warehouse: Warehouse, every: DataFrame, days: Days) -> None:
    """Write the findings of these days; whether a principal is settled by then, only all first uses say."""
    bursts = burst_findings(warehouse.read("denial_bursts", days))
    tried = enumeration_findings(warehouse.read("enumeration", days))
    first = first_findings(within(settled(every), days))
    warehouse.replace("findings", bursts.unionByName(tried).unionByName(first), {"job": JOB})


def _found(
    kind: str, rows: DataFrame, subject: Sequence[str], seen: tuple[str, str, Column], told: Mapping[str, Column]
) -> DataFrame:
    """Return a finding for each subject; `seen` says the columns of its first and last time, and how often it was."""
    first, last, n = seen
    grouped = rows.groupBy(*subject).agg(
        F.min(first).alias("first_ts"), F.max(last).alias("last_ts"), n.alias("n"), evidence(told).alias("evidence")
    )
    of_table = F.concat_ws(".", *_TABLE) if "table" in subject else F.lit(None).cast("string")
    return grouped.select(
        finding_id("", [F.lit(kind), *(F.col(name) for name in subject)]).alias("finding_id"),
        F.lit(kind).alias("class"),
        F.lit(SPECS[kind].severity).alias("severity"),
        *("first_ts", "last_ts", "n", "principal"),
        of_table.alias("table"),
        "evidence",
        F.lit(SPECS[kind].fix).alias("fix"),
        F.lit(JOB).alias("job"),
    )


def _outcome(context: JobContext) -> JobOutcome:
    found = context.warehouse.read("findings").where(F.col("job") == JOB)
    notes = tuple(f"{count:,} {kind}" for kind, count in count_by(found, "class").items())
    severities = count_by(found, "severity")
    return JobOutcome(rows_out=sum(severities.values()), notes=notes, severities=severities)


def unusual(counted: DataFrame, least: int, first_day: Column, measure: str = "n") -> DataFrame:
    """Return the rows (principal, event_date, a measure …) that are far beyond the principal's days before.

    `least` is what a measure must have to be looked at, `first_day` that of the trail. Adds `median` and `mad`.
    """
    worst = counted.groupBy("principal", DAY).agg(F.max(measure).cast("double").alias("worst"))
    suspects = counted.where(F.col(measure) >= least)
    days = suspects.select("principal", DAY).distinct()
    past = worst.select("principal", F.col(DAY).alias("_day"), "worst")
    known = F.least(F.lit(DAYS), F.date_diff(F.col(DAY), first_day))
    is_before = (F.col("_day") < F.col(DAY)) & (F.col("_day") >= F.date_sub(F.col(DAY), DAYS))
    usual = (
        days.join(past, "principal", "left")
        .groupBy("principal", DAY)
        .agg(F.collect_list(F.when(is_before, F.col("worst"))).alias("found"))
        .withColumn("known", known)
        .where(F.col("known") >= LEAST_DAYS)
        # Days on which nothing happened are days, too.
        .withColumn("found", F.concat("found", F.array_repeat(F.lit(0.0), F.col("known") - F.size("found"))))
        .withColumn("median", _median(F.col("found")))
        .withColumn("mad", _median(F.transform("found", lambda each: F.abs(each - F.col("median")))))
        .select("principal", DAY, "median", "mad")
    )
    scale = F.greatest(F.col("mad") * _OF_NORMAL, F.col("median") * _LEAST_SHARE, F.lit(1.0))
    return suspects.join(usual, ["principal", DAY]).where(F.col(measure) > F.col("median") + scale * DEVIATIONS)


def _median(values: Column) -> Column:
    """Return the median of an array that is not empty."""
    ordered = F.array_sort(values)
    size = F.size(values)
    upper = F.element_at(ordered, F.floor(size / 2).cast("int") + 1)
    lower = F.element_at(ordered, F.floor((size + 1) / 2).cast("int"))
    return (lower + upper) / 2
