"""Work on a table with clients that are given a catalog and a token, and no key; runs in an environment of their own.

Reads one JSON document from standard input, writes one to standard output: the outcome of each client by name.
"""

# mypy: disable-error-code="import-not-found,import-untyped"
# The clients are not installed where the tests are checked.

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any


def duckdb(asked: dict[str, Any]) -> list[list[Any]]:
    """Attach the catalog, and make a table, fill, change and read it."""
    import duckdb as library
    from duckdb_extensions import import_extension

    # What `INSTALL` would download is put where it would put it.
    for extension in ("httpfs", "avro", "iceberg"):
        import_extension(extension)
    run = library.connect().execute
    run("LOAD httpfs; LOAD avro; LOAD iceberg")
    run(f"CREATE SECRET catalog (TYPE iceberg, TOKEN '{asked['properties']['token']}')")
    run(f"ATTACH 'lake' AS lake (TYPE iceberg, ENDPOINT '{asked['properties']['uri']}', SECRET catalog)")
    run(f"USE lake.{asked['namespace']}")
    run("CREATE TABLE ducks (id INTEGER, city VARCHAR)")
    run("INSERT INTO ducks VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    run("DELETE FROM ducks WHERE id = 2")
    return [list(row) for row in run("SELECT id, city FROM ducks ORDER BY id").fetchall()]


def polars(table: Any) -> list[int]:
    """Scan with what the table's own file system was told."""
    import polars as library

    return sorted(library.scan_iceberg(table, storage_options=table.io.properties).collect()["id"].to_list())


def daft(table: Any) -> list[int]:
    """Read by way of the table."""
    import daft as library

    return sorted(library.read_iceberg(table).to_pydict()["id"])


def main() -> None:
    """Run every client; one that fails does not keep the others from it."""
    import pyarrow as pa
    from pyiceberg.catalog import load_catalog

    asked: dict[str, Any] = json.load(sys.stdin)
    # Polars would recommend a planner that it does not need.
    os.environ["POLARS_ICEBERG_PLANNER"] = "pyiceberg"
    rows = pa.table({"id": [1, 2, 3], "city": ["a", "b", "c"]})
    catalog = load_catalog("lake", type="rest", **asked["properties"])
    table = catalog.create_table(f"{asked['namespace']}.{asked['table']}", schema=rows.schema)
    table.append(rows)
    steps: dict[str, Callable[[], Any]] = {
        "DuckDB iceberg": lambda: duckdb(asked),
        "Polars": lambda: polars(table),
        "Daft": lambda: daft(table),
    }
    outcomes: dict[str, Any] = {}
    for name, action in steps.items():
        try:
            outcomes[name] = {"value": action()}
        except Exception as error:  # noqa: BLE001 - an outcome like any other, judged by the test
            outcomes[name] = {"error": type(error).__name__, "message": str(error)}
    json.dump(outcomes, sys.stdout)


if __name__ == "__main__":
    main()
