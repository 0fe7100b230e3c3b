"""Hold the format of results.json and of the page made from it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec

from bench import page, record
from bench.__main__ import SUITES, measured_rows
from bench.figures import Result, result


def _row(name: str, value: float = 1.0) -> Result:
    return result(name, [value], unit="ratio", better="higher", against="a floor", must=0.5)


def test_the_recorded_results_have_exactly_the_fields_that_readers_expect() -> None:
    """Who reads results.json by field name, the README among them, would quote nothing."""
    rows = json.loads(record.RESULTS.read_text())
    assert rows
    for row in rows:
        assert list(row) == [
            *("name", "value", "unit", "must", "goal", "better", "against", "samples", "spread", "date", "commit")
        ]
        assert row["name"].partition(".")[0] in SUITES
        assert row["better"] in {"higher", "lower"}
        assert row["spread"][0] <= row["value"] <= row["spread"][1]
        assert row["samples"] >= 1
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", row["date"])
        assert row["commit"]
    assert len({row["name"] for row in rows}) == len(rows)


def test_the_page_is_the_one_made_from_the_results() -> None:
    """Readers would be told figures that were not measured."""
    assert page.PAGE.read_text() == page.render(record.read())


def test_a_new_run_of_one_suite_keeps_the_others(tmp_path: Path) -> None:
    """`--only sign` would throw away an hour of other measurements, or keep stale rows of its own."""
    path = tmp_path / "results.json"
    record.write({"sign": [_row("sign.a"), _row("sign.old")], "workers": [_row("workers.b")]}, SUITES, path)
    record.write({"sign": [_row("sign.a", 2.0)]}, SUITES, path)
    assert [(row.name, row.value) for row in record.read(path)] == [("sign.a", 2.0), ("workers.b", 1.0)]


def test_what_no_suite_reports_any_more_is_dropped(tmp_path: Path) -> None:
    """A figure of code that is gone would be quoted for ever."""
    path = tmp_path / "results.json"
    record.write({"sign": [_row("sign.a")]}, SUITES, path)
    assert record.write({}, ("workers",), path) == []


def test_rows_of_a_suite_are_named_after_it() -> None:
    """A row under a foreign name would survive the next run of its own suite."""
    rows = measured_rows(
        "sigv4",
        [
            {
                "name": "vs_botocore",
                "value": 8,
                "unit": "ratio",
                "better": "higher",
                "against": "botocore",
                "samples": 1,
                "spread": [8, 8],
            }
        ],
    )
    assert [row.name for row in rows] == ["sigv4.vs_botocore"]


def test_a_row_of_the_page_shows_value_spread_and_bars() -> None:
    """The page could pass a missed must off as met."""
    text = page.render([_row("sign.a", 0.75)])
    assert "| `sign.a` | **0.75** ratio | 0.75 to 0.75 | ≥ 0.5 |  | a floor | 1 |" in text


def test_the_page_says_which_must_is_missed() -> None:
    """A missed requirement would stand there like any other result."""
    assert "≥ 0.5, **missed**" in page.render([_row("sign.a", 0.4)])
    assert "missed" not in page.render([_row("sign.a", 0.5)]).partition("## Results")[2]


def test_what_is_missed_stands_first() -> None:
    """A reader would take the first page of figures for what was promised."""
    profile = msgspec.structs.replace(_row("instructions.profile_sign_libcrypto", 9.0), must=None)
    text = page.render([_row("sign.a"), _row("tls.b", 0.4), profile])
    top = text.partition("## What the figures mean")[0]
    assert "## What is missed" in top
    assert "`tls.b`" in top
    assert "`instructions.profile_sign_libcrypto`" in top
    assert "`sign.a`" not in top
    assert "No must is missed." in page.render([_row("sign.a")])
