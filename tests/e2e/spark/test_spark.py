"""Prove that whole Spark jobs work without a key, through the facade and past a catalog that knows of no signing."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from signproxy.cli.clients import Mode
from tests.e2e.catalogs import ICEBERG_FIXTURE, NESSIE, CatalogKind
from tests.e2e.catalogs.authority import IDP
from tests.e2e.catalogs.lakehouse import ANALYST, PRINCIPALS, WRITER, Lakehouse, Plan, run_lakehouse
from tests.e2e.catalogs.nessie import NAME as NESSIE_NAME
from tests.e2e.clients.rig import Run
from tests.e2e.conftest import WHOLE, Shelf
from tests.e2e.matrix import Matrix, Outcome, Row
from tests.e2e.spark.drive import LAKE, NAMESPACE, SECOND, SECOND_TABLES, TABLES, Job
from tests.e2e.spark.install import RELEASES, Release
from tests.e2e.spark.scenario import CITIES, COPY_ON_WRITE, MERGE_ON_READ
from tests.e2e.stores import VERSITYGW

TOKEN_LIFE = 15
"""Seconds; signproxy takes a token for 30 s more, since clocks differ."""
STREAM_SECONDS = 180.0
STREAM_SECONDS_CI = 55.0
"""Longer than any token is good for."""

# What the writer's table holds in the end: five cities twice, and what was done to them.
_AFTER_UPDATE = {0: 0.5, 1: 1.5, 2: 1002.5, 3: 3.5, 4: 4.5, 10: 10.5, 11: 11.5, 12: 1012.5, 13: 13.5, 14: 14.5}
_AFTER_DELETE = {id_: amount for id_, amount in _AFTER_UPDATE.items() if id_ != 3}
_AFTER_MERGE = {**_AFTER_DELETE, 1: 100.0, 99: 99.0}

NOT_PERMITTED = "ForbiddenException"


def _city(id_: int) -> str:
    return "new/one" if id_ == 99 else CITIES[id_ % 10]


def _rows(amounts: dict[int, float]) -> list[list[Any]]:
    return [[id_, _city(id_), amount] for id_, amount in sorted(amounts.items())]


def release_of_commit() -> Release:
    """Return the release that this change is tested with: each of them is every third one's."""
    git = ("git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD")
    found = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    # Without a repository, as in an archive of it, there is no change to go by.
    return RELEASES[int(found or "0", 16) % len(RELEASES)]


# The facade in front of catalogs of two makers at a time, either of them the one that most is done to; and none at all.
KINDS: dict[str, tuple[Mode, CatalogKind, CatalogKind]] = {
    "facade": (Mode.FACADE, ICEBERG_FIXTURE, NESSIE),
    "facade-of-nessie": (Mode.FACADE, NESSIE, ICEBERG_FIXTURE),
    "direct": (Mode.DIRECT, ICEBERG_FIXTURE, ICEBERG_FIXTURE),
}

CASES = tuple(
    pytest.param(
        release,
        kind,
        marks=pytest.mark.ci if (release, kind) == (release_of_commit(), "facade") else (),
        id=f"{release}-{kind}",
    )
    for kind in KINDS
    for release in RELEASES
    # One release is enough to tell what the other catalog does.
    if kind != "facade-of-nessie" or release == RELEASES[0]
)

_MERGED = _rows(_AFTER_MERGE)
_BY_CITY = {city: [number, 10 + number] for number, city in enumerate(CITIES)}

