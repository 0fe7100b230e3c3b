"""Do to tables what Spark jobs do to them, step by step; runs in PySpark's own environment.

Reads one JSON file, writes another: the outcome of each step by name. Nothing here knows of signing: what makes the
session sign is in its configuration.
"""

# ruff: noqa: S608
# Its statements are written here; no foreign text is in them.
# mypy: disable-error-code="import-not-found"
# PySpark is not installed where the tests are checked; each release has an environment of its own.

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What is a separator, an escape or an operator somewhere between the engine, the path, the URI and the store.
CITIES = ("a b", "a+b", "é", "%2F", "=")

COPY_ON_WRITE, MERGE_ON_READ = "copy-on-write", "merge-on-read"

TRIGGER_SECONDS = 3


class Job:
    """A session, the names of its catalogs, and what became of each step."""

    def __init__(self, asked: dict[str, Any], spark: SparkSession) -> None:
        self.asked = asked
        self.spark = spark
        self.outcomes: dict[str, dict[str, Any]] = {}
        self.writer, self.reader, self.second = (asked["catalogs"][name] for name in ("writer", "reader", "second"))

    def step(self, name: str, action: Callable[[], Any]) -> None:
        """Carry out a step; the next one is carried out in any case."""
        if self.asked.get("only") and name not in self.asked["only"]:
            return
        began = time.monotonic()
        try:
            outcome: dict[str, Any] = {"value": action()}
        except Exception as error:  # noqa: BLE001  # an outcome like any other, judged by the test
            outcome = {"error": type(error).__name__, "message": _told(error)}
        self.outcomes[name] = {**outcome, "seconds": round(time.monotonic() - began, 1)}
        print(f"{name}: {self.outcomes[name]}", file=sys.stderr, flush=True)  # noqa: T201  # the job's log

    def sql(self, statement: str) -> list[list[Any]]:
        """Run a statement and return its rows."""
        return [list(row) for row in self.spark.sql(statement).collect()]

    def rows(self, table: str, where: str = "true") -> list[list[Any]]:
        """Return rows of one of the tables of orders, in their order."""
        return self.sql(f"SELECT id, city, amount FROM {table} WHERE {where} ORDER BY id")


def _told(error: Exception) -> str:
    """Return what the JVM says, cause by cause, without its stacks."""
    lines = [line.strip() for line in str(error).splitlines()]
    return "\n".join(line for line in lines if line and not line.startswith("at "))[:4000]


def _values(first: int) -> str:
    quoted = (city.replace("'", "''") for city in CITIES)
    return ", ".join(f"({first + number}, '{city}', {first + number}.5)" for number, city in enumerate(quoted))


def changes(job: Job, table: str, mode: str) -> None:
    """Create, insert, select, update, delete and merge, in one of Iceberg's two ways to write changes."""
    name = f"{job.writer}.{table}"
    modes = ", ".join(f"'write.{what}.mode'='{mode}'" for what in ("delete", "update", "merge"))

    def create() -> str:
        job.sql(
            f"CREATE TABLE {name} (id BIGINT, city STRING, amount DOUBLE) USING iceberg PARTITIONED BY (city) "
            f"TBLPROPERTIES ('format-version'='2', {modes})"
        )
        return mode

    def insert() -> int:
        job.sql(f"INSERT INTO {name} VALUES {_values(0)}")
        job.sql(f"INSERT INTO {name} VALUES {_values(10)}")
        return len(job.rows(name))

    def merge() -> list[list[Any]]:
        job.sql(
            f"MERGE INTO {name} t USING (SELECT 1 AS id, 'a+b' AS city, 100.0 AS amount "
            f"UNION ALL SELECT 99, 'new/one', 99.0) s ON t.id = s.id AND t.city = s.city "
            "WHEN MATCHED THEN UPDATE SET amount = s.amount WHEN NOT MATCHED THEN INSERT *"
        )
        return job.rows(name)

    def delete() -> list[list[Any]]:
        job.sql(f"DELETE FROM {name} WHERE city = '%2F' AND id < 10")
        return job.rows(name)

    def update() -> list[list[Any]]:
        job.sql(f"UPDATE {name} SET amount = amount + 1000 WHERE city = 'é'")
        return job.rows(name)

    job.step(f"{mode}: create", create)
    job.step(f"{mode}: insert", insert)
    job.step(
        f"{mode}: select", lambda: {city: [row[0] for row in job.rows(name, f"city = '{city}'")] for city in CITIES}
    )
    job.step(f"{mode}: select by range", lambda: [row[0] for row in job.rows(name, "amount > 10")])
    job.step(f"{mode}: update", update)
    job.step(f"{mode}: delete", delete)
    job.step(f"{mode}: merge", merge)


