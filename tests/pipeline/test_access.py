"""Who touched which table, by day and by query."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from signproxy.pipeline.job import Days, JobContext
from signproxy.pipeline.jobs.access import access_daily, access_queries, run
from tests.pipeline.event_rows import at, event, events


def test_accesses_are_counted_by_day(spark: SparkSession) -> None:
    """The heat map would show another picture than the trail."""
    trail = [
        event(at(0), bytes_out=10, query_id="a"),
        event(at(0.9), bytes_out=5, bytes_in=1, query_id="a"),
        event(at(1)),
        event(at(0), access="write"),
        event(at(0), decision="deny", count=7),
        event(at(0), effective_principal="idp/owner"),
        event(at(0), principal="idp/bob", count=None),
        # A catalog's own calls open no object, and neither does a reload.
        event(at(0), kind="catalog"),
        event(at(0), kind="reload"),
    ]
    found = {
        (row["principal"], row["effective_principal"], row["access"], row["decision"], row["event_date"].day): (
            *(row["n"], row["bytes"], row["queries"], row["first_ts"].hour, row["last_ts"].hour),
        )
        for row in access_daily(events(spark, *trail)).collect()
    }
    ann = ("idp/ann", "idp/ann")
    assert found == {
        (*ann, "read", "allow", 1): (2, 16, 1, 0, 21),
        (*ann, "read", "allow", 2): (1, 0, 0, 0, 0),
        (*ann, "write", "allow", 1): (1, 0, 0, 0, 0),
        (*ann, "read", "deny", 1): (7, 0, 0, 0, 0),
        ("idp/ann", "idp/owner", "read", "allow", 1): (1, 0, 0, 0, 0),
        ("idp/bob", "idp/bob", "read", "allow", 1): (1, 0, 0, 0, 0),
    }


def test_a_querys_tables_are_counted_once(spark: SparkSession) -> None:
    """A query that reads one table in a thousand requests would look like one that reads a thousand."""

    def asked(table: str, **fields: Any) -> dict[str, Any]:
        return event(at(0), table, **({"application": "spark", "query_id": "q"} | fields))

    trail = [
        *[asked("orders", bytes_out=2)] * 3,
        asked("items", access="list"),
        asked("items", namespace="hr", access="write"),
        asked("items", access="delete"),
        asked("refused", decision="deny"),
        # Requests without a query, and the same query id of another principal, are other queries.
        asked("orders", query_id=""),
        asked("orders", query_id=None),
        asked("orders", principal="idp/bob"),
    ]
    found = {
        row["principal"]: (
            row["application"],
            row["query_id"],
            row["tables"],
            row["reads"],
            row["writes"],
            row["bytes"],
        )
        for row in access_queries(events(spark, *trail)).collect()
    }
    assert found == {"idp/ann": ("spark", "q", 3, 4, 2, 6), "idp/bob": ("spark", "q", 1, 1, 0, 0)}


def test_the_job_counts_the_days_that_were_asked_for(context: JobContext, spark: SparkSession) -> None:
    """A run for one day would take the other days' counts away."""
    trail = [event(at(day), query_id="q", ingest_batch=1) for day in (0, 0.5, 1)]
    context.warehouse.replace("events", events(spark, *trail))
    outcome = run(context)
    assert (outcome.rows_in, outcome.rows_out) == (3, 2)
    context.warehouse.replace("events", events(spark, event(at(1), ingest_batch=1), event(at(1), ingest_batch=1)))
    outcome = run(JobContext(spark, context.warehouse, context.progress, (), Days(at(1).date(), None)))
    assert (outcome.rows_in, outcome.rows_out) == (2, 1)
    counted = context.warehouse.read("access_daily").orderBy("event_date").collect()
    assert [(row["event_date"].day, row["n"]) for row in counted] == [(1, 2), (2, 2)]
    # The query of the day that was counted anew is none any more.
    assert [row["event_date"].day for row in context.warehouse.read("access_queries").collect()] == [1]
