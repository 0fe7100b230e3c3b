"""Prove from the segments alone that the trail is whole: nothing missing, nothing added, nothing altered.

What cannot be proved by looking at a directory is said as such: that a life of a process which does not end with
`sealed_by: close` had no more events than those that are there, and that no whole life of one is missing.
"""

from __future__ import annotations

import errno
import stat
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import msgspec

from signproxy.audit.event import SCHEMA
from signproxy.audit.segment import DAMAGED, FORMAT, OPEN, ROOT, SealedBy, SegmentEnd, SegmentStart, parse_name
from signproxy.audit.trailer import trailer_of
from signproxy.audit.unpack import UNREADABLE, TornError, lines_of

MAX_STRANGE = 1_000
"""Lines of one file that are no events of it, behind which it is read no further: no fault of a disk makes as many."""


class Weight(Enum):
    """What a finding means for the trail."""

    NOTE = "note"
    """Nothing is wrong; something is not proved."""
    FAULT = "fault"
    """Something is missing, altered or does not belong there."""


class TrailFault(Enum):
    """What may be found."""

    UNREADABLE = ("cannot be read", Weight.FAULT)
    TORN = ("ends in the midst of a line or of packed data", Weight.FAULT)
    NAME = ("has a name that says something else than its first line", Weight.FAULT)
    START = ("does not begin with the first line of a segment", Weight.FAULT)
    END = ("does not end with the last line of a segment", Weight.FAULT)
    LINE = ("holds a line that is no event of this schema", Weight.FAULT)
    STRANGE = ("holds too many lines that are none of its own, and was read no further", Weight.FAULT)
    STRANGER = ("holds an event of another process", Weight.FAULT)
    ORDER = ("holds events out of order, or twice", Weight.FAULT)
    LOST = ("lacks events", Weight.FAULT)
    COUNT = ("does not hold as many events as its last line says", Weight.FAULT)
    ALTERED = ("was altered after it was sealed", Weight.FAULT)
    TWICE = ("is there twice", Weight.FAULT)
    MISSING = ("is missing", Weight.FAULT)
    CHAIN = ("does not follow on the segment before it", Weight.FAULT)
    EARLIER = ("is not here, as what came before the oldest that is", Weight.NOTE)
    """Only where the caller says that segments were taken away: shipped, or deleted for their age."""
    DAMAGED = ("was left by a process that is no more, and could not be read to its end", Weight.FAULT)
    OPEN = ("is being written, or was left by a process that is no more", Weight.NOTE)
    ENDLESS = ("is the last that is there of a life that did not end in order", Weight.NOTE)

    def __init__(self, words: str, weight: Weight) -> None:
        self.words = words
        """What it says about a segment."""
        self.weight = weight


class AuditFinding(msgspec.Struct, frozen=True):
    """Something that was found, and where."""

    fault: TrailFault
    file: str
    detail: str = ""

    @property
    def text(self) -> str:
        """The finding in a line."""
        return f"{self.file} {self.fault.words}{f': {self.detail}' if self.detail else ''}"


class CheckedSegment(msgspec.Struct, frozen=True):
    """A segment that was read whole."""

    file: str
    findings: tuple[AuditFinding, ...]
    start: SegmentStart | None = None
    end: SegmentEnd | None = None
    events: int = 0


class _Event(msgspec.Struct):
    schema: str
    kind: str
    boot_id: str = ""
    seq: int = 0


_event_of = msgspec.json.Decoder(_Event).decode
_start_of = msgspec.json.Decoder(SegmentStart).decode
_end_of = msgspec.json.Decoder(SegmentEnd).decode


def segments(directory: Path) -> tuple[Path, ...]:
    """Return the segments below a directory in the order of their names: sealed, open and damaged ones."""
    found = [path for path in (directory / ROOT).glob("dt=*/*") if _is_segment(path.name)]
    return tuple(sorted(found, key=lambda path: (path.parent.name, path.name.removeprefix(OPEN))))


def check_segment(path: Path) -> CheckedSegment:
    """Read a segment whole and return what is wrong with it by itself."""
    if path.name.startswith(OPEN):
        fault = TrailFault.DAMAGED if path.name.endswith(DAMAGED) else TrailFault.OPEN
        return CheckedSegment(path.name, (AuditFinding(fault, path.name),))
    reading = _Reading(path.name)
    digest = ""
    try:
        _regular(path)
        _, digest = trailer_of(path)
        for line in lines_of(path):
            reading.take(line)
            if reading.strange > MAX_STRANGE:
                reading.find(TrailFault.STRANGE, f"{reading.strange} of {reading.lines}")
                break
    except OSError as error:
        reading.find(TrailFault.UNREADABLE, error.strerror or type(error).__name__)
    except TornError as torn:
        reading.find(TrailFault.TORN, str(torn))
    return reading.result(digest)


def check_chain(checked: Iterable[CheckedSegment], *, partial: bool = False) -> Iterator[AuditFinding]:
    """Yield what contradicts itself between the segments of each life of a process.

    `partial` says that segments were taken away: what came before the oldest of a life is then none that is missing.
    """
    lives: dict[str, list[_Link]] = {}
    for segment in checked:
        if segment.start is not None and segment.end is not None:
            lives.setdefault(segment.start.boot_id, []).append(_Link(segment.start, segment.end, segment.file))
    for boot_id, life in lives.items():
        life.sort(key=lambda link: (link.start.number, link.file))
        yield from _check_life(boot_id, life, partial=partial)


