"""Prove that an ingest that was killed leaves nothing out and nothing twice once it is run again."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.e2e.jobs.crash_rig import ingest, killed, lay_out, state


@pytest.mark.parametrize(
    "points", (pytest.param(5, marks=pytest.mark.ci), pytest.param(20, marks=pytest.mark.crash)), ids=str
)
def test_a_killed_ingest_is_made_good_by_the_next(spark: SparkSession, tmp_path: Path, points: int) -> None:
    """A node that goes down in the night must not make an access vanish, or count it twice."""
    segments = tmp_path / "audit"
    lay_out(segments)
    ingest(segments, tmp_path / "undisturbed")
    expected = state(spark, tmp_path / "undisturbed")
    assert len(expected["events"]) == 8 * 90 - 20 + 9
    assert len(expected["quarantine"]) == 2
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    print(f"the seed of the points: {seed}")  # noqa: T201 - shown on failure
    # One after the other on the same warehouse: each begins where a killed one left it.
    drawn = [killed(segments, tmp_path / "killed", rng) for _ in range(points)]
    ingest(segments, tmp_path / "killed")
    assert state(spark, tmp_path / "killed") == expected, (seed, drawn)
