"""What stands out from weeks of habit, and what is as unusual and yet a principal's habit."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import msgspec
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.pipeline.job import Days, JobContext
from signproxy.pipeline.jobs.anomalies import (
    LEAST_DAYS,
    denial_bursts,
    denials_by_minute,
    enumeration,
    first_seen,
    run,
    settled,
)
from tests.pipeline.event_rows import START, at, event, events


def first() -> Column:
    return F.lit(START.date())


LATE = 20
"""A day with two weeks before it."""


def denied(day: float, who: str, table: str = "orders", *, minutes: float = 0.0, **fields: Any) -> dict[str, Any]:
    refusal = {"decision": "deny", "reason": "no_read_data", "principal": who}
    return event(at(day, minutes=minutes), table, **(refusal | fields))


def test_bursts_are_measured_by_the_worst_minutes_of_two_weeks(spark: SparkSession) -> None:
    """A job that fails every night would be reported every morning, and hide the one that matters."""
    trail = []
    # One refusal a day, then many in a minute.
    trail += [denied(day, "burst") for day in range(LATE)] + [denied(LATE, "burst", count=40)]
    # As many over as many minutes.
    trail += [denied(LATE, "slow", minutes=minute) for minute in range(40)]
    # Every night.
    trail += [denied(day, "nightly", count=40) for day in range(LATE + 1)]
    # Every night, and a little more tonight; and five times as much.
    trail += [denied(day, "more", count=40) for day in range(LATE)] + [denied(LATE, "more", count=60)]
    trail += [denied(day, "much", count=40) for day in range(LATE)] + [denied(LATE, "much", count=200)]
    # Nights differ; what has been seen in them is no burst.
    trail += [denied(day, "noisy", count=10 + 15 * (day % 5)) for day in range(LATE + 1)]
    # One bad day among the fourteen moves neither median nor deviation.
    trail += [denied(LATE - 5, "again", count=500), denied(LATE, "again", count=40)]
    # Too few to be looked at, and of a new principal.
    trail += [denied(LATE, "few", count=19), denied(LATE, "new", count=20)]
    # What was long ago is no habit, and what came later was not known.
    trail += [denied(day, "once", count=40) for day in range(LATE - 14)] + [denied(LATE, "once", count=40)]
    trail += [denied(LATE, "later", count=40)] + [denied(LATE + 1 + day, "later", count=40) for day in range(8)]
    # What was served is no refusal.
    trail += [event(at(LATE), principal="served", count=40)]
    found = denial_bursts(denials_by_minute(events(spark, *trail)), first()).collect()
    day = (START + timedelta(days=LATE)).date()
    assert {row["principal"] for row in found if row["event_date"] == day} == {
        *("burst", "much", "again", "new", "once", "later")
    }
    (burst,) = (row for row in found if row["principal"] == "burst")
    assert (burst["n"], burst["median"], burst["mad"], burst["reasons"]) == (40, 1.0, 0.0, {"no_read_data": "40"})
    # It is a habit once it was there on half of the days.
    assert {row["event_date"] - day for row in found if row["principal"] == "later"} == {
        timedelta(days=days) for days in range(7)
    }


def test_nothing_is_unusual_before_anything_is_usual(spark: SparkSession) -> None:
    """The first days of a new installation would be one long alarm."""
    trail = [denied(day, f"day{day}", count=1000) for day in (0, LEAST_DAYS - 1, LEAST_DAYS)]
    found = denial_bursts(denials_by_minute(events(spark, *trail)), first()).collect()
    assert [row["principal"] for row in found] == [f"day{LEAST_DAYS}"]


def test_reasons_of_a_minute_are_counted(spark: SparkSession) -> None:
    """An operator who looks at a burst would have to look up every event."""
    trail = [denied(0, "x", minutes=0.1), denied(0, "x", minutes=0.9, reason="outside_table", count=3)]
    (row,) = denials_by_minute(events(spark, *trail, denied(0, "x", minutes=1.0))).where("n > 1").collect()
    assert (row["n"], row["reasons"]) == (4, {"no_read_data": "1", "outside_table": "3"})


def test_enumeration_is_trying_tables_and_not_tending_them(spark: SparkSession) -> None:
    """A nightly compaction would be told as an attack, or an attack be taken for one."""
    tables = [f"t{number}" for number in range(25)]
    trail = []
    trail += [denied(LATE, "tries", table, minutes=number) for number, table in enumerate(tables)]
    trail += [event(at(LATE, minutes=number), table, principal="tends") for number, table in enumerate(tables)]
    # One table, however often; and tables by the dozen, one a day or some each hour.
    trail += [denied(LATE, "stubborn", minutes=number) for number in range(40)]
    trail += [denied(LATE, "patient", table, minutes=30 * number) for number, table in enumerate(tables)]
    trail += [denied(day, "nightly", table) for table in tables for day in range(LATE + 1)]
    # Calls to the catalog are tries as well; in namespaces, equal names are other tables.
    trail += [denied(LATE, "calls", table, kind="catalog", call="load_table") for table in tables]
    trail += [denied(LATE, "names", namespace=table) for table in tables]
    trail += [denied(LATE, "bare", "", namespace=table) for table in tables]
    found = enumeration(events(spark, *trail), first()).where(F.col("event_date") == at(LATE).date()).collect()
    assert {row["principal"]: (row["tables"], row["refused"]) for row in found} == dict.fromkeys(
        ("tries", "calls", "names"), (25, 25)
    )


def test_first_uses_of_tables(spark: SparkSession) -> None:
    """What a principal never touched before would pass for what it does every day."""
    trail = [
        event(at(0)),
        event(at(20)),
        event(at(20), "items"),
        event(at(21), access="write"),
        denied(19, "idp/ann", "refused"),
        event(at(3), "items", principal="new"),
        event(at(16.9), "other", principal="new"),
        event(at(17), "third", principal="new"),
    ]
    first = first_seen(events(spark, *trail)).cache()
    told = {(row["principal"], row["table"], row["access"]): row["first_ts"].day for row in first.collect()}
    assert told == {
        ("idp/ann", "orders", "read"): 1,
        ("idp/ann", "items", "read"): 21,
        ("idp/ann", "orders", "write"): 22,
        ("new", "items", "read"): 4,
        ("new", "other", "read"): 17,
        ("new", "third", "read"): 18,
    }
    # Only what a settled principal touches anew is worth a line; writing to a known table is not.
    assert {(row["principal"], row["table"]) for row in settled(first).collect()} == {
        ("idp/ann", "items"),
        ("new", "third"),
    }


def test_the_job_judges_days_by_those_before_them(context: JobContext, spark: SparkSession) -> None:
    """A run for yesterday would see no habits, and leave what an earlier run found by mistake."""
    trail = [event(at(day)) for day in range(LATE + 1)]
    trail += [denied(day, "nightly", count=40) for day in range(LATE + 1)]
    trail += [denied(LATE, "burst", count=40), event(at(LATE), "items")]
    trail += [denied(LATE, "tries", f"t{number}", minutes=number) for number in range(25)]
    context.warehouse.replace("events", events(spark, *[one | {"ingest_batch": 1} for one in trail]))
    day: date = at(LATE).date()
    outcome = run(msgspec.structs.replace(context, days=Days(day, day)))
    assert outcome.severities == {"medium": 1, "high": 1, "info": 1}
    found = context.warehouse.read("findings").collect()
    assert {(row["class"], row["principal"], row["table"], row["n"]) for row in found} == {
        ("denial_burst", "burst", None, 40),
        ("enumeration", "tries", None, 25),
        ("first_seen", "idp/ann", "lake.sales.items", 1),
    }
    assert len({row["finding_id"] for row in found}) == 3
    (burst,) = (row for row in found if row["class"] == "denial_burst")
    assert (burst["evidence"]["worst"], burst["evidence"]["usual"]) == ("40", "0.0")
    before = context.warehouse.read("denial_bursts").collect()
    # Whatever is found again has the same id, and what is not found any more is gone.
    run(msgspec.structs.replace(context, days=Days(day, day)))
    assert {row["finding_id"] for row in context.warehouse.read("findings").collect()} == {
        row["finding_id"] for row in found
    }
    assert context.warehouse.read("denial_bursts").collect() == before
    quiet = at(LATE - 1).date()
    assert run(msgspec.structs.replace(context, days=Days(quiet, quiet))).severities == {}
    assert context.warehouse.read("findings").isEmpty()


def test_no_events_are_no_anomalies(context: JobContext) -> None:
    """A chain of jobs would end at a new installation's first night."""
    assert run(context).notes == ("there are no events",)
