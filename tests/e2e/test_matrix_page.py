"""The compatibility page says what the record says, and the record what was run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.matrix import FILE, Matrix, Outcome, Row, page

pytestmark = pytest.mark.ci


def test_the_page_is_that_of_the_record() -> None:
    """Users go by the page; a hand on it would promise what nobody ran."""
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
    matrix.write(tmp_path / "matrix.json")
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
    matrix.write(tmp_path / "matrix.json")
    text = (tmp_path / "matrix.md").read_text()
    assert "| tags | refused by the store (two); works (one) |" in text
    assert "| bulk | refused: `no_body` |" in text
    assert "| only here | works (one) |" in text
