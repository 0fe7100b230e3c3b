"""Drive PyIceberg's FsspecFileIO, and a table of a catalog that it writes itself; runs in PyIceberg's environment.

Reads one JSON document from standard input, writes one to standard output: the outcome of each step by name.
"""

# mypy: disable-error-code="import-not-found"
# PyIceberg is not installed where the tests are checked; it has an environment of its own.

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.io.fsspec import FsspecFileIO
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

FILES_APPENDED = 2


class Steps:
    """What became of each step: its value, or the exception that ended it."""

    def __init__(self) -> None:
        self.outcomes: dict[str, dict[str, Any]] = {}

    def run(self, name: str, step: Callable[[], Any]) -> None:
        """Carry out a step; the next one is carried out in any case."""
        try:
            self.outcomes[name] = {"value": step()}
        except Exception as error:  # noqa: BLE001  # an outcome like any other, judged by the test
            self.outcomes[name] = {"error": type(error).__name__, "message": str(error)}


def _write(io: FsspecFileIO, location: str, content: bytes) -> int:
    with io.new_output(location).create(overwrite=True) as stream:
        return int(stream.write(content))


def _read(io: FsspecFileIO, location: str) -> str:
    with io.new_input(location).open() as stream:
        return str(stream.read().decode())


def _read_ranges(io: FsspecFileIO, location: str, ranges: list[list[int]]) -> list[str]:
    """Read as a Parquet reader does: seek, read, seek back; `seekable` opens with a small block."""
    found = []
    with io.new_input(location).open(seekable=True) as stream:
        for start, length in ranges:
            stream.seek(start)
            found.append(stream.read(length).decode())
    return found


def _files(steps: Steps, io: FsspecFileIO, asked: dict[str, Any]) -> None:
    root = asked["root"]
    plain = f"{root}/data/plain.txt"
    steps.run("write", lambda: _write(io, plain, b"0123456789" * 10))
    steps.run("read", lambda: _read(io, plain))
    steps.run("read_ranges", lambda: _read_ranges(io, plain, [[95, 5], [0, 3], [42, 4]]))
    steps.run("length", lambda: len(io.new_input(plain)))
    steps.run("exists", lambda: io.new_input(plain).exists())
    steps.run("exists_missing", lambda: io.new_input(f"{root}/data/missing.txt").exists())
    steps.run("length_missing", lambda: len(io.new_input(f"{root}/data/missing.txt")))
    steps.run("write_empty", lambda: _write(io, f"{root}/data/empty", b""))
    steps.run("write_multipart", lambda: _write(io, f"{root}/data/large", b"x" * asked["large"]))
    steps.run("length_multipart", lambda: len(io.new_input(f"{root}/data/large")))
    for key in asked["keys"]:
        location = f"{root}/{key}"
        steps.run(f"write {key}", partial(_write, io, location, key.encode()))
        steps.run(f"read {key}", partial(_read, io, location))
    steps.run("delete", lambda: io.delete(plain))


def _denied(steps: Steps, io: FsspecFileIO, asked: dict[str, Any]) -> None:
    denied, read_only, root = asked["denied"], asked["read_only"], asked["root"]
    steps.run("denied_read", lambda: _read(io, f"{denied}/data/file"))
    steps.run("denied_write", lambda: _write(io, f"{denied}/data/new", b"x"))
    steps.run("denied_exists", lambda: io.new_input(f"{denied}/data/file").exists())
    steps.run("read_only_read", lambda: _read(io, f"{read_only}/data/file"))
    steps.run("read_only_write", lambda: _write(io, f"{read_only}/data/new", b"x"))
    steps.run("metadata_write", lambda: _write(io, f"{root}/metadata/00000-a.metadata.json", b"{}"))
    once = f"{asked['once']}/data/once"
    steps.run("once_write", lambda: _write(io, once, b"first"))
    steps.run("once_overwrite", lambda: _write(io, once, b"second"))
    steps.run("once_read", lambda: _read(io, once))
    steps.run("manifest_write", lambda: _write(io, f"{root}/metadata/snap-1.avro", b"{}"))


def _table(steps: Steps, asked: dict[str, Any]) -> None:
    """Create, append, scan: the catalog is in memory, so PyIceberg itself writes the metadata files."""
    # Its `uri` is that of its own database.
    properties = {name: value for name, value in asked["properties"].items() if name not in ("uri", "type")}
    catalog = load_catalog("e2e", type="in-memory", warehouse=asked["warehouse"], **properties)
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "city": ["São Paulo", "a/b", "New York"]})

    def create() -> str:
        catalog.create_namespace("sales")
        return str(catalog.create_table("sales.owned", rows.schema, location=asked["owned"]).metadata_location)

    def append() -> int:
        table = catalog.load_table("sales.owned")
        for _ in range(FILES_APPENDED):
            table.append(rows)
        return len(table.metadata.snapshots)

    def scan() -> list[Any]:
        return sorted(catalog.load_table("sales.owned").scan(row_filter="id >= 2").to_arrow().to_pylist(), key=str)

    steps.run("table_create", create)
    steps.run("table_append", append)
    steps.run("table_scan", scan)


def _rows(cities: list[str], first: int) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(first, first + len(cities)), pa.int64()),
            "city": pa.array(cities, pa.string()),
            "amount": pa.array([float(first)] * len(cities), pa.float64()),
        }
    )


