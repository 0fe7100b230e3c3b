"""Put the many small files of past days together into few large ones, sorted by table and principal."""

from __future__ import annotations

from signproxy.errors import Finding, Invalid
from signproxy.pipeline.compaction import ORDER, Filed, compact, filed, unfinished
from signproxy.pipeline.day_states import carry_over, states_now
from signproxy.pipeline.job import JobContext, JobOutcome, options_of

JOB = "compact"


def run(context: JobContext) -> JobOutcome:
    """Compact the days of which there are more files than is good."""
    options = options_of(context, JOB)
    target, least = options["target_mib"] << 20, options["files"]
    if target <= 0 or least <= 0:
        raise Invalid([Finding("", "--target-mib, --files", "have to be more than nothing")])
    spark, warehouse, progress = context.spark, context.warehouse, context.progress
    days = [day for name in ORDER for day in filed(spark, warehouse, name, context.days) if day.worth(least, target)]
    waiting = [day for day in days if unfinished(warehouse, day)]
    ready = [day for day in days if day not in waiting]
    before = states_now(warehouse)
    progress.begin(JOB, sum(len(day.paths) for day in ready), "files")
    rows = 0
    for day in ready:
        rows += compact(spark, warehouse, day, target)
        progress.advance(len(day.paths))
    carry_over(warehouse, before)
    progress.end()
    notes = [f"{day.name} of {day.day}: an ingest was interrupted; let it run first, then this" for day in waiting]
    numbers = {"days": len(ready), **_files(ready, target)}
    return JobOutcome(rows, rows, notes=(*_told(ready, target), *notes), numbers=numbers)


def _told(days: list[Filed], target: int) -> list[str]:
    found = []
    for name in ORDER:
        own = [day for day in days if day.name == name]
        if own:
            files = _files(own, target)
            before, after = files["files_before"], files["files_after"]
            found.append(f"{name}: {before:,} files of {len(own)} days are {after:,} now")
    return found or ["there is nothing to put together"]


def _files(days: list[Filed], target: int) -> dict[str, int]:
    return {
        "files_before": sum(len(day.paths) for day in days),
        "files_after": sum(day.pieces(target) for day in days),
    }
