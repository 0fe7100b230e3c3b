"""Find what stands out from weeks of habit: bursts of refusals, tables tried by the dozen, first uses of tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.pipeline.days import Days
from signproxy.pipeline.findings import evidence, finding_id
from signproxy.pipeline.habits import DAYS, unusual
from signproxy.pipeline.job import JobContext, Outcome, Severity
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

_OBJECTS = ("sign", "forward", "vend")

BURST_FIX = (
    "Look at the reasons: a client that was changed or lost a grant can be fixed. If it tries what it was never given, "
    "ask its owner; if the owner does not know of it, the token may be in other hands: withdraw it."
)
ENUMERATION_FIX = (
    "Ask the owner of the principal what it looked for. Refusals do not tell which tables exist. If the owner does not "
    "know of it, the token may be in other hands: withdraw it."
)


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
    first = used.groupBy(effective().alias("principal"), "catalog", "namespace", "table", "access").agg(
        F.min("ts").alias("first_ts")
    )
    return first.withColumn(DAY, F.to_date("first_ts"))


def settled(first: DataFrame, days: int = SETTLED_DAYS) -> DataFrame:
    """Return the first uses of those who had been there for a while, and of no other access to the table before."""
    began = first.groupBy("principal").agg(F.min("first_ts").alias("began"))
    tables = first.groupBy("principal", "catalog", "namespace", "table").agg(F.min("first_ts").alias("touched"))
    late = F.col("first_ts") >= F.col("began") + F.make_dt_interval(F.lit(days))
    return (
        first.join(began, "principal")
        .join(tables, ["principal", "catalog", "namespace", "table"])
        .where(late & (F.col("first_ts") == F.col("touched")))
        .drop("began", "touched")
    )


def burst_findings(bursts: DataFrame) -> DataFrame:
    """Return bursts as findings: one for each principal and day."""
    return bursts.groupBy("principal", DAY).agg(
        F.lit("denial_burst").alias("class"),
        F.lit(Severity.MEDIUM.word).alias("severity"),
        F.min("minute").alias("first_ts"),
        F.max("minute").alias("last_ts"),
        F.sum("n").alias("n"),
        evidence(
            {
                "minutes": F.count(F.lit(1)),
                "worst_minute": F.max_by("minute", "n"),
                "worst": F.max("n"),
                "usual": F.max("median"),
                "reasons": F.max_by(F.to_json("reasons"), "n"),
            }
        ).alias("evidence"),
        F.lit(BURST_FIX).alias("fix"),
    )


def enumeration_findings(hours: DataFrame) -> DataFrame:
    """Return enumeration as findings: one for each principal and day."""
    return hours.groupBy("principal", DAY).agg(
        F.lit("enumeration").alias("class"),
        F.lit(Severity.HIGH.word).alias("severity"),
        F.min("first_ts").alias("first_ts"),
        F.max("last_ts").alias("last_ts"),
        F.sum("refused").alias("n"),
        evidence({"hours": F.count(F.lit(1)), "tables": F.max("tables"), "refused_tables": F.max("refused")}).alias(
            "evidence"
        ),
        F.lit(ENUMERATION_FIX).alias("fix"),
    )


def first_findings(first: DataFrame) -> DataFrame:
    """Return first uses as findings, which are information: one for each principal and table."""
    return first.groupBy("principal", "catalog", "namespace", "table").agg(
        F.lit("first_seen").alias("class"),
        F.lit(Severity.INFO.word).alias("severity"),
        F.min("first_ts").alias("first_ts"),
        F.min("first_ts").alias("last_ts"),
        F.count(F.lit(1)).alias("n"),
        evidence({"access": F.array_join(F.array_sort(F.collect_set("access")), ",")}).alias("evidence"),
        F.lit("Nothing, where the work is known; its grant was there before.").alias("fix"),
    )


def run(context: JobContext) -> Outcome:
    """Judge the days that were asked for by the two weeks before each; all of them where none were."""
    warehouse, days = context.warehouse, context.days
    whole = warehouse.read("events")
    span = whole.agg(F.min(DAY).alias("first")).first()
    first_day: date | None = None if span is None else span["first"]
    if first_day is None:
        return Outcome(notes=("there are no events",))
    began = F.lit(first_day)
    earliest = None if days.first is None else days.first - timedelta(days=DAYS)
    events = within(whole, Days(earliest, days.last))
    context.progress.begin(JOB, 3, "tables")
    bursts = within(denial_bursts(denials_by_minute(events), began), days)
    warehouse.replace_days("denial_bursts", bursts, days)
    context.progress.advance(1)
    warehouse.replace_days("enumeration", within(enumeration(events, began), days), days)
    context.progress.advance(1)
    # First is first of all, whatever days are looked at.
    every = first_seen(whole).persist()
    warehouse.replace_days("first_seen", within(every, days), days)
    context.progress.advance(1)
    context.progress.end()
    _find(warehouse, every, days)
    every.unpersist()
    return _outcome(context)


def _find(warehouse: Warehouse, every: DataFrame, days: Days) -> None:
    """Write the findings of these days; whether a principal is settled by then, only all first uses say."""
    found = [
        _named(burst_findings(warehouse.read("denial_bursts", days)), ["principal", DAY]),
        _named(enumeration_findings(warehouse.read("enumeration", days)), ["principal", DAY]),
        _named(
            first_findings(within(settled(every), days)),
            ["principal", "catalog", "namespace", "table"],
        ),
    ]
    warehouse.replace("findings", found[0].unionByName(found[1]).unionByName(found[2]), {"job": JOB})


def _named(found: DataFrame, subject: Sequence[str]) -> DataFrame:
    """Return findings with their ids, and with nothing that the table of findings lacks."""
    of_table = F.concat_ws(".", "catalog", "namespace", "table") if "table" in found.columns else F.lit(None)
    identity = finding_id("", [F.col("class"), *(F.col(name) for name in subject)])
    return found.select(
        identity.alias("finding_id"),
        *("class", "severity", "first_ts", "last_ts", "n", "principal"),
        of_table.cast("string").alias("table"),
        *("evidence", "fix"),
        F.lit(JOB).alias("job"),
    )


def _outcome(context: JobContext) -> Outcome:
    found = context.warehouse.read("findings").where(F.col("job") == JOB)
    rows = found.groupBy("class", "severity").count().collect()
    severities: dict[str, int] = {}
    for row in rows:
        severities[row["severity"]] = severities.get(row["severity"], 0) + row["count"]
    notes = tuple(f"{row['count']:,} {row['class']}" for row in sorted(rows, key=lambda row: str(row["class"])))
    return Outcome(rows_out=sum(severities.values()), notes=notes, severities=severities)