# What has to come of a step; where it is a set, each of these keys with at least so much.
STEPS: tuple[tuple[str, str, Any], ...] = (
    *(
        (f"{operation}, {mode}", f"{mode}: {step}", expected)
        for mode in (COPY_ON_WRITE, MERGE_ON_READ)
        for operation, step, expected in (
            ("CREATE TABLE, partitioned", "create", mode),
            ("INSERT, hostile partition values", "insert", 10),
            ("SELECT by partition", "select", _BY_CITY),
            ("SELECT by range", "select by range", [10, 11, 12, 13, 14]),
            ("UPDATE", "update", _rows(_AFTER_UPDATE)),
            ("DELETE", "delete", _rows(_AFTER_DELETE)),
            ("MERGE", "merge", _MERGED),
        )
    ),
    ("read as a second user", "reader: select", _MERGED),
    ("write as one user while another one does", "writer: select after", _MERGED),
    ("CREATE TABLE AS SELECT", "create as select", 4),
    ("CREATE OR REPLACE TABLE AS SELECT", "replace as select", 10),
    ("ALTER TABLE, column and partition field", "alter", [["new"]]),
    ("ALTER TABLE RENAME", "rename", 2),
    ("CREATE VIEW, SELECT, DROP VIEW", "view", 2),
    ("CREATE VIEW, SELECT, DROP VIEW", "drop view", []),
    ("DROP TABLE PURGE", "drop purge", False),
    ("CREATE TABLE AS SELECT, after a drop", "create again", 4),
    ("DROP TABLE", "drop", False),
    ("metadata tables", "metadata tables", [True] * 6),
    ("time travel", "time travel", 5),
    ("remove_orphan_files, prefix_listing", "remove_orphan_files", {}),
    ("remove_orphan_files, prefix_listing", "remove_orphan_files by location", ["orphan.parquet"]),
    ("SELECT after maintenance", "after maintenance", _MERGED),
)
COUNTS: tuple[tuple[str, str, dict[str, int]], ...] = (
    ("rewrite_data_files", "rewrite_data_files", {"rewritten_data_files_count": 6, "added_data_files_count": 6}),
    ("rewrite_manifests", "rewrite_manifests", {"rewritten_manifests_count": 2, "added_manifests_count": 1}),
    ("expire_snapshots", "expire_snapshots", {"deleted_data_files_count": 6, "deleted_manifest_lists_count": 5}),
)
# Its tables are never cleaned up by engines, of their snapshots it shows the newest, and its views are off by default.
NESSIE_REFUSES = {
    "view": "",
    "drop view": "",
    "drop purge": "gc.enabled is false",
    "expire_snapshots": "gc.enabled is false",
    "remove_orphan_files": "gc.enabled is false",
    "remove_orphan_files by location": "gc.enabled is false",
}
NESSIE_TELLS = {"time travel": 10}

SECOND_STEPS: tuple[tuple[str, str, Any], ...] = (
    ("INSERT of another catalog's rows, read as another principal", "two catalogs", 10),
    ("append to a write-once table, and DELETE", "write-once: append", 14),
)


@pytest.mark.parametrize(("release", "kind"), CASES)
def test_a_job_works_without_a_key(
    shelf: Shelf, matrix: Matrix, tmp_path: Path, request: pytest.FixtureRequest, release: Release, kind: str
) -> None:
    """Whatever a job of a user does to tables and this one does not is the first thing that breaks for that user."""
    whole = request.config.option.markexpr in ("", WHOLE)
    seconds = STREAM_SECONDS if whole and kind == "facade" else STREAM_SECONDS_CI
    mode, first, second = KINDS[kind]
    plans = {
        LAKE: Plan(first, (NAMESPACE,), TABLES, readable="orders"),
        SECOND: Plan(second, (NAMESPACE,), SECOND_TABLES, once=True),
    }
    bucket = f"spark-{kind}-{RELEASES.index(release)}"
    home = tmp_path / "home"
    home.mkdir()
    with run_lakehouse(tmp_path / "rig", shelf.get(VERSITYGW), bucket, mode, plans) as lakehouse:
        lakehouse.authority.life = TOKEN_LIFE
        job = Job(lakehouse, release, home, seconds)
        told = job.run()
        run = Run(told.outcomes["steps"], told.events, told.calls, told.access_key)
        _check_steps(run, matrix, lakehouse, release)
        _check_stream(run, matrix, lakehouse, release, seconds)
        _check_users(run, matrix, lakehouse, release)
        _check_secrets(job)
        run.check_trail(PRINCIPALS)