def _ids(table: Table, row_filter: str = "true") -> list[int]:
    scan = table.scan() if row_filter == "true" else table.scan(row_filter=row_filter)
    return sorted(row["id"] for row in scan.to_arrow().to_pylist())


_SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "city", StringType(), required=False),
    NestedField(3, "amount", DoubleType(), required=False),
)
_SPEC = PartitionSpec(PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="city"))


def _changes(steps: Steps, catalog: Catalog, namespace: str, cities: list[str]) -> None:
    """Create, append, scan, overwrite and delete."""
    first_table, second_table = f"{namespace}.first", f"{namespace}.second"

    def create() -> list[str]:
        catalog.create_table(first_table, _SCHEMA, partition_spec=_SPEC)
        catalog.create_table(second_table, _SCHEMA)
        return sorted(found[-1] for found in catalog.list_tables(namespace))

    def append() -> list[int]:
        table = catalog.load_table(first_table)
        for first in (0, 10):
            table.append(_rows(cities, first))
        return _ids(table)

    def overwrite() -> list[int]:
        table = catalog.load_table(first_table)
        table.overwrite(_rows(cities, 20).slice(0, 1), overwrite_filter="city == 'a b'")
        return _ids(table)

    def delete() -> list[int]:
        table = catalog.load_table(first_table)
        table.delete("city == '%2F' or id == 11")
        return _ids(table)

    steps.run("create", create)
    steps.run("append", append)
    steps.run("scan", lambda: {city: _ids(catalog.load_table(first_table), f"city == '{city}'") for city in cities})
    steps.run("overwrite", overwrite)
    steps.run("delete", delete)


def _several(steps: Steps, catalog: Catalog, namespace: str, cities: list[str]) -> None:
    """Work on two tables at a time, make one in a transaction, give it another name and drop it; look for files."""
    first_table, second_table = f"{namespace}.first", f"{namespace}.second"
    staged, moved, renamed = f"{namespace}.staged", f"{namespace}.moved", f"{namespace}.renamed"

    def two_tables() -> list[list[int]]:
        tables = [catalog.load_table(each) for each in (first_table, second_table)]
        for first in (100, 110):
            for table in tables:
                table.append(_rows(cities, first).slice(0, 1))
                _ids(table)
        return [_ids(catalog.load_table(each), "id >= 100") for each in (first_table, second_table)]

    def stage() -> list[int]:
        with catalog.create_table_transaction(staged, _SCHEMA, partition_spec=_SPEC) as transaction:
            transaction.append(_rows(cities, 0))
        return _ids(catalog.load_table(staged))

    def rename() -> list[int]:
        catalog.create_table(moved, _SCHEMA, partition_spec=_SPEC).append(_rows(cities, 0))
        catalog.rename_table(moved, renamed)
        table = catalog.load_table(renamed)
        table.append(_rows(cities, 50))
        return _ids(table)

    def drop() -> bool:
        catalog.drop_table(renamed)
        return bool(catalog.table_exists(renamed))

    def exists() -> bool:
        table = catalog.load_table(first_table)
        return bool(table.io.new_input(f"{table.location()}/data/missing").exists())

    def delete_file() -> None:
        table = catalog.load_table(first_table)
        table.io.delete(f"{table.location()}/data/missing")

    steps.run("two tables", two_tables)
    steps.run("staged create", stage)
    steps.run("rename", rename)
    steps.run("drop", drop)
    steps.run("exists on a missing key", exists)
    steps.run("delete a file", delete_file)


def _users(steps: Steps, catalog: Catalog, reader: Catalog, namespace: str, cities: list[str]) -> None:
    """Be two users in one process."""
    first_table, second_table = f"{namespace}.first", f"{namespace}.second"

    def drop_all() -> list[str]:
        for identifier in catalog.list_tables(namespace):
            catalog.drop_table(identifier)
        return [".".join(found) for found in catalog.list_tables(namespace)]

    steps.run("keys held", lambda: _keys_held(catalog, first_table))
    steps.run("reader: scan", lambda: _ids(reader.load_table(first_table)))
    steps.run("reader: append", lambda: reader.load_table(first_table).append(_rows(cities, 900)))
    steps.run("writer again", lambda: _ids(catalog.load_table(first_table)))
    steps.run("reader: scan of a closed table", lambda: _ids(reader.load_table(second_table)))
    steps.run("drop all", drop_all)


def _keys_held(catalog: Catalog, table: str) -> list[str]:
    """Return the properties that hold keys of the store, of the catalog and of a table."""
    held = {**catalog.properties, **catalog.load_table(table).io.properties}
    return sorted(name for name in held if any(part in name for part in ("access-key", "secret", "session-token")))


def main() -> None:
    """Carry out every step."""
    asked = json.load(sys.stdin)
    steps = Steps()
    if "writer" in asked:
        catalog, reader = (load_catalog(name, **asked[name]) for name in ("writer", "reader"))
        namespace, cities = asked["namespace"], asked["cities"]
        _changes(steps, catalog, namespace, cities)
        _several(steps, catalog, namespace, cities)
        _users(steps, catalog, reader, namespace, cities)
    else:
        io = FsspecFileIO(asked["properties"])
        _files(steps, io, asked)
        _denied(steps, io, asked)
        if "owned" in asked:
            _table(steps, asked)
        steps.run("end", lambda: _write(io, f"{asked['root']}/end", b""))
    json.dump(steps.outcomes, sys.stdout, ensure_ascii=True)


if __name__ == "__main__":
    main()
