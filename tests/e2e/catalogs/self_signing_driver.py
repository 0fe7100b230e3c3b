"""Read and write tables of a catalog with clients that sign by themselves; runs in an environment of their own.

Reads one JSON document from standard input, writes one to standard output: the outcome of each step by name. The keys
are in the variables, as `signproxy keys issue` puts them there, and what `signproxy client-config` prints is run.
"""

# mypy: disable-error-code="import-not-found,import-untyped"
# The clients are not installed where the tests are checked.

from __future__ import annotations

import json
import os
import sys
from typing import Any


def duckdb(asked: dict[str, Any], outcomes: dict[str, Any]) -> None:
    """Run what is printed, and then work with the catalog that it attached."""
    from duckdb_extensions import import_extension

    # What `INSTALL` would download is put where it would put it.
    for extension in ("httpfs", "avro", "iceberg"):
        import_extension(extension)
    for mode in ("", ", ACCESS_DELEGATION_MODE 'vended_credentials'", ", ACCESS_DELEGATION_MODE 'none'"):
        there: dict[str, Any] = {}
        exec(asked["duckdb"].replace(", SECRET signproxy)", f", SECRET signproxy{mode})".replace("'", "\\'")), there)  # noqa: S102
        run = there["connection"].execute
        run(f"USE lake.{asked['namespace']}")
        run("CREATE TABLE ducks (id INTEGER, city VARCHAR)")
        run("INSERT INTO ducks VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        run("DELETE FROM ducks WHERE id = 2")
        found = run("SELECT id, city FROM ducks ORDER BY id").fetchall()
        outcomes[f"DuckDB{mode}"] = {"value": [list(row) for row in found]}
        run("DROP TABLE ducks")
        there["connection"].close()


def libraries(asked: dict[str, Any], outcomes: dict[str, Any]) -> None:
    """Write with PyIceberg's default, and read with everything that builds on it."""
    import pyarrow as pa

    there: dict[str, Any] = {}
    exec(asked["pyarrow"], there)  # noqa: S102
    rows = pa.table({"id": [1, 2, 3], "city": ["a", "b", "c"]})
    table = there["catalog"].create_table(f"{asked['namespace']}.own", schema=rows.schema)
    table.append(rows)
    table.overwrite(rows)
    table.delete("id = 2")
    table.append(rows.slice(1, 1))
    outcomes["PyIceberg with PyArrow"] = {
        "value": [type(table.io).__name__, sorted(table.scan().to_arrow()["id"].to_pylist())]
    }
    exec(asked["polars"], there)  # noqa: S102
    import polars as pl

    found = pl.scan_iceberg(table, storage_options=table.io.properties).collect()
    outcomes["Polars"] = {"value": sorted(found["id"].to_list())}
    exec(asked["daft"], there)  # noqa: S102
    import daft

    outcomes["Daft"] = {"value": sorted(daft.read_iceberg(table).to_pydict()["id"])}


def main() -> None:
    """Run every client; one that fails does not keep the others from it."""
    asked: dict[str, Any] = json.load(sys.stdin)
    outcomes: dict[str, Any] = {}
    # Polars would recommend a planner that it does not need.
    os.environ["POLARS_ICEBERG_PLANNER"] = "pyiceberg"
    for client in (duckdb, libraries):
        try:
            client(asked, outcomes)
        except Exception as error:  # noqa: BLE001 - an outcome like any other, judged by the test
            outcomes[client.__name__] = {"error": type(error).__name__, "message": str(error)}
    json.dump(outcomes, sys.stdout)


if __name__ == "__main__":
    main()
