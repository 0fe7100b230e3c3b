"""Give the tests of the pipeline one Spark: starting it takes as long as all that is asked of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from signproxy.pipeline.job import JobContext, Progress
from signproxy.pipeline.session import SessionOptions, open_session
from signproxy.pipeline.warehouse import Warehouse

PATIENCE = 600
"""Seconds for one test: a Spark that is given up in its midst fails all tests after it."""

SMALL = {
    # A plan for three rows has nothing to share out.
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.adaptive.enabled": "false",
    # Compiling what a query does takes longer than to do it for a few rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tell the tests that ask for Spark apart: together they take longer than all others, and share one Spark."""
    here = f"{Path(__file__).parent}{os.sep}"
    for item in items:
        if str(item.path).startswith(here) and "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(PATIENCE))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session for all tests of this worker; tests leave nothing in it."""
    place = tmp_path_factory.mktemp("spark")
    conf = {**SMALL, "spark.sql.warehouse.dir": str(place / "catalog"), "spark.local.dir": str(place / "local")}
    with open_session(SessionOptions("local[2]", "768m", conf)) as session:
        yield session


@pytest.fixture
def warehouse(spark: SparkSession, tmp_path: Path) -> Warehouse:
    """An empty warehouse."""
    return Warehouse(spark, str(tmp_path / "warehouse"))


@pytest.fixture
def context(spark: SparkSession, warehouse: Warehouse) -> JobContext:
    """What a job is given, with no inputs."""
    return JobContext(spark, warehouse, Progress())
