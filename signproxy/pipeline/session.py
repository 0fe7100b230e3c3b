"""Open the one Spark session of a run; nothing else in the pipeline knows how Spark is set up."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import msgspec
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j says nothing of its types
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from signproxy.errors import Finding, Invalid
from signproxy.pipeline.java import java_home

_LOCAL = "local"

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # A day and a batch that are written again take the place of what is there, and leave all others alone.
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    # A segment holds events of one day, or of two around midnight: no sort is needed to write them apart.
    "spark.sql.maxConcurrentOutputFileWriters": "16",
    # What cannot be read must be known, not skipped.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.adaptive.enabled": "true",
    # What is kept for a second look has as many parts as its rows need too, not the two hundred of any shuffle: each
    # part is a task at every read, and a day's reconcile would be nearly nothing but the start of tasks.
    "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true",
}

_HERE = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "ERROR",
    # No client is held up by a job's pauses, and collecting beside the work costs more than stopping for it.
    "spark.driver.defaultJavaOptions": "-XX:+UseParallelGC",
}
"""Where Spark runs in this process alone: nothing listens beyond loopback."""

_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set by `spark-submit`, which started the Java side already and said where the work runs."""


class SessionOptions(msgspec.Struct, frozen=True):
    """Where Spark runs, and what the operator adds."""

    master: str = ""
    """Empty: what `spark-submit` or `SPARK_REMOTE` says, else this machine's cores."""
    memory: str = "1g"
    """The heap, where Spark runs in this process."""
    conf: Mapping[str, str] = {}


@contextmanager
def open_session(options: SessionOptions) -> Iterator[SparkSession]:
    """Yield a session, and end it. Raise Invalid where Spark cannot be had."""
    session = _session(options)
    try:
        yield session
    finally:
        # A Java that died, or was ended, has nothing left to stop.
        with suppress(ConnectionError, Py4JError):
            session.stop()


def _session(options: SessionOptions) -> SparkSession:
    remote = os.environ.get("SPARK_REMOTE", "")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {**SETTINGS, **options.conf}
    if remote:
        return _built(SparkSession.builder.remote(remote), settings)
    builder = SparkSession.builder.appName("signproxy-pipeline")
    master = options.master or os.environ.get("MASTER", "")
    if not master and _SUBMITTED not in os.environ:
        master = "local[*]"
    if master:
        builder = builder.master(master)
    if master.startswith(_LOCAL):
        # A bar of its own for each stage, for who sits before it.
        bar = "true" if sys.stderr.isatty() else "false"
        here = {**_HERE, "spark.driver.memory": options.memory, "spark.ui.showConsoleProgress": bar}
        settings = {**here, **settings}
    if _SUBMITTED not in os.environ:
        os.environ["JAVA_HOME"] = java_home()
    return _built(builder, settings)


def _built(builder: SparkSession.Builder, settings: Mapping[str, str]) -> SparkSession:
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except ImportError as error:
        # Spark Connect's client has needs of its own.
        raise Invalid([Finding("", "SPARK_REMOTE", str(error))]) from None
    except PySparkRuntimeError as error:
        # What Java had to say of its options stands above, in its own words.
        raise Invalid([Finding("", "--conf, --memory", f"Spark does not start: {error.getMessage()}")]) from None
