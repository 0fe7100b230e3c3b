"""The generated month: the same for a seed, as large as was asked for, and whole except where it is meant not to be."""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import sys
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from signproxy.audit.trailer import TAIL, read_trailer
from signproxy.audit.verify import TrailFault, Weight, check_chain, check_segment, segments
from signproxy.errors import Invalid
from tests.pipeline.demo_month import Month, lines_of, month_of, the_events, the_month
from tools.sample_data.__main__ import INVALID, main
from tools.sample_data.generate import LEAST_EVENTS, Size, generate

_QUICK: dict[str, Any] = {"events": 6_000, "tables": 400, "days": 4}


@cache
def _content_of(seed: int) -> dict[str, str]:
    return _content(month_of(seed, **_QUICK))


def _content(month: Month) -> dict[str, str]:
    """Return a digest of each file."""
    return {
        str(path.relative_to(month.directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(one for one in month.directory.rglob("*") if one.is_file())
    }


def test_a_seed_always_gives_the_same_month() -> None:
    """A failure that is reported with its seed could not be repeated otherwise."""
    assert _content(month_of(11, **_QUICK)) == _content_of(11)


def test_another_seed_gives_another_month() -> None:
    """If all seeds gave the same, drawing one would test nothing new."""
    one, other = _content_of(11), _content_of(12)
    same = [name for name in one.keys() & other.keys() if one[name] == other[name]]
    assert same == ["prices.yaml"]


def test_several_processes_write_what_one_writes() -> None:
    """The bench generates with all cores, and compares with what was measured with one."""
    assert _content(month_of(11, **_QUICK, processes=2)) == _content_of(11)


def test_a_query_that_is_cut_short_asks_the_catalog_for_nothing_more() -> None:
    """With this seed the last query goes on to another table just when the number is reached."""
    summary = month_of(4205679019).summary
    assert sum(summary.kinds.values()) == summary.events


@pytest.mark.parametrize("events", (LEAST_EVENTS, LEAST_EVENTS + 4_321))
def test_there_are_exactly_as_many_events_as_asked_for(events: int) -> None:
    """Costs per event are computed with this number."""
    month = month_of(3, events=events, tables=400, days=4)
    assert month.summary.written == events
    # What is lost with spoiled segments is told apart.
    assert 0 < month.summary.written - month.summary.events < 100
    rows = sum(month.summary.requests.values())
    assert 0.7 * events < rows < 1.6 * events


def test_segments_are_whole_except_where_faults_are_planted() -> None:
    """A trail that verification finds fault with would make every finding of a gap a false one."""
    month = the_month()
    checked = [check_segment(path) for path in segments(month.directory)]
    findings = [one for segment in checked for one in segment.findings] + list(check_chain(checked))
    faults = [one for one in findings if one.fault.weight is Weight.FAULT]
    planted = [
        one.expect for one in month.faults if one.planted and one.class_ in ("audit_gap", "bad_segment", "bad_line")
    ]
    names = {told["segment"] for told in planted if "segment" in told}
    boots = {told["boot_id"] for told in planted if "boot_id" in told}
    unplanned = [one.text for one in faults if one.file not in names and not any(boot in one.text for boot in boots)]
    assert unplanned == []
    for told in planted:
        assert any(told.get("segment", told.get("boot_id", "?")) in one.text for one in faults), told
    assert any(one.fault is TrailFault.ENDLESS for one in findings), "lives that were killed"


def test_lives_end_in_order_and_by_force() -> None:
    """Only a month with both shows that a crash is no gap."""
    sealed = set()
    for path in segments(the_month().directory):
        trailer = read_trailer(path.read_bytes()[-TAIL:])
        if trailer is not None:
            sealed.add(trailer.end.sealed_by.value)
    assert sealed == {"rotation", "close", "recovery"}


def test_segments_were_sealed_in_their_month() -> None:
    """Dated when the generator ran, a seed's segments differ from run to run, and a report of the month lacks them."""
    month = the_month()
    first = date.fromisoformat(month.summary.first_day)
    trailers = [read_trailer(path.read_bytes()[-TAIL:]) for path in segments(month.directory)]
    sealed = [date.fromisoformat(trailer.end.ts[:10]) for trailer in trailers if trailer is not None]
    assert len(sealed) > 10
    assert all(timedelta(0) <= day - first <= timedelta(month.summary.days) for day in sealed)


def test_events_are_read_back_by_any_reader_of_json() -> None:
    """The generator writes with the server's own encoder, so what it can write the server can."""
    event = next(one for one in the_events() if one["kind"] == "sign" and one["decision"] == "allow")
    assert {"principal", "rule_id", "policy_epoch", "expires_at", "stamped", "roles"} <= event.keys()


def test_nothing_is_left_of_the_work() -> None:
    """A reader that takes every file would read half a segment."""
    assert [path.name for path in the_month().directory.rglob(".*")] == []


def test_work_follows_days_and_nights() -> None:
    """Anomalies are found against rhythms, so there must be some."""
    by_hour = [0] * 24
    for event in the_events():
        if event.get("application") == "analyst":
            by_hour[int(event["ts"][11:13])] += 1
    assert sum(by_hour[9:18]) > 5 * sum(by_hour[0:6])


def test_tables_are_used_by_a_few_much_and_many_little() -> None:
    """If all tables were used alike, "10,000 to 4" could not be shown."""
    uses: dict[tuple[str, str], int] = {}
    for event in the_events():
        if event.get("table"):
            table = (event["namespace"], event["table"])
            uses[table] = uses.get(table, 0) + 1
    ordered = sorted(uses.values(), reverse=True)
    # Used alike, a fifth of them would have about 0.27 of all; over the seeds the month has 0.59 to 0.65.
    assert sum(ordered[: len(ordered) // 5]) > 0.5 * sum(ordered)
    assert len(uses) < the_month().summary.tables


def test_too_few_events_are_refused(tmp_path: Path) -> None:
    """The planted faults alone are thousands: with fewer, the number could not be kept."""
    with pytest.raises(Invalid, match="--events"):
        generate(tmp_path / "demo", Size(seed=1, events=LEAST_EVENTS - 1))


def test_a_month_is_never_written_over(tmp_path: Path) -> None:
    """Two months in one place would be one with thousands of conflicts."""
    (tmp_path / "demo").mkdir()
    with pytest.raises(Invalid, match="exists"):
        generate(tmp_path / "demo", Size(seed=1))


def test_the_generator_knows_nothing_of_the_jobs() -> None:
    """If it shared code with them, both could be wrong in the same way, and without Spark it could not run."""
    code = (
        "import sys, tools.sample_data.generate as _\n"
        "print([name for name in sys.modules if name.startswith(('pyspark', 'numpy', 'signproxy.pipeline'))])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_the_command_prints_the_seed_that_it_drew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the seed a failure cannot be looked at twice."""
    words = [*("--events", "6000"), *("--tables", "400"), *("--instances", "1")]
    days = [*("--first-day", "2026-09-01"), *("--days", "3")]
    assert main([str(tmp_path / "demo"), *words, *days]) == 0
    summary = json.loads((tmp_path / "demo" / "truth" / "summary.json").read_text())
    said = capsys.readouterr().out
    assert f"seed {summary['seed']}\n" in said
    assert "6,000 events in " in said
    assert lines_of(tmp_path / "demo" / "policy" / "2026-09-01.ndjson")[0]["exported_at"] == "2026-09-01T00:00:00Z"
    # Gzip members that any reader takes.
    some = next((tmp_path / "demo").glob("audit/v1/*/signproxy-0-*.gz"))
    assert gzip.decompress(some.read_bytes()).startswith(b'{"schema":"signproxy.audit/1","kind":"segment_start"')


def test_the_command_says_what_it_cannot_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A page of Python would hide that the directory is taken, or that the number is no number."""
    assert main([str(tmp_path), "--events", "6000"]) == INVALID
    assert "exists already" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([str(tmp_path / "demo"), "--days", "0"])
    assert "0 is below 1" in capsys.readouterr().err
