"""Write events as one instance does: life after life, in sealed segments, through the server's own writer."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import redirect_stderr
from pathlib import Path
from random import Random

import msgspec

from signproxy.audit.encode import LineEncoder
from signproxy.audit.event import AuditEvent
from signproxy.audit.member import packed
from signproxy.audit.salvage import seal_orphans
from signproxy.audit.segment import OPEN, ROOT, SUFFIX, SealedBy, line_of, parse_name
from signproxy.audit.segments import SegmentSettings, SegmentSink
from signproxy.audit.trailer import TAIL, read_trailer
from tools.sample_data.clock import UTC
from tools.sample_data.ids import EventIds, drawn

VERSION = "0.1.0"
_BATCH = 512
_FLUSH = 8192
"""Events after which what is written is packed by itself and synchronised, which the server does once a second."""
_FOREVER = 1e9


class Life:
    """A process's life: its own id, its own sequence."""

    def __init__(self, directory: Path, work: Path, instance: str, boot_id: str) -> None:
        self._directory = directory
        self._work = work
        self.boot_id = boot_id
        self.seq = 0
        self._encoder = LineEncoder(boot_id)
        # Sealed where it is written, and moved from there: what is left open by a crash is found there alone.
        self._sink = SegmentSink(SegmentSettings(work, instance, VERSION, "c0ffee", max_seconds=_FOREVER))
        self._batch: list[tuple[int, float, AuditEvent]] = []
        self._since_flush = 0
        # When the last event of each batch was: a segment ends with one of them.
        self._moments: dict[int, float] = {}

    def take(self, at: float, event: AuditEvent) -> None:
        """Write an event."""
        self.seq += 1
        self._batch.append((self.seq, at, event))
        if len(self._batch) >= _BATCH:
            self._write()

    def skip(self, count: int) -> tuple[int, int]:
        """Lose events before they are written, which leaves a hole; return the first and the last of them."""
        first = self.seq + 1
        self.seq += count
        return first, self.seq

    def put(self, line: bytes) -> None:
        """Write a line as it is, whatever it is; the segment counts it."""
        self._write()
        self._sink.write(line, 1)

    def rotate(self) -> None:
        """Seal the segment with what comes next."""
        self._write()
        self._sink.reopen()

    def end(self, *, crash: bool = False) -> list[Path]:
        """End in order, or be killed and have another process seal what is left; return the segments."""
        self._write()
        self._sink.flush()
        left = list((self._work / ROOT).glob(f"dt=*/{OPEN}*{SUFFIX}")) if crash else []
        kept = [(path, path.read_bytes()) for path in left]
        self._sink.close()
        for path, content in kept:
            # As if it had never been closed.
            path.with_name(path.name.removeprefix(OPEN)).unlink()
            path.write_bytes(content)
        if kept:
            # It is logged, as it should be in earnest.
            with redirect_stderr(io.StringIO()):
                seal_orphans(self._work)
        return [self._moved(path) for path in sorted((self._work / ROOT).glob(f"dt=*/*{SUFFIX}"))]

    def _moved(self, path: Path) -> Path:
        self._date(path)
        target = self._directory / path.relative_to(self._work)
        target.parent.mkdir(parents=True, exist_ok=True)
        return path.rename(target)

    def _date(self, path: Path) -> None:
        """Have a segment say that it was sealed at its last event, and not when the generator ran."""
        with path.open("r+b") as file:
            file.seek(-min(TAIL, path.stat().st_size), os.SEEK_END)
            trailer = read_trailer(file.read())
            # One that was recovered says so already.
            if trailer is not None and trailer.end.sealed_by is not SealedBy.RECOVERY:
                end = msgspec.structs.replace(trailer.end, ts=UTC.text(self._moments[trailer.end.last_seq]))
                file.seek(-trailer.size, os.SEEK_END)
                file.truncate()
                file.write(packed(line_of(end)))

    def _write(self) -> None:
        if self._batch:
            seq, at, _ = self._batch[-1]
            self._moments[seq] = at
            self._sink.write(b"".join([self._encoder.line(*each) + b"\n" for each in self._batch]), len(self._batch))
            self._since_flush += len(self._batch)
            self._batch.clear()
            if self._since_flush >= _FLUSH:
                self._since_flush = 0
                self._sink.flush()


class Instance:
    """One signproxy over the month, which is deployed anew now and then and once in a while is killed."""

    def __init__(self, directory: Path, name: str, seed: str, first: int, days: int) -> None:
        self._directory = directory
        self._name = name
        self._work = directory / f".work-{name}"
        self._work.mkdir()
        random = drawn(seed, name, "lives")
        self._ids = EventIds(random)
        self._restarts = _restarts(random, first, days)
        # Segments do not end at midnight, so that some hold events of two days.
        self._rotation = first + 86_400 + random.randrange(900)
        self.segments = 0
        self._life = self._begin(first)

    def take(self, at: float, event: AuditEvent) -> None:
        """Write an event; they come in the order of their times."""
        if self._restarts and at >= self._restarts[0][0]:
            moment, crash = self._restarts.pop(0)
            self.segments += len(self._life.end(crash=crash))
            self._life = self._begin(moment)
        if at >= self._rotation:
            self._life.rotate()
            self._rotation += 86_400 * (1 + int((at - self._rotation) // 86_400))
        self._life.take(at, event)

    def close(self) -> None:
        """Seal the last segment."""
        self.segments += len(self._life.end())
        shutil.rmtree(self._work)

    def _begin(self, at: float) -> Life:
        return Life(self._directory, self._work, self._name, self._ids.at(at))


def _restarts(random: Random, first: int, days: int) -> list[tuple[float, bool]]:
    """Return when a new process takes over, and whether the old one was killed."""
    moments = []
    at = first + random.uniform(1, 6) * 86_400
    while at < first + days * 86_400:
        moments.append((at, random.random() < 0.3))
        at += random.uniform(2, 8) * 86_400
    return moments


def names_of(paths: Iterable[Path]) -> Iterator[tuple[Path, int]]:
    """Yield segments with the number of their first event."""
    for path in paths:
        name = parse_name(path.name)
        if name is not None:
            yield path, name.first_seq
