"""Take one batch of log files after the other into `s3_access`; what a batch wrote is replaced if it comes again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.pipeline.findings import count_by
from signproxy.pipeline.job import Progress
from signproxy.pipeline.s3log import aws, cloudtrail, minio, versity_file, versity_webhook
from signproxy.pipeline.s3log.rows import COLUMNS, LINE, PROBLEM
from signproxy.pipeline.schemas import BATCH, DAY
from signproxy.pipeline.stream import MAX_LINE, SPARK_FAILED, Batch, Intake, number_of, unreadable
from signproxy.pipeline.warehouse import Warehouse

LEDGER = "s3log_files"
WHOLE, SHORT = "whole", "short"
"""Whether the tables hold as many rows of a batch as its files had."""
UNREADABLE = "unreadable"
"""The file cannot be unpacked to its end: nothing of it is in the tables."""

_TORN = "the file cannot be unpacked to its end"


class LogFormat(msgspec.Struct, frozen=True):
    """A format."""

    requests: Callable[[DataFrame], DataFrame]
    """Makes rows of lines."""
    whole: bool = False
    """Whether a file is one line."""

    def read(self, spark: SparkSession, paths: Sequence[str]) -> DataFrame:
        """Return the rows of files.

        Stores write down what clients send, whatever bytes these are. What is no UTF-8 would come out as a text that no
        other reader of Parquet takes: one request could keep all other readers from the whole table.
        """
        line = F.col("value") if self.whole else F.make_valid_utf8("value")
        files = spark.read.text(list(paths), wholetext=self.whole)
        return self.requests(files.select(line.alias(LINE), F.col("_metadata.file_path").alias("src_file")))


FORMATS = {
    aws.SOURCE: LogFormat(aws.requests),
    cloudtrail.SOURCE: LogFormat(cloudtrail.requests, whole=True),
    versity_webhook.SOURCE: LogFormat(versity_webhook.requests),
    versity_file.SOURCE: LogFormat(versity_file.requests),
    minio.SOURCE: LogFormat(minio.requests),
}


class LogIntake(Intake):
    """Takes batches of log files of one format."""

    ledger = LEDGER

    def __init__(
        self, form: str, warehouse: str, checkpoint: str, run_id: str, local: tuple[SparkSession, Progress]
    ) -> None:
        super().__init__(warehouse, checkpoint, run_id, local)
        self._form = form

    def read(self, batch: Batch, files: Mapping[str, int]) -> None:
        """Read, write and enter them."""
        _Batch(batch, self._form).take(files)


def take_again(spark: SparkSession, warehouse: Warehouse, files: Mapping[str, tuple[str, int]], run_id: str) -> None:
    """Take files of which nothing could be read before, by path with their formats and lengths, if they can be now.

    Spark's list of what was read never hands over a path twice. Each is a batch of its own, named after what it is.
    """
    for path in sorted(files.keys() - unreadable(spark, sorted(files))):
        form, length = files[path]
        batch = Batch(spark, warehouse, number_of(f"again:{path}:{length}"), run_id)
        _Batch(batch, form).take({path: length})


class _Batch:
    """One batch: its rows, its lines that are none, and its part of the ledger."""

    def __init__(self, batch: Batch, form: str) -> None:
        self._batch = batch
        self._spark, self._warehouse, self._number = batch.spark, batch.warehouse, batch.number
        self._form = form

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
                    F.substring(LINE, 1, MAX_LINE).alias("line"),
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
        """Enter the batch by what the tables hold now."""
        good = count_by(self._warehouse.batch("s3_access", self._number), "src_file")
        # Of a file that was not read there is no line.
        lines = self._warehouse.batch("quarantine", self._number).where(F.col("line").isNotNull())
        bad = count_by(lines, "path")
        verdict = WHOLE if sum(good.values()) + sum(bad.values()) == rows else SHORT
        entries = [
            (path, self._form, good.get(path, 0), bad.get(path, 0), length, UNREADABLE if path in torn else verdict)
            for path, length in sorted(found.items())
        ]
        self._batch.enter(LEDGER, ((*entry, self._batch.run_id, self._number) for entry in entries))


def _name_of(path: str) -> Column:
    return F.element_at(F.split(path, "/"), -1).alias("segment")
