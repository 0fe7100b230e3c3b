"""Take what is there of an input, batch by batch, each exactly once however often it is begun anew."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # py4j says nothing of its types
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.pipeline.job import JobContext, Progress
from signproxy.pipeline.warehouse import Warehouse

FOREVER = "36500d"
"""Spark passes over files that are a week older than the newest it saw; what is late may be as late as it likes."""

MAX_LINE = 65_536
"""Characters that are kept of a line which was not taken."""

_BINARY_FILE = "path string, modificationTime timestamp, length long, content binary"
_LOOK_SECONDS = 2


SPARK_FAILED = (PySparkException, Py4JJavaError)
"""What a file that cannot be unpacked comes out as: by where it is torn, Spark's Python knows the fault or does not."""


class Batch(NamedTuple):
    """A batch, under the number that it has in the warehouse."""

    spark: SparkSession
    warehouse: Warehouse
    number: int
    run_id: str

    def enter(self, ledger: str, rows: Iterable[tuple[object, ...]]) -> None:
        """Write the batch's part of the ledger, the last thing that happens to it."""
        self.warehouse.replace(ledger, self.warehouse.rows_of(ledger, list(rows)).coalesce(1))


class Intake(ABC):
    """What Spark's streaming calls for each batch, here or, with Spark Connect, on the server's side."""

    ledger: str

    def __init__(
        self, warehouse: str, checkpoint: str, run_id: str, local: tuple[SparkSession, Progress] | None
    ) -> None:
        self.checkpoint = f"{warehouse}/_checkpoints/{checkpoint}"
        self._warehouse = warehouse
        self._run_id = run_id
        self._local = local
        self.problem: Exception | None = None
        """Why the last batch could not be taken: what Spark makes of it says little."""

    def __getstate__(self) -> dict[str, Any]:
        """Leave behind what is of this process alone."""
        return {**self.__dict__, "_local": None}

    @abstractmethod
    def read(self, batch: Batch, files: Mapping[str, int]) -> None:
        """Read, write and enter files, by path with their lengths."""

    def take(self, files: DataFrame, batch_id: int) -> None:
        """Take a batch, unless it was entered before; the same number may come again after a crash."""
        found = {row["path"]: row["length"] for row in files.select("path", "length").collect()}
        if not found:
            return
        # Spark hands over a session of the stream's own, which plans without a look at what it finds.
        spark = files.sparkSession if self._local is None else self._local[0]
        try:
            warehouse = Warehouse(spark, self._warehouse)
            number = self._number(spark, batch_id)
            if warehouse.batch(self.ledger, number).isEmpty():
                self.read(Batch(spark, warehouse, number, self._run_id), found)
        except Exception as error:
            self.problem = error
            raise
        if self._local is not None:
            self._local[1].advance(len(found))

    def _number(self, spark: SparkSession, batch_id: int) -> int:
        """Return the number of a batch in the warehouse, which no other batch of any list has."""
        said = spark.read.text(f"{self.checkpoint}/metadata").collect()
        return number_of(f"{json.loads(''.join(row['value'] for row in said))['id']}:{batch_id}")


def number_of(name: str) -> int:
    """Return a batch's number, from a name that no other one has."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) >> 1


def take_what_is_there(context: JobContext, path: str, intake: Intake, options: Mapping[str, str], most: int) -> None:
    """Give every batch that is there below a path to the intake, of so many files at most, and end."""
    stream = (
        context.spark.readStream.format("binaryFile")
        .schema(_BINARY_FILE)
        .options(recursiveFileLookup="true", **options)
        .option("maxFileAge", FOREVER)
        .option("maxFilesPerTrigger", most)
        .load(path)
        .select("path", "length")
    )
    query = (
        stream.writeStream.foreachBatch(intake.take)
        .option("checkpointLocation", intake.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    try:
        while not query.awaitTermination(_LOOK_SECONDS):
            # Spark asks in turn; an interrupt is heard between two waits.
            pass
    except StreamingQueryException:
        if intake.problem is None:
            raise
        raise intake.problem from None
    finally:
        query.stop()


def files_below(spark: SparkSession, path: str, options: Mapping[str, str]) -> DataFrame:
    """Return the files that are below a path now, with their lengths."""
    files = spark.read.format("binaryFile").options(recursiveFileLookup="true", **options).load(path)
    return files.select("path", "length")


def label_of(path: str) -> str:
    """Return a name for an input, so that each has a list of its own of what was read."""
    readable = "".join(character if character.isalnum() else "-" for character in path).strip("-")[-60:]
    return f"{readable}-{hashlib.sha256(path.rstrip('/').encode()).hexdigest()[:8]}"


def unreadable(spark: SparkSession, paths: Sequence[str]) -> set[str]:
    """Return the files that Spark cannot unpack to their end, found by halves."""
    try:
        spark.read.text(list(paths)).select(F.max(F.length("value"))).collect()
    except SPARK_FAILED:
        if len(paths) == 1:
            return set(paths)
        half = len(paths) // 2
        return unreadable(spark, paths[:half]) | unreadable(spark, paths[half:])
    return set()
