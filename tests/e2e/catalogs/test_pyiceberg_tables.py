"""Prove that PyIceberg works on a catalog's tables, through the facade and past a catalog that knows of no signing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from signproxy.cli.clients import Client, configuration
from tests.e2e.catalogs.authority import IDP
from tests.e2e.catalogs.lakehouse import ANALYST, PRINCIPALS, WRITER, Lakehouse
from tests.e2e.catalogs.namespaces import APPLICATION, CATALOG, PYICEBERG, READABLE
from tests.e2e.catalogs.seam import call
from tests.e2e.clients import install
from tests.e2e.clients.drive import CLIENT_TIMEOUT
from tests.e2e.clients.rig import Run
from tests.e2e.clients.test_pyiceberg import DRIVER, ENVIRONMENT
from tests.e2e.matrix import Matrix, Outcome, Row
from tests.e2e.spark.scenario import CITIES

# What has to come of a step.
STEPS: tuple[tuple[str, str, Any], ...] = (
    ("create, partitioned", "create", ["first", "second"]),
    ("append, hostile partition values", "append", [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]),
    ("scan by partition", "scan", {city: [number, 10 + number] for number, city in enumerate(CITIES)}),
    ("overwrite", "overwrite", [1, 2, 3, 4, 11, 12, 13, 14, 20]),
    ("delete", "delete", [1, 2, 4, 12, 14, 20]),
    ("two tables in one process", "two tables", [[100, 110], [100, 110]]),
    ("create in a transaction (staged)", "staged create", [0, 1, 2, 3, 4]),
    ("exists on a missing key", "exists on a missing key", False),
    ("rename", "rename", [0, 1, 2, 3, 4, 50, 51, 52, 53, 54]),
    ("drop", "drop", False),
    ("two users in one process", "reader: scan", [1, 2, 4, 12, 14, 20, 100, 110]),
    ("two users in one process", "writer again", [1, 2, 4, 12, 14, 20, 100, 110]),
    ("drop", "drop all", []),
)

# Each ends with SignError; PyIceberg shows the status and its own request, not the signer's words.
REFUSED = (
    ("delete of one file", "delete a file", 400, "delete_without_body"),
    ("append of a user who may only read", "reader: append", 403, "no_write_data"),
)

# It wants a field of the specification's past in such a commit, signproxy or no signproxy.
CATALOG_REFUSES = {("Nessie", "staged create"): "without last-column-id, which PyIceberg does not send"}


def _drive(lakehouse: Lakehouse, home: Path, namespace: str, origin: str) -> Run:
    asked: dict[str, Any] = {"cities": CITIES, "namespace": namespace}
    for name, user in (("writer", WRITER), ("reader", ANALYST)):
        asked[name] = configuration(
            lakehouse.connection(
                Client.PYICEBERG,
                CATALOG,
                install.PYICEBERG_VERSION,
                token=lakehouse.authority.token(user),
                origin=origin,
                application=APPLICATION,
                query_id=namespace,
            )
        )
    command = (str(install.pyiceberg()), str(DRIVER))
    stdin = json.dumps(asked).encode()
    return lakehouse.rig.run(command, home, stdin=stdin, settings=ENVIRONMENT, timeout=CLIENT_TIMEOUT)


@pytest.mark.ci
@pytest.mark.parametrize("scheme", ("http", "https"))
def test_tables_of_a_catalog_work(lakehouse: Lakehouse, matrix: Matrix, tmp_path: Path, scheme: str) -> None:
    """A user's script creates, appends, overwrites, deletes and scans, several tables at once, and never had a key."""
    rig = lakehouse.rig
    namespace = PYICEBERG[scheme]
    run = _drive(lakehouse, tmp_path, namespace, rig.tls.origin if scheme == "https" else rig.relay.origin)

    def row(operation: str) -> Row:
        client, version = "PyIceberg", install.PYICEBERG_VERSION
        return Row(client, version, rig.store.name, rig.store.version, operation, way=lakehouse.way(CATALOG))

    for operation, step, expected in STEPS:
        if why := CATALOG_REFUSES.get((lakehouse.catalogs[CATALOG].name, step)):
            with matrix.row(row(operation)._replace(outcome=Outcome.CATALOG_REFUSES, detail=why)):
                assert "HTTP 400" in run.error(step)[1]
            continue
        with matrix.row(row(operation)):
            assert run.value(step) == expected, step
    for operation, step, status, reason in REFUSED:
        with matrix.row(row(operation)._replace(outcome=Outcome.REFUSED, detail=reason)):
            name, message = run.error(step)
            assert (name, f"request {status}:" in message) == ("SignError", True)
    run.check_trail(PRINCIPALS)
    assert run.value("keys held") == []
    read = {
        event["table"]
        for event in run.events
        if event["principal"] == f"{IDP}/{ANALYST}" and event["decision"] == "allow"
    }
    assert read == {READABLE}
    with matrix.row(row("application and query in the audit")):
        assert {(event["application"], event["query_id"]) for event in run.events} == {(APPLICATION, namespace)}


@pytest.mark.ci
def test_the_refused_delete_says_what_does_it_instead(lakehouse: Lakehouse) -> None:
    """PyIceberg shows the status alone; who looks at the answer must not have to look any further."""
    rig = lakehouse.rig
    asked = {
        "method": "POST",
        "region": rig.store.region,
        "uri": f"{rig.relay.origin}/{rig.bucket}?delete",
        "headers": {"x-amz-checksum-crc32": ["AAAAAA=="], "x-amz-sdk-checksum-algorithm": ["CRC32"]},
    }
    token = lakehouse.authority.token(WRITER)
    status, answer = call(f"{rig.url}/catalogs/{CATALOG}/v1/aws/s3/sign", "POST", token, asked)
    assert (status, answer["error"]["type"]) == (400, "InvalidDeleteBody")
    assert "Iceberg Java" in answer["error"]["message"]
