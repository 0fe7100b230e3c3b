"""Work on a bucket through Hadoop's S3A, as Spark jobs do; runs in PySpark's own environment.

Takes a JSON document on standard input, writes one to a file: the outcome of each step by name.
"""

# ruff: noqa: BLE001, C901, PTH123  # A script; a step that fails is an outcome, and Hadoop is reached through the gateway.

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import SparkSession

ROWS = 20_000


def steps(spark: SparkSession, root: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield what is done, in its order."""
    jvm: Any = spark._jvm
    hadoop = jvm.org.apache.hadoop.fs
    fs = hadoop.Path(root).getFileSystem(spark._jsc.hadoopConfiguration())

    def path(name: str) -> Any:
        return hadoop.Path(f"{root}/{name}")

    def names(name: str) -> list[str]:
        return sorted(found.getPath().getName() for found in fs.listStatus(path(name)))

    def create(name: str, text: str = "text") -> None:
        out = fs.create(path(name))
        out.write(bytearray(text.encode()))
        out.close()

    def marker() -> list[Any]:
        made = fs.mkdirs(path("empty/deep"))
        return [made, fs.getFileStatus(path("empty/deep")).isDirectory(), names("empty")]

    def probe() -> list[Any]:
        create("probed/a/b/file")
        return [fs.exists(path("probed/a")), fs.exists(path("probed/nothing")), names("probed/a/b")]

    def rename() -> list[Any]:
        for number in range(12):
            create(f"before/{number:02}", "x" * number)
        moved = fs.rename(path("before"), path("after"))
        return [moved, fs.exists(path("before")), len(names("after"))]

    def delete() -> list[Any]:
        return [fs.delete(path("after"), True), fs.exists(path("after"))]

    def write() -> int:
        spark.range(ROWS).selectExpr("id", "id % 5 AS part", "repeat('x', 200) AS text").repartition(
            4
        ).write.partitionBy("part").parquet(f"{root}/table")
        return spark.read.parquet(f"{root}/table").where("part = 3").count()

    def overwrite() -> int:
        spark.range(ROWS // 2).repartition(3).write.mode("overwrite").csv(f"{root}/lines")
        spark.range(ROWS).repartition(3).write.mode("overwrite").csv(f"{root}/lines")
        return spark.read.csv(f"{root}/lines").count()

    def committed() -> str:
        # Whose name begins with an underscore Spark does not read.
        stream = fs.open(path("table/_SUCCESS"))
        text = jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        stream.close()
        return str(json.loads(text)["committer"])

    def large() -> int:
        spark.sparkContext.parallelize(range(2), 2).map(lambda _: "y" * (12 << 20)).saveAsTextFile(f"{root}/large")
        (counted,) = spark.read.text(f"{root}/large").selectExpr("sum(length(value)) AS all").collect()
        return int(counted["all"])

    def rest() -> list[str]:
        return sorted(found.getPath().getName() for found in fs.listStatus(hadoop.Path(root)))

    yield "directory marker", marker
    yield "parent probes", probe
    yield "rename", rename
    yield "bulk delete", delete
    yield "magic committer", write
    yield "committer", committed
    yield "overwrite", overwrite
    yield "multipart upload", large
    yield "rest", rest
    yield "delete all", lambda: fs.delete(hadoop.Path(root), True)


def main(told: str) -> None:
    """Run every step, and tell what became of each."""
    asked = json.load(sys.stdin)
    builder = SparkSession.builder.master("local[2]")
    for name, value in asked["conf"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    outcomes: dict[str, Any] = {}
    for name, step in steps(spark, asked["root"]):
        try:
            outcomes[name] = step()
        except Exception as error:
            outcomes[name] = f"{type(error).__name__}: {str(error)[:1500]}"
        with open(told, "w") as file:
            json.dump(outcomes, file)
    spark.stop()


main(sys.argv[1])
