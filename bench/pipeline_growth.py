"""Measure how the cost of `ingest` grows with what there is to read, and draw it."""

from __future__ import annotations

import datetime as dt
import tempfile
from pathlib import Path

from bench import pipeline_data, pipeline_plot
from bench.effort import Effort
from bench.figures import Result
from bench.pipeline import ABSOLUTE, FULL_EVENTS, MILLION, SMOKE_EVENTS, row, scene_of

SIZES = (MILLION, 5 * MILLION, 15 * MILLION, 50 * MILLION)
SMOKE_SIZES = (5_000, 10_000)
"""Events of each run."""

FLOOR_TO = 15 * MILLION
"""DuckDB's line ends here: where it goes on to is not what the figure is about, and takes a quarter of an hour."""

LINEAR_MUST = 1.5
"""What an event of the longest run may cost beside one of the shortest; a start of Spark is in both."""


def measure(effort: Effort) -> list[Result]:
    """Ingest ever more events, and say what one of them costs."""
    smoke = effort.rounds == 1
    taken: list[tuple[int, float]] = []
    floor: list[tuple[int, float]] = []
    with scene_of(SMOKE_EVENTS if smoke else FULL_EVENTS) as scene:
        segments = pipeline_data.sound_segments(scene.demo)
        for size in SMOKE_SIZES if smoke else SIZES:
            with tempfile.TemporaryDirectory(prefix="signproxy-bench-", dir=scene.directory) as name:
                there = Path(name) / "audit" / "v1"
                events = pipeline_data.laid_out(segments, size, there)
                taken.append((events, scene.ingest(there, Path(name) / "warehouse").cpu))
                if size <= FLOOR_TO:
                    files = [str(path) for path in sorted(there.glob("dt=*/*.ndjson.gz"))]
                    floor.append((events, scene.floor_ingest(files).cpu))
    if not smoke:
        lines = {"signproxy pipeline ingest": taken, "DuckDB, the same": floor}
        of = {name: [(events / MILLION, cpu) for events, cpu in points] for name, points in lines.items()}
        pipeline_plot.draw(of, dt.datetime.now(dt.UTC).date().isoformat())
    (first, first_cpu), (last, last_cpu) = taken[0], taken[-1]
    return [
        *(
            row(f"us_per_event_{events / MILLION:.3g}m", cpu / events * 1e6, "us",
                f"CPU of {events:,} events, start of Spark included; {ABSOLUTE}")
            for events, cpu in taken
        ),
        row("longest_vs_shortest", (last_cpu / last) / (first_cpu / first), "ratio",
            f"CPU of one of {last:,} events / of one of {first:,}", LINEAR_MUST),
    ]  # fmt: skip
