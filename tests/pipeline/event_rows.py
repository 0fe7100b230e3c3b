"""Write audit events and other rows for tests of jobs: what a test does not say is ordinary."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from signproxy.pipeline.policy_snapshot import GRANT
from signproxy.pipeline.schemas import TABLES

START = datetime(2026, 11, 1, tzinfo=UTC)
"""Noon would be as good: days are counted from here."""

Rows = Iterable[dict[str, Any]]


def at(days: float = 0.0, *, minutes: float = 0.0, seconds: float = 0.0) -> datetime:
    """Return a time by its distance from the start."""
    return START + timedelta(days=days, minutes=minutes, seconds=seconds)


def event(ts: datetime, table: str = "orders", **fields: Any) -> dict[str, Any]:
    """Return an allowed read of a table, signed for a quarter of an hour."""
    ordinary = {
        "ts": ts,
        "event_date": ts.date(),
        "kind": "sign",
        "principal": "idp/ann",
        "effective_principal": "",
        "roles": [],
        "catalog": "lake",
        "namespace": "sales",
        "table": table,
        "volume": "",
        "access": "read",
        "s3_op": "GetObject",
        "decision": "allow",
        "reason": "allowed",
        "observed": "",
        "count": 1,
        "expires_at": ends(ts, minutes=15),
    }
    return ordinary | fields


def ends(ts: datetime, *, minutes: float) -> str:
    """Return the end of what was given at a time, as events have it."""
    return (ts + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


def rows(spark: SparkSession, table: str, given: Rows) -> DataFrame:
    """Return rows of a table of the warehouse; what is not given is null."""
    return spark.createDataFrame(list(given), TABLES[table].columns)


def events(spark: SparkSession, *given: dict[str, Any]) -> DataFrame:
    """Return these events."""
    return rows(spark, "events", given)


def grant(grant_id: str, privilege: str, resource: str = "table:lake.sales.orders", **fields: Any) -> dict[str, Any]:
    """Return a grant to ann, as old as the hills, by a role of hers; `resource` says on what."""
    kind, _, name = resource.partition(":")
    catalog, *names = name.split(".")
    place: dict[str, Any] = dict.fromkeys(("namespace", "table", "volume"))
    if kind == "volume":
        place["volume"] = names[0]
    elif kind == "table":
        place |= {"namespace": "\x1f".join(names[:-1]), "table": names[-1]}
    elif kind == "namespace":
        place["namespace"] = "\x1f".join(names)
    ordinary = {
        "grant_id": grant_id,
        "principal": "idp/ann",
        "principal_role": "analyst",
        "via_role": "reader",
        "privilege": privilege,
        "resource": resource,
        "catalog": catalog,
        "granted_at": at(-1000),
        "event_date": START.date(),
    }
    return ordinary | place | fields


def grants(spark: SparkSession, *given: dict[str, Any]) -> DataFrame:
    """Return these grants."""
    return rows(spark, "grants", given).select(*GRANT, "granted_at")


def policy_tables(spark: SparkSession, *names: str) -> DataFrame:
    """Return tables by their full names; each lies in a folder of its own."""
    given = []
    for name in names:
        catalog, *levels, table = name.split(".")
        place = f"s3://{catalog}/wh/{'/'.join(levels)}/{table}"
        given.append({"catalog": catalog, "namespace": "\x1f".join(levels), "table": table, "locations": [place]})
    return rows(spark, "policy_tables", given)
