"""Take one batch of log files after the other into `s3_access`; what a batch wrote is replaced if it comes again."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.pipeline.intake import batch_number
from signproxy.pipeline.progress import Progress
from signproxy.pipeline.s3log.formats import FORMATS
from signproxy.pipeline.s3log.rows import COLUMNS, LINE, PROBLEM
from signproxy.pipeline.schemas import BATCH, DAY, table
from signproxy.pipeline.unreadable import SPARK_FAILED, unreadable
from signproxy.pipeline.warehouse import Warehouse

LEDGER = "s3log_files"
WHOLE, SHORT = "whole", "short"
"""Whether the tables hold as many rows of a batch as its files had."""
UNREADABLE = "unreadable"
"""The file cannot be unpacked to its end: nothing of it is in the tables."""

_TORN = "the file cannot be unpacked to its end"

_MAX_LINE = 65_536


class LogIntake:
    """What Spark's streaming calls for each batch, here or, with Spark Connect, on the server's side."""

    def __init__(
        self, form: str, warehouse: str, checkpoint: str, run_id: str, local: tuple[SparkSession, Progress] | None
    ) -> None:
        self._form = form
        self._warehouse = warehouse
        self._checkpoint = checkpoint
        self._run_id = run_id
        self._local = local
        self.problem: Exception | None = None
        """Why the last batch could not be taken: what Spark makes of it says little."""

    def __getstate__(self) -> dict[str, Any]:
        """Leave behind what is of this process alone."""
        return {**self.__dict__, "_local": None}

    def take(self, files: DataFrame, batch_id: int) -> None:
        """Read, write and enter one batch, unless it was entered before."""
        found = {row["path"]: row["length"] for row in files.select("path", "length").collect()}
        if not found:
            return
        spark = files.sparkSession if self._local is None else self._local[0]
        try:
            self._taken(spark, found, self._number(spark, batch_id))
        except Exception as error:
            self.problem = error
            raise
        if self._local is not None:
            self._local[1].advance(len(found))

    def _number(self, spark: SparkSession, batch_id: int) -> int:
        said = spark.read.text(f"{self._checkpoint}/metadata").collect()
        return batch_number("".join(row["value"] for row in said), batch_id)

    def _taken(self, spark: SparkSession, found: dict[str, int], number: int) -> None:
        warehouse = Warehouse(spark, self._warehouse)
        if warehouse.batch(LEDGER, number).isEmpty():
            _Batch(spark, warehouse, self._form, number, self._run_id).take(found)


def take_again(spark: SparkSession, warehouse: Warehouse, files: Mapping[str, tuple[str, int]], run_id: str) -> None:
    """Take files of which nothing could be read before, by path with their formats and lengths, if they can be now.

    Spark's list of what was read never hands over a path twice. Each is a batch of its own, named after what it is.
    """
    for path in sorted(files.keys() - unreadable(spark, sorted(files))):
        form, length = files[path]
        digest = hashlib.sha256(f"again:{path}:{length}".encode()).digest()
        _Batch(spark, warehouse, form, int.from_bytes(digest[:8]) >> 1, run_id).take({path: length})


class _Batch:
    """One batch: its rows, its lines that are none, and its part of the ledger."""

    def __init__(self, spark: SparkSession, warehouse: Warehouse, form: str, number: int, run_id: str) -> None:
        self._spark = spark
        self._warehouse = warehouse
        self._form = form
        self._number = number
        self._run_id = run_id

    def take(self, found: Mapping[str, int]) -> None:
        """Read and write it, its part of the ledger last."""
        torn: set[str] = set()
        try:
            rows = self._write(found.keys(), torn)
        except SPARK_FAILED:
            torn = unreadable(self._spark, sorted(found))
            if not torn:
                raise
            rows = self._write(found.keys() - torn, torn)
        self._enter(found, torn, rows)

    def _write(self, paths: Collection[str], torn: Collection[str]) -> int:
        """Write the rows of files, and what of these and of the torn ones is for the quarantine; count the rows."""
        rows = 0
        bad: DataFrame | None = None
        if paths:
            seen = Observation()
            read = FORMATS[self._form].read(self._spark, sorted(paths))
            is_bad = F.col(PROBLEM).isNotNull()
            observed = read.observe(seen, F.count(F.lit(1)).alias("rows"), F.count_if(is_bad).alias("bad"))
            good = observed.where(~is_bad).select(
                *COLUMNS, "src_file", F.to_date("ts").alias(DAY), F.lit(self._number).alias(BATCH)
            )
            self._warehouse.replace("s3_access", good)
            rows = seen.get["rows"]
            if seen.get["bad"]:
                # Spark would ask for the problem before it computes what that is told by, and compute it anew wherever
                # it stands: more code than a method of Java's may have. Nothing is asked before an observation.
                told = read.observe(Observation(), F.count(F.lit(1)).alias("rows"))
                bad = told.where(is_bad).select(
                    F.col("src_file").alias("path"),
                    _name_of("src_file"),
                    F.col(PROBLEM).alias("reason"),
                    F.substring(LINE, 1, _MAX_LINE).alias("line"),
                    F.lit(self._number).alias(BATCH),
                )
        if torn:
            files = self._spark.createDataFrame([(path,) for path in sorted(torn)], "path string")
            whole = files.select(
                "path", _name_of("path"), F.lit(_TORN).alias("reason"), F.lit(self._number).alias(BATCH)
            )
            bad = whole if bad is None else bad.unionByName(whole, allowMissingColumns=True)
        if bad is not None:
            self._warehouse.replace("quarantine", bad)
        return rows

    def _enter(self, found: Mapping[str, int], torn: Collection[str], rows: int) -> None:
        """Write the batch's part of the ledger, the last thing that happens to it, by what the tables hold now."""
        good = _counts(self._warehouse.batch("s3_access", self._number), "src_file")
        # Of a file that was not read there is no line.
        lines = self._warehouse.batch("quarantine", self._number).where(F.col("line").isNotNull())
        bad = _counts(lines, "path")
        verdict = WHOLE if sum(good.values()) + sum(bad.values()) == rows else SHORT
        entries: Sequence[tuple[Any, ...]] = [
            (
                path,
                self._form,
                good.get(path, 0),
                bad.get(path, 0),
                length,
                UNREADABLE if path in torn else verdict,
                self._run_id,
                self._number,
            )
            for path, length in sorted(found.items())
        ]
        frame = self._spark.createDataFrame(entries, table(LEDGER).columns)
        self._warehouse.replace(LEDGER, frame.coalesce(1))


def _name_of(path: str) -> Column:
    return F.element_at(F.split(path, "/"), -1).alias("segment")


def _counts(frame: DataFrame, name: str) -> dict[str, int]:
    return {row[name]: row["count"] for row in frame.groupBy(name).count().collect()}
