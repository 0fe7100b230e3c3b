"""Seal the segments of processes that ended without doing so, with every whole line that they left.

Several starts may look at one directory at once, and beside processes that write: only the one
that holds a file's lock may touch that file.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from signproxy.audit.member import GzipMember, packed
from signproxy.audit.segment import DAMAGED, OPEN, ROOT, SUFFIX, SealedBy, SegmentEnd, SegmentStart, line_of, parse_name
from signproxy.audit.segment_file import sync_directory
from signproxy.audit.sink import write_all
from signproxy.audit.trailer import trailer_of
from signproxy.audit.unpack import UNREADABLE, TornError, lines_of
from signproxy.telemetry.log import get_logger

_MENDING = ".mending"
"""What the name of a file ends with that is being made of another one. No reader takes it for a segment."""
_ZEROS = b"\0" * 32
"""More of them than packed lines have."""
_PIECE = 256 * 1024
"""Bytes of lines that are packed at a time."""

_log = get_logger("signproxy.audit")


class _Line(msgspec.Struct):
    boot_id: str
    seq: int = 0
    kind: str = ""
    ts: str = ""


_line_of = msgspec.json.Decoder(_Line).decode
_start_of = msgspec.json.Decoder(SegmentStart).decode


class Salvaged(NamedTuple):
    """A segment that was sealed for a process that is no more."""

    path: Path
    events: int


def seal_orphans(directory: Path) -> tuple[Salvaged, ...]:
    """Seal what processes that are no more left open below a directory; those that live hold a lock on theirs.

    What cannot be read stays as it is, is logged, and keeps no process from starting.
    """
    salvaged = []
    for path in sorted((directory / ROOT).glob(f"dt=*/{OPEN}*{SUFFIX}")):
        if parse_name(path.name) is None:
            continue
        try:
            with _orphan(path) as ours:
                found = _seal(path) if ours else None
        except FileNotFoundError:
            # Another start was quicker.
            continue
        except OSError as error:
            problem = error.strerror or type(error).__name__
            _log.error("audit segment of a former process cannot be sealed", file=path.name, error=problem)
            continue
        if found is not None:
            _log.warning("audit segment of a former process sealed", file=found.path.name, events=found.events)
            salvaged.append(found)
    return tuple(salvaged)


@contextlib.contextmanager
def _orphan(path: Path) -> Iterator[bool]:
    """Hold the file if no other process does, for as long as the block."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        # Another start may have sealed it between the look at the directory and the lock.
        yield os.fstat(fd).st_nlink > 0 and os.fstat(fd).st_ino == path.stat().st_ino
    finally:
        os.close(fd)


def _seal(path: Path) -> Salvaged | None:
    sealed = path.with_name(path.name.removeprefix(OPEN))
    if sealed.exists():
        # Sealed from this one by a process that ended before it could clear this one away. Never over a sealed one.
        if _whole(sealed) is not None:
            path.unlink()
        else:
            path.rename(path.with_name(f"{path.name}{DAMAGED}"))
        return None
    if (end := _whole(path)) is not None:
        # Complete, but for its name.
        path.rename(sealed)
        sync_directory(path.parent)
        return Salvaged(sealed, end.count)
    mending = path.with_name(f"{path.name}{_MENDING}")
    fd = os.open(mending, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        copy = _Copy(fd)
        damaged = copy.take(path)
        if copy.start is not None:
            copy.end()
            os.fdatasync(fd)
            mending.rename(sealed)
        else:
            mending.unlink()
    except BaseException:
        with contextlib.suppress(OSError):
            mending.unlink()
        raise
    finally:
        os.close(fd)
    sync_directory(path.parent)
    if damaged:
        kept = path.with_name(f"{path.name}{DAMAGED}")
        path.rename(kept)
        _log.error("audit segment of a former process holds what cannot be read", file=kept.name, problem=damaged)
    else:
        path.unlink()
    return None if copy.start is None else Salvaged(sealed, copy.count)


def _whole(path: Path) -> SegmentEnd | None:
    """Return the last line of a file that is complete."""
    trailer, digest = trailer_of(path)
    return trailer.end if trailer is not None and trailer.end.sha256 == digest else None


def _ends_in_zeros(path: Path) -> bool:
    """Whether the machine crashed before the disk had what the file says it holds. A killed process leaves no such."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - len(_ZEROS)))
        return file.read() == _ZEROS


class _Copy:
    """The whole lines of a segment, in another file. Of one file it is always the same, to the byte."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._digest = hashlib.sha256()
        self._member = GzipMember()
        self._lines = bytearray()
        self._seq = 0
        self._ts = ""
        self.start: SegmentStart | None = None
        self.count = 0

    def take(self, path: Path) -> str:
        """Copy the lines up to the first that does not belong there; return what is wrong with what follows."""
        try:
            for line in lines_of(path):
                if problem := self._take(line):
                    return problem
        except TornError as torn:
            if torn.damaged:
                return str(torn)
        return "zeros at its end" if _ends_in_zeros(path) else ""

    def end(self) -> None:
        """Write the last line."""
        assert self.start is not None  # noqa: S101 - the caller has seen it
        self._pack()
        self._write(self._member.end())
        end = SegmentEnd(
            boot_id=self.start.boot_id,
            number=self.start.number,
            count=self.count,
            first_seq=self.start.first_seq,
            last_seq=self._seq,
            # Not that of the recovery: repeated, it makes the same file, and so the one that was shipped meanwhile.
            ts=self._ts,
            sha256=self._digest.hexdigest(),
            sealed_by=SealedBy.RECOVERY,
        )
        self._write(packed(line_of(end)))

    def _take(self, line: bytes) -> str:
        try:
            if self.start is None:
                self.start = _start_of(line)
                self._seq, self._ts = self.start.first_seq - 1, self.start.ts
            else:
                found = _line_of(line)
                if found.kind == "segment_end":
                    # Written, and then the name was not given any more.
                    return ""
                if found.boot_id != self.start.boot_id or found.seq <= self._seq:
                    return f"event {found.seq} of {found.boot_id} behind {self._seq} of {self.start.boot_id}"
                self._seq, self._ts = found.seq, found.ts
                self.count += 1
        except UNREADABLE:
            return "a line that is no event"
        self._lines += line
        if len(self._lines) >= _PIECE:
            self._pack()
        return ""

    def _pack(self) -> None:
        lines, self._lines = bytes(self._lines), bytearray()
        if lines:
            self._write(self._member.pack(lines))
            self._member.take(lines)

    def _write(self, data: bytes) -> None:
        self._digest.update(data)
        write_all(self._fd, data)
