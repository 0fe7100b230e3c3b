"""The files beside the page: whole for programs, and harmless in a spreadsheet."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path

import msgspec
import pytest

from signproxy.pipeline.report.data import ReportData
from signproxy.pipeline.report.files import as_csv, as_json, guarded, twins, write_report
from tests.pipeline.report_example import HOSTILE, report

ACTING = ("=", "+", "-", "@", "\t", "\r", "\n")


@pytest.mark.parametrize("first", (*ACTING, "\uff1d", " =", "  +"))
def test_no_cell_is_a_formula(first: str) -> None:
    """A principal named `=cmd|...` would be run by the spreadsheet that opens the file."""
    assert guarded(f"{first}1+1").startswith("'")


@pytest.mark.parametrize("plain", ("lake.sales.orders", "a=b", "10.0.0.1", "", "'quoted", "x-y"))
def test_ordinary_text_is_left_alone(plain: str) -> None:
    """Names that are changed for nothing cannot be looked for."""
    assert guarded(plain) == plain


def test_every_cell_of_every_table_is_guarded() -> None:
    """One column that was forgotten is enough for a formula; a line break in a name would begin a row of its own."""
    texts = 0
    for twin in twins(report(HOSTILE)):
        rows = list(csv.reader(StringIO(as_csv(twin))))
        assert len(rows) == 1 + len(twin.rows), twin.name
        for row, values in zip(rows[1:], twin.rows, strict=True):
            assert len(row) == len(twin.columns)
            for cell, value in zip(row, values, strict=True):
                if isinstance(value, str):
                    texts += 1
                    assert not cell.startswith(ACTING), (twin.name, cell)
                    assert cell.isprintable(), (twin.name, cell)
    assert texts > 1_000


def test_numbers_stay_numbers() -> None:
    """A sum over a column of texts is nothing."""
    heat = next(twin for twin in twins(report()) if twin.name == "heat")
    assert '"https://idp.example.com/svc-001","lake.sales.orders_0001",37,0\n' in as_csv(heat)


def test_json_has_everything_as_it_was_found() -> None:
    """The page shortens and escapes; a program that looks for a key needs the key."""
    decoded = json.loads(as_json(report(HOSTILE)))
    assert {one["findings"][0]["principal"] for one in decoded["groups"]} == set(HOSTILE)
    assert msgspec.json.decode(as_json(report()), type=ReportData) == report()


def test_files_lie_beside_the_page(tmp_path: Path) -> None:
    """The page comes with its figures, and a second run takes the place of the first."""
    first, written = (write_report(report(), tmp_path / "out") for _ in range(2))
    assert first == written
    assert written[-1] == tmp_path / "out" / "report.html"
    names = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert {"report.html", "report.json", "csv/findings.csv", "csv/heat.csv", "csv/timeline.csv"} <= set(names)
    assert len(names) == len(written)
