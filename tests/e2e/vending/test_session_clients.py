"""Prove that PyIceberg works with sessions of a store's STS that come with a table, and that these keep it in there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from signproxy.cli.clients import Mode
from tests.e2e.catalogs import ICEBERG_FIXTURE
from tests.e2e.catalogs.authority import IDP
from tests.e2e.catalogs.lakehouse import ANALYST, WRITER, Lakehouse, Plan, run_lakehouse
from tests.e2e.catalogs.namespaces import CATALOG, READABLE
from tests.e2e.catalogs.test_iceberg_java_tables import STEPS
from tests.e2e.catalogs.test_vended_keys import NEWEST, PYICEBERG_DRIVER, java, properties
from tests.e2e.clients import install
from tests.e2e.clients.drive import CLIENT_TIMEOUT
from tests.e2e.matrix import Matrix, Outcome, Row
from tests.e2e.vending import store

NAMESPACE, JAVA_NAMESPACE = "sessions", "java_sessions"
WAY = "through the facade to the Iceberg REST fixture, with sessions of the store's STS"


@pytest.fixture(scope="module")
def lakehouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakehouse]:
    """A facade that hands out sessions of a store that enforces their policies."""
    directory = tmp_path_factory.mktemp("sessions")
    (directory / "store").mkdir()
    plan = Plan(ICEBERG_FIXTURE, (NAMESPACE, JAVA_NAMESPACE), (), readable=READABLE, delegation=("vended-credentials",))
    with store.run_seaweedfs(directory / "store") as running:
        sts = {"role": store.ROLE, "endpoint": running.store.origin, "duration_seconds": 900, "policy_prefix": True}
        binding = {"vend": "sts", "sts": sts}
        with run_lakehouse(
            directory, running.store, "sessions", Mode.FACADE, {CATALOG: plan}, binding=binding
        ) as lakehouse:
            yield lakehouse


def test_pyiceberg_works_with_sessions_that_come_with_a_table(
    lakehouse: Lakehouse, matrix: Matrix, tmp_path: Path
) -> None:
    """The store itself has to keep these keys in their table: no request with them passes signproxy."""
    rig = lakehouse.rig
    before = len(rig.served.events())
    asked = {
        name: {"type": "rest", **properties(lakehouse, user)}
        for name, user in (("writer", WRITER), ("reader", ANALYST))
    }
    run = rig.run(
        (str(install.pyiceberg()), str(PYICEBERG_DRIVER)),
        tmp_path,
        stdin=json.dumps({**asked, "namespace": NAMESPACE}).encode(),
        timeout=CLIENT_TIMEOUT,
    )
    events = rig.served.events()[before:]

    def row(operation: str) -> Row:
        version = install.PYICEBERG_VERSION
        return Row("PyIceberg with PyArrow", version, rig.store.name, rig.store.version, operation, way=WAY)

    for step, expected in (
        ("create, append, overwrite, delete", ["PyArrowFileIO", [1, 3]]),
        ("staged create", [1, 2, 3]),
        # One session serves all that ask alike.
        ("refresh", [False, "content"]),
        ("reader: scan", [1, 3]),
        ("reader: refresh", True),
    ):
        with matrix.row(row(step)):
            assert run.value(step) == expected, run.outcomes
    for step in ("reader: write", "neighbour: read", "neighbour: write"):
        with matrix.row(row(step)._replace(outcome=Outcome.STORE_REFUSES)):
            assert run.error(step)[0] in ("OSError", "PermissionError"), run.outcomes[step]
    for step in ("reader: closed table", "reader: keys of a closed table", "refresh of a dropped table"):
        with matrix.row(row(step)._replace(outcome=Outcome.REFUSED)):
            assert run.error(step), run.outcomes
    # What the client sent was signed with sessions alone, and each of them was told of.
    assert rig.store.access_key not in {call.access_key for call in run.calls if call.key.endswith(".parquet")}
    vended = [event for event in events if event.get("session_name")]
    assert {event["principal"] for event in vended} == {f"{IDP}/{WRITER}", f"{IDP}/{ANALYST}"}
    assert {call.access_key[-4:] for call in run.calls if call.key.endswith(".parquet")} <= {
        event["access_key_id"] for event in vended
    }
    assert not [event for event in events if event["kind"] in ("sign", "forward") and event["decision"] == "allow"]


def test_iceberg_java_works_with_sessions_that_come_with_a_table(
    lakehouse: Lakehouse, matrix: Matrix, tmp_path: Path
) -> None:
    """Spark, Flink and Kafka Connect do to tables what this library does, in transactions and out of them."""
    run, store = java(lakehouse, tmp_path, NEWEST, JAVA_NAMESPACE), lakehouse.rig.store

    def row(operation: str) -> Row:
        return Row("Iceberg Java", NEWEST, store.name, store.version, operation, way=WAY)

    for operation, step, expected in STEPS:
        with matrix.row(row(operation)):
            assert run.value(step) == expected, (step, run.outcomes[step])
    with matrix.row(row("append of a user who may only read")._replace(outcome=Outcome.STORE_REFUSES)):
        assert run.error("reader: append")
    assert not run.events, "something was signed remotely"
