"""Give every audit sink the same shape for the contract suite: how to read it, break it and repair it."""

from __future__ import annotations

import errno
import os
import resource
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from signproxy.audit.segment import ROOT, SUFFIX, parse_name
from signproxy.audit.segments import SegmentSettings, SegmentSink
from signproxy.audit.sink import AuditSink, FileSink, StdoutSink
from signproxy.audit.unpack import TornError, lines_of


@contextmanager
def file_size_limit(limit: int) -> Iterator[None]:
    """Let no file of this process grow past a size: writes are cut short there and then fail, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class MemorySink:
    """Keep lines in memory. `failure` makes writes fail and `gate` blocks them while it is cleared."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.rest: float | None = None
        self.writes: list[int] = []
        self.flushes = 0
        self.reopened = 0
        self.closed = False
        self.failure: OSError | None = None
        self.gate = threading.Event()
        self.gate.set()

    def write(self, batch: bytes, count: int) -> None:
        """Keep the lines, or fail as told."""
        self.gate.wait()
        if self.failure is not None:
            raise self.failure
        self.lines += batch.splitlines(keepends=True)
        self.writes.append(count)

    def flush(self) -> None:
        """Count the call."""
        self.flushes += 1

    def reopen(self) -> None:
        """Count the call."""
        self.reopened += 1

    def close(self) -> None:
        """Remember the call."""
        self.closed = True


class FileRig:
    """A file in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "audit.ndjson"
        self.sink: AuditSink = FileSink(self.path)

    def content(self) -> bytes:
        return self.path.read_bytes()

    @contextmanager
    def full_after(self, room: int) -> Iterator[None]:
        with file_size_limit(self.path.stat().st_size + room):
            yield


class StdoutRig:
    """Standard output that was redirected to a file, where alone it can be full."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "stdout"
        self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.sink: AuditSink = StdoutSink(self._fd)

    def content(self) -> bytes:
        return self.path.read_bytes()

    @contextmanager
    def full_after(self, room: int) -> Iterator[None]:
        with file_size_limit(self.path.stat().st_size + room):
            yield


class MemoryRig:
    """The fake, which takes a batch whole or not at all."""

    def __init__(self, _directory: Path) -> None:
        self._memory = MemorySink()
        self.sink: AuditSink = self._memory

    def content(self) -> bytes:
        return b"".join(self._memory.lines)

    @contextmanager
    def full_after(self, room: int) -> Iterator[None]:
        self._memory.failure = OSError(errno.ENOSPC, f"room for {room} bytes")
        try:
            yield
        finally:
            self._memory.failure = None


def segment_files(directory: Path) -> list[Path]:
    """Return the files of segments, sealed or not, in the order of their events."""
    found = [(name.boot_id, name.first_seq, path) for path in (directory / ROOT).glob(f"dt=*/*{SUFFIX}")
             if (name := parse_name(path.name))]  # fmt: skip
    return [path for *_, path in sorted(found)]


def events_in(*files: Path) -> bytes:
    """Return the lines of events in segments, as far as they can be read."""
    lines: list[bytes] = []
    for file in files:
        with suppress(TornError):
            lines.extend(line for line in lines_of(file) if b'"kind":"segment_' not in line)
    return b"".join(lines)


class SegmentRig:
    """Segments, of which one may be open; what is read is what they say between their first and last lines."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.sink: AuditSink = SegmentSink(SegmentSettings(directory, "pod-0", "1.0"))

    def content(self) -> bytes:
        return events_in(*segment_files(self.directory))

    @contextmanager
    def full_after(self, room: int) -> Iterator[None]:
        # Packed, the batch of the contract is some 50 bytes.
        with file_size_limit(segment_files(self.directory)[-1].stat().st_size + room % 20):
            yield


Rig = FileRig | StdoutRig | MemoryRig | SegmentRig
RIGS: tuple[type[Rig], ...] = (FileRig, StdoutRig, MemoryRig, SegmentRig)


@contextmanager
def rig_of(kind: type[Rig]) -> Iterator[Rig]:
    """Set up a sink of a kind."""
    with tempfile.TemporaryDirectory() as directory:
        rig = kind(Path(directory))
        yield rig
        rig.sink.close()
        if isinstance(rig, StdoutRig):
            os.close(rig._fd)