def maintenance(job: Job, table: str) -> None:
    """Call the procedures that rewrite and remove files."""
    name, system = f"{job.writer}.{table}", f"{job.writer}.system"

    def call(procedure: str, arguments: str = "") -> dict[str, Any]:
        rows = job.spark.sql(f"CALL {system}.{procedure}(table => '{table}'{arguments})").collect()
        return dict(rows[0].asDict()) if rows else {}

    def orphans() -> list[str]:
        # The procedure leaves alone what is younger than a day; its Java does as it is told.
        jvm: Any = job.spark._jvm
        loaded = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(job.spark._jsparkSession, name)
        orphan = f"{loaded.location()}/data/orphan.parquet"
        loaded.io().newOutputFile(orphan).create().close()
        action = jvm.org.apache.iceberg.spark.actions.SparkActions.get(job.spark._jsparkSession)
        found = action.deleteOrphanFiles(loaded).usePrefixListing(True).olderThan(int(time.time() * 1000) + 60_000)
        return [location.rpartition("/")[2] for location in found.execute().orphanFileLocations()]

    job.step("metadata tables", lambda: [len(job.sql(f"SELECT * FROM {name}.{meta}")) > 0 for meta in _METADATA])
    job.step("time travel", lambda: len(job.sql(f"SELECT * FROM {name} VERSION AS OF {_first_snapshot(job, name)}")))
    job.step("rewrite_data_files", lambda: call("rewrite_data_files", ", options => map('rewrite-all', 'true')"))
    job.step("rewrite_manifests", lambda: call("rewrite_manifests"))
    job.step("compute_table_stats", lambda: call("compute_table_stats"))
    job.step("expire_snapshots", lambda: call("expire_snapshots", f", older_than => {_FUTURE}, retain_last => 1"))
    job.step("remove_orphan_files", lambda: call("remove_orphan_files", ", prefix_listing => true"))
    job.step("remove_orphan_files by location", orphans)
    job.step("after maintenance", lambda: job.rows(name))


_METADATA = ("files", "snapshots", "manifests", "partitions", "history", "all_data_files")
_FUTURE = "TIMESTAMP '2100-01-01 00:00:00'"


def _first_snapshot(job: Job, name: str) -> int:
    return int(job.sql(f"SELECT snapshot_id FROM {name}.snapshots ORDER BY committed_at LIMIT 1")[0][0])


def whole_tables(job: Job, source: str) -> None:
    """Make tables of queries, change their shape, rename them, look at them through a view, and drop them."""
    writer = job.writer
    made, renamed = f"{writer}.sales.made", "sales.renamed"

    def create_as() -> int:
        job.sql(f"CREATE TABLE {made} USING iceberg AS SELECT * FROM {writer}.{source} WHERE id < 10")
        return len(job.rows(made))

    def replace_as() -> int:
        job.sql(f"CREATE OR REPLACE TABLE {made} USING iceberg AS SELECT * FROM {writer}.{source}")
        return len(job.rows(made))

    def alter() -> list[list[Any]]:
        job.sql(f"ALTER TABLE {made} ADD COLUMN note STRING")
        job.sql(f"ALTER TABLE {made} ADD PARTITION FIELD bucket(2, id)")
        job.sql(f"INSERT INTO {made} VALUES (500, 'x', 1.0, 'new')")
        return job.sql(f"SELECT note FROM {made} WHERE id = 500")

    def rename() -> int:
        job.sql(f"ALTER TABLE {made} RENAME TO {renamed}")
        job.sql(f"INSERT INTO {writer}.{renamed} VALUES (501, 'y', 1.0, 'renamed')")
        return len(job.rows(f"{writer}.{renamed}", "id >= 500"))

    def view() -> int:
        job.sql(f"CREATE VIEW {writer}.sales.seen AS SELECT id FROM {writer}.{source} WHERE city = 'a b'")
        return len(job.sql(f"SELECT * FROM {writer}.sales.seen"))

    def drop(name: str, purge: str) -> bool:
        job.sql(f"DROP TABLE {name}{purge}")
        return bool(job.spark.catalog.tableExists(name))

    job.step("create as select", create_as)
    job.step("replace as select", replace_as)
    job.step("alter", alter)
    job.step("rename", rename)
    job.step("view", view)
    job.step("drop view", lambda: job.sql(f"DROP VIEW {writer}.sales.seen"))
    job.step("drop purge", lambda: drop(f"{writer}.{renamed}", " PURGE"))
    job.step("create again", create_as)
    job.step("drop", lambda: drop(made, ""))


