"""The compatibility page says what the record says, and the record what was run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.matrix import FILE, Matrix, Outcome, Row, page

pytestmark = pytest.mark.ci


def test_the_page_is_that_of_the_record() -> None:
    """Users go by the page; a hand on it would promise what was not run."""
    assert FILE.with_suffix(".md").read_text() == page(json.loads(FILE.read_text()))


def test_one_failure_outweighs_what_worked(tmp_path: Path) -> None:
    """An operation that fails every third time is told as failed, whatever came after it."""
    matrix = Matrix()
    row = Row("client", "1.0", "store", "2.0", "PutObject")
    with matrix.row(row):
        pass
    with pytest.raises(RuntimeError), matrix.row(row):
        raise RuntimeError
    with matrix.row(row):
        pass
    matrix.write(tmp_path / "matrix.json", [""], [""])
    record = json.loads((tmp_path / "matrix.json").read_text())
    assert [found["outcome"] for found in record["rows"]] == ["failed"]
    assert "| PutObject | failed |" in (tmp_path / "matrix.md").read_text()


def test_stores_are_named_where_they_differ(tmp_path: Path) -> None:
    """`works` in a cell means on each store of the section, or the reader of another store is misled."""
    matrix = Matrix()
    for store, outcome in (("one", Outcome.WORKS), ("two", Outcome.STORE_REFUSES)):
        with matrix.row(Row("client", "1.0", store, "9", "tags", outcome=outcome)):
            pass
    for store in ("one", "two"):
        with matrix.row(Row("client", "1.0", store, "9", "bulk", outcome=Outcome.REFUSED, detail="no_body")):
            pass
    with matrix.row(Row("client", "1.0", "one", "9", "only here")):
        pass
    matrix.write(tmp_path / "matrix.json", [""], [""])
    text = (tmp_path / "matrix.md").read_text()
    assert "| tags | refused by the store (two); works (one) |" in text
    assert "| bulk | refused: `no_body` |" in text
    assert "| only here | works (one) |" in text


def test_a_suite_replaces_its_own_rows_and_no_others(tmp_path: Path) -> None:
    """A part that is run again would wipe out what the others showed, or keep what is not so any more."""
    file = tmp_path / "matrix.json"
    everything = ["one.py", "two.py", "gone.py"]
    _ran(file, dict.fromkeys(everything, "old"), everything, everything)
    existing = ["one.py", "two.py"]
    # It had rows, and one of its tests was left out.
    _ran(file, {"one.py": "new", "two.py": "half"}, ["one.py"], existing)
    record = json.loads(file.read_text())
    assert [(row["suite"], row["operation"]) for row in record["rows"]] == [("one.py", "new"), ("two.py", "old")]
    assert list(record["suites"]) == existing


def test_the_page_says_when_each_section_was_run(tmp_path: Path) -> None:
    """Readers would take what was shown a year ago for what was shown today."""
    file = tmp_path / "matrix.json"
    _ran(file, {"one.py": "works"}, ["one.py"], ["one.py"])
    record = json.loads(file.read_text())
    record["suites"]["one.py"] = {"date": "2025-01-02", "commit": "0123456789ab"}
    assert "On store 1; run 2025-01-02 at 0123456789ab." in page(record)


def _ran(file: Path, made: dict[str, str], whole: list[str], existing: list[str]) -> None:
    matrix = Matrix()
    for suite, operation in made.items():
        matrix.suite = suite
        with matrix.row(Row("client", "1", "store", "1", operation)):
            pass
    matrix.write(file, whole, existing)
