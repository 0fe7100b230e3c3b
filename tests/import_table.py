"""Check the design's table of rooms: a contract for import-linter with one row per room."""

from __future__ import annotations

from collections.abc import Iterator

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

ROOT = "signproxy"


class ImportTable(Contract):
    """Every room has a row `room: rooms it may import`, and no module imports past its row.

    Each room is checked for what it imports itself, so chains need no rule of their own.
    """

    rows = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Compare each import between rooms with the table."""
        # The field is its own parsed value on an instance, which its type does not say.
        table = parse_rows([str(row) for row in self.rows])  # type: ignore[attr-defined]  # see above
        faults = sorted(set(_faults(graph, table)))
        return ContractCheck(kept=not faults, metadata={"faults": faults})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print one line per import that the table does not name."""
        for fault in check.metadata["faults"]:
            output.print_error(fault)


def parse_rows(rows: list[str]) -> dict[str, frozenset[str]]:
    """Return the rooms that each room may import; `*` stands for all of them."""
    table: dict[str, frozenset[str]] = {}
    for row in rows:
        room, _, allowed = row.partition(":")
        if room.strip() in table:
            raise ValueError(f"two rows for {room.strip()!r}")
        table[room.strip()] = frozenset(allowed.replace(",", " ").split())
    for room, allowed_rooms in table.items():
        if unknown := allowed_rooms - table.keys() - {"*"}:
            raise ValueError(f"the row of {room!r} names rooms without a row: {sorted(unknown)}")
    return table


def room_of(module: str) -> str:
    """Return the room of a module: the first level below the package; nothing for the package itself."""
    return module.split(".")[1] if "." in module else ""


def _faults(graph: ImportGraph, table: dict[str, frozenset[str]]) -> Iterator[str]:
    for module in graph.modules:
        if not module.startswith(f"{ROOT}."):
            continue
        room = room_of(module)
        if room not in table:
            yield f"room {room!r} has no row in the table"
            continue
        for imported in graph.find_modules_directly_imported_by(module):
            if not imported.startswith(f"{ROOT}."):
                continue
            if {"*", room_of(imported)}.isdisjoint(table[room] | {room}):
                yield f"{module} imports {imported}: the row of {room!r} does not name {room_of(imported)!r}"
