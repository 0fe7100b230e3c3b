"""Hold what the pipeline's figures rest on: the copies of segments, the count of processor time, and the plot."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import pipeline_data, pipeline_plot
from bench.process import BenchFailed
from signproxy.audit.ids import new_event_id
from signproxy.audit.verify import AuditFinding, TrailFault, check_chain, check_segment, segments
from tests.pipeline.segments import event_lines, segment

_SPIN = "sum(range(6_000_000))"


@pytest.fixture
def month(tmp_path: Path) -> Path:
    """A directory as the generator leaves one, with two segments of five events together."""
    month = tmp_path / "month"
    lines = [line for seq in range(1, 6) for line in event_lines(1, seq, event_id=new_event_id())]
    first = segment(month, lines[:3])
    segment(month, lines[3:], first=4, number=2, previous=first.end.sha256)
    return month


def _ids(directory: Path) -> list[str]:
    lines = [line for path in segments(directory) for line in gzip.decompress(path.read_bytes()).splitlines()]
    return [found["event_id"] for found in map(json.loads, lines) if "event_id" in found]


def _faults(directory: Path) -> list[AuditFinding]:
    checked = [check_segment(path) for path in segments(directory)]
    found = [*(fault for one in checked for fault in one.findings), *check_chain(checked)]
    # Whether a life ended in order is only a note: these were cut off.
    return [one for one in found if one.fault is not TrailFault.ENDLESS]


def test_a_longer_month_is_sound_and_no_event_comes_twice(month: Path, tmp_path: Path) -> None:
    """An ingest that refuses its input, or takes it for duplicates, would be measured at doing nothing."""
    there = tmp_path / "longer" / "audit" / "v1"
    assert pipeline_data.laid_out(pipeline_data.sound_segments(month), 14, there) == 15
    ids = _ids(tmp_path / "longer")
    assert (len(ids), len(set(ids))) == (15, 15)
    assert _faults(tmp_path / "longer") == []


def test_a_shorter_month_has_the_first_segments_alone(month: Path, tmp_path: Path) -> None:
    """Events that were left out of the middle would be gaps, which cost time to tell of."""
    there = tmp_path / "shorter" / "audit" / "v1"
    assert pipeline_data.laid_out(pipeline_data.sound_segments(month), 3, there) == 3
    assert _faults(tmp_path / "shorter") == []


def test_a_segment_that_was_altered_is_not_copied(month: Path, tmp_path: Path) -> None:
    """The copy would be sound, and the month longer than it is said to be."""
    for path in month.rglob("*.gz"):
        content = path.read_bytes()
        path.write_bytes(content[:40] + bytes([content[40] ^ 1]) + content[41:])
    found = pipeline_data.sound_segments(month)
    assert found == []
    with pytest.raises(BenchFailed, match="too few"):
        pipeline_data.laid_out(found, 1, tmp_path / "none")


def test_what_outlives_its_parent_is_counted(tmp_path: Path) -> None:
    """Spark's Python ends before its JVM, which does nearly all of the work."""
    told = tmp_path / "spent"
    orphan = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {_SPIN!r}])"
    spent = [sys.executable, "-m", "bench.pipeline_spent", str(told), sys.executable]
    subprocess.run([*spent, "-c", "pass"], check=True, timeout=60)
    nothing = json.loads(told.read_bytes())
    subprocess.run([*spent, "-c", orphan], check=True, timeout=60)
    much = json.loads(told.read_bytes())
    assert much["status"] == nothing["status"] == 0
    assert much["cpu"] > nothing["cpu"] * 2
    assert much["peak_mib"] > 1


def test_how_a_command_ends_is_told(tmp_path: Path) -> None:
    """A run that failed would be the quickest of all."""
    told = tmp_path / "spent"
    command = [sys.executable, "-m", "bench.pipeline_spent", str(told), sys.executable, "-c", "raise SystemExit(5)"]
    subprocess.run(command, check=True, timeout=60)
    assert json.loads(told.read_bytes())["status"] == 5


def test_the_plot_is_an_image_that_begins_at_nothing() -> None:
    """An axis that begins elsewhere makes anything look linear."""
    drawn = pipeline_plot.plot(
        {"ours": [(1.0, 20.0), (50.0, 800.0)], "floor": [(1.0, 8.0), (50.0, 300.0)]}, "2026-11-19"
    )
    root = ElementTree.fromstring(drawn)  # noqa: S314 - drawn here
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert texts.count("0") == 2
    assert {"ours", "floor", "50", "800"} <= set(texts)
    assert sum(element.tag.endswith("circle") for element in root.iter()) == 4
