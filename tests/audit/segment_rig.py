"""Write segments for tests, and read them back."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from signproxy.audit.ids import new_boot_id
from signproxy.audit.segments import SegmentSettings, SegmentSink
from signproxy.audit.verify import AuditFinding, CheckedSegment, check_chain, check_segment, segments
from tests.audit.events import an_event, encoded
from tests.audit.sinks import events_in, segment_files

DAY = 1_795_000_000.0
"""2026-11-18 10:26:40 UTC."""


class Life:
    """The life of one process: its sink and the events that it takes."""

    def __init__(self, directory: Path, *, instance: str = "pod-0", **settings: Any) -> None:
        self.directory = directory
        self.boot_id = new_boot_id()
        self.sealed: list[Path] = []
        made = SegmentSettings(directory, instance, "1.0", **settings)
        self.sink = SegmentSink(made, self.sealed.append)
        self._seq = 0

    def lines(self, count: int, **changes: object) -> bytes:
        """Return the next lines, not written yet."""
        events = []
        for _ in range(count):
            self._seq += 1
            events.append((self._seq, DAY + self._seq / 1000, an_event(**changes)))
        return encoded(self.boot_id, events)

    def write(self, count: int, **changes: object) -> bytes:
        """Write the next lines."""
        lines = self.lines(count, **changes)
        self.sink.write(lines, count)
        return lines

    def skip(self, count: int) -> None:
        """Leave a hole in the numbers, as events that were dropped do."""
        self._seq += count

    def rotate(self, count: int = 3) -> Path:
        """Write lines and seal them."""
        self.write(count)
        self.sink.reopen()
        self.sink.flush()
        return self.sealed[-1]


def until_it_works(action: Callable[[], None], tries: int = 12) -> int:
    """Do it again until it succeeds, as the trail does; return how often it failed."""
    for failures in range(tries):
        try:
            action()
        except OSError:
            continue
        return failures
    raise AssertionError(f"failed {tries} times")


def content(directory: Path) -> bytes:
    """Return the events below a directory, as far as they can be read."""
    return events_in(*segment_files(directory))


def sequence(lines: bytes) -> list[int]:
    """Return the numbers of events."""
    return [msgspec.json.decode(line)["seq"] for line in lines.splitlines()]


def findings(directory: Path, *, partial: bool = False) -> list[AuditFinding]:
    """Return all that verification finds."""
    checked = [check_segment(path) for path in segments(directory)]
    return [*found_in(checked), *check_chain(checked, partial=partial)]


def found_in(checked: Iterable[CheckedSegment]) -> list[AuditFinding]:
    """Return what is wrong with segments by themselves."""
    return [finding for each in checked for finding in each.findings]


def faults(directory: Path) -> set[str]:
    """Return the names of what verification finds, but for what only is not proved."""
    return {finding.fault.name for finding in findings(directory)} - {"ENDLESS"}


def rewritten(path: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    """Change the lines of a sealed segment as a process would that can write to the volume."""
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    *body, last = change(lines)
    path.write_bytes(gzip.compress(b"".join(body)) + gzip.compress(last))
