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
from pyiceberg.catalog import load_catalog
from pyiceberg.io.fsspec import FsspecFileIO

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
    steps.run("manifest_write", lambda: _write(io, f"{root}/metadata/snap-1.avro", b"{}"))


def _table(steps: Steps, asked: dict[str, Any]) -> None:
    """Create, append, scan: the catalog is in memory, so PyIceberg itself writes the metadata files."""
    # Its `uri` is that of its own database.
    properties = {name: value for name, value in asked["properties"].items() if name != "uri"}
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


def main() -> None:
    """Carry out every step."""
    asked = json.load(sys.stdin)
    io = FsspecFileIO(asked["properties"])
    steps = Steps()
    _files(steps, io, asked)
    _denied(steps, io, asked)
    if "owned" in asked:
        _table(steps, asked)
    steps.run("end", lambda: _write(io, f"{asked['root']}/end", b""))
    json.dump(steps.outcomes, sys.stdout, ensure_ascii=True)


if __name__ == "__main__":
    main()
