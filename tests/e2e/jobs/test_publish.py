"""PyIceberg itself reads the published tables: the rows of the warehouse, each once, whatever happened to them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from signproxy.pipeline.job import Exit
from tests.e2e.clients.install import pyiceberg

LIMIT = 1200
REPOSITORY = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run the driver with the libraries of an environment that has PyIceberg."""
    place = tmp_path_factory.mktemp("publish")
    home = pyiceberg().parent.parent
    library = home / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    env = os.environ | {
        "PYTHONPATH": f"{REPOSITORY}:{library}",
        "PYICEBERG_CATALOG__DEFAULT__TYPE": "sql",
        "PYICEBERG_CATALOG__DEFAULT__URI": f"sqlite:///{place}/catalog.db",
        "PYICEBERG_CATALOG__DEFAULT__WAREHOUSE": f"file://{place}/iceberg",
    }
    # A space: paths are URIs to some and names to others.
    command = (sys.executable, "-m", "tests.e2e.jobs.publish_driver", f"{place}/the warehouse")
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return found


def _ids(batches: int) -> list[str]:
    return sorted(f"{number}-{day}" for number in range(batches) for day in (0, 1))


@pytest.mark.ci
def test_published_tables_have_the_warehouse_s_rows(steps: dict[str, Any]) -> None:
    """Whoever asks through Trino or DuckDB must miss no access."""
    assert steps["first"]["exit"] == Exit.OK, steps["first"]["problem"]
    tables = steps["first"]["tables"]
    assert tables["events"]["ids"] == _ids(5)
    assert tables["events"]["of_a_day"] == 5
    # Columns that stand in paths alone are in the copies.
    assert tables["findings"]["jobs"] == ["ingest"]
    assert "reconciled" not in tables


@pytest.mark.ci
def test_only_what_is_new_is_committed(steps: dict[str, Any]) -> None:
    """A table with a commit for each hour in which nothing happened has a thousand versions of the same."""
    first, same, more = (steps[name]["tables"]["events"] for name in ("first", "unchanged", "one more"))
    assert same["snapshots"] == first["snapshots"]
    assert more["snapshots"] > same["snapshots"]
    assert more["ids"] == _ids(6)


@pytest.mark.ci
def test_a_compaction_is_followed(steps: dict[str, Any]) -> None:
    """Files that are gone would fail every question; files that are new beside them would count every access twice."""
    assert steps["compacted"]["exit"] == Exit.OK
    after = steps["after"]["tables"]
    assert after["events"]["ids"] == _ids(6)
    assert (after["events"]["files"], after["events"]["of_a_day"]) == (2, 6)
    assert after["findings"]["rows"] == 1


@pytest.mark.ci
@pytest.mark.parametrize(("step", "named"), (("no table", "evnts"), ("no catalog", "nowhere")))
def test_wrong_names_are_wrong_usage(steps: dict[str, Any], step: str, named: str) -> None:
    """A typing error must not look like a fault of the data."""
    assert steps[step]["exit"] == Exit.USAGE
    assert named in steps[step]["problem"]
