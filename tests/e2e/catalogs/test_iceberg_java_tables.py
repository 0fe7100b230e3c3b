"""Prove that Iceberg Java's REST catalog and S3FileIO work on a catalog's tables, through the facade and past it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from signproxy.cli.clients import Client, Mode, configuration
from tests.e2e.catalogs.authority import IDP
from tests.e2e.catalogs.lakehouse import ANALYST, PRINCIPALS, WRITER, Lakehouse
from tests.e2e.catalogs.namespaces import APPLICATION, CATALOG, JAVA, READABLE
from tests.e2e.catalogs.nessie import NAME as NESSIE_NAME
from tests.e2e.clients import install, maven
from tests.e2e.clients.drive import CLIENT_TIMEOUT
from tests.e2e.clients.rig import Run
from tests.e2e.matrix import Matrix, Outcome, Row
from tests.e2e.spark.scenario import CITIES

CLIENT = "Iceberg Java"
DRIVER = Path(__file__).parent / "CatalogDriver.java"

ASKED_OF_THE_CATALOG = {"scan-planning-mode": "server", "rest-page-size": "1", "snapshot-loading-mode": "refs"}

PLANNED = "scan planned by the catalog"

# What has to come of a step.
STEPS: tuple[tuple[str, str, Any], ...] = (
    ("create, partitioned", "create", 1),
    ("append, hostile partition values", "append", len(CITIES)),
    ("scan", "scan", sorted(CITIES)),
    ("scan by partition", "scan by partition", dict.fromkeys(CITIES, 1)),
    ("overwrite", "overwrite", len(CITIES)),
    ("delete", "delete", len(CITIES) - 1),
    ("commit of properties", "properties", "sales"),
    ("metadata tables", "metadata tables", True),
    (PLANNED, PLANNED, len(CITIES) - 1),
    ("list tables, in pages", "pages", 4),
    ("create in a transaction (staged)", "staged create", 1),
    ("staged create that is given up", "abandoned create", False),
    ("replace in a transaction", "replace", 2),
    ("rename", "rename", 2),
    ("two users in one JVM", "reader: scan", len(CITIES) - 1),
    ("two users in one JVM", "writer again", len(CITIES) - 1),
    ("list tables", "writer: list", ["first", "renamed", "staged"]),
    ("drop", "drop", True),
    ("drop, and delete its files", "drop purge", True),
    ("drop", "drop first", True),
)


def properties(lakehouse: Lakehouse, version: str, user: str, query_id: str) -> dict[str, str]:
    """Return what a user is told to give RESTCatalog."""
    return configuration(
        lakehouse.connection(
            Client.SPARK,
            CATALOG,
            version,
            token=lakehouse.authority.token(user),
            application=APPLICATION,
            query_id=query_id,
        )
    )


def plans(lakehouse: Lakehouse) -> bool:
    """Return whether the catalog plans scans; a client that insists on it fails on one that does not."""
    return lakehouse.catalogs[CATALOG].name != NESSIE_NAME


def drive(lakehouse: Lakehouse, home: Path, version: str, namespace: str, **more: Any) -> Run:
    """Run the driver to its end."""
    asked = {"cities": CITIES, "namespace": namespace, **more}
    for name, user in (("writer", WRITER), ("planner", WRITER), ("reader", ANALYST)):
        asked[name] = properties(lakehouse, version, user, namespace)
    asked["planner"] |= ASKED_OF_THE_CATALOG
    if not plans(lakehouse):
        del asked["planner"]["scan-planning-mode"]
    class_path = maven.compiled(DRIVER, install.jars(version))
    command = (install.java(), "-Xmx512m", "-cp", class_path, "CatalogDriver")
    return lakehouse.rig.run(command, home, stdin=json.dumps(asked).encode(), timeout=CLIENT_TIMEOUT)


@pytest.mark.ci
@pytest.mark.parametrize("version", JAVA)
def test_tables_of_a_catalog_work(lakehouse: Lakehouse, matrix: Matrix, tmp_path: Path, version: str) -> None:
    """What Spark, Flink and Kafka Connect do to tables is done by this library, in transactions and out of them."""
    namespace = JAVA[version]
    run = drive(lakehouse, tmp_path, version, namespace)
    store, facade = lakehouse.rig.store, lakehouse.mode is Mode.FACADE

    def row(operation: str) -> Row:
        return Row(CLIENT, version, store.name, store.version, operation, way=lakehouse.way(CATALOG))

    for operation, step, expected in STEPS:
        if step == PLANNED and not plans(lakehouse):
            continue
        with matrix.row(row(operation)):
            assert run.value(step) == expected, step
    with matrix.row(
        row("append of a user who may only read")._replace(outcome=Outcome.REFUSED, detail="no_write_data")
    ):
        assert run.error("reader: append")[0] == "ForbiddenException"
    reason = "call_not_permitted" if facade else "no_remote_sign"
    with matrix.row(row("scan of a table without a grant")._replace(outcome=Outcome.REFUSED, detail=reason)):
        assert run.error("reader: closed table")[0] == "ForbiddenException"
    if facade:
        # Names are metadata, too.
        with matrix.row(row("list tables, of a user who may see one")):
            assert run.value("reader: list") == [READABLE]
    run.check_trail(PRINCIPALS)
    read = {
        event["table"]
        for event in run.events
        if event["principal"] == f"{IDP}/{ANALYST}" and event["decision"] == "allow"
    }
    assert read == {READABLE}
    with matrix.row(row("application and query in the audit")):
        assert {(event["application"], event["query_id"]) for event in run.events} == {(APPLICATION, namespace)}
