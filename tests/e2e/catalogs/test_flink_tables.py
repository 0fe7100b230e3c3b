"""Prove that Flink's SQL works on a catalog's tables through the facade, with what `signproxy client-config` prints."""

from __future__ import annotations

from pathlib import Path

from signproxy.cli.clients import Client, Mode, configuration
from signproxy.cli.clients.formats import flink_statement
from tests.e2e.catalogs import ICEBERG_FIXTURE, install
from tests.e2e.catalogs.lakehouse import PRINCIPALS, WRITER, Plan, run_lakehouse
from tests.e2e.catalogs.namespaces import CATALOG
from tests.e2e.clients import maven
from tests.e2e.clients.drive import CLIENT_TIMEOUT
from tests.e2e.conftest import Shelf
from tests.e2e.matrix import Matrix, Row
from tests.e2e.stores import VERSITYGW

NAMESPACE = "flink"
DRIVER = Path(__file__).parent / "FlinkDriver.java"

_OPENED = ("java.base/java.util", "java.base/java.lang", "java.base/java.net", "java.base/java.nio")
"""To Flink's own serializers, as its scripts do on Java 17."""

# Operation, statement, and what it has to return.
STEPS = (
    ("create, partitioned", "CREATE TABLE orders (id BIGINT, city STRING) PARTITIONED BY (city)", ["+I[OK]"]),
    ("insert", "INSERT INTO orders VALUES (1, 'New York'), (2, 'São Paulo'), (3, 'a=b/c')", None),
    ("select", "SELECT id, city FROM orders ORDER BY id", ["+I[1, New York]", "+I[2, São Paulo]", "+I[3, a=b/c]"]),
    ("select of a partition", "SELECT id FROM orders WHERE city = 'a=b/c'", ["+I[3]"]),
    ("insert overwrite", "INSERT OVERWRITE orders PARTITION (city = 'New York') SELECT CAST(4 AS BIGINT)", None),
    ("select after it", "SELECT id FROM orders ORDER BY id", ["+I[2]", "+I[3]", "+I[4]"]),
    ("alter", "ALTER TABLE orders SET ('owner' = 'sales')", ["+I[OK]"]),
    ("rename", "ALTER TABLE orders RENAME TO orders_old", ["+I[OK]"]),
    ("select after the rename", "SELECT count(*) FROM orders_old", ["+I[3]"]),
    ("drop", "DROP TABLE orders_old", ["+I[OK]"]),
)


def test_tables_of_a_catalog_work(shelf: Shelf, matrix: Matrix, tmp_path: Path) -> None:
    """It was documented because Flink writes with the library that Spark writes with, and that is no proof."""
    store = shelf.get(VERSITYGW)
    plan = Plan(ICEBERG_FIXTURE, (NAMESPACE,), ())
    with run_lakehouse(tmp_path / "rig", store, "flink-tables", Mode.FACADE, {CATALOG: plan}) as lakehouse:
        connection = lakehouse.connection(
            Client.FLINK, CATALOG, install.FLINK_ICEBERG_VERSION, token=lakehouse.authority.token(WRITER)
        )
        printed = " ".join(flink_statement(CATALOG, configuration(connection))).removesuffix(";")
        before = (("catalog", printed), ("use catalog", f"USE CATALOG `{CATALOG}`"), ("use", f"USE `{NAMESPACE}`"))
        statements = (*before, *((name, statement) for name, statement, _ in STEPS))
        asked = "".join(f"{name}\t{statement}\n" for name, statement in statements).encode()
        command = (
            *(maven.tool("java"), "-Xmx768m", *(f"--add-opens={opened}=ALL-UNNAMED" for opened in _OPENED)),
            *("-cp", maven.compiled(DRIVER, install.flink()), "FlinkDriver"),
        )
        run = lakehouse.rig.run(command, tmp_path, stdin=asked, timeout=CLIENT_TIMEOUT)
        for name, _ in before:
            assert run.value(name) == ["+I[OK]"], name
        for name, _, expected in STEPS:
            version = f"{install.FLINK_VERSION} with Iceberg {install.FLINK_ICEBERG_VERSION}"
            with matrix.row(Row("Flink", version, store.name, store.version, name, way=lakehouse.way(CATALOG))):
                found = run.value(name)
                assert expected is None or found == expected, (name, found)
        run.check_trail(PRINCIPALS)
