"""Write the trail as sealed segments, so that its reader can prove that nothing is missing.

What `write` took is in the file when it returns: the end of the process loses nothing of it, and the end of the machine
what was not synchronised yet, which is at most what a second brought (`Sync.INTERVAL`) or nothing (`Sync.BATCH`).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from time import monotonic

import msgspec

from signproxy.audit.segment import OPEN, ROOT, SUFFIX, SealedBy, SegmentStart
from signproxy.audit.segment_file import LinePosition, SegmentFile, place_of
from signproxy.telemetry.log import get_logger

MIB = 1024 * 1024

_log = get_logger("signproxy.audit")


class Sync(Enum):
    """When what was written is made to survive a crash of the machine."""

    BATCH = "request"
    """With each batch, which is all that came within some 50 ms."""
    INTERVAL = "interval"
    """Once a second."""


class SegmentSettings(msgspec.Struct, frozen=True):
    """What segments are made of."""

    directory: Path
    instance: str
    version: str
    config_digest: str = ""
    max_bytes: int = 64 * MIB
    """Of lines, as they are unpacked."""
    max_seconds: float = 60.0
    sync: Sync = Sync.INTERVAL
    spool_bytes: int = 0
    """Of all segments below the directory; no new one is begun where they have more. 0: as many as the disk takes."""


class SegmentSink:
    """An `AuditSink` of sealed segments. Each process has its own: a segment is of one process's life."""

    def __init__(self, settings: SegmentSettings, sealed: Callable[[Path], None] = lambda _path: None) -> None:
        """`sealed` is told of each segment that is complete, on the thread that writes. Raise OSError."""
        self._settings = settings
        self._tell = sealed
        self._open: SegmentFile | None = None
        self._number = 0
        self._previous = ""
        self._boot_id = ""
        self._due: SealedBy | None = None
        self._rotate = False
        self.sealed: Counter[SealedBy] = Counter()
        """How many segments this process sealed, and why then."""
        # Now, so that a wrong directory is an error of the start and not of the first request.
        prove_directory(settings.directory)

    def write(self, batch: bytes, count: int) -> None:
        """Append the lines; after an error the same lines come again, and are there once in the end."""
        if not batch:
            return
        self._seal_if_due()
        segment = self._present()
        if segment is None:
            segment = self._begin(place_of(batch[: batch.index(b"\n")]))
        segment.write(batch)
        if self._settings.sync is Sync.BATCH:
            segment.sync()
        segment.take(batch, count)
        if segment.raw >= self._settings.max_bytes:
            self._due = SealedBy.SIZE

    def flush(self) -> None:
        """Make what was taken survive a crash of the machine; seal what is due."""
        segment = self._present()
        if segment is None:
            return
        segment.end_member()
        segment.sync()
        self._seal_if_due()

    def reopen(self) -> None:
        """Seal the segment before the next write, or with the next flush."""
        self._rotate = True

    def close(self) -> None:
        """Seal the segment: none of this life follows."""
        if self._present() is not None:
            self._seal(SealedBy.CLOSE)

    @property
    def rest(self) -> float | None:
        """Seconds after which `flush` has something to do although nothing came; None where it has not."""
        if self._open is None:
            return None
        if self._rotate:
            return 0.0
        return max(0.0, self._open.began + self._settings.max_seconds - monotonic())

    def _present(self) -> SegmentFile | None:
        """Return the open segment; raise OSError once where its file was taken away, and do without it then."""
        segment = self._open
        if segment is not None and segment.is_gone:
            self._open, self._due = None, None
            # The next one follows on it all the same: that it is missing is what verification has to say.
            self._previous = segment.digest
            segment.let_go()
            _log.error("the audit segment that was being written was removed", file=segment.name)
            raise OSError(errno.ESTALE, "the segment that was being written was removed", segment.name)
        return segment

    def _seal_if_due(self) -> None:
        segment = self._open
        if segment is None:
            self._rotate = False
            return
        due = self._due
        if due is None and self._rotate:
            due = SealedBy.ROTATION
        if due is None and monotonic() >= segment.began + self._settings.max_seconds:
            due = SealedBy.TIME
        if due is not None and self._present() is not None:
            self._seal(due)

    def _begin(self, first: LinePosition) -> SegmentFile:
        settings = self._settings
        limit = settings.spool_bytes
        if limit and bytes_below(settings.directory) >= limit:
            # Never the oldest for the newest: which of them can be spared is not for the writer to say.
            raise OSError(errno.EDQUOT, f"segments have the {limit // MIB} MiB that audit.spool_mib allows")
        if first.boot_id != self._boot_id:
            self._boot_id, self._number, self._previous = first.boot_id, 0, ""
        start = SegmentStart(
            instance=settings.instance,
            boot_id=first.boot_id,
            number=self._number + 1,
            first_seq=first.seq,
            ts=first.ts,
            version=settings.version,
            config_digest=settings.config_digest,
            previous_sha256=self._previous,
        )
        self._open = SegmentFile.create(settings.directory / ROOT / f"dt={first.ts[:10]}", start)
        self._number += 1
        return self._open

    def _seal(self, reason: SealedBy) -> None:
        segment = self._open
        assert segment is not None  # noqa: S101 - the caller has one
        path = segment.seal(reason)
        self._open, self._due, self._rotate = None, None, False
        self._previous = segment.digest
        self.sealed[reason] += 1
        self._tell(path)


def prove_directory(directory: Path) -> None:
    """Make the place for segments, and raise OSError where files cannot be made and locked in it."""
    root = directory / ROOT
    for each in (*reversed(root.parents[: len(ROOT.parts)]), root):
        each.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Without a lock, a start would seal what another process is still writing.
    with tempfile.TemporaryFile(dir=root) as file:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)


def bytes_below(directory: Path) -> int:
    """Return what all segments below a directory take, those that are being written among them."""
    total = 0
    for entry in _files_below(directory):
        # What was shipped meanwhile takes nothing any more.
        with contextlib.suppress(FileNotFoundError):
            total += entry.stat(follow_symlinks=False).st_size
    return total


def sealed_below(directory: Path) -> list[Path]:
    """Return the sealed segments below a directory, the oldest day first."""
    files = _files_below(directory)
    return sorted(Path(each.path) for each in files if each.name.endswith(SUFFIX) and not each.name.startswith(OPEN))


def _files_below(directory: Path) -> Iterator[os.DirEntry[str]]:
    for day in _entries(directory / ROOT):
        if day.name.startswith("dt="):
            yield from _entries(Path(day.path))


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []
