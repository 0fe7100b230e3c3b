"""Prove that ingest takes each event once, and that nothing that comes in vanishes."""

from __future__ import annotations

import gzip
import os
import shutil
from datetime import date
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from signproxy.errors import Invalid
from signproxy.pipeline.job import Exit, JobContext, JobOutcome
from signproxy.pipeline.jobs import ingest
from signproxy.pipeline.sealed import SegmentVerdict
from signproxy.pipeline.warehouse import Warehouse
from tests.pipeline.segments import DAY, changed, event_lines, life, segment


class Rig:
    """A directory of segments, a warehouse, and the job between them."""

    def __init__(self, context: JobContext, directory: Path) -> None:
        self.context = msgspec.structs.replace(context, inputs=(str(directory),))
        self.directory = directory
        self.warehouse = context.warehouse
        directory.mkdir()

    def run(self, **options: object) -> JobOutcome:
        return ingest.run(msgspec.structs.replace(self.context, options=options))

    def seqs(self) -> list[int]:
        return sorted(row["seq"] for row in self.warehouse.read("events").select("seq").collect())

    def verdicts(self) -> dict[str, str]:
        return {row["segment"]: row["verdict"] for row in self.warehouse.read("segments").collect()}

    def quarantined(self) -> list[tuple[str, str]]:
        rows = self.warehouse.read("quarantine").where("line is not null").collect()
        return sorted((row["reason"], row["line"]) for row in rows)

    def findings(self) -> list[tuple[str, str]]:
        """Return class and what is missing, or the verdict."""
        rows = self.warehouse.read("findings").collect()
        return sorted(
            (row["class"], row["evidence"].get("missing") or row["evidence"].get("verdict", "")) for row in rows
        )


@pytest.fixture
def rig(context: JobContext, tmp_path: Path) -> Rig:
    return Rig(context, tmp_path / "audit")


def test_segments_become_events_and_a_second_run_finds_nothing_new(rig: Rig) -> None:
    """A job that runs each hour would otherwise count each access again and again."""
    life(rig.directory, (3, 2))
    first = rig.run()
    assert (first.rows_in, first.rows_out, first.rows_bad, first.exit) == (5, 5, 0, Exit.OK)
    assert rig.seqs() == [1, 2, 3, 4, 5]
    assert set(rig.verdicts().values()) == {SegmentVerdict.WHOLE}
    assert rig.findings() == []
    again = rig.run()
    assert (again.rows_in, again.exit) == (0, Exit.OK)
    assert rig.seqs() == [1, 2, 3, 4, 5]


def test_what_is_still_written_is_left_alone(rig: Rig) -> None:
    """A segment that grows would be read once, short, and never again."""
    made = life(rig.directory, (2,))[0]
    made.path.rename(made.path.with_name(f".{made.path.name}"))
    assert rig.run().rows_in == 0
    made.path.with_name(f".{made.path.name}").rename(made.path)
    assert rig.run().rows_in == 2


def test_events_lie_by_their_own_day_however_late_they_come(rig: Rig) -> None:
    """A report of a day lacks what came after midnight, or what a pod shipped a week later."""
    segment(rig.directory, event_lines(4, at=DAY - 2))
    rig.run()
    days = {
        row["event_date"]: row["count"] for row in rig.warehouse.read("events").groupBy("event_date").count().collect()
    }
    assert days == {date(2026, 11, 18): 2, date(2026, 11, 19): 2}
    late = segment(rig.directory, event_lines(1, at=DAY - 40 * 86_400, boot_id="0" * 26), boot_id="0" * 26)
    # As copied by something that keeps times: older than all that was seen by more than Spark's week.
    os.utime(late.path, (DAY - 400 * 86_400,) * 2)
    assert rig.run().rows_out == 1
    assert rig.warehouse.read("events").where("event_date = '2026-10-10'").count() == 1


def test_the_same_segment_is_taken_once_by_whatever_name_and_from_whatever_place(rig: Rig, tmp_path: Path) -> None:
    """Uploads are repeated, volumes are copied, and an operator may begin a new list of what was read."""
    one = life(rig.directory, (3,))[0]
    shutil.copy(one.path, one.path.with_name(f"copy-{one.path.name}"))
    (one.path.parent.parent / "dt=2026-11-20").mkdir()
    shutil.copy(one.path, one.path.parent.parent / "dt=2026-11-20")
    rig.run()
    assert rig.seqs() == [1, 2, 3]
    verdicts = sorted(row["verdict"] for row in rig.warehouse.read("segments").collect())
    assert verdicts == [SegmentVerdict.DUPLICATE, SegmentVerdict.DUPLICATE, SegmentVerdict.WHOLE]
    shutil.copytree(rig.directory, tmp_path / "elsewhere")
    rig.context = msgspec.structs.replace(rig.context, inputs=(str(tmp_path / "elsewhere"),))
    outcome = rig.run()
    assert (outcome.rows_in, outcome.exit) == (0, Exit.OK)
    assert rig.seqs() == [1, 2, 3]


