"""Prove with PyIceberg's own integration tests that what works with a catalog works with a facade before it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.e2e.catalogs import NESSIE, UNIQUE_FIXTURE, CatalogKind, install
from tests.e2e.catalogs.lakehouse import WRITER
from tests.e2e.catalogs.suites import DIRECT, THROUGH, Case, cases_of, catalogs, compare, run_suite
from tests.e2e.conftest import Shelf
from tests.e2e.matrix import Matrix, Row
from tests.e2e.stores import VERSITYGW

# Those of its files that need neither Spark nor tables that Spark has made.
_FILES = (
    "test_catalog.py",
    "test_rest_catalog.py",
    "test_rest_schema.py",
    "test_partition_evolution.py",
    "test_sort_order_update.py",
    "test_statistics_operations.py",
)
_CHOSEN = "not hive and (rest_test_catalog or not test_catalog.py)"
"""In the first file each test is run for many catalogs; this is the one that users may bring."""

AT_LEAST = {UNIQUE_FIXTURE.name: 150, NESSIE.name: 100}
"""Tests that pass against the catalog itself; with none the comparison would say nothing."""

# Test -> why it cannot pass through the facade.
KNOWN: Mapping[str, Mapping[str, str]] = {UNIQUE_FIXTURE.name: {}, NESSIE.name: {}}

_PLUGIN = "pyiceberg_suite_plugin"


def _suite(home: Path, properties: dict[str, str], token: str) -> Mapping[str, Case]:
    python, source = install.pyiceberg_suite()
    asked = {**properties, "type": "rest", "token": token}
    environment = {
        "HOME": str(home),
        "PYTHONPATH": str(Path(__file__).parent),
        "PYTHONDONTWRITEBYTECODE": "1",
        "REST_CATALOG_PROPERTIES": json.dumps(asked),
        "PYICEBERG_TEST_CATALOG": "lake",
        # It loses its signer between threads: apache/iceberg-python#3896.
        "PYICEBERG_MAX_WORKERS": "1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    files = (str(source / "tests" / "integration" / file) for file in _FILES)
    options = ("-p", _PLUGIN, "-p", "no:cacheprovider", "-o", "addopts=", "-q", "--tb=line", "-k", _CHOSEN)
    report = home / "report.xml"
    command = (str(python), "-m", "pytest", f"--rootdir={source}", *options, f"--junitxml={report}", *files)
    run_suite(command, environment, source, home / "suite.log")
    return cases_of((report,))


@pytest.mark.parametrize("kind", (UNIQUE_FIXTURE, NESSIE), ids=str)
def test_pyicebergs_tests_pass_through_what_passes_direct(
    shelf: Shelf, matrix: Matrix, tmp_path: Path, kind: CatalogKind
) -> None:
    """A script that works with its catalog would fail, in a corner that no test met, once signproxy is before it."""
    store = shelf.get(VERSITYGW)
    with catalogs(tmp_path / "rig", store, f"py-suite-{kind.name}", kind) as lakehouse:
        for name in (THROUGH, DIRECT):
            # Their container has it.
            made = {"namespace": ["default"], "properties": {}}
            lakehouse.catalogs[name].must("POST", "namespaces", lakehouse.authority.token(WRITER), made)
        row = Row(
            "PyIceberg's integration tests",
            install.PYICEBERG_VERSION,
            store.name,
            store.version,
            "what passes against the catalog itself",
            way=lakehouse.way(THROUGH),
        )
        with matrix.row(row):
            found = compare(lakehouse, tmp_path, _suite)
            assert found.passed_direct >= AT_LEAST[kind.name], found.direct
            lost = found.lost()
            assert lost.keys() == KNOWN[kind.name].keys(), lost
