"""Collect what worked with which client on which store, for the compatibility page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).parents[2] / "docs" / "matrix.json"


class Row(NamedTuple):
    """One operation of one client on one store."""

    client: str
    client_version: str
    store: str
    store_version: str
    operation: str
    outcome: str = "passed"

    @property
    def case(self) -> tuple[str, str, str, str, str]:
        """What the outcome is of."""
        return self.client, self.client_version, self.store, self.store_version, self.operation


class Matrix:
    """The rows of one run."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str, str, str, str], str] = {}

    @contextmanager
    def row(self, row: Row) -> Iterator[None]:
        """Record what becomes of the block; one failure outweighs any number of passes."""
        try:
            yield
        except BaseException:
            self._rows[row.case] = "failed"
            raise
        self._rows.setdefault(row.case, row.outcome)

    def write(self, file: Path) -> None:
        """Write the rows, sorted, so that a change shows as a difference."""
        rows = [Row(*case, outcome)._asdict() for case, outcome in sorted(self._rows.items())]
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