def test_keys_of_the_listener_are_no_vended_ones_whatever_their_segment_calls_them(rig: Rig) -> None:
    """The holder of a key that is good here alone would be told to hold a session of the store."""
    one, two, three, four, five = event_lines(5)
    lines = [
        changed(one, kind="issue", method=None),
        # Before there was a kind for them: the only events of that kind without a method.
        changed(two, kind="vend", method=None),
        changed(three, kind="vend", method="GET"),
        changed(four, kind="refresh", method="GET"),
        changed(five, kind="config", method=None),
    ]
    segment(rig.directory, lines)
    rig.run()
    kinds = {row["seq"]: row["kind"] for row in rig.warehouse.read("events").select("seq", "kind").collect()}
    assert kinds == {1: "issue", 2: "issue", 3: "vend", 4: "refresh", 5: "config"}


def test_two_inputs_do_not_write_over_each_other(rig: Rig, tmp_path: Path) -> None:
    """Spark numbers the batches of each input from 0: one would take the place of the other."""
    life(rig.directory, (3,))
    life(tmp_path / "other", (2,), boot_id="0" * 26)
    rig.context = msgspec.structs.replace(rig.context, inputs=(str(rig.directory), str(tmp_path / "other")))
    assert rig.run().rows_out == 5
    assert rig.warehouse.read("events").count() == 5


def test_several_batches_of_one_run_add_up(rig: Rig) -> None:
    """What does not fit one batch would be lost, or counted twice."""
    life(rig.directory, (2, 2, 2))
    assert rig.run(files_per_batch=1).rows_out == 6
    assert rig.seqs() == [1, 2, 3, 4, 5, 6]
    assert rig.findings() == []


def test_every_line_is_an_event_or_in_quarantine(rig: Rig) -> None:
    """A line that Spark passes over without a word is an access that is never seen."""
    good = event_lines(12)
    second = changed(good[1], schema="signproxy.audit/2", new="thing")
    lines = [
        good[0],
        second,
        changed(good[2], http_status="many"),
        changed(good[3], ts="yesterday"),
        changed(good[4], ts=None),
        changed(good[5], event_id=None),
        changed(good[6], seq=None),
        changed(good[7], schema=None),
        b'{"schema": "signproxy.audit/1", "kind": \n',
        b"\n",
        b"[]\n",
        good[11],
    ]
    segment(rig.directory, lines)
    outcome = rig.run()
    assert (outcome.rows_in, outcome.rows_out, outcome.rows_bad) == (12, 2, 10)
    assert outcome.exit == Exit.BAD_DATA
    assert rig.seqs() == [1, 12]
    assert set(rig.verdicts().values()) == {SegmentVerdict.WHOLE}
    reasons = rig.quarantined()
    assert [reason for reason, _ in reasons] == sorted(
        [
            "schema signproxy.audit/2 is not known",
            "no JSON object, or a field of another type",
            "no JSON object, or a field of another type",
            "no JSON object, or a field of another type",
            "it has no time",
            "it has no time",
            "it has no event_id",
            "it has no seq",
            "it has no schema",
            "it has no schema",
        ]
    )
    # A line of a newer server is kept as it is: this version does not know all its fields.
    assert second.decode().rstrip("\n") in [line for _, line in reasons]


def test_a_few_bad_lines_are_told_and_no_failure(rig: Rig) -> None:
    """One line in thousands must not stop the report of all others."""
    lines = event_lines(4)
    segment(rig.directory, [*lines[:3], b"x\n"])
    assert rig.run(max_bad_ratio=0.25).exit == Exit.OK
    assert len(rig.quarantined()) == 1


def test_a_bad_line_of_any_bytes_can_be_read_by_all(rig: Rig) -> None:
    """The one line that an auditor wants to look at must not be the one that no tool opens."""
    segment(rig.directory, [*event_lines(3), b"x\xff\xc3\n"])
    rig.run(max_bad_ratio=0.5)
    assert [text for _, text in rig.quarantined()] == ["x\ufffd\ufffd"]


