"""Prove that each file of a store's log is read once, and each of its lines is a row or in quarantine."""

from __future__ import annotations

import gzip
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.errors import Invalid
from signproxy.pipeline.job import Exit, JobContext, JobOutcome
from signproxy.pipeline.jobs import ingest_s3log
from tests.pipeline.test_s3log_aws import line


class Rig:
    """A directory of logs, a warehouse, and the job between them."""

    def __init__(self, context: JobContext, directory: Path) -> None:
        self.context = context
        self.directory = directory
        directory.mkdir()

    def write(self, name: str, *lines: str) -> Path:
        """Write a file; what ends in gz is packed, as some stores' are."""
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{each}\n" for each in lines).encode()
        path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
        return path

    def run(self, **options: object) -> JobOutcome:
        given = {"format": "aws", "max_bad_ratio": 0.5} | options
        return ingest_s3log.run(msgspec.structs.replace(self.context, inputs=(str(self.directory),), options=given))

    def ids(self) -> list[str]:
        return sorted(row["request_id"] for row in self.context.warehouse.read("s3_access").collect())


@pytest.fixture
def rig(context: JobContext, tmp_path: Path) -> Rig:
    return Rig(context, tmp_path / "logs")


def test_each_file_is_read_once_however_often_the_job_runs(rig: Rig) -> None:
    """An hourly job would count each request again each hour."""
    rig.write("2026/11/19/a", line("A"), line("B"), "")
    rig.write("2026/11/19/b.gz", line("C", time="[18/Nov/2026:23:59:59 +0000]"))
    first = rig.run()
    assert (first.exit, first.rows_in, first.rows_out, first.rows_bad) == (Exit.OK, 3, 3, 0)
    assert rig.ids() == ["A", "B", "C"]
    assert rig.run().rows_in == 0
    # Late, and for a day that was there: S3 delivers hours later.
    rig.write("2026/11/18/late", line("D", time="[18/Nov/2026:10:00:00 +0000]"))
    assert rig.run().rows_out == 1
    assert rig.ids() == ["A", "B", "C", "D"]
    days = rig.context.warehouse.read("s3_access").groupBy("event_date").count().collect()
    assert sorted((str(row["event_date"]), row["count"]) for row in days) == [("2026-11-18", 2), ("2026-11-19", 2)]


def test_lines_that_are_none_are_kept_and_counted(rig: Rig) -> None:
    """A log that changed its form would otherwise be read as a quiet day."""
    rig.write("a", line("A"), "half a li", line("B"))
    outcome = rig.run(max_bad_ratio=0.2)
    assert (outcome.exit, outcome.rows_in, outcome.rows_out, outcome.rows_bad) == (Exit.BAD_DATA, 3, 2, 1)
    [bad] = rig.context.warehouse.read("quarantine").collect()
    assert (bad["line"], bad["segment"]) == ("half a li", "a")
    assert bad["reason"]
    [noted] = rig.context.warehouse.read("data_quality").where("problem = 'quarantined'").collect()
    assert (noted["source"], noted["n"]) == ("aws", 1)


def test_bytes_that_are_no_text_keep_no_row_from_the_tables(rig: Rig) -> None:
    """A client with a strange user agent could otherwise make the whole table unreadable to everything but Spark."""
    path = rig.write("a", line("A", agent='"agent-#-1"'), "half a li#", line("B"))
    path.write_bytes(path.read_bytes().replace(b"#", b"\xff\xfe\xc3"))
    outcome = rig.run()
    assert (outcome.rows_out, outcome.rows_bad) == (2, 1)
    kept, bad = rig.context.warehouse.read("s3_access"), rig.context.warehouse.read("quarantine")
    agents = {row["user_agent"] for row in kept.select(F.is_valid_utf8("user_agent"), "user_agent").collect() if row[0]}
    assert "agent-\ufffd\ufffd\ufffd-1" in agents
    [[line_of, valid]] = bad.select("line", F.is_valid_utf8("line")).collect()
    assert (line_of, valid) == ("half a li\ufffd\ufffd\ufffd", True)


def test_traps_are_counted_where_no_finding_rests_on_them(rig: Rig) -> None:
    """A reader of the report must see how far the log behind it is to be trusted."""
    rig.write("a", line("A", status="403", error="SignatureDoesNotMatch"), line("B"), line("C", key="wh/another"))
    rig.run()
    rows = rig.context.warehouse.read("data_quality").collect()
    assert {(row["problem"], row["n"], row["example"]) for row in rows} == {
        ("claimed_key", 1, "A"),
        ("key_disagrees", 1, "C"),
    }


def test_a_file_that_grows_is_told_of(rig: Rig) -> None:
    """What is added to a file that was read is never read; in silence, its requests would be missing."""
    path = rig.write("access.log", line("A"))
    rig.run()
    path.write_bytes(path.read_bytes() + f"{line('B')}\n".encode())
    outcome = rig.run()
    assert any("has changed since it was read" in note for note in outcome.notes)
    assert rig.ids() == ["A"]


@pytest.mark.parametrize("tear", ("end", "middle", "checksum"))
def test_a_file_that_cannot_be_unpacked_keeps_no_other_back(rig: Rig, tear: str) -> None:
    """One object that was cut on its way would otherwise end every run, and no log after it would ever be read."""
    rig.write("a.gz", line("A"))
    path = rig.write("b.gz", *(line(f"B{number}") for number in range(200)))
    rig.write("c.gz", line("C"), "half a li")
    whole = path.read_bytes()
    cut = len(whole) // 2
    torn = {
        "end": whole[:cut],
        "middle": whole[:cut] + bytes(64) + whole[cut + 64 :],
        "checksum": whole[:-8] + bytes(4) + whole[-4:],
    }
    path.write_bytes(torn[tear])
    outcome = rig.run()
    assert (outcome.exit, outcome.rows_out, outcome.rows_bad) == (Exit.BAD_DATA, 2, 1)
    assert any("1 files cannot be unpacked" in note for note in outcome.notes)
    assert rig.ids() == ["A", "C"]
    quarantine = rig.context.warehouse.read("quarantine").orderBy("segment").collect()
    assert [(row["segment"], row["line"]) for row in quarantine] == [("b.gz", None), ("c.gz", "half a li")]
    noted = {row["problem"]: row["n"] for row in rig.context.warehouse.read("data_quality").collect()}
    assert (noted["quarantined"], noted["unreadable"]) == (1, 1)
    # As long as it is torn, each run says so, and leaves nothing twice.
    again = rig.run()
    assert (again.exit, again.rows_in) == (Exit.BAD_DATA, 0)
    assert rig.context.warehouse.read("quarantine").count() == 2
    path.write_bytes(whole)
    mended = rig.run()
    assert (mended.exit, mended.rows_out, mended.notes) == (Exit.OK, 200, ())
    assert len(rig.ids()) == 202
    assert rig.context.warehouse.read("data_quality").where("problem = 'unreadable'").isEmpty()
    assert rig.run().rows_in == 0


def test_what_is_wrong_usage(rig: Rig) -> None:
    """A format that is guessed at is a day of quarantine."""
    rig.write("a", line("A"))
    with pytest.raises(Invalid, match="none of aws, cloudtrail"):
        rig.run(format="s3")
    with pytest.raises(Invalid, match="--input"):
        ingest_s3log.run(msgspec.structs.replace(rig.context, inputs=(), options={"format": "aws"}))
