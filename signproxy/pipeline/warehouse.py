"""Read and write the tables of the warehouse: Parquet below one directory, on any file system that Spark knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.errors import Finding, Invalid
from signproxy.pipeline.job import ALL_DAYS, Days
from signproxy.pipeline.schemas import BATCH, DAY, WarehouseTable, table

_NO_PATH = "PATH_NOT_FOUND"


def within(frame: DataFrame, days: Days, column: str = DAY) -> DataFrame:
    """Return the rows of these days."""
    if days.first is not None:
        frame = frame.where(F.col(column) >= F.lit(days.first))
    if days.last is not None:
        frame = frame.where(F.col(column) <= F.lit(days.last))
    return frame


class Warehouse:
    """The tables below a directory."""

    def __init__(self, spark: SparkSession | None, path: str) -> None:
        """Without Spark, it is a path alone."""
        self._session = spark
        self.path = path.rstrip("/")

    @property
    def _spark(self) -> SparkSession:
        if self._session is None:
            raise TypeError("tables are read and written by Spark")
        return self._session

    def rows_of(self, name: str, rows: Sequence[tuple[object, ...]]) -> DataFrame:
        """Return rows of a table, given in the order of its columns."""
        return self._spark.createDataFrame(list(rows), table(name).columns)

    def path_of(self, name: str) -> str:
        """Return where a table lies."""
        return f"{self.path}/{table(name).name}"

    def exists(self, name: str) -> bool:
        """Whether anything was ever written of a table."""
        return self._found(name, self.path_of(name)) is not None

    def read(self, name: str, days: Days = ALL_DAYS) -> DataFrame:
        """Return a table, empty where nothing was written yet; a column that came later is null in older rows."""
        frame = self._found_or_empty(name, self.path_of(name))
        return within(frame, days) if DAY in frame.columns else frame

    def batch(self, name: str, number: int) -> DataFrame:
        """Return what one batch wrote of a table, without a look at what all the others did."""
        parts = (f"{BATCH}={number}" if part == BATCH else f"{part}=*" for part in table(name).partitions)
        return self._found_or_empty(name, "/".join((self.path_of(name), *parts)))

    def replace(self, name: str, frame: DataFrame, part: Mapping[str, str] | None = None) -> None:
        """Write a table: each partition that the rows lie in takes the place of what was there; others stay.

        A table without partitions is replaced whole. `part` names the one partition that all the rows lie in; it is
        then replaced even by nothing: a job that finds nothing any more leaves nothing of what it found before.
        """
        described = table(name)
        path = self.path_of(name)
        columns = shaped(frame, described)
        left = described.partitions
        if part is not None:
            path = "/".join((path, *(f"{column}={value}" for column, value in part.items())))
            columns = columns.drop(*part)
            left = tuple(column for column in left if column not in part)
        writer = columns.write.mode("overwrite")
        if left:
            writer = writer.partitionBy(*left)
        writer.parquet(path)

    def replace_days(self, name: str, frame: DataFrame, days: Days = ALL_DAYS) -> None:
        """Write the days anew that were looked at; a day of them of which no row is left is empty afterwards."""
        before = self._files(name, days)
        self.replace(name, frame)
        unchanged = before & self._files(name, days) if before else set()
        for day in sorted({day for day, _ in unchanged}):
            columns = shaped(frame, table(name)).where(F.lit(False)).drop(DAY)
            columns.write.mode("overwrite").parquet(f"{self.path_of(name)}/{DAY}={day}")

    def _files(self, name: str, days: Days) -> set[tuple[str, str]]:
        """Return the files of these days, each of which has a name that never comes again."""
        frame = self._found(name, self.path_of(name))
        if frame is None:
            return set()
        rows = within(frame, days).select(F.col(DAY).cast("string").alias("day"), "_metadata.file_name").distinct()
        return {(row["day"], row["file_name"]) for row in rows.collect()}

    def _found_or_empty(self, name: str, path: str) -> DataFrame:
        frame = self._found(name, path)
        return self.rows_of(name, []) if frame is None else frame

    def _found(self, name: str, path: str) -> DataFrame | None:
        described = table(name)
        reader = self._spark.read.schema(described.columns).option("basePath", self.path_of(name))
        try:
            frame = reader.parquet(path)
            # Where Spark is far away, only a question makes it look.
            frame.schema  # noqa: B018 - see above
        except AnalysisException as error:
            if error.getCondition() == _NO_PATH:
                return None
            raise
        return frame


def shaped(frame: DataFrame, described: WarehouseTable) -> DataFrame:
    """Return the rows with exactly the table's columns, in its order and of its types; what is missing is null."""
    have = set(frame.columns)
    unknown = have - set(described.columns.names)
    if unknown:
        raise ValueError(f"{described.name} has no column {', '.join(sorted(unknown))}")
    columns = {field: F.col(field.name) if field.name in have else F.lit(None) for field in described.columns.fields}
    return frame.select(*(column.cast(field.dataType).alias(field.name) for field, column in columns.items()))


def local_directory(path: str, option: str, problem: str) -> Path:
    """Return a directory of this machine. Raise Invalid for what is elsewhere, with the option that names it."""
    plain = path.removeprefix("file://").removeprefix("file:")
    if "://" in plain:
        raise Invalid([Finding("", option, f"{path}: {problem}")])
    return Path(plain)
