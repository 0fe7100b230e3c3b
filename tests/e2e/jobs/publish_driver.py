"""Fill a warehouse, publish, add, compact and publish again; print what PyIceberg finds after each step, as JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from signproxy.pipeline.job import JobContext, Progress, job, run_of
from signproxy.pipeline.runs import run_job
from signproxy.pipeline.session import SessionOptions, open_session
from signproxy.pipeline.warehouse import Warehouse
from tests.pipeline.conftest import SMALL
from tests.pipeline.event_rows import at, event, events, rows

A_DAY = "ts >= '2026-11-02T00:00:00+00:00' and ts < '2026-11-03T00:00:00+00:00'"


def add(spark: SparkSession, warehouse: Warehouse, number: int) -> None:
    """Add a batch of two days, as ingest does."""
    made = [
        event(at(day, minutes=number), event_id=f"{number}-{day}", ingest_batch=number, segment=f"s{number}")
        for day in (0, 1)
    ]
    warehouse.replace("events", events(spark, *made))
    ledger = [{"segment": f"s{number}", "verdict": "whole", "ingest_batch": number}]
    warehouse.replace("segments", rows(spark, "segments", ledger))


def found() -> dict[str, Any]:
    """Return what there is of each table."""
    catalog = load_catalog("default")
    tables = {}
    for identifier in catalog.list_tables("signproxy"):
        table = catalog.load_table(identifier)
        data = table.scan().to_arrow()
        names = data.column_names
        tables[identifier[-1]] = {
            "rows": data.num_rows,
            "files": len(list(table.scan().plan_files())),
            "snapshots": len(table.metadata.snapshots),
            "ids": sorted(data.column("event_id").to_pylist()) if "event_id" in names else [],
            "of_a_day": table.scan(row_filter=A_DAY).to_arrow().num_rows if "ts" in names else 0,
            "jobs": data.column("job").to_pylist() if "job" in names else [],
        }
    return tables


def main(place: str) -> None:
    """Do it all with one Spark."""
    steps: dict[str, Any] = {}
    with open_session(SessionOptions("local[2]", "512m", SMALL)) as spark:
        warehouse = Warehouse(spark, place)
        context = JobContext(spark, warehouse, Progress())

        def run(label: str, name: str, **options: Any) -> None:
            one = job(name)
            if one is None:
                raise KeyError(name)
            record, _ = run_job(one, run_of(one), msgspec.structs.replace(context, options=options))
            # After a compaction alone, the catalog names files that are gone.
            look = name == "publish" and not record.exit
            steps[label] = {
                "exit": record.exit,
                "problem": record.problem,
                "tables": found() if look else {},
            }

        for number in range(5):
            add(spark, warehouse, number)
        finding = {"finding_id": "f", "class": "audit_gap", "evidence": {"a": "1"}, "job": "ingest", "n": 1}
        warehouse.replace("findings", rows(spark, "findings", [finding]))
        run("first", "publish")
        run("unchanged", "publish", tables="events")
        add(spark, warehouse, 5)
        run("one more", "publish", tables="events")
        run("compacted", "compact")
        run("after", "publish")
        run("no table", "publish", tables="evnts")
        run("no catalog", "publish", catalog="nowhere")
    print(json.dumps(steps))  # noqa: T201 - read by the test


if __name__ == "__main__":
    main(sys.argv[1])
