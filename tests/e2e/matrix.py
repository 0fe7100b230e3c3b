"""Collect what became of which operation with which client on which store, and write the compatibility page of it.

Rows belong to the test file that made them, and a file that ran whole replaces its own: the record says of each when,
and at which commit.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).parents[2] / "docs" / "matrix.json"


class Outcome(Enum):
    """What became of an operation, as users are told it."""

    WORKS = "works"
    REFUSED = "refused"
    """signproxy refuses it; `detail` is the reason's code."""
    STORE_REFUSES = "refused by the store"
    """It was signed, and the store cannot do it."""
    CATALOG_REFUSES = "refused by the catalog"
    """It was passed on, and that catalog does not do it."""
    CLIENT_BUG = "client bug"
    """`detail` says which one."""
    FAILED = "failed"


class Row(NamedTuple):
    """One operation of one client on one store."""

    client: str
    client_version: str
    store: str
    store_version: str
    operation: str
    way: str = ""
    """Whether catalog calls pass signproxy, and to which catalog; empty where there are none."""
    outcome: Outcome = Outcome.WORKS
    detail: str = ""

    @property
    def case(self) -> tuple[str, ...]:
        """What the outcome is of."""
        return tuple([getattr(self, name) for name in _CASE])


class Matrix:
    """The rows of one run, by the test file that they are of."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[tuple[str, ...], Row]] = {}
        self.suite = ""
        """The test file that is being run, from the repository on."""

    @contextmanager
    def row(self, row: Row) -> Iterator[None]:
        """Record what becomes of the block; one failure outweighs any number of passes."""
        rows = self._rows.setdefault(self.suite, {})
        try:
            yield
        except BaseException:
            rows[row.case] = row._replace(outcome=Outcome.FAILED, detail="")
            raise
        rows.setdefault(row.case, row)

    def write(self, file: Path, suites: Iterable[str], existing: Iterable[str]) -> None:
        """Replace the rows of suites in a record; those of suites that do not exist any more are left out.

        Rows are sorted, so that a change shows as a difference.
        """
        git = ("git", "-C", str(file.parent), "rev-parse", "--short=12", "HEAD")
        commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
        now = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "commit": commit}
        record = json.loads(file.read_text()) if file.exists() else {}
        ran = {suite: rows for suite, rows in self._rows.items() if suite in set(suites)}
        kept = set(existing) - ran.keys()
        runs = {suite: run for suite, run in record.get("suites", {}).items() if suite in kept}
        runs |= dict.fromkeys(ran, now)
        rows = [row for row in record.get("rows", ()) if row["suite"] in runs.keys() - ran.keys()]
        for suite, made in ran.items():
            rows += [{**row._asdict(), "outcome": row.outcome.value, "suite": suite} for row in made.values()]
        rows.sort(key=lambda row: (row["suite"], *(row[name] for name in _CASE)))
        written = {"suites": dict(sorted(runs.items())), "rows": rows}
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n")
        file.with_suffix(".md").write_text(page(written))


_CASE = ("client", "client_version", "way", "store", "store_version", "operation")


# -- the page ------------------------------------------------------------------------------------------------------

_HEAD = """\
<!-- Generated from docs/matrix.json by the end-to-end run (`make e2e`); do not edit. -->

# What works with which client

Every cell is what a real client did in front of a real store, in a run of `make e2e` whose day and commit stand with
it. Each request that reached a store was signed by signproxy and is in its audit trail, and no client had a key of the
store. What went "through the S3 listener" was signed by the client with a key that signproxy had issued, and anew for
the store.

* **works**: done, and what it did was looked at
* **refused** (`reason`): signproxy refuses it, see the [reason codes](reasons.md)
* **refused by the store**: signproxy signs it, and that store cannot do it
* **refused by the catalog**: signproxy passes it on, and that catalog does not do it
* **client bug**: the client does something wrong; what it is stands beside it

A cell holds for all stores of its section, unless it names them; an empty one was not run. The last sections, in
small letters, are no clients: the requests of a release, written and merged by the tests' own code.
"""


def page(record: Mapping[str, Any]) -> str:
    """Return the page of a record."""
    rows = [
        (
            told["suite"],
            Row(**{name: told[name] for name in _CASE}, outcome=Outcome(told["outcome"]), detail=told["detail"]),
        )
        for told in record["rows"]
    ]
    parts = [_HEAD]
    for client, way in dict.fromkeys((row.client, row.way) for _suite, row in rows):
        section = [(suite, row) for suite, row in rows if (row.client, row.way) == (client, way)]
        runs = {(run["date"], run["commit"]) for run in (record["suites"][suite] for suite, _row in section)}
        parts.append("\n".join(_section(client, way, sorted(runs), [row for _suite, row in section])) + "\n")
    return "\n".join(parts)


def _section(client: str, way: str, runs: Iterable[tuple[str, str]], rows: list[Row]) -> Iterator[str]:
    versions = sorted({row.client_version for row in rows}, key=_version_key)
    stores = sorted({(row.store, row.store_version) for row in rows})
    yield f"## {client}{f', {way}' if way else ''}"
    yield ""
    ran = ", ".join(f"{date} at {commit}" for date, commit in runs)
    yield f"On {', '.join(f'{name} {version}' for name, version in stores)}; run {ran}."
    yield ""
    yield f"| operation | {' | '.join(versions)} |"
    yield f"| --- |{' --- |' * len(versions)}"
    for operation in sorted({row.operation for row in rows}, key=str.lower):
        cells = (
            _cell([row for row in rows if (row.operation, row.client_version) == (operation, version)], stores)
            for version in versions
        )
        yield f"| {_plain(operation)} | {' | '.join(cells)} |"


def _cell(rows: list[Row], stores: Iterable[tuple[str, str]]) -> str:
    """Return one text where all stores of the section agree, else one for each store or group of them."""
    told: dict[str, list[str]] = {}
    for row in rows:
        told.setdefault(_text(row), []).append(row.store)
    names = {name for name, _version in stores}
    if len(told) == 1 and {*next(iter(told.values()))} == names:
        return next(iter(told))
    return "; ".join(f"{text} ({', '.join(sorted(on))})" for text, on in sorted(told.items()))


def _text(row: Row) -> str:
    if not row.detail:
        return row.outcome.value
    detail = f"`{row.detail}`" if row.outcome is Outcome.REFUSED else _plain(row.detail)
    return f"{row.outcome.value}: {detail}"


def _plain(text: str) -> str:
    return text.replace("|", "\\|")


def _version_key(version: str) -> list[tuple[int, str]]:
    return [(int(part) if part.isdigit() else -1, part) for part in version.replace(" ", ".").split(".")]