def several_users(job: Job, source: str) -> None:
    """Use several catalogs in one JVM: another one, and the same one as a user who may only read."""
    name = f"{job.second}.sales.copied"

    def copy() -> int:
        job.sql(f"CREATE TABLE {name} (id BIGINT, city STRING, amount DOUBLE) USING iceberg PARTITIONED BY (city)")
        # One job that reads as one user and writes as another.
        job.sql(f"INSERT INTO {name} SELECT * FROM {job.reader}.{source}")
        return len(job.rows(name))

    def close() -> int:
        closed = f"{job.writer}.sales.closed"
        job.sql(f"CREATE TABLE {closed} (id BIGINT, city STRING, amount DOUBLE) USING iceberg")
        job.sql(f"INSERT INTO {closed} VALUES {_values(0)}")
        return len(job.rows(closed))

    job.step("writer: closed table", close)
    job.step("reader: select", lambda: job.rows(f"{job.reader}.{source}"))
    job.step("two catalogs", copy)
    job.step("reader: insert", lambda: job.sql(f"INSERT INTO {job.reader}.{source} VALUES (700, 'no', 0.0)"))
    job.step("reader: overwrite", lambda: job.sql(f"INSERT OVERWRITE {job.reader}.{source} VALUES (700, 'no', 0.0)"))
    job.step("writer: select after", lambda: job.rows(f"{job.writer}.{source}"))
    job.step("reader: denied", lambda: job.rows(f"{job.reader}.sales.closed"))


def write_once(job: Job) -> None:
    """Append to a table whose objects may be written once."""
    name = f"{job.second}.sales.once"

    def append() -> int:
        job.sql(f"CREATE TABLE {name} (id BIGINT, city STRING, amount DOUBLE) USING iceberg PARTITIONED BY (city)")
        for first in (0, 10, 20):
            job.sql(f"INSERT INTO {name} VALUES {_values(first)}")
        job.sql(f"DELETE FROM {name} WHERE id = 11")
        return len(job.rows(name))

    job.step("write-once: append", append)


def stream(job: Job) -> None:
    """Append for longer than any token of the session lives."""
    name = f"{job.writer}.sales.streamed"
    seconds = float(job.asked["stream_seconds"])

    def run() -> dict[str, Any]:
        job.sql(f"CREATE TABLE {name} (id BIGINT, at TIMESTAMP) USING iceberg PARTITIONED BY (bucket(2, id))")
        source = job.spark.readStream.format("rate").option("rowsPerSecond", 5).load()
        rows = source.selectExpr("value AS id", "timestamp AS at")
        query = (
            rows.writeStream.format("iceberg")
            .trigger(processingTime=f"{TRIGGER_SECONDS} seconds")
            .option("checkpointLocation", job.asked["checkpoint"])
            .option("fanout-enabled", "true")
            .toTable(name)
        )
        began = time.monotonic()
        while query.isActive and time.monotonic() - began < seconds:
            time.sleep(1)
        # Stopped between two batches: what is interrupted was signed and never sent.
        while query.isActive and query.status["isTriggerActive"]:
            time.sleep(0.05)
        failure = query.exception()
        query.stop()
        if failure is not None:
            raise RuntimeError(str(failure))
        count, distinct, last = job.sql(f"SELECT count(*), count(DISTINCT id), max(id) FROM {name}")[0]
        progress: Any = query.lastProgress
        return {"batches": progress["batchId"], "rows": count, "distinct": distinct, "last": last}

    job.step("stream", run)


def main(asked_file: str, told_file: str) -> None:
    """Carry out the whole job."""
    from pyspark.sql import SparkSession

    asked = json.loads(Path(asked_file).read_text())
    builder = SparkSession.builder.master("local[2]").appName("e2e")
    for key, value in asked["conf"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    job = Job(asked, spark)
    changes(job, "sales.orders", COPY_ON_WRITE)
    changes(job, "sales.deltas", MERGE_ON_READ)
    several_users(job, "sales.orders")
    whole_tables(job, "sales.orders")
    write_once(job)
    stream(job)
    maintenance(job, "sales.orders")
    job.step("end", lambda: job.rows(f"{job.writer}.sales.orders"))
    # Whatever the JVM ever held is in its heap, garbage included.
    jvm: Any = spark._jvm
    pid = jvm.java.lang.ProcessHandle.current().pid()
    if asked["heap_dump"]:
        subprocess.run(
            (asked["jcmd"], str(pid), "GC.heap_dump", "-all", asked["heap_dump"]), check=True, stdout=sys.stderr
        )
    Path(told_file).write_text(json.dumps({"steps": job.outcomes, "spark": spark.version}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
