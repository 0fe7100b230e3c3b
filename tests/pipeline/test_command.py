"""The command as a scheduler sees it: what it asks, prints, and ends with."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from signproxy.cli import main
from signproxy.pipeline import runs
from signproxy.pipeline.job import Exit
from signproxy.pipeline.session import SessionOptions
from tests.pipeline.segments import event_lines, life, segment
from tests.pipeline.test_s3log_aws import line, uri


class Command:
    """The command, on a warehouse of its own, with the one Spark of these tests."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.warehouse = directory / "warehouse"

    def __call__(self, job: str, *words: str) -> int:
        # Whole paths: Spark's own directory is another one than that of this process.
        return main(["pipeline", job, "--warehouse", str(self.warehouse), *words])

    def path(self, name: str) -> str:
        return str(self.directory / name)


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    @contextmanager
    def lent(_options: SessionOptions) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(runs, "open_session", lent)
    return Command(tmp_path)


def _record(capfd: pytest.CaptureFixture[str]) -> dict[str, object]:
    record = json.loads(capfd.readouterr().out)
    assert isinstance(record, dict)
    return record


def test_done(run: Command, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """0, and a line that says how much; the same as JSON for programs, and as a file for tomorrow."""
    life(tmp_path / "audit", (3, 2))
    assert run("ingest", "--input", run.path("audit"), "--json") == Exit.OK
    record = _record(capfd)
    assert (record["rows_in"], record["rows_out"], record["exit"]) == (5, 5, 0)
    assert record["cpu_seconds"]
    kept = json.loads((tmp_path / "warehouse" / "runs" / f"{record['run_id']}.json").read_text())
    assert kept == record
    assert run("ingest", "--input", run.path("audit")) == Exit.OK
    assert capfd.readouterr().out.startswith("ingest: 0 rows in, 0 out, 0 quarantined")


def test_failed(run: Command, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """1, and what it was in a line: a page of Java is not read."""
    life(tmp_path / "audit", (3,))
    (tmp_path / "file").write_text("")
    assert run("ingest", "--input", run.path("audit"), "--warehouse", run.path("file")) == Exit.FAILED
    said = capfd.readouterr().err
    assert "ingest: " in said
    assert "\tat " not in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "wrong",
    (
        ["ingest"],
        ["ingest", "--input", "/nowhere"],
        ["ingest-s3log", "--input", ".", "--format", "s4"],
        ["cost"],
        ["privileges", "--input", "/nowhere"],
        ["ingest", "--input", ".", "--fail-on", "terrible"],
        ["ingest", "--input", ".", "--from", "soon"],
        ["ingest", "--input", ".", "--conf", "spark.x"],
    ),
    ids=" ".join,
)
def test_wrong_usage(run: Command, wrong: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    """2: what an operator has to mend, and no repetition will."""
    assert run(*wrong) == Exit.USAGE
    assert "Traceback" not in capfd.readouterr().err


def test_findings(run: Command, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """3 where there are findings as severe as was asked; a run that was not asked so ends well."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a").write_text(
        line("A", requester="arn:aws:iam::9:user/mallory", uri=uri("/wh/t/part-1.parquet")) + "\n"
    )
    assert run("ingest-s3log", "--input", run.path("logs")) == Exit.OK
    assert run("reconcile", "--fail-on", "medium") == Exit.FINDINGS
    assert "medium: " in capfd.readouterr().out
    again = ["--from", "2026-11-19", "--to", "2026-11-19"]
    assert run("reconcile", *again, "--fail-on", "critical") == Exit.OK
    assert run("reconcile", *again) == Exit.OK


def test_bad_data(run: Command, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """4 where more could not be read than is ordinary."""
    segment(tmp_path / "audit", [*event_lines(3), b"no event\n"], last=3, count=4)
    assert run("ingest", "--input", run.path("audit"), "--max-bad-ratio", "0.5") in (Exit.OK, Exit.AUDIT_GAP)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a").write_text(line("A") + "\nno line\n")
    assert run("ingest-s3log", "--input", run.path("logs"), "--max-bad-ratio", "0.4") == Exit.BAD_DATA
    assert "1 lines are in `quarantine`" in capfd.readouterr().out


def test_a_gap(run: Command, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """5 where the trail lacks something, whatever else there is."""
    _, missing, _ = life(tmp_path / "audit", (3, 2, 1))
    missing.path.unlink()
    assert run("ingest", "--input", run.path("audit"), "--json", "--fail-on", "high") == Exit.AUDIT_GAP
    assert _record(capfd)["exit"] == Exit.AUDIT_GAP


def test_jobs_without_spark_start_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """To print a schema must not take ten seconds and a Java."""

    def never(_options: SessionOptions) -> object:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(runs, "open_session", never)
    monkeypatch.chdir(tmp_path)
    assert main(["pipeline", "schema"]) == Exit.OK
    tables = json.loads(capfd.readouterr().out)
    assert {"events", "findings", "access_attribution"} <= tables.keys()
    assert tables["events"]["json_schema"]["properties"]["event_id"]["anyOf"][0] == {"type": "string"}


def test_a_spark_that_does_not_start_is_told_in_a_line(tmp_path: Path) -> None:
    """Options that Java refuses, such as a second collector, would otherwise end in a page of Python."""
    words = ["ingest", "--input", ".", "--conf", "spark.driver.extraJavaOptions=-XX:+UseSerialGC"]
    done = subprocess.run(
        [sys.executable, "-m", "signproxy", "pipeline", *words],
        capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == Exit.USAGE, done.stderr
    assert "Spark does not start" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.spark
def test_a_run_that_is_told_to_end_ends_with_its_java(tmp_path: Path) -> None:
    """A node that is drained, or a job that is cancelled, would leave a Java behind that works on for an hour."""
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "a").write_text(f"{line('A')}\n" * 1_000_000)
    warehouse = tmp_path / "warehouse"
    words = ["ingest-s3log", "--input", str(logs), "--warehouse", str(warehouse)]
    command = (sys.executable, "-m", "signproxy", "pipeline", *words)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            until = time.monotonic() + 120
            # Spark has begun to read: from now on its Java is busy.
            while not list(warehouse.glob("_checkpoints/*/*/offsets/0")):
                assert running.poll() is None
                assert time.monotonic() < until
                time.sleep(0.1)
            [java] = _children(running.pid)
            running.terminate()
            said = running.communicate(timeout=30)[1]
        finally:
            running.kill()
    assert running.returncode == Exit.FAILED, said
    assert "ended by SIGTERM" in said
    assert "Traceback" not in said
    [record] = (warehouse / "runs").glob("*.json")
    assert json.loads(record.read_text())["problem"] == "ended by SIGTERM"
    assert not Path(f"/proc/{java}/cmdline").exists() or not Path(f"/proc/{java}/cmdline").read_bytes()


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
