"""Measure `ingest` in CPU seconds, with DuckDB on the same files as the floor."""

from __future__ import annotations

from bench.effort import Effort
from bench.figures import Result
from bench.pipeline import ABSOLUTE, DUCKDB_VERSION, FULL_EVENTS, HEAP, SMOKE_EVENTS, row, scene_of

MUST, GOAL = 3.5, 2.5


def measure(effort: Effort) -> list[Result]:
    """Run the job and the floor once each, and compare what they wrote."""
    with scene_of(SMOKE_EVENTS if effort.rounds == 1 else FULL_EVENTS) as scene:
        ingest = scene.ingest(scene.demo / "audit", scene.warehouse)
        floor = scene.floor_ingest([str(path) for path in sorted(scene.demo.glob("audit/v1/dt=*/*.ndjson.gz"))])
        scene.check_ingest()
        rows = scene.summary.written
    against = (
        f"DuckDB {DUCKDB_VERSION}: the same {rows:,} events, all columns, digests verified, Parquet (zstd) by day; "
        f"CPU of the processes, start included; heap of {HEAP}"
    )
    return [
        row("vs_duckdb", ingest.cpu / floor.cpu, "ratio", against, MUST, GOAL),
        row("events_per_cpu_second", rows / ingest.cpu, "events/s", ABSOLUTE, better="higher"),
        row("peak_mib", ingest.peak_mib, "MiB", f"resident at most, heap of {HEAP}"),
    ]
