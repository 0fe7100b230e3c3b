"""PyIceberg itself reads the published tables: the rows of the warehouse, each once, whatever happened to them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from signproxy.pipeline.job import Exit
from tests.e2e.catalogs.authority import run_authority
from tests.e2e.catalogs.fixture import ICEBERG_FIXTURE
from tests.e2e.catalogs.seam import Site
from tests.e2e.clients.install import pyiceberg
from tests.e2e.stores import VERSITYGW
from tests.e2e.stores.direct import Owner

LIMIT = 1200
REPOSITORY = Path(__file__).parents[3]


@contextmanager
def _sql(place: Path) -> Iterator[dict[str, str]]:
    """Yield the configuration of a catalog in a file."""
    yield {"TYPE": "sql", "URI": f"sqlite:///{place}/catalog.db", "WAREHOUSE": f"file://{place}/iceberg"}


@contextmanager
def _rest(place: Path) -> Iterator[dict[str, str]]:
    """Run Iceberg's own REST catalog before a store, and yield how it is reached."""
    directories = [place / "store", place / "catalog"]
    for directory in directories:
        directory.mkdir()
    with VERSITYGW.run(directories[0]) as store, run_authority() as authority:
        with closing(Owner(store)) as owner:
            owner.must("PUT", "lake")
        with ICEBERG_FIXTURE.run(directories[1], Site(store, "lake", "warehouse", authority)) as catalog:
            yield {
                "TYPE": "rest",
                "URI": catalog.uri,
                "WAREHOUSE": catalog.warehouse,
                "TOKEN": authority.token("publisher"),
                # versitygw does not take the end of a multipart upload as Arrow writes it.
                "PY_IO_IMPL": "pyiceberg.io.fsspec.FsspecFileIO",
                "S3__ENDPOINT": store.origin,
                "S3__REGION": store.region,
                "S3__ACCESS_KEY_ID": store.access_key,
                "S3__SECRET_ACCESS_KEY": store.secret,
            }


@pytest.fixture(scope="module", params=(_sql, _rest), ids=("sql", "rest"))
def steps(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run the driver with the libraries of an environment that has PyIceberg."""
    place = tmp_path_factory.mktemp("publish")
    home = pyiceberg().parent.parent
    library = home / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    # A space: paths are URIs to some and names to others.
    command = (sys.executable, "-m", "tests.e2e.jobs.publish_driver", f"{place}/the warehouse")
    with request.param(place) as configuration:
        named = {f"PYICEBERG_CATALOG__DEFAULT__{name}": value for name, value in configuration.items()}
        env = os.environ | {"PYTHONPATH": f"{REPOSITORY}:{library}", **named}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return found


def _ids(batches: int) -> list[str]:
    return sorted(f"{number}-{day}" for number in range(batches) for day in (0, 1))


@pytest.mark.ci
def test_published_tables_have_the_warehouse_s_rows(steps: dict[str, Any]) -> None:
    """An auditor who asks through Trino or DuckDB must miss no access."""
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
