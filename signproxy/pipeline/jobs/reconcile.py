"""Hold the stores' logs against the audit trail: each request gets its class, and what does not fit is a finding.

Only days are computed of which something came since they were computed last: requests, or events of the day itself and
of the two beside it, for a request may be signed before midnight and made after it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import date, timedelta

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.pipeline.attribution import attribution, signed_not_used
from signproxy.pipeline.day_states import ONE, batches, enter, states, states_before
from signproxy.pipeline.findings import count_by, findings_of
from signproxy.pipeline.job import ALL_DAYS, Days, JobContext, JobOutcome, options_of
from signproxy.pipeline.matching import CLASSES, UNATTRIBUTED, KnownRequesters
from signproxy.pipeline.s3log import cloudtrail
from signproxy.pipeline.schemas import DAY, table

JOB = "reconcile"

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PLAIN = "0123456789ABCDEFGHIJKLMNOPQRSTUV"
_STAMP = "^[0-7][0-9A-HJKMNP-TV-Z]{25}$"


def run(context: JobContext) -> JobOutcome:
    """Compute the days that need it."""
    warehouse = context.warehouse
    options = options_of(context, JOB)
    known = KnownRequesters(
        _listed(options["proxy"]), _listed(options["known_services"]), options["vending_role"] or ""
    )
    have = {name: batches(warehouse.read(name)) for name in ("s3_access", "events")}
    said = states(have["s3_access"], have["events"])
    days = _wanted(said, states_before(warehouse), context.days)
    if not days:
        return JobOutcome(notes=("nothing has changed since the last run",))
    context.progress.begin(JOB, len(days), "days")
    requests = once_each(_of_days(warehouse.read("s3_access"), _with_neighbours(days, before=1, after=0)))
    around = _with_neighbours(days) | (stamp_days(requests) & have["events"].keys())
    events = _of_days(warehouse.read("events"), around)
    kept: list[DataFrame] = []

    def keep(frame: DataFrame) -> DataFrame:
        kept.append(frame.persist(StorageLevel.DISK_ONLY))
        return kept[-1]

    try:
        attributed = attribution(events, requests, known, keep=keep)
        warehouse.replace("access_attribution", _of_days(attributed, days))
    finally:
        for frame in kept:
            frame.unpersist()
    context.progress.advance(len(days))
    written = _of_days(warehouse.read("access_attribution"), days)
    faulty = findings_of(written.where(F.col("faults").isNotNull()), JOB)
    unused = findings_of(signed_not_used(_of_days(warehouse.read("events"), days), written), JOB)
    before = warehouse.read("findings").where((F.col("job") == JOB) & ~F.to_date("first_ts").isin(sorted(days)))
    # They are read from where they are written to, so they are taken out first.
    standing = context.spark.createDataFrame(before.collect(), table("findings").columns)
    warehouse.replace("findings", standing.unionByName(faulty.unionByName(unused)), {"job": JOB})
    enter(warehouse, {day: said[day] for day in days})
    context.progress.end()
    return _outcome(context, written, days)


def once_each(requests: DataFrame) -> DataFrame:
    """Return each request once, where CloudTrail and S3's own log both have it: the latter, which has the stamp."""
    of_trail = F.col("source") == cloudtrail.SOURCE
    sources = {row["source"] for row in requests.select("source").distinct().collect()}
    if cloudtrail.SOURCE not in sources or len(sources) == 1:
        return requests
    others = requests.where(~of_trail)
    names = others.select("bucket", "request_id").where(F.col("request_id").isNotNull()).distinct()
    return others.unionByName(requests.where(of_trail).join(names, ["bucket", "request_id"], "left_anti"))


def stamp_days(requests: DataFrame) -> set[date]:
    """Return the days that the stamps say their events are of: the id of an event begins with its time."""
    digits = F.translate(F.substring("stamp", 1, 10), _CROCKFORD, _PLAIN)
    made = F.conv(digits, 32, 10).cast("long")
    # A made-up stamp may name any time.
    sound = F.col("stamp").rlike(_STAMP)
    said = requests.where(sound).select(F.to_date(F.timestamp_millis(made)).alias("day")).distinct()
    found = {row["day"] for row in said.where(F.col("day") < F.lit("2200-01-01")).collect()}
    # An event is written when its outcome is known, which may be after midnight.
    return found | {day + ONE for day in found}


def _outcome(context: JobContext, written: DataFrame, days: Collection[date]) -> JobOutcome:
    classes = count_by(written, "class")
    found = context.warehouse.read("findings").where((F.col("job") == JOB) & F.to_date("first_ts").isin(sorted(days)))
    by_class = found.groupBy("class", "severity").count().orderBy("class").collect()
    total = sum(classes.values())
    attributed = total - classes.get(UNATTRIBUTED, 0)
    notes = [f"{attributed / total:.2%} of {total:,} requests are attributed"] if total else []
    notes += [f"{row['count']} {row['severity']}: {row['class']}" for row in by_class]
    numbers: Mapping[str, float] = {name: float(classes.get(name, 0)) for name in CLASSES}
    severities = count_by(found, "severity")
    return JobOutcome(total, total, notes=tuple(notes), severities=severities, numbers={**numbers, "days": len(days)})


# which days


def _wanted(said: Mapping[date, str], before: Mapping[date, str], asked: Days) -> set[date]:
    """Return the days to compute: those that were asked for, else those of which something came.

    The day after one of these has to follow, for it may hold the second use of a signature.
    """
    if asked != ALL_DAYS:
        first, last = asked.first or date.min, asked.last or date.max
        return {day for day in said if first <= day <= last}
    touched = {day for day, state in said.items() if before.get(day) != state}
    return {day for day in said if day in touched or day - ONE in touched}


def _with_neighbours(days: Iterable[date], before: int = 1, after: int = 1) -> set[date]:
    return {day + timedelta(days=step) for day in days for step in range(-before, after + 1)}


def _of_days(frame: DataFrame, days: Iterable[date]) -> DataFrame:
    return frame.where(F.col(DAY).isin(sorted(days)))


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())
