"""Prove that compaction changes how rows lie, and neither which there are nor what is still to be done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from signproxy.errors import Invalid
from signproxy.pipeline import compaction
from signproxy.pipeline.compaction import finish
from signproxy.pipeline.day_states import states_before, states_now
from signproxy.pipeline.job import Days, JobContext, JobOutcome, job
from signproxy.pipeline.jobs import reconcile
from signproxy.pipeline.jobs.compact import run
from signproxy.pipeline.runs import run_job
from signproxy.pipeline.warehouse import Warehouse
from tests.pipeline.event_rows import at, event, events, rows

BATCHES = 6
FIRST, SECOND = date(2026, 11, 1), date(2026, 11, 2)


def _fill(spark: SparkSession, warehouse: Warehouse, *, entered: int = BATCHES) -> None:
    """Write batches as ingest does, of which the first ones are in the ledger."""
    for number in range(BATCHES):
        made = (
            event(at(day, minutes=number), table, event_id=f"{number}{day}{table}", ingest_batch=number,
                  segment=f"s{number}", principal=f"idp/{who}", boot_id="b", seq=number)
            for day in (0, 1)
            for table in ("orders", "stock")
            for who in ("ann", "bob")
        )  # fmt: skip
        warehouse.replace("events", events(spark, *made))
    ledger = [{"segment": f"s{number}", "verdict": "whole", "ingest_batch": number} for number in range(entered)]
    warehouse.replace("segments", rows(spark, "segments", ledger))


def _rows(warehouse: Warehouse, name: str = "events") -> Counter[str]:
    return Counter(str(row) for row in warehouse.read(name).drop("ingest_batch").collect())


def _files(warehouse: Warehouse, day: date) -> list[Path]:
    return sorted(Path(warehouse.path_of("events")).glob(f"event_date={day}/*/*.parquet"))


@pytest.fixture
def filled(spark: SparkSession, context: JobContext) -> JobContext:
    _fill(spark, context.warehouse)
    return context


def test_a_day_of_many_files_becomes_one_of_few(filled: JobContext) -> None:
    """A year of hourly runs would be a hundred thousand files, and a question would open them all."""
    before = _rows(filled.warehouse)
    assert len(_files(filled.warehouse, FIRST)) >= BATCHES
    outcome = run(filled)
    assert _rows(filled.warehouse) == before
    assert (len(_files(filled.warehouse, FIRST)), len(_files(filled.warehouse, SECOND))) == (1, 1)
    assert outcome.rows_in == outcome.rows_out == BATCHES * 8
    assert outcome.numbers["files_after"] == outcome.numbers["days"] == 2
    assert run(filled).notes == ("there is nothing to put together",)


def test_rows_lie_by_table_and_principal(filled: JobContext, spark: SparkSession) -> None:
    """What is asked of one table must not open the rows of all."""
    run(filled)
    [file] = _files(filled.warehouse, FIRST)
    found = [(row["table"], row["principal"]) for row in spark.read.parquet(str(file)).collect()]
    assert found == sorted(found)
    assert len(set(found)) == 4


def test_only_the_days_that_were_asked_for_are_touched(filled: JobContext) -> None:
    """A night has no time for a year."""
    run(msgspec.structs.replace(filled, days=Days(SECOND, SECOND)))
    assert len(_files(filled.warehouse, FIRST)) >= BATCHES
    assert len(_files(filled.warehouse, SECOND)) == 1


@pytest.mark.parametrize(("least", "touched"), ((BATCHES - 1, True), (BATCHES * 4, False)))
def test_a_day_of_few_files_stays(filled: JobContext, least: int, *, touched: bool) -> None:
    """To write a day anew each night for a file or two costs more than it saves."""
    outcome = run(msgspec.structs.replace(filled, options={"files": least}))
    assert bool(outcome.rows_in) is touched


def test_large_days_become_several_files(filled: JobContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file of a day of ten gigabytes would be read by one core."""
    [day] = compaction.filed(filled.spark, filled.warehouse, "events", Days(FIRST, FIRST))
    before = _rows(filled.warehouse)
    compaction.compact(filled.spark, filled.warehouse, day, day.bytes // 3)
    assert 2 <= len(_files(filled.warehouse, FIRST)) <= 4
    assert _rows(filled.warehouse) == before


def test_a_batch_that_may_be_written_again_is_left_alone(spark: SparkSession, context: JobContext) -> None:
    """An ingest that died before it entered its batch writes it again: beside a copy, each event would count twice."""
    _fill(spark, context.warehouse, entered=BATCHES - 1)
    outcome = run(context)
    assert outcome.rows_in == 0
    assert any("interrupted" in note for note in outcome.notes)
    assert len(_files(context.warehouse, FIRST)) >= BATCHES


def test_later_batches_join_what_was_put_together(spark: SparkSession, filled: JobContext) -> None:
    """Late segments come for days that were compacted long ago."""
    run(filled)
    late = [event(at(0, minutes=9), event_id=f"late{number}", ingest_batch=100 + number) for number in range(5)]
    for one in late:
        filled.warehouse.replace("events", events(spark, one))
    ledger = [{"segment": f"s{100 + number}", "ingest_batch": 100 + number} for number in range(5)]
    filled.warehouse.replace("segments", rows(spark, "segments", ledger))
    before = _rows(filled.warehouse)
    run(filled)
    assert _rows(filled.warehouse) == before
    assert len(_files(filled.warehouse, FIRST)) == 1


class _Killed(BaseException):
    """The end of a process at one of its steps."""


STEPS = ("copy", "note", "swap", "forgotten", "cleared")


@pytest.fixture
def killed_at(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[str]:
    """Let the process end at a step: after its copy, with the note, in the swap, before and after the note's end."""
    step = str(request.param)
    swap, note = compaction._swap, compaction._note
    armed = [True]

    def noting(spark: SparkSession, warehouse: Warehouse, kept: list[tuple[str, date, int, int]]) -> None:
        if armed[0] and ((step == "copy" and kept) or (step == "forgotten" and not kept)):
            raise _Killed
        note(spark, warehouse, kept)
        if armed[0] and ((step == "note" and kept) or (step == "cleared" and not kept)):
            raise _Killed

    def swapping(frame: object, warehouse: Warehouse, name: str, day: date, files: int) -> None:
        if armed[0] and step == "swap":
            # What Spark does first: the day is gone, and not there again.
            for file in _files(warehouse, day):
                file.unlink()
            raise _Killed
        swap(frame, warehouse, name, day, files)  # type: ignore[arg-type]  # what was given

    monkeypatch.setattr(compaction, "_note", noting)
    monkeypatch.setattr(compaction, "_swap", swapping)
    yield step
    armed[0] = False


@pytest.mark.parametrize("killed_at", STEPS, indirect=True)
def test_a_compaction_that_is_killed_loses_nothing(
    filled: JobContext, killed_at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that goes down between the old files and the new ones must not take a day with it."""
    before = _rows(filled.warehouse)
    with pytest.raises(_Killed):
        run(filled)
    monkeypatch.undo()
    # Whatever job is next puts it right before it reads.
    compacting = job("compact")
    assert compacting is not None
    seen: list[Counter[str]] = []

    def looks(context: JobContext) -> JobOutcome:
        seen.append(_rows(context.warehouse))
        return JobOutcome()

    run_job(compacting, looks, filled)
    assert seen == [before]
    run(filled)
    assert _rows(filled.warehouse) == before
    assert (len(_files(filled.warehouse, FIRST)), len(_files(filled.warehouse, SECOND))) == (1, 1)
    assert finish(filled.spark, filled.warehouse) == 0


def test_another_writer_is_noticed(filled: JobContext, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an ingest writes while its day is put together would be gone."""
    staged = compaction._staged

    def beside(session: SparkSession, copy: str, name: str) -> object:
        filled.warehouse.replace("events", events(spark, event(at(0), event_id="beside", ingest_batch=77)))
        return staged(session, copy, name)

    monkeypatch.setattr(compaction, "_staged", beside)
    with pytest.raises(RuntimeError, match="something else wrote to it"):
        run(filled)
    monkeypatch.undo()
    assert any("beside" in row for row in _rows(filled.warehouse))
    assert finish(filled.spark, filled.warehouse) == 0


def test_what_was_reconciled_stays_so(spark: SparkSession, filled: JobContext) -> None:
    """A month that is put together would otherwise be reconciled once more, which takes an hour instead of a minute."""
    asked = {"ts": at(0), "event_date": FIRST, "source": "aws", "bucket": "lake", "op": "REST.GET.OBJECT"}
    filled.warehouse.replace("s3_access", rows(spark, "s3_access", [{**asked, "request_id": "r", "ingest_batch": 1}]))
    filled.warehouse.replace("s3log_files", rows(spark, "s3log_files", [{"path": "p", "ingest_batch": 1}]))
    reconcile.run(filled)
    assert states_before(filled.warehouse) == states_now(filled.warehouse)
    run(filled)
    assert states_before(filled.warehouse) == states_now(filled.warehouse)
    assert reconcile.run(filled).notes == ("nothing has changed since the last run",)


@pytest.mark.parametrize("options", ({"target_mib": -1}, {"files": -1}))
def test_sizes_have_to_make_sense(filled: JobContext, options: dict[str, int]) -> None:
    """Files of less than nothing would be as many as there are rows."""
    with pytest.raises(Invalid):
        run(msgspec.structs.replace(filled, options=options))
