"""Find the files that cannot be unpacked to their end, among those that a batch died of."""

from __future__ import annotations

from collections.abc import Sequence

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # py4j says nothing of its types
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

SPARK_FAILED = (PySparkException, Py4JJavaError)
"""What a file that cannot be unpacked comes out as: by where it is torn, Spark's Python knows the fault or does not."""


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
