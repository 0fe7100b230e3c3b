"""PyIceberg itself reads the published tables: the rows of the warehouse, each once, whatever happened to them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from signproxy.pipeline.job import Exit
from signproxy.pipeline.warehouse import Warehouse
from tests.e2e.clients.install import pyiceberg
from tests.pipeline.event_rows import at, event, events, rows

LIMIT = 300

_READER = """
import json, sys
from pyiceberg.catalog import load_catalog
catalog = load_catalog("default")
found = {}
for identifier in catalog.list_tables(sys.argv[1]):
    table = catalog.load_table(identifier)
    data = table.scan().to_arrow()
    day = table.scan(row_filter=sys.argv[2]).to_arrow().num_rows if "ts" in data.column_names else None
    found[identifier[-1]] = {
        "rows": data.num_rows, "columns": data.column_names, "snapshots": len(table.metadata.snapshots), "day": day,
        "files": len(list(table.scan().plan_files())),
        "ids": data.column("event_id").to_pylist() if "event_id" in data.column_names else [],
        "first": str(data.slice(0, 1).to_pylist()),
    }
print(json.dumps(found))
"""
_A_DAY = "ts >= '2026-11-02T00:00:00+00:00' and ts < '2026-11-03T00:00:00+00:00'"


class Rig(NamedTuple):
    """A warehouse, a catalog in a file, and an environment that has PyIceberg."""

    spark: SparkSession
    warehouse: Warehouse
    env: dict[str, str]

    def job(self, name: str, *words: str) -> dict[str, Any]:
        """Run a job to its end; return its record."""
        place = ("--warehouse", self.warehouse.path, "--master", "local[2]", "--memory", "512m")
        done = subprocess.run(
            (sys.executable, "-m", "signproxy", "pipeline", name, *place, "--json", *words),
            env=self.env, capture_output=True, text=True, timeout=LIMIT, check=False,
        )  # fmt: skip
        record = json.loads(done.stdout.splitlines()[-1])
        assert done.returncode == record["exit"], done.stderr[-3000:]
        assert isinstance(record, dict)
        return record

    def read(self) -> dict[str, Any]:
        """Return what PyIceberg finds."""
        done = subprocess.run(
            (sys.executable, "-c", _READER, "signproxy", _A_DAY),
            env=self.env, capture_output=True, text=True, timeout=LIMIT, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        found = json.loads(done.stdout)
        assert isinstance(found, dict)
        return found

    def add(self, number: int) -> None:
        """Add a batch of two days, as ingest does."""
        made = [
            event(at(day, minutes=number), event_id=f"{number}-{day}", ingest_batch=number, segment=f"s{number}")
            for day in (0, 1)
        ]
        self.warehouse.replace("events", events(self.spark, *made))
        ledger = [{"segment": f"s{number}", "verdict": "whole", "ingest_batch": number}]
        self.warehouse.replace("segments", rows(self.spark, "segments", ledger))


@pytest.fixture
def rig(spark: SparkSession, tmp_path: Path) -> Rig:
    home = pyiceberg().parent.parent
    library = home / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    env = os.environ | {
        "PYTHONPATH": f"{Path.cwd()}:{library}",
        "PYICEBERG_CATALOG__DEFAULT__TYPE": "sql",
        "PYICEBERG_CATALOG__DEFAULT__URI": f"sqlite:///{tmp_path}/catalog.db",
        "PYICEBERG_CATALOG__DEFAULT__WAREHOUSE": f"file://{tmp_path}/iceberg",
    }
    # A space: paths are URIs to some and names to others.
    return Rig(spark, Warehouse(spark, str(tmp_path / "the warehouse")), env)


@pytest.mark.ci
def test_published_tables_follow_the_warehouse(rig: Rig) -> None:
    """Whoever asks through Trino or DuckDB must not miss an access, nor count one twice after a compaction."""
    for number in range(6):
        rig.add(number)
    finding = {"finding_id": "f", "class": "audit_gap", "evidence": {"a": "1"}, "job": "ingest", "n": 1}
    rig.warehouse.replace("findings", rows(rig.spark, "findings", [finding]))
    assert rig.job("publish")["exit"] == Exit.OK
    found = rig.read()
    assert Counter(found["events"]["ids"]) == Counter(f"{number}-{day}" for number in range(6) for day in (0, 1))
    assert found["events"]["day"] == 6
    assert found["events"]["files"] == 12
    assert found["findings"]["rows"] == 1
    assert "'job': 'ingest'" in found["findings"]["first"]
    assert "reconciled" not in found
    # Nothing new: no commit to the large tables.
    rig.job("publish", "--tables", "events")
    assert rig.read()["events"]["snapshots"] == found["events"]["snapshots"]
    # One batch more, and none of the others again.
    rig.add(6)
    rig.job("publish", "--tables", "events")
    assert len(rig.read()["events"]["ids"]) == 14
    # The files that were published are gone, and others are there.
    assert rig.job("compact")["numbers"]["files_after"] == 2
    rig.job("publish")
    found = rig.read()
    assert Counter(found["events"]["ids"]) == Counter(f"{number}-{day}" for number in range(7) for day in (0, 1))
    assert (found["events"]["files"], found["events"]["day"]) == (2, 7)
    assert found["findings"]["rows"] == 1


def test_wrong_names_are_wrong_usage(rig: Rig) -> None:
    """A typing error must not look like a fault of the data."""
    rig.add(0)
    for words in (("--tables", "evnts"), ("--catalog", "nowhere")):
        record = rig.job("publish", *words)
        assert record["exit"] == Exit.USAGE
        assert words[1] in record["problem"]