class _Link(NamedTuple):
    start: SegmentStart
    end: SegmentEnd
    file: str


def _check_life(boot_id: str, life: list[_Link], *, partial: bool) -> Iterator[AuditFinding]:
    number, sha256, seq = 0, "", 0
    for start, end, file in life:
        if start.number == number:
            yield AuditFinding(TrailFault.TWICE, file, f"segment {number} of {boot_id}")
            continue
        if start.number != number + 1:
            yield _gap(boot_id, number, start, seq, partial=partial)
        elif start.previous_sha256 != sha256:
            yield AuditFinding(TrailFault.CHAIN, file, "the one before it was exchanged")
        elif start.first_seq != seq + 1:
            lost = f"{seq + 1} to {start.first_seq - 1}" if start.first_seq > seq else f"{start.first_seq} to {seq}"
            fault = TrailFault.LOST if start.first_seq > seq else TrailFault.ORDER
            yield AuditFinding(fault, file, f"between it and the one before: {lost}")
        number, sha256, seq = start.number, end.sha256, end.last_seq
    if life[-1].end.sealed_by is not SealedBy.CLOSE:
        yield AuditFinding(TrailFault.ENDLESS, life[-1].file, f"sealed by {life[-1].end.sealed_by.value}")


def _gap(boot_id: str, number: int, start: SegmentStart, seq: int, *, partial: bool) -> AuditFinding:
    gap = str(number + 1) if start.number == number + 2 else f"{number + 1} to {start.number - 1}"
    events = f"with events {seq + 1} to {start.first_seq - 1}" if start.first_seq > seq + 1 else "without events"
    fault = TrailFault.EARLIER if partial and not number else TrailFault.MISSING
    return AuditFinding(fault, f"segment {gap} of {boot_id}, {events},")


def _regular(path: Path) -> None:
    if not stat.S_ISREG(path.lstat().st_mode):
        # A pipe would be waited for, and a link leads to what was not verified.
        raise OSError(errno.EINVAL, "no regular file")


def _is_segment(name: str) -> bool:
    return parse_name(name) is not None or (name.startswith(OPEN) and name.endswith(DAMAGED))


class _Reading:
    """What was read of a segment so far."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._findings: dict[TrailFault, AuditFinding] = {}
        self._start: SegmentStart | None = None
        self._end: SegmentEnd | None = None
        self._events = 0
        self._seq = 0
        self.lines = 0
        self.strange = 0
        """Lines that do not belong there."""

    def find(self, fault: TrailFault, detail: str) -> None:
        """Remember the first finding of a kind: a file that was exchanged would bring one for each line."""
        self._findings.setdefault(fault, AuditFinding(fault, self._file, detail))

    def take(self, line: bytes) -> None:
        self.lines += 1
        try:
            if self._end is not None:
                self.strange += 1
                self.find(TrailFault.END, "lines behind the last one")
            elif self._start is None:
                self._begin(_start_of(line))
            elif b'"segment_end"' in line and _event_of(line).kind == "segment_end":
                self._end = _end_of(line)
            else:
                self._event(_event_of(line))
        except UNREADABLE:
            self.strange += 1
            self.find(TrailFault.START if self._start is None else TrailFault.LINE, f"line {self.lines}")

    def result(self, digest: str) -> CheckedSegment:
        end = self._end
        if self._start is None:
            self.find(TrailFault.START, "it is empty" if not self.lines else "line 1")
        elif end is None:
            if TrailFault.STRANGE not in self._findings:
                self.find(TrailFault.END, f"{self._events} events, and no last line")
        else:
            if end.count != self._events:
                self.find(TrailFault.COUNT, f"{self._events} events, and {end.count} are said")
            if end.sha256 != digest and TrailFault.TORN not in self._findings:
                self.find(TrailFault.ALTERED, "its digest is another one")
            if self._events and end.last_seq != self._seq:
                self.find(TrailFault.LOST, f"the last event is {self._seq}, and {end.last_seq} is said")
        return CheckedSegment(self._file, tuple(self._findings.values()), self._start, end, self._events)

    def _begin(self, start: SegmentStart) -> None:
        self._start = start
        self._seq = start.first_seq - 1
        name = parse_name(self._file)
        said = (start.instance, start.boot_id, start.first_seq)
        if name is None or (name.instance, name.boot_id, name.first_seq) != said or start.format != FORMAT:
            self.find(
                TrailFault.NAME, f"instance {start.instance!r}, life {start.boot_id!r}, first event {start.first_seq}"
            )

    def _event(self, event: _Event) -> None:
        assert self._start is not None  # noqa: S101 - events come behind the first line
        self._events += 1
        if event.schema != SCHEMA:
            self.find(TrailFault.LINE, f"line {self.lines} is of schema {event.schema!r}")
        if event.boot_id != self._start.boot_id:
            self.strange += 1
            self.find(TrailFault.STRANGER, f"line {self.lines}, of life {event.boot_id!r}")
        elif event.seq <= self._seq:
            self.strange += 1
            self.find(TrailFault.ORDER, f"event {event.seq} behind {self._seq}")
        elif event.seq != self._seq + 1:
            missing = str(event.seq - 1) if event.seq == self._seq + 2 else f"{self._seq + 1} to {event.seq - 1}"
            self.find(TrailFault.LOST, missing)
        self._seq = max(self._seq, event.seq)
