"""Hold the file of a segment that is being written: every line once and whole, over errors of the disk too."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
from pathlib import Path
from time import monotonic, time

import msgspec

from signproxy.audit.event import rfc3339
from signproxy.audit.member import GzipMember, packed
from signproxy.audit.segment import OPEN, SealedBy, SegmentEnd, SegmentName, SegmentStart, line_of

_TRIES = 5
"""To be alone with a new file, before a start beside this one that takes it for an orphan."""


class LinePosition(msgspec.Struct, frozen=True):
    """What is read of a line to know where it stands."""

    boot_id: str
    seq: int
    ts: str


place_of = msgspec.json.Decoder(LinePosition).decode


class SegmentFile:
    """A segment that is being written, from its first line on."""

    def __init__(self, fd: int, path: Path, start: SegmentStart) -> None:
        self._fd = fd
        self._path = path
        self._start = start
        self._digest = hashlib.sha256()
        # What counts ends here; what lies beyond is the beginning of something that failed, and may still be.
        self._end = 0
        self._reach = 0
        # The batch that is being written, and what stands for it.
        self._member: GzipMember | None = None
        self._batch: bytes | None = None
        self._packed = b""
        # What completes the member before, where that is not in the file yet.
        self._rest = b""
        # Since the last synchronisation that worked.
        self._unsynced = bytearray()
        self._doubtful = False
        self._count = 0
        self._last = b""
        self.raw = 0
        self.began = monotonic()

    @classmethod
    def create(cls, day: Path, start: SegmentStart) -> SegmentFile:
        """Return a new segment with its first line in it. Raise OSError, and leave nothing behind."""
        _make(day)
        path = day / f"{OPEN}{SegmentName(start.instance, start.boot_id, start.first_seq).text}"
        fd = _alone(path)
        try:
            segment = cls(fd, path, start)
            line = line_of(start)
            segment.write(line)
            segment._commit(line)
        except BaseException:
            with contextlib.suppress(OSError):
                path.unlink()
            os.close(fd)
            raise
        sync_directory(day)
        return segment

    @property
    def name(self) -> str:
        """Of the file, while it is open."""
        return self._path.name

    @property
    def digest(self) -> str:
        """Of all that counts so far."""
        return self._digest.hexdigest()

    @property
    def is_gone(self) -> bool:
        """Whether the file was taken away: what is written from now on will never be read."""
        return os.fstat(self._fd).st_nlink == 0

    def write(self, batch: bytes) -> None:
        """Write lines behind those that count; they count from `take` on, and may be written again until then."""
        if batch != self._batch:
            if self._batch is not None:
                # Never taken, and a packer cannot go back.
                self.end_member()
            self._member = self._member or GzipMember()
            self._packed, self._batch = self._member.pack(batch), batch
        if self._rest:
            self.end_member_before()
        self._put(self._packed)

    def take(self, batch: bytes, count: int) -> None:
        """Count lines that were written."""
        self._commit(batch)
        self._count += count
        self._last = batch[batch.rfind(b"\n", 0, -1) + 1 :]

    def end_member(self) -> None:
        """Complete what gzip calls a member, so that any reader can unpack and check all that is there."""
        member, self._member, self._batch, self._packed = self._member, None, None, b""
        if member is not None:
            self._rest = member.end()
        if self._rest:
            self.end_member_before()

    def end_member_before(self) -> None:
        """Write what completes the last member but the one that is being written."""
        self._put(self._rest)
        self._counts(self._rest)
        self._rest = b""

    def sync(self) -> None:
        """Wait until the disk has it."""
        if self._doubtful:
            # A synchronisation that failed has told so once, and the kernel holds the pages for written since.
            _write_at(self._fd, self._unsynced, self._end - len(self._unsynced))
        try:
            os.fdatasync(self._fd)
        except OSError:
            self._doubtful = True
            raise
        self._doubtful = False
        self._unsynced.clear()

    def seal(self, reason: SealedBy) -> Path:
        """Write the last line, give the file its name and let go of it. After an error it may be asked again."""
        self.end_member()
        last = place_of(self._last).seq if self._last else self._start.first_seq - 1
        end = SegmentEnd(
            boot_id=self._start.boot_id,
            number=self._start.number,
            count=self._count,
            first_seq=self._start.first_seq,
            last_seq=last,
            ts=rfc3339(int(time())),
            sha256=self.digest,
            sealed_by=reason,
        )
        # Beyond what counts until it has its name: a second attempt takes the place of the first.
        self._put(packed(line_of(end)))
        self.sync()
        sealed = self._path.with_name(self._path.name.removeprefix(OPEN))
        self._path.rename(sealed)
        sync_directory(sealed.parent)
        self.let_go()
        return sealed

    def let_go(self) -> None:
        """Close the file as it is; a start that finds it afterwards takes it for an orphan."""
        with contextlib.suppress(OSError):
            os.close(self._fd)

    def _commit(self, batch: bytes) -> None:
        assert self._member is not None  # noqa: S101 - a commit follows a write
        self._member.take(batch)
        self._counts(self._packed)
        self._batch, self._packed = None, b""
        self.raw += len(batch)

    def _counts(self, data: bytes) -> None:
        self._end += len(data)
        self._digest.update(data)
        self._unsynced += data

    def _put(self, data: bytes) -> None:
        """Write bytes behind what counts, and nothing behind them; they do not count yet."""
        if self._reach > self._end:
            self._cut()
        try:
            self._reach = self._end + len(data)
            _write_at(self._fd, data, self._end)
        except OSError:
            # A torn end would be in the way of reading it after a crash.
            with contextlib.suppress(OSError):
                self._cut()
            raise

    def _cut(self) -> None:
        os.ftruncate(self._fd, self._end)
        self._reach = self._end


def sync_directory(path: Path) -> None:
    """Make names in a directory survive a crash of the machine, where the file system can."""
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _make(day: Path) -> None:
    """Make a directory of segments, which no other user may look into; a clean-up may have taken it away."""
    if not day.is_dir():
        for each in (*reversed(day.parents[:3]), day):
            each.mkdir(mode=0o700, exist_ok=True)
        sync_directory(day.parent)


def _alone(path: Path) -> int:
    """Return a new file that is locked as long as this process lives: who finds it free may seal what is left of it."""
    for _ in range(_TRIES):
        # The name holds the id of this life: what is there already is of an attempt that failed.
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(fd).st_nlink:
                return fd
        except BlockingIOError:
            pass
        except BaseException:
            os.close(fd)
            raise
        # A process that starts right now found an empty file without a lock, and cleared it away.
        os.close(fd)
    raise OSError(errno.EAGAIN, "another process takes away each new segment", path.name)


def _write_at(fd: int, data: bytes | bytearray, at: int) -> None:
    rest = memoryview(data)
    while rest:
        written = os.pwrite(fd, rest, at)
        at += written
        rest = rest[written:]