def test_lines_that_the_last_line_does_not_count_are_told(rig: Rig) -> None:
    """A change of lines before the file is sealed anew must not pass."""
    segment(rig.directory, event_lines(3), count=2, last=3)
    segment(rig.directory, event_lines(2, boot_id="0" * 26), count=3, boot_id="0" * 26)
    outcome = rig.run()
    assert outcome.exit == Exit.AUDIT_GAP
    assert set(rig.verdicts().values()) == {SegmentVerdict.MISCOUNTED}
    assert outcome.rows_out == 5


def test_a_line_too_many_is_found_beside_one_that_the_reader_passes_over(rig: Rig) -> None:
    """The two make up for each other in the sum, and the one that is not counted would be in no table."""
    other = "01M7RKABN8Z7CP8YAFDE000009"
    segment(rig.directory, [*event_lines(1), b"[]\n"], last=1)
    segment(rig.directory, [*event_lines(2, boot_id=other), b"nonsense\n"], count=2, boot_id=other)
    rig.run(max_bad_ratio=1.0)
    assert sorted(line for _, line in rig.quarantined()) == ["[]", "nonsense"]
    assert rig.seqs() == [1, 1, 2]


@pytest.mark.parametrize("case", ("foreign", "twice", "outside"))
def test_events_that_are_not_those_of_the_last_line_are_told(rig: Rig, case: str) -> None:
    """An event that stands twice hides one that is missing."""
    lines = event_lines(3)
    segment(
        rig.directory,
        {
            "foreign": [*lines[:2], *event_lines(1, 3, boot_id="0" * 26)],
            "twice": [lines[0], lines[0], lines[2]],
            "outside": [*lines[:2], *event_lines(1, 9)],
        }[case],
    )
    assert rig.run().exit == Exit.AUDIT_GAP
    assert set(rig.verdicts().values()) == {SegmentVerdict.CONTRADICTS}


