"""Put the files of a day together, sorted; whatever crashes in between, no row is lost and none is there twice.

    1  the day's rows are copied below `_compact`, and counted
    2  a note says which day of which table that copy stands for
    3  the day is written anew from the copy, sorted
    4  the note is taken back, and then the copy

Up to 2 the day is as it was. From 2 on the copy counts: each run of any job first does 3 and 4 where a note was left,
so no job ever reads half a day. Only who reads the files past the pipeline may see one, for as long as 3 takes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import date
from typing import NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it
from pyspark.sql.types import StructType

from signproxy.pipeline import stream
from signproxy.pipeline.job import Days
from signproxy.pipeline.schemas import BATCH, DAY, table
from signproxy.pipeline.warehouse import Warehouse, within

PLACE = "_compact"
_NOTE = "name string, day date, files int, rows long"

ORDER = {
    "events": ("catalog", "namespace", "table", "principal", "ts"),
    "s3_access": ("bucket", "key", "requester", "ts"),
    "access_attribution": ("catalog", "namespace", "table", "principal", "ts"),
}
"""The tables that are compacted, and by what: questions are about a table, and about a principal."""

LEDGERS = {"events": "segments", "s3_access": "s3log_files"}
"""By table: where the batches stand that will not be written again."""


class Filed(NamedTuple):
    """What a day consists of, as files."""

    name: str
    day: date
    paths: frozenset[str]
    bytes: int
    batches: frozenset[int]

    def worth(self, least: int, target: int) -> bool:
        """Whether there are more files than is good, and fewer would do."""
        return len(self.paths) > max(least, self.pieces(target))

    def pieces(self, target: int) -> int:
        """Return how many files of the wanted size there would be."""
        return max(1, math.ceil(self.bytes / target))


def filed(spark: SparkSession, warehouse: Warehouse, name: str, days: Days) -> list[Filed]:
    """Return the days of a table that has any; no file is opened."""
    if not warehouse.exists(name):
        return []
    files = spark.read.format("binaryFile").option("pathGlobFilter", "*.parquet").load(warehouse.path_of(name))
    batch = F.col(BATCH).cast("long") if BATCH in table(name).partitions else F.lit(None).cast("long")
    columns = within(files, days).select(F.col(DAY).cast("date").alias("day"), batch.alias("batch"), "path", "length")
    found: dict[date, list[tuple[int | None, str, int]]] = {}
    for row in columns.collect():
        found.setdefault(row["day"], []).append((row["batch"], row["path"], row["length"]))
    return [
        Filed(
            name,
            day,
            frozenset(path for _, path, _ in each),
            sum(length for _, _, length in each),
            frozenset(number for number, _, _ in each if number is not None),
        )
        for day, each in sorted(found.items())
    ]


def unfinished(warehouse: Warehouse, day: Filed) -> frozenset[int]:
    """Return the day's batches that an ingest may yet write again, because it died before it entered them."""
    ledger = LEDGERS.get(day.name)
    if ledger is None:
        return frozenset()
    entered = {row[BATCH] for row in warehouse.read(ledger).select(BATCH).distinct().collect()}
    return frozenset(number for number in day.batches - entered if number >= 0)


def compact(spark: SparkSession, warehouse: Warehouse, day: Filed, target: int) -> int:
    """Put the files of a day together; return how many rows they hold."""
    rows = within(warehouse.read(day.name), Days(day.day, day.day)).drop(DAY)
    if day.batches:
        rows = rows.withColumn(BATCH, F.lit(number_of(day)))
    copy = _copy_of(warehouse, day.name, day.day)
    rows.write.mode("overwrite").parquet(copy)
    count = _staged(spark, copy, day.name).count()
    now = next((one for one in filed(spark, warehouse, day.name, Days(day.day, day.day))), None)
    if now is None or now.paths != day.paths or count != _live(warehouse, day.name, day.day).count():
        raise RuntimeError(f"{day.name}, {day.day}: something else wrote to it; let nothing run beside this job")
    _note(spark, warehouse, [(day.name, day.day, day.pieces(target), count)])
    finish(spark, warehouse)
    return count


def finish(spark: SparkSession, warehouse: Warehouse) -> int:
    """Do what a note says that was left; return of how many days."""
    try:
        notes = spark.read.schema(_NOTE).parquet(_note_of(warehouse)).collect()
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return 0
        raise
    for note in notes:
        name, day = note["name"], note["day"]
        copy = _copy_of(warehouse, name, day)
        _swap(_staged(spark, copy, name), warehouse, name, day, note["files"])
        if _live(warehouse, name, day).count() != note["rows"]:
            raise RuntimeError(f"{name}, {day}: what was written is not what was read; the rows are below {copy}")
    if notes:
        _note(spark, warehouse, [])
        for note in notes:
            nothing = spark.createDataFrame([], _columns(note["name"])).coalesce(1)
            nothing.write.mode("overwrite").parquet(_copy_of(warehouse, note["name"], note["day"]))
    return len(notes)


def number_of(day: Filed) -> int:
    """Return the batch that a day's files become one of: negative, so that no ingest ever has it."""
    said = f"{day.name} {day.day} {sorted(day.batches)}"
    return -1 - stream.number_of(said)


def _swap(rows: DataFrame, warehouse: Warehouse, name: str, day: date, files: int) -> None:
    order = ORDER[name]
    spread = rows.repartition(1) if files == 1 else rows.repartitionByRange(files, *order)
    writer = spread.sortWithinPartitions(*order).write.mode("overwrite").option("partitionOverwriteMode", "static")
    if BATCH in table(name).partitions:
        writer = writer.partitionBy(BATCH)
    writer.parquet(f"{warehouse.path_of(name)}/{DAY}={day}")


def _live(warehouse: Warehouse, name: str, day: date) -> DataFrame:
    return warehouse.read(name, Days(day, day))


def _columns(name: str) -> StructType:
    return StructType([field for field in table(name).columns.fields if field.name != DAY])


def _staged(spark: SparkSession, copy: str, name: str) -> DataFrame:
    return spark.read.schema(_columns(name)).parquet(copy)


def _note(spark: SparkSession, warehouse: Warehouse, rows: Iterable[tuple[str, date, int, int]]) -> None:
    frame = spark.createDataFrame(list(rows), _NOTE)
    frame.coalesce(1).write.mode("overwrite").parquet(_note_of(warehouse))


def _note_of(warehouse: Warehouse) -> str:
    return f"{warehouse.path}/{PLACE}/note"


def _copy_of(warehouse: Warehouse, name: str, day: date) -> str:
    return f"{warehouse.path}/{PLACE}/{name}/{day}"
