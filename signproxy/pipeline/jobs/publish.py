"""Make the tables of the warehouse tables of an Iceberg catalog, for engines other than Spark."""

from __future__ import annotations

from datetime import date

from pyspark.sql.types import StructType

from signproxy.audit.ids import new_event_id
from signproxy.errors import Finding, Invalid
from signproxy.pipeline.compaction import filed
from signproxy.pipeline.job import ALL_DAYS, JobContext, JobOutcome, options_of
from signproxy.pipeline.schemas import TABLES, WarehouseTable

JOB = "publish"
PLACE = "_publish"

_INTERNAL = ("reconciled",)
"""What only the jobs themselves read."""
_TIMED = ("events", "s3_access", "access_attribution")
"""Large tables, whose files are published as they lie."""


def run(context: JobContext) -> JobOutcome:
    """Publish the tables that were asked for and have anything; all of them where none were."""
    try:
        from signproxy.pipeline import iceberg  # noqa: PLC0415 - no other job needs PyIceberg
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("signproxy"):
            raise
        problem = "needs PyIceberg: install pyiceberg[pyarrow] and what your catalog needs, such as sql-sqlite"
        raise Invalid([Finding("", JOB, problem)]) from None
    warehouse, progress = context.warehouse, context.progress
    options = options_of(context, JOB)
    wanted = [one for one in _wanted(options["tables"]) if warehouse.exists(one.name)]
    namespace = options["namespace"]
    catalog = iceberg.open_catalog(options["catalog"], namespace)
    progress.begin(JOB, len(wanted), "tables")
    notes = []
    added = 0
    for one in wanted:
        identifier = f"{namespace}.{one.name}"
        if one.name in _TIMED:
            within_files = StructType([field for field in one.columns.fields if field.name not in one.partitions])
            table = iceberg.table_of(catalog, identifier, within_files, by_day=True)
            change = iceberg.publish_days(table, _files(context, one.name))
        else:
            table = iceberg.table_of(catalog, identifier, one.columns, by_day=False)
            change = iceberg.publish_whole(table, _copied(context, one.name))
        added += change.added
        if change.added or change.removed:
            notes.append(f"{identifier}: {change.added:,} files added, {change.removed:,} taken out")
        progress.advance(1)
    progress.end()
    return JobOutcome(len(wanted), added, notes=tuple(notes) or ("nothing has changed",), numbers={"files": added})


def _wanted(names: str | None) -> list[WarehouseTable]:
    asked = [name.strip() for name in (names or "").split(",") if name.strip()]
    unknown = [name for name in asked if name not in TABLES]
    if unknown:
        raise Invalid([Finding("", "--tables", f"{unknown[0]!r} is none of {', '.join(TABLES)}")])
    return [TABLES[name] for name in asked] if asked else [t for t in TABLES.values() if t.name not in _INTERNAL]


def _files(context: JobContext, name: str) -> dict[date, frozenset[str]]:
    return {day.day: day.paths for day in filed(context.spark, context.warehouse, name, ALL_DAYS)}


def _copied(context: JobContext, name: str) -> list[str]:
    """Write a small table as files that hold all of its columns, under a name that never comes again."""
    place = f"{context.warehouse.path}/{PLACE}/{name}/{new_event_id()}"
    rows = context.warehouse.read(name)
    rows.coalesce(1).write.parquet(place)
    files = context.spark.read.format("binaryFile").option("pathGlobFilter", "*.parquet").load(place)
    return [] if rows.isEmpty() else sorted(row["path"] for row in files.select("path").collect())
