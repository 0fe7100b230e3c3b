"""The command as a scheduler sees it: what it asks, prints, and ends with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from signproxy.cli import main
from signproxy.pipeline import launch
from signproxy.pipeline.job import Exit
from signproxy.pipeline.session import SessionOptions
from tests.pipeline.segments import event_lines, life, segment
from tests.pipeline.test_s3log_aws import line


@pytest.fixture
def words(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lend the command the one Spark of these tests; return the words that each command begins with."""

    @contextmanager
    def lent(_options: SessionOptions) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(launch, "open_session", lent)
    monkeypatch.chdir(tmp_path)
    return ["pipeline"]


def _record(capfd: pytest.CaptureFixture[str]) -> dict[str, object]:
    record = json.loads(capfd.readouterr().out)
    assert isinstance(record, dict)
    return record


def test_done(words: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """0, and a line that says how much; the same as JSON for programs, and as a file for tomorrow."""
    life(tmp_path / "audit", (3, 2))
    assert main([*words, "ingest", "--input", "audit", "--json"]) == Exit.OK
    record = _record(capfd)
    assert (record["rows_in"], record["rows_out"], record["exit"]) == (5, 5, 0)
    assert record["cpu_seconds"]
    kept = json.loads((tmp_path / "warehouse" / "runs" / f"{record['run_id']}.json").read_text())
    assert kept == record
    assert main([*words, "ingest", "--input", "audit"]) == Exit.OK
    assert capfd.readouterr().out.startswith("ingest: 0 rows in, 0 out, 0 quarantined")


def test_failed(words: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """1, and what it was in a line: a page of Java is read by nobody."""
    life(tmp_path / "audit", (3,))
    (tmp_path / "file").write_text("")
    assert main([*words, "ingest", "--input", "audit", "--warehouse", "file"]) == Exit.FAILED
    said = capfd.readouterr().err
    assert "ingest: " in said
    assert "\tat " not in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "wrong",
    (
        ["ingest"],
        ["ingest", "--input", "nowhere"],
        ["ingest-s3log", "--input", ".", "--format", "s4"],
        ["cost"],
        ["privileges", "--input", "nowhere"],
        ["ingest", "--input", ".", "--fail-on", "terrible"],
        ["ingest", "--input", ".", "--from", "soon"],
    ),
    ids=" ".join,
)
def test_wrong_usage(words: list[str], wrong: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    """2: what an operator has to mend, and no repetition will."""
    assert main([*words, *wrong]) == Exit.USAGE
    assert "Traceback" not in capfd.readouterr().err


def test_findings(words: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """3 where there are findings as severe as was asked; a run that nobody asked so ends well."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a").write_text(line("A", requester="arn:aws:iam::9:user/mallory") + "\n")
    assert main([*words, "ingest-s3log", "--input", "logs"]) == Exit.OK
    assert main([*words, "reconcile", "--fail-on", "medium"]) == Exit.FINDINGS
    assert "medium: " in capfd.readouterr().out
    again = ["--from", "2026-11-19", "--to", "2026-11-19"]
    assert main([*words, "reconcile", *again, "--fail-on", "critical"]) == Exit.OK
    assert main([*words, "reconcile", *again]) == Exit.OK


def test_bad_data(words: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """4 where more could not be read than is ordinary."""
    segment(tmp_path / "audit", [*event_lines(3), b"no event\n"], last=3, count=4)
    assert main([*words, "ingest", "--input", "audit", "--max-bad-ratio", "0.5"]) in (Exit.OK, Exit.AUDIT_GAP)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a").write_text(line("A") + "\nno line\n")
    assert main([*words, "ingest-s3log", "--input", "logs", "--max-bad-ratio", "0.4"]) == Exit.BAD_DATA
    assert "1 lines are in `quarantine`" in capfd.readouterr().out


def test_a_gap(words: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """5 where the trail lacks something, whatever else there is."""
    _, missing, _ = life(tmp_path / "audit", (3, 2, 1))
    missing.path.unlink()
    assert main([*words, "ingest", "--input", "audit", "--json", "--fail-on", "high"]) == Exit.AUDIT_GAP
    assert _record(capfd)["exit"] == Exit.AUDIT_GAP


def test_jobs_without_spark_start_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """To print a schema must not take ten seconds and a Java."""

    def never(_options: SessionOptions) -> object:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(launch, "open_session", never)
    monkeypatch.chdir(tmp_path)
    assert main(["pipeline", "schema"]) == Exit.OK
    tables = json.loads(capfd.readouterr().out)
    assert {"events", "findings", "access_attribution"} <= tables.keys()
    assert tables["events"]["json_schema"]["properties"]["event_id"]["anyOf"][0] == {"type": "string"}
