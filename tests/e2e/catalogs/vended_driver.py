"""Work on tables with nothing but the keys that come with them; runs in PyIceberg's environment.

Reads one JSON document from standard input, writes one to standard output: the outcome of each step by name.
"""

# mypy: disable-error-code="import-not-found,import-untyped"
# The clients are not installed where the tests are checked.

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

OUTCOMES: dict[str, Any] = {}


def step(name: str, action: Callable[[], Any]) -> None:
    """Do something, and note what became of it."""
    try:
        OUTCOMES[name] = {"value": action()}
    except Exception as error:  # noqa: BLE001 - an outcome like any other, judged by the test
        OUTCOMES[name] = {"error": type(error).__name__, "message": str(error)}


def read(catalog: Any, table: str) -> list[int]:
    """Return the ids in a table."""
    return sorted(catalog.load_table(table).scan().to_arrow()["id"].to_pylist())


def work(writer: Any, first: str, second: str) -> None:
    """Make two tables and change them, as a job does."""
    import pyarrow as pa
    from pyiceberg.io import load_file_io

    rows = pa.table({"id": [1, 2, 3], "city": ["a", "b", "c"]})

    def create() -> list[Any]:
        table = writer.create_table(first, schema=rows.schema)
        table.append(rows)
        table.overwrite(rows)
        table.delete("id = 2")
        return [type(table.io).__name__, read(writer, first)]

    def staged() -> list[int]:
        with writer.create_table_transaction(second, schema=rows.schema) as transaction:
            transaction.append(rows)
        return read(writer, second)

    def refreshed() -> list[Any]:
        table = writer.load_table(first)
        told = writer.load_credentials(first, table.metadata_location)
        io = load_file_io({**table.io.properties, **told}, table.metadata_location)
        path = f"{table.location()}/data/refreshed"
        put(io, path)
        found = io.new_input(path).open().read().decode()
        return [told["s3.access-key-id"] != table.io.properties["s3.access-key-id"], found]

    step("create, append, overwrite, delete", create)
    step("staged create", staged)
    step("refresh", refreshed)


def put(io: Any, path: str) -> str:
    """Write a file."""
    with io.new_output(path).create(overwrite=True) as out:
        out.write(b"content")
    return "written"


def main() -> None:
    """Run every step; one that fails does not keep the others from it."""
    from pyiceberg.catalog import load_catalog

    asked: dict[str, Any] = json.load(sys.stdin)
    writer, reader = load_catalog("writer", **asked["writer"]), load_catalog("reader", **asked["reader"])
    first, second = (f"{asked['namespace']}.{name}" for name in ("first", "second"))
    work(writer, first, second)

    def refresh(catalog: Any, table: str) -> list[str]:
        return sorted(catalog.load_credentials(table, writer.load_table(table).metadata_location))

    def read_with_keys_of_the_neighbour() -> str:
        task = next(iter(writer.load_table(second).scan().plan_files()))
        return str(writer.load_table(first).io.new_input(task.file.file_path).open().read())

    def place_of(table: str) -> str:
        return f"{writer.load_table(table).location()}/data/foreign"

    step("reader: scan", lambda: read(reader, first))
    step("reader: refresh", lambda: "s3.session-token" in refresh(reader, first))
    step("reader: write", lambda: put(reader.load_table(first).io, place_of(first)))
    step("reader: closed table", lambda: read(reader, second))
    step("reader: keys of a closed table", lambda: refresh(reader, second))
    step("neighbour: read", read_with_keys_of_the_neighbour)
    step("neighbour: write", lambda: put(writer.load_table(first).io, place_of(second)))
    step("drop", lambda: [writer.drop_table(table) for table in (first, second)])
    step("refresh of a dropped table", lambda: writer.load_credentials(first, "s3://"))
    json.dump(OUTCOMES, sys.stdout)


if __name__ == "__main__":
    main()
