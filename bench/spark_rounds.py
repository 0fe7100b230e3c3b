"""Run one small job on two catalogs of one Spark session in turns, and tell the seconds; runs in PySpark's environment.

python spark_rounds.py <asked.json> <told.json>
"""

# mypy: disable-error-code="import-not-found"
# PySpark is not installed where this is checked; each release has an environment of its own.

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

ROWS = 20_000
DAYS = 8
"""Partitions, and so data files of each write."""
_FUTURE = "2100-01-01 00:00:00"


def job(spark: SparkSession, catalog: str, namespace: str) -> None:
    """Create, insert, read, merge, compact, expire and drop."""
    table = f"{catalog}.{namespace}.orders"

    def run(statement: str) -> list[object]:
        return list(spark.sql(statement).collect())

    run(
        f"CREATE TABLE {table} (id BIGINT, day INT, amount DOUBLE) USING iceberg PARTITIONED BY (day) "
        "TBLPROPERTIES ('format-version'='2', 'write.merge.mode'='merge-on-read')"
    )
    for _ in range(2):
        run(f"INSERT INTO {table} SELECT id, CAST(id % {DAYS} AS INT), id * 0.5 FROM range({ROWS})")
    found = run(f"SELECT day, count(*), sum(amount) FROM {table} GROUP BY day")
    assert len(found) == DAYS, found
    run(
        f"MERGE INTO {table} t USING (SELECT id FROM range({ROWS // 100})) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET t.amount = 0"
    )
    run(f"DELETE FROM {table} WHERE day = 0")
    of_table = f"table => '{namespace}.orders'"
    run(f"CALL {catalog}.system.rewrite_data_files({of_table}, options => map('rewrite-all', 'true'))")
    run(f"CALL {catalog}.system.expire_snapshots({of_table}, older_than => TIMESTAMP '{_FUTURE}', retain_last => 1)")
    assert run(f"SELECT count(*) FROM {table}"), "a table has a count"
    run(f"DROP TABLE {table}")


def main(asked_file: str, told_file: str) -> None:
    """Run all rounds; every second one backwards, so that a drift favours no contender."""
    asked = json.loads(Path(asked_file).read_text())
    builder = SparkSession.builder.master("local[2]").appName("overhead")
    for name, value in asked["conf"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    catalogs: list[list[str]] = asked["catalogs"]
    taken: dict[str, list[float]] = {name: [] for name, _ in catalogs}
    for number in range(-asked["warm_up"], asked["rounds"]):
        for catalog, namespace in catalogs if number % 2 == 0 else catalogs[::-1]:
            begun = time.monotonic()
            job(spark, catalog, namespace)
            if number >= 0:
                taken[catalog].append(time.monotonic() - begun)
    Path(told_file).write_text(json.dumps(taken))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