# The middle of the packed bytes, and the checksum behind them.
@pytest.mark.parametrize("where", (0.5, 1.0), ids=("data", "checksum"))
def test_broken_segments_end_in_the_ledger_and_not_the_job(rig: Rig, where: float) -> None:
    """One bad file would hold up all that comes after it, on each run anew."""
    boots = {name: f"{index:026d}" for index, name in enumerate(("cut", "altered", "torn", "named", "format", "good"))}
    made = {
        name: segment(
            rig.directory,
            event_lines(50, boot_id=boot),
            boot_id=boot,
            form=2 if name == "format" else 1,
            name=f"pod-1-{boot}-000000000009.ndjson.gz" if name == "named" else None,
        )
        for name, boot in boots.items()
    }
    cut = made["cut"].path
    cut.write_bytes(cut.read_bytes()[:-40])
    altered = bytearray(made["altered"].path.read_bytes())
    altered[len(altered) // 3] ^= 1
    made["altered"].path.write_bytes(altered)
    # The digest fits, so only who unpacks it notices.
    torn = bytearray(made["torn"].body)
    torn[int((len(torn) - 6) * where)] ^= 0xFF
    segment(rig.directory, [b""] * 50, boot_id=boots["torn"], body=bytes(torn))

    outcome = rig.run()
    assert outcome.exit == Exit.AUDIT_GAP
    assert rig.verdicts() == {
        cut.name: SegmentVerdict.TRUNCATED,
        made["altered"].path.name: SegmentVerdict.ALTERED,
        made["torn"].path.name: SegmentVerdict.UNREADABLE,
        made["named"].path.name: SegmentVerdict.MISNAMED,
        made["format"].path.name: SegmentVerdict.UNKNOWN_FORMAT,
        made["good"].path.name: SegmentVerdict.WHOLE,
    }
    assert rig.warehouse.read("events").count() == 50
    whole = rig.warehouse.read("quarantine").where("line is null").collect()
    assert {row["segment"]: row["reason"] for row in whole} == {
        name: f"the segment is {verdict}" for name, verdict in rig.verdicts().items() if verdict != SegmentVerdict.WHOLE
    }
    assert sorted(verdict for _, verdict in rig.findings()) == sorted(row["reason"].rpartition(" ")[2] for row in whole)


def test_a_sound_copy_of_a_broken_segment_is_taken_when_it_comes(rig: Rig) -> None:
    """An upload that broke off is repeated: its events count from then on, and the finding goes."""
    one = life(rig.directory, (5,))[0]
    whole = one.path.read_bytes()
    one.path.write_bytes(whole[:-30])
    assert rig.run().exit == Exit.AUDIT_GAP
    assert rig.seqs() == []
    one.path.write_bytes(whole)
    os.utime(one.path, (DAY + 10**9,) * 2)
    assert rig.run().exit == Exit.OK
    assert rig.seqs() == [1, 2, 3, 4, 5]
    assert rig.findings() == []


@pytest.mark.parametrize("first", (1, 2))
def test_two_segments_that_claim_the_same_events_are_not_both_taken(rig: Rig, first: int) -> None:
    """A second sealed version of a segment would otherwise double its events, or add forged ones."""
    life(rig.directory, (3,))
    rig.run()
    other = segment(
        rig.directory,
        event_lines(3, first),
        first=first,
        day="2026-11-20",
        number=first,
    )
    assert rig.run().exit == Exit.AUDIT_GAP
    ledger = {row["path"].rpartition(":")[2]: row["verdict"] for row in rig.warehouse.read("segments").collect()}
    assert ledger[str(other.path)] == SegmentVerdict.CONFLICT
    assert rig.seqs() == [1, 2, 3]


def test_missing_events_are_found_and_forgotten_when_they_come(rig: Rig) -> None:
    """A lost segment is the one thing that the remaining events do not show."""
    made = life(rig.directory, (2, 3, 1, 2))
    kept = made[1].path.read_bytes()
    made[1].path.unlink()
    outcome = rig.run()
    assert outcome.exit == Exit.AUDIT_GAP
    assert outcome.severities == {"high": 1}
    assert rig.findings() == [("audit_gap", "3 to 5")]
    # The next run has nothing to read and nothing to complain of anew.
    assert rig.run().exit == Exit.OK
    assert rig.findings() == [("audit_gap", "3 to 5")]
    made[1].path.write_bytes(kept)
    assert rig.run().exit == Exit.OK
    assert rig.findings() == []


def test_the_beginning_of_a_life_may_be_missing_too(rig: Rig) -> None:
    """Numbers begin with 1: who deletes the first segments deletes how a break-in began."""
    life(rig.directory, (2, 3))[0].path.unlink()
    rig.run()
    assert rig.findings() == [("audit_gap", "1 to 2")]


def test_a_hole_within_a_segment_is_named(rig: Rig) -> None:
    """With `on_error: allow` the server serves what it could not write: that must be seen."""
    lines = event_lines(9)
    segment(rig.directory, [lines[0], lines[1], lines[4], lines[6], lines[8]], count=5, last=9)
    assert rig.run().exit == Exit.AUDIT_GAP
    assert rig.findings() == [("audit_gap", "3 to 4, 6, 8")]


def test_an_exchanged_segment_breaks_the_chain(rig: Rig) -> None:
    """A segment that was rewritten with a digest that fits is found by the one that follows it."""
    life(rig.directory, (2, 2))
    segment(rig.directory, event_lines(2, principal="idp/nobody"))
    assert rig.run().exit == Exit.AUDIT_GAP
    assert [row["class"] for row in rig.warehouse.read("findings").collect()] == ["audit_chain"]


def test_an_empty_segment_and_members_in_a_row_are_read(rig: Rig) -> None:
    """Each flush is a member of its own, and a process that was asked for nothing seals what it began."""
    lines = event_lines(4)
    one = segment(rig.directory, [])
    segment(rig.directory, lines, body=gzip.compress(gzip.decompress(one.body)) + b"".join(map(gzip.compress, lines)))
    segment(rig.directory, [], boot_id="0" * 26)
    assert rig.run().exit == Exit.OK
    assert rig.seqs() == [1, 2, 3, 4]


def test_an_input_must_be_named(context: JobContext) -> None:
    """A job without an input that ends well looks like a trail without events."""
    with pytest.raises(Invalid, match="--input"):
        ingest.run(context)


def test_a_batch_that_was_entered_is_not_written_again(rig: Rig, spark: SparkSession, tmp_path: Path) -> None:
    """A process that dies behind the last write and before Spark notes it reads the batch once more."""
    life(rig.directory, (3,))
    rig.run()
    checkpoint = next((tmp_path / "warehouse" / "_checkpoints" / "ingest").iterdir())
    shutil.rmtree(checkpoint / "commits")
    before = sorted((tmp_path / "warehouse" / "events").rglob("*.parquet"))
    assert rig.run().rows_in == 0
    assert sorted((tmp_path / "warehouse" / "events").rglob("*.parquet")) == before
    assert Warehouse(spark, rig.warehouse.path).read("segments").count() == 1
