"""Hold what a saturated server is judged by."""

from __future__ import annotations

import gzip
import os
import sys
from pathlib import Path

import pytest

from bench import load, saturation
from bench.effort import SMOKE
from bench.process import start
from bench.saturation import Cell, lines_of, saturated

_REPORT = '{"requests":%d,"microseconds":2000000,"not_200":%d,"broken":0,"p50":1,"p99":2}'


@pytest.mark.parametrize(
    ("requests", "not_200", "events", "refused", "unproven"),
    (
        (100, 0, 100, True, True),
        # With its end a load leaves a request on each of its connections.
        (100, 0, 108, True, True),
        (100, 0, 109, True, False),
        (100, 0, 99, True, False),
        (100, 1, 100, False, True),
    ),
)
def test_a_single_refusal_or_missing_event_misses_its_must(
    requests: int,
    not_200: int,
    events: int,
    refused: bool,
    unproven: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing that is merely busy may be refused for the trail, nor served without it."""
    counts = iter((7, 7 + events))
    monkeypatch.setattr(saturation, "_settled", lambda count: count())

    def launch(_connections: int, _seconds: int) -> load.Running:
        log = tmp_path / "log"
        program = f"print({_REPORT % (requests, not_200)!r})"
        return load.Running("stand-in", start([sys.executable, "-c", program], core=None, log=log), log)

    found = saturated(Cell("sign", "sign", launch, lambda: next(counts)), 8, SMOKE)
    assert [(row.name, row.passes) for row in found] == [
        ("saturation.sign_c8_refused", refused),
        ("saturation.sign_c8_without_event", unproven),
        ("saturation.sign_c8_rate", True),
    ]
    assert found[2].value == requests / 2


def test_events_are_counted_whole(tmp_path: Path) -> None:
    """Half a line is an event that is still being written."""
    file = tmp_path / "audit.jsonl"
    assert lines_of(file) == 0
    file.write_bytes(b"{}\n{}\n{")
    assert lines_of(file) == 2
    segment = tmp_path / "a.jsonl.gz"
    whole = gzip.compress(b'{"kind":"segment_start"}\n{"kind":"sign"}\n')
    segment.write_bytes(whole + gzip.compress(b'{"kind":"sign"}\n')[:-4])
    assert saturation._in_segments(tmp_path) == 2


def test_servers_run_where_they_like() -> None:
    """A server on a core of its own is what no deployment has."""
    before = os.sched_getaffinity(0)
    with saturation.every_core():
        assert len(os.sched_getaffinity(0)) == (os.cpu_count() or 1)
    assert os.sched_getaffinity(0) == before
