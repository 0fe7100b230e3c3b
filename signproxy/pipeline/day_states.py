"""Say of what each day's requests were reconciled, so that it is done again only where something came."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta

from pyspark.sql import DataFrame

from signproxy.pipeline.schemas import BATCH, DAY
from signproxy.pipeline.warehouse import Warehouse

ONE = timedelta(days=1)

Batches = Mapping[date, tuple[int, ...]]


def batches(frame: DataFrame) -> Batches:
    """Return the batches of each day, which say what came: nothing but the files' places is read."""
    found: dict[date, list[int]] = {}
    for row in frame.select(DAY, BATCH).distinct().collect():
        found.setdefault(row[DAY], []).append(row[BATCH])
    return {day: tuple(sorted(numbers)) for day, numbers in found.items()}


def states(requests: Batches, events: Batches) -> dict[date, str]:
    """Return what there is to reconcile of each day with requests: it, and the events of the days around it."""
    return {
        day: f"{requests[day]} {[events.get(near, ()) for near in (day - ONE, day, day + ONE)]}" for day in requests
    }


def states_now(warehouse: Warehouse) -> dict[date, str]:
    """Return the same of a warehouse."""
    return states(batches(warehouse.read("s3_access")), batches(warehouse.read("events")))


def states_before(warehouse: Warehouse) -> dict[date, str]:
    """Return what there was of each day when it was reconciled last."""
    return {row[DAY]: row["inputs"] for row in warehouse.read("reconciled").select("inputs", DAY).collect()}


def enter(warehouse: Warehouse, entries: Mapping[date, str]) -> None:
    """Note of what days were reconciled."""
    if entries:
        rows = [(inputs, day) for day, inputs in sorted(entries.items())]
        warehouse.replace("reconciled", warehouse.rows_of("reconciled", rows))


def carry_over(warehouse: Warehouse, before: Mapping[date, str]) -> None:
    """Let what was reconciled count as reconciled after the same rows were put into other files."""
    reconciled, now = states_before(warehouse), states_now(warehouse)
    same = {day for day in now if before.get(day) == reconciled.get(day) and day in reconciled}
    enter(warehouse, {day: now[day] for day in same if now[day] != reconciled[day]})
