"""Collect what worked with which client on which store, for the compatibility page."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
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
        """Write the rows, sorted, so that a change shows as a difference; with the day and the commit of the run."""
        rows = [Row(*case, outcome)._asdict() for case, outcome in sorted(self._rows.items())]
        git = ("git", "-C", str(file.parent.parent), "rev-parse", "--short=12", "HEAD")
        commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
        record = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "commit": commit, "rows": rows}
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
