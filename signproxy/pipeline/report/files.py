"""Write a report's files: the page for people, JSON with all of it, and a CSV file for each table."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from io import StringIO
from pathlib import Path

import msgspec

from signproxy.pipeline.report.data import ReportData
from signproxy.pipeline.report.page import page
from signproxy.pipeline.report.sections import sections
from signproxy.pipeline.report.text import harmless, moment
from signproxy.pipeline.report.twin import Twin, Value, twin

PAGE = "report.html"
DATA = "report.json"
TABLES = "csv"

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""A cell that begins with one of these is computed by a spreadsheet; the last four in some languages."""
_LONGEST_CELL = 4096


def write_report(data: ReportData, directory: Path) -> tuple[Path, ...]:
    """Write the files and return where they are; the page last, so that once it is there, the others are."""
    tables = directory / TABLES
    tables.mkdir(parents=True, exist_ok=True)
    written = []
    for each in twins(data):
        path = tables / f"{each.name}.csv"
        path.write_text(as_csv(each), encoding="utf-8", newline="")
        written.append(path)
    for name, content in ((DATA, as_json(data)), (PAGE, page(data).encode())):
        part = directory / f".{name}"
        part.write_bytes(content)
        part.replace(directory / name)
        written.append(directory / name)
    return tuple(written)


def as_json(data: ReportData) -> bytes:
    """Return all that the page is made of, with every text as it was found."""
    # ASCII alone: what is no text in UTF-8 has an escape, and nothing acts on a terminal.
    return json.dumps(msgspec.to_builtins(data), indent=1).encode() + b"\n"


def as_csv(table: Twin) -> str:
    """Return a table as CSV in which no text can be taken for a formula, and none acts on a terminal."""
    out = StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerow([column.field for column in table.columns])
    writer.writerows([_cell(value) for value in row] for row in table.rows)
    return out.getvalue()


def twins(data: ReportData) -> Iterator[Twin]:
    """Return every table of the page, and the findings."""
    yield findings_twin(data)
    for section in sections(data):
        yield from section.twins


def findings_twin(data: ReportData) -> Twin:
    """Return the findings as a table, each piece of evidence as name=value."""
    columns = (
        "Finding id:text, Class:text, Severity:text, First:time, Last:time, N, Principal:text, Table:text, "
        "Bucket:text, Evidence:text, Fix:text"
    )
    rows: list[Sequence[Value]] = []
    for one in (each for group in data.groups for each in group.findings):
        evidence = "; ".join(f"{name}={value}" for name, value in sorted(one.evidence.items()))
        rows.append((*msgspec.structs.astuple(one)[:9], evidence, one.fix))
    return twin("findings", "Findings", columns, rows)


def guarded(raw: str) -> str:
    """Return text for a cell: a quote before whatever a spreadsheet would compute, and escapes for what acts."""
    shown = harmless(raw, _LONGEST_CELL)
    # Spreadsheets skip blanks before a formula; some do not show the quote, all leave the rest alone.
    return f"'{shown}" if raw.lstrip(" ").startswith(_FORMULA) else shown


def _cell(value: Value) -> str | int | float:
    match value:
        case None:
            return ""
        case str():
            return guarded(value)
        case int() | float():
            return value
        case _:
            return moment(value) if isinstance(value, datetime) else value.isoformat()
