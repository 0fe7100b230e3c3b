"""Take one batch of log files after the other into `s3_access`; what a batch wrote is replaced if it comes again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.pipeline.intake import batch_number
from signproxy.pipeline.progress import Progress
from signproxy.pipeline.s3log.formats import FORMATS
from signproxy.pipeline.s3log.rows import COLUMNS, LINE, PROBLEM
from signproxy.pipeline.schemas import BATCH, DAY, table
from signproxy.pipeline.warehouse import Warehouse

LEDGER = "s3log_files"
WHOLE, SHORT = "whole", "short"
"""Whether the tables hold as many rows of a batch as its files had."""

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
        if not warehouse.batch(LEDGER, number).isEmpty():
            return
        seen = Observation()
        read = FORMATS[self._form].read(spark, sorted(found))
        is_bad = F.col(PROBLEM).isNotNull()
        observed = read.observe(seen, F.count(F.lit(1)).alias("rows"), F.count_if(is_bad).alias("bad"))
        good = observed.where(~is_bad).select(
            *COLUMNS, "src_file", F.to_date("ts").alias(DAY), F.lit(number).alias(BATCH)
        )
        warehouse.replace("s3_access", good)
        counted = seen.get
        if counted["bad"]:
            # Spark would ask for the problem before it computes what that is told by, and compute it anew wherever it
            # stands: more code than a method of Java's may have. Nothing is asked before an observation.
            told = read.observe(Observation(), F.count(F.lit(1)).alias("rows"))
            bad = told.where(is_bad).select(
                F.col("src_file").alias("path"),
                F.element_at(F.split("src_file", "/"), -1).alias("segment"),
                F.col(PROBLEM).alias("reason"),
                F.substring(LINE, 1, _MAX_LINE).alias("line"),
                F.lit(number).alias(BATCH),
            )
            warehouse.replace("quarantine", bad)
        self._enter(spark, warehouse, found, (number, counted["rows"]))

    def _enter(self, spark: SparkSession, warehouse: Warehouse, found: dict[str, int], of: tuple[int, int]) -> None:
        """Write the batch's part of the ledger, the last thing that happens to it, by what the tables hold now."""
        number, rows = of
        good = _counts(warehouse.batch("s3_access", number), "src_file")
        bad = _counts(warehouse.batch("quarantine", number), "path")
        verdict = WHOLE if sum(good.values()) + sum(bad.values()) == rows else SHORT
        entries: Sequence[tuple[Any, ...]] = [
            (path, self._form, good.get(path, 0), bad.get(path, 0), length, verdict, self._run_id, number)
            for path, length in sorted(found.items())
        ]
        frame = spark.createDataFrame(entries, table(LEDGER).columns)
        warehouse.replace(LEDGER, frame.coalesce(1))


def _counts(frame: DataFrame, name: str) -> dict[str, int]:
    return {row[name]: row["count"] for row in frame.groupBy(name).count().collect()}
