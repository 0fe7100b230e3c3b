"""Write batches of audit lines to where they are kept, whole and once even over failures."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import stat
import threading
from pathlib import Path
from typing import Protocol

NO_FD = -1
_PIPE = 1024 * 1024
"""The most that a pipe may have without privileges: a batch of a thousand events."""
_TAIL_BLOCK = 65_536
"""Bytes that are searched at a time for the last line end of a file that does not end with one."""


class AuditSink(Protocol):
    """Where audit lines go. Called from one thread at a time, which may block."""

    def write(self, batch: bytes, count: int) -> None:
        """Take over `count` whole lines, or raise OSError.

        After an error the same bytes are written again, until they are taken: the sink sees to it that every line
        is there once and whole in the end.
        """

    def flush(self) -> None:
        """Make what was taken survive a crash of the machine, as far as the sink can; raise OSError if it did not."""

    def reopen(self) -> None:
        """Begin anew under the same name before the next write: asked for by what rotates files, on any thread."""

    def close(self) -> None:
        """Flush and let go."""

    @property
    def rest(self) -> float | None:
        """Seconds after which `flush` has something to do although nothing came; None where it has not."""


class FileSink:
    """Append to a file that only its owner may read. Several processes may append to the same one."""

    rest = None

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = NO_FD
        self._pid = 0
        self._reopen_asked = threading.Event()
        # Now, so that a wrong path is an error of the start and not of the first request.
        self._open()

    def write(self, batch: bytes, count: int) -> None:  # noqa: ARG002 - the interface's
        """Append under a lock; if not all of it fits, take back what did."""
        # A lock belongs to the opened file, and a child shares its parent's: with it two would write at once.
        if self._reopen_asked.is_set() or self._pid != os.getpid() or self._fd == NO_FD:
            self._open()
        fd = self._fd
        fcntl.flock(fd, fcntl.LOCK_EX)
        try:
            start = _end_of_whole_lines(fd)
            try:
                write_all(fd, batch)
            except OSError:
                # The lock is still held, so all that lies behind `start` is this batch's torn beginning.
                os.ftruncate(fd, start)
                raise
        finally:
            fcntl.flock(fd, fcntl.LOCK_UN)

    def flush(self) -> None:
        """Wait until the disk has it."""
        if self._fd != NO_FD:
            os.fdatasync(self._fd)

    def reopen(self) -> None:
        """Open the path anew before the next write."""
        self._reopen_asked.set()

    def close(self) -> None:
        """Flush and close."""
        fd, self._fd = self._fd, NO_FD
        if fd != NO_FD:
            try:
                os.fdatasync(fd)
            finally:
                os.close(fd)

    def _open(self) -> None:
        self._reopen_asked.clear()
        try:
            # Read access, to see whether the last line is whole. No symbolic link as the last part: in a directory
            # that others may write to it could lead anywhere.
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            fd = os.open(self._path, flags, 0o600)
        except OSError:
            self._reopen_asked.set()
            raise
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            self._reopen_asked.set()
            raise OSError(
                errno.EINVAL,
                "not a regular file; pipes and devices are written through standard output",
                str(self._path),
            )
        if self._fd != NO_FD:
            os.close(self._fd)
        self._fd = fd
        self._pid = os.getpid()


class StdoutSink:
    """Write to standard output, or another descriptor that is already open."""

    rest = None

    def __init__(self, fd: int = 1) -> None:
        self._fd = fd
        self._taken = 0
        if stat.S_ISFIFO(os.fstat(fd).st_mode):
            # It takes 64 KiB at a time otherwise, less than what comes while the writer waits for the interpreter. A
            # user with many large pipes is granted no more.
            with contextlib.suppress(OSError):
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _PIPE)

    def write(self, batch: bytes, count: int) -> None:  # noqa: ARG002 - the interface's
        """Write all of the batch, waiting for a slow reader; after an error go on behind what was already taken."""
        # Workers share the descriptor, and a pipe keeps only 4 KiB together. A record lock belongs to the process
        # (unlike flock's) and holds on pipes too. What a failed batch left torn is completed first of all.
        locked = _lock_if_possible(self._fd)
        try:
            rest = memoryview(batch)[self._taken :]
            while rest:
                sent = _write_some(self._fd, rest)
                self._taken += sent
                rest = rest[sent:]
            self._taken = 0
        finally:
            if locked:
                fcntl.lockf(self._fd, fcntl.LOCK_UN)

    def flush(self) -> None:
        """Do nothing: what a pipe took is its reader's."""

    def reopen(self) -> None:
        """Do nothing: a pipe has no name to open."""

    def close(self) -> None:
        """Leave the descriptor open: it is the process's."""


def _end_of_whole_lines(fd: int) -> int:
    """Return the file's length after cutting off what a killed process left of its last line."""
    size = end = os.fstat(fd).st_size
    while end:
        start = max(0, end - (1 if end == size else _TAIL_BLOCK))
        found = os.pread(fd, end - start, start).rfind(b"\n")
        if found >= 0:
            end = start + found + 1
            break
        end = start
    if end != size:
        os.ftruncate(fd, end)
    return end


def write_all(fd: int, batch: bytes) -> None:
    """Write to a descriptor that may take a part at a time."""
    rest = memoryview(batch)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _write_some(fd: int, rest: memoryview) -> int:
    while True:
        try:
            return os.write(fd, rest)
        except BlockingIOError:
            # The parent process made the pipe non-blocking, for itself and so for every process that shares it.
            poll = select.poll()
            poll.register(fd, select.POLLOUT)
            poll.poll()


def _lock_if_possible(fd: int) -> bool:
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX)
    except OSError:
        # Some file systems have no locks; lines may mix there if several workers share one. If the descriptor is to
        # blame, writing to it says so.
        return False
    return True
