"""Prove that the jobs come to the same rows wherever Spark runs."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from signproxy.pipeline.warehouse import Warehouse
from tests.e2e.jobs.places import Place, Steps, cluster, connect, here
from tools.sample_data.generate import Size, generate
from tools.sample_data.truth import read_summary

pytestmark = pytest.mark.timeout(3600)

_TABLES = {
    "events": ("ingest_batch",),
    "segments": ("run_id", "ingest_batch"),
    "quarantine": ("ingest_batch",),
    "s3_access": ("ingest_batch",),
    "access_attribution": (),
    "findings": (),
}
"""What the jobs write, and the columns that name a run."""


@pytest.mark.parametrize("place", (cluster, connect))
def test_jobs_come_to_the_same_wherever_spark_runs(
    spark: SparkSession, tmp_path: Path, place: Callable[[Path], AbstractContextManager[Place]]
) -> None:
    """What was tried on a laptop must not be another answer on the cluster."""
    month, steps = _month(tmp_path)
    here().run(steps, tmp_path / "here")
    expected = _rows(spark, tmp_path / "here")
    assert all(len(rows) > 1 for rows in expected.values()), {name: len(rows) for name, rows in expected.items()}
    with place(tmp_path) as there:
        there.run(steps, tmp_path / "there")
    found = _rows(spark, tmp_path / "there")
    for name, rows in expected.items():
        assert found[name] == rows, (name, month)


def _month(directory: Path) -> tuple[int, Steps]:
    """Return the seed of a month, and the jobs over it."""
    seed = secrets.randbits(32)
    demo = directory / "demo"
    generate(demo, Size(seed=seed, events=12_000, tables=2_000, instances=2))
    summary = read_summary(demo / "truth")
    s3log = ("ingest-s3log", "--format", "aws", "--input", str(demo / "logs" / "aws"), "--max-bad-ratio", "1")
    return seed, (
        ("ingest", "--input", str(demo / "audit"), "--max-bad-ratio", "1"),
        s3log,
        (
            *("reconcile", "--proxy", ",".join(sorted(set(summary.proxy.values())))),
            *("--known-services", ",".join(summary.known_services), "--vending-role", summary.vending_role),
        ),
    )


def _rows(spark: SparkSession, path: Path) -> dict[str, list[str]]:
    warehouse = Warehouse(spark, str(path))
    return {
        name: sorted(
            json.dumps(row.asDict(recursive=True), default=str, sort_keys=True)
            for row in warehouse.read(name).drop(*dropped).collect()
        )
        for name, dropped in _TABLES.items()
    }
