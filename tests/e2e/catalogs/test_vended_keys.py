"""Prove that clients work with keys that come with a table, on a store without STS, and refresh them by themselves."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from signproxy.cli.clients import Mode
from tests.e2e.catalogs import ICEBERG_FIXTURE
from tests.e2e.catalogs import install as readers
from tests.e2e.catalogs.authority import IDP
from tests.e2e.catalogs.lakehouse import ANALYST, WRITER, Lakehouse, Plan, run_lakehouse
from tests.e2e.catalogs.namespaces import CATALOG, JAVA, READABLE
from tests.e2e.catalogs.test_iceberg_java_tables import ASKED_OF_THE_CATALOG, DRIVER, PLANNED, STEPS
from tests.e2e.clients import install, maven
from tests.e2e.clients.drive import CLIENT_TIMEOUT
from tests.e2e.clients.rig import Run
from tests.e2e.conftest import Shelf
from tests.e2e.matrix import Matrix, Outcome, Row
from tests.e2e.spark.scenario import CITIES
from tests.e2e.stores import VERSITYGW
from tests.e2e.stores.process import free_ports

PYICEBERG = "vended_py"
LASTING = "vended_lasting"
JAVA_NAMESPACES = {version: f"vended_{namespace}" for version, namespace in JAVA.items()}
NEWEST = next(iter(JAVA))
READERS = "vended_readers"
READERS_DRIVER = Path(__file__).parent / "vended_readers_driver.py"
PYICEBERG_DRIVER = Path(__file__).parent / "vended_driver.py"
WAY = "through the facade to the Iceberg REST fixture, with vended keys, and through the S3 listener"

LIFE = 360
"""Seconds that keys live: the least there is."""
WORK = 200
"""Seconds of one job. Iceberg Java renews such keys each minute, five minutes before their end."""


@pytest.fixture(scope="module")
def lakehouse(shelf: Shelf, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakehouse]:
    """A facade that hands out short-lived keys, and takes them at an S3 listener."""
    (port,) = free_ports(1)
    namespaces = (PYICEBERG, READERS, LASTING, *JAVA_NAMESPACES.values())
    plan = Plan(ICEBERG_FIXTURE, namespaces, (), readable=READABLE, delegation=("remote-signing", "vended-credentials"))
    with run_lakehouse(
        tmp_path_factory.mktemp("vended"),
        shelf.get(VERSITYGW),
        "vended-keys",
        Mode.FACADE,
        {CATALOG: plan},
        settings={"s3": {"enabled": True, "port": port}},
        binding={"vend": "issued", "vend_seconds": LIFE},
    ) as running:
        yield running


def properties(lakehouse: Lakehouse, user: str) -> dict[str, str]:
    """Return what a catalog is told by a user who has heard of no store, and of no keys."""
    return {
        "uri": f"{lakehouse.rig.url}/catalogs/{CATALOG}",
        "token": lakehouse.authority.token(user),
        "header.X-Iceberg-Access-Delegation": "vended-credentials",
    }


def java(lakehouse: Lakehouse, home: Path, version: str, namespace: str, **more: Any) -> Run:
    asked: dict[str, Any] = {"cities": CITIES, "namespace": namespace, **more}
    for name, user in (("writer", WRITER), ("planner", WRITER), ("reader", ANALYST)):
        asked[name] = {**properties(lakehouse, user), "io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}
    asked["planner"] |= ASKED_OF_THE_CATALOG
    command = (install.java(), "-Xmx512m", "-cp", maven.compiled(DRIVER, install.jars(version)), "CatalogDriver")
    return lakehouse.rig.run(command, home, stdin=json.dumps(asked).encode(), timeout=CLIENT_TIMEOUT)


def _check_trail(lakehouse: Lakehouse, run: Run, events: list[dict[str, Any]]) -> None:
    """Check that the store saw no key but the one that signproxy signs with, and that all of it is in the trail."""
    assert not run.events, "something was signed remotely"
    assert run.calls
    assert {call.access_key for call in run.calls} == {lakehouse.rig.store.access_key}
    forwarded = {event["event_id"]: event for event in events if event["kind"] == "forward"}
    assert {call.stamp for call in run.calls} <= forwarded.keys()
    assert {event["principal"] for event in forwarded.values()} <= {f"{IDP}/{WRITER}", f"{IDP}/{ANALYST}"}
    written = {
        event["principal"]
        for event in forwarded.values()
        if event["decision"] == "allow" and event["access"] in ("write", "delete")
    }
    assert written == {f"{IDP}/{WRITER}"}


def _row(lakehouse: Lakehouse, client: str, version: str, operation: str) -> Row:
    store = lakehouse.rig.store
    return Row(client, version, store.name, store.version, operation, way=WAY)


@pytest.mark.ci
def test_pyiceberg_works_with_the_keys_that_come_with_a_table(
    lakehouse: Lakehouse, matrix: Matrix, tmp_path: Path
) -> None:
    """It asks for nothing else unless it is told to, and stores without STS gave it nothing."""
    before = len(lakehouse.rig.served.events())
    asked = {
        name: {"type": "rest", **properties(lakehouse, user)}
        for name, user in (("writer", WRITER), ("reader", ANALYST))
    }
    run = lakehouse.rig.run(
        (str(install.pyiceberg()), str(PYICEBERG_DRIVER)),
        tmp_path,
        stdin=json.dumps({**asked, "namespace": PYICEBERG}).encode(),
        timeout=CLIENT_TIMEOUT,
    )
    events = lakehouse.rig.served.events()[before:]
    version = install.PYICEBERG_VERSION

    def row(operation: str) -> Row:
        return _row(lakehouse, "PyIceberg with PyArrow", version, operation)

    for step, expected in (
        ("create, append, overwrite, delete", ["PyArrowFileIO", [1, 3]]),
        ("staged create", [1, 2, 3]),
        ("refresh", [True, "content"]),
        ("reader: scan", [1, 3]),
        ("reader: refresh", True),
    ):
        with matrix.row(row(step)):
            assert run.value(step) == expected, run.outcomes
    for step, reason in (
        ("reader: write", "no_write_data"),
        ("reader: closed table", "call_not_permitted"),
        ("reader: keys of a closed table", "no_remote_sign"),
        ("neighbour: read", "not_in_scope"),
        ("neighbour: write", "not_in_scope"),
        ("refresh of a dropped table", "table_unknown"),
    ):
        with matrix.row(row(step)._replace(outcome=Outcome.REFUSED, detail=reason)):
            assert run.error(step), run.outcomes
            assert reason in {event["reason"] for event in events}, (step, run.outcomes[step])
    _check_trail(lakehouse, run, events)


def test_native_readers_work_with_the_keys_that_come_with_a_table(
    lakehouse: Lakehouse, matrix: Matrix, tmp_path: Path
) -> None:
    """They cannot have requests signed, and each had to be given a key by hand."""
    rig = lakehouse.rig
    before = len(rig.served.events())
    asked = {"properties": properties(lakehouse, WRITER), "namespace": READERS, "table": READABLE}
    content = json.dumps(asked).encode()
    run = rig.run((str(readers.readers()), str(READERS_DRIVER)), tmp_path, stdin=content, timeout=CLIENT_TIMEOUT)
    for client, version, operation, expected in (
        ("DuckDB iceberg", readers.DUCKDB_VERSION, "attach, create, insert, delete, select", [[1, "a"], [3, "c"]]),
        ("Polars", readers.POLARS_VERSION, "scan_iceberg", [1, 2, 3]),
        ("Daft", readers.DAFT_VERSION, "read_iceberg", [1, 2, 3]),
    ):
        with matrix.row(_row(lakehouse, client, version, operation)):
            assert run.value(client) == expected
    for client, version, program in (
        ("iceberg-go", readers.ICEBERG_GO_VERSION, readers.iceberg_go()),
        ("iceberg-rust", readers.ICEBERG_RUST_VERSION, readers.iceberg_rust()),
    ):
        with matrix.row(_row(lakehouse, client, version, "scan")):
            done = subprocess.run(
                (str(program),),
                input=content,
                env=rig.environment(tmp_path, {}),
                cwd=tmp_path,
                capture_output=True,
                timeout=CLIENT_TIMEOUT,
                check=False,
            )
            assert done.returncode == 0, done.stderr.decode()[-2000:]
            assert json.loads(done.stdout) == 3
    _check_trail(lakehouse, run, rig.served.events()[before:])


@pytest.mark.parametrize("version", JAVA)
def test_iceberg_java_works_with_the_keys_that_come_with_a_table(
    lakehouse: Lakehouse, matrix: Matrix, tmp_path: Path, version: str
) -> None:
    """Spark, Flink and Kafka Connect do to tables what this library does, in transactions and out of them."""
    before = len(lakehouse.rig.served.events())
    run = java(lakehouse, tmp_path, version, JAVA_NAMESPACES[version])
    events = lakehouse.rig.served.events()[before:]
    for operation, step, expected in STEPS:
        if step == PLANNED and version != NEWEST:
            continue
        with matrix.row(_row(lakehouse, "Iceberg Java", version, operation)):
            assert run.value(step) == expected, (step, run.outcomes[step])
    with matrix.row(
        _row(lakehouse, "Iceberg Java", version, "append of a user who may only read")._replace(
            outcome=Outcome.REFUSED, detail="no_write_data"
        )
    ):
        assert run.error("reader: append")
        assert "no_write_data" in {event["reason"] for event in events}
    _check_trail(lakehouse, run, events)


def test_iceberg_java_refreshes_its_keys_by_itself(lakehouse: Lakehouse, matrix: Matrix, tmp_path: Path) -> None:
    """A job that is longer than its keys live would fail in its middle, as jobs on other catalogs do."""
    before = len(lakehouse.rig.served.events())
    run = java(lakehouse, tmp_path, NEWEST, LASTING, seconds=WORK)
    events = lakehouse.rig.served.events()[before:]
    with matrix.row(_row(lakehouse, "Iceberg Java", NEWEST, f"{WORK} s of work with keys that live {LIFE} s")):
        told = run.value("lasting")
        assert told["failures"] == []
        assert told["done"] > 100
    vended = [event for event in events if event["kind"] == "vend"]
    assert {(event["decision"], event["principal"], event["access"]) for event in vended} == {
        ("allow", f"{IDP}/{WRITER}", "read-write")
    }
    # Each refresh brings another key, and the last one ends after the first has ended for long.
    assert len({event["access_key_id"] for event in vended}) >= 3
    ends = [event["expires_at"] for event in vended]
    assert all(one <= other for one, other in pairwise(ends))
    assert ends[0] < ends[-1]
    _check_trail(lakehouse, run, events)