def _row(lakehouse: Lakehouse, release: Release, operation: str, catalog: str = LAKE) -> Row:
    version = f"{release.pyspark} with Iceberg {release.iceberg}"
    store = lakehouse.rig.store
    return Row("Spark", version, store.name, store.version, operation, way=lakehouse.way(catalog))


def _check_steps(run: Run, matrix: Matrix, lakehouse: Lakehouse, release: Release) -> None:
    nessie = lakehouse.catalogs[LAKE].name == NESSIE_NAME
    refused = NESSIE_REFUSES if nessie else {}
    for operation, step in ((operation, step) for operation, step, _ in (*STEPS, *COUNTS) if step in refused):
        row = _row(lakehouse, release, operation)._replace(outcome=Outcome.CATALOG_REFUSES, detail=refused[step])
        with matrix.row(row):
            told = run.error(step)[1]
            assert "GC is disabled" in told or "Server does not support endpoint" in told, step
    for operation, step, expected in STEPS:
        if step in refused:
            continue
        with matrix.row(_row(lakehouse, release, operation)):
            assert run.value(step) == (NESSIE_TELLS.get(step, expected) if nessie else expected), step
    for operation, step, least in COUNTS:
        if step in refused:
            continue
        with matrix.row(_row(lakehouse, release, operation)):
            counted = run.value(step)
            assert all(counted[name] >= count for name, count in least.items()), (step, counted)
    with matrix.row(_row(lakehouse, release, "compute_table_stats")):
        assert run.value("compute_table_stats")["statistics_file"].endswith(".stats")
    for operation, step, expected in SECOND_STEPS:
        with matrix.row(_row(lakehouse, release, operation, SECOND)):
            assert run.value(step) == expected, step
    assert run.value("end") == _MERGED


def _check_stream(run: Run, matrix: Matrix, lakehouse: Lakehouse, release: Release, seconds: float) -> None:
    with matrix.row(_row(lakehouse, release, "streaming append, beyond the life of its tokens")):
        streamed = run.value("stream")
        assert (streamed["rows"], streamed["distinct"]) == (streamed["last"] + 1, streamed["last"] + 1)
        assert streamed["batches"] > seconds / 10
        renewed = lakehouse.authority.grants[WRITER, "client_credentials"]
        assert renewed > seconds / TOKEN_LIFE


def _check_users(run: Run, matrix: Matrix, lakehouse: Lakehouse, release: Release) -> None:
    """Check that no principal acted as another, though all were in one JVM."""
    for step in ("reader: insert", "reader: overwrite"):
        row = _row(lakehouse, release, "INSERT of a user who may only read")
        with matrix.row(row._replace(outcome=Outcome.REFUSED, detail="no_write_data")):
            assert NOT_PERMITTED in run.error(step)[1], step
    reason = "call_not_permitted" if lakehouse.mode is Mode.FACADE else "no_remote_sign"
    row = _row(lakehouse, release, "SELECT of a table without a grant")
    with matrix.row(row._replace(outcome=Outcome.REFUSED, detail=reason)):
        assert NOT_PERMITTED in run.error("reader: denied")[1]
    done = {
        (event["principal"], event["catalog"], event["table"], event["access"])
        for event in run.events
        if event["decision"] == "allow"
    }
    analyst = {found[1:] for found in done if found[0] == f"{IDP}/{ANALYST}"}
    assert analyst == {(LAKE, "orders", "read")}
    # One job read the one as the analyst and wrote the other as another principal.
    assert (f"{IDP}/{WRITER}", SECOND, "copied", "write") in done


def _check_secrets(job: Job) -> None:
    """Check that the JVM never held the store's secret; its heap is searched, garbage included."""
    heap = job.heap_dump.read_bytes()
    job.heap_dump.unlink()
    # What it does hold is found.
    assert job.lakehouse.authority.credential(WRITER).partition(":")[2].encode() in heap
    assert job.lakehouse.rig.store.secret.encode() not in heap
    for file in job.home.rglob("*.log"):
        assert job.lakehouse.rig.store.secret not in file.read_text(errors="replace")
