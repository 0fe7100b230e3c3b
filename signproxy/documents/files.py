"""Read files as they stood at one moment, however they are replaced meanwhile.

Files are replaced in one of three ways: a volume of Kubernetes is swapped whole (its files are links
through `..data` into a directory that never changes), careful programs rename a new file over the old one, all others
write in place. Files are therefore opened first, then read, and then every path is looked at once more: where each
still leads to the file that was opened, unchanged, all of them stood so at the moment in between.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import ExitStack
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

ATTEMPTS = 3
"""Readings before files that keep changing are given up; what is in force stays meanwhile."""

VOLUME_LINK = "..data"
"""The link by which Kubernetes swaps all files of a mounted ConfigMap, Secret or projected volume at once."""

FileState = tuple[int, ...]
"""What changes when a file is replaced or written: device, inode, size, modification and change time."""


def read_together(paths: Sequence[Path], *, limit: int) -> list[bytes]:
    """Return what each file held at one moment, the same for all of them.

    Raise OSError with the file's name: one cannot be read, is no regular file (a pipe would block, a device never
    end), is larger than `limit` bytes, or they do not come to rest.
    """
    for left in reversed(range(ATTEMPTS)):
        try:
            contents = _read_once(paths, limit)
        except OSError:
            # While a directory is replaced, a path may lead nowhere for a moment.
            if not left:
                raise
        else:
            if contents is not None:
                return contents
    raise OSError(errno.EBUSY, f"it changed during each of {ATTEMPTS} readings", *map(str, paths[:1]))


def open_regular(path: Path) -> BufferedReader:
    """Open a file for reading. Raise OSError, also for whatever is no regular file; never block."""
    if not can_name(path):
        raise OSError(errno.EINVAL, "no file can have such a name", str(path))
    # Looked at before it is opened: opening alone wakes what waits at the other end of a pipe, and rewinds a tape.
    _check_regular(path, path.stat())
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    file = open(descriptor, "rb")  # noqa: SIM115, PTH123  (returned; and there is no path to a descriptor)
    try:
        # And looked at again: the name may have come to mean another file in between.
        _check_regular(path, os.fstat(descriptor))
    except OSError:
        file.close()
        raise
    return file


def can_name(path: Path) -> bool:
    """Whether there could be such a file. What the system says of other names is no OSError."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def state_of(found: os.stat_result) -> FileState:
    """Return what would differ if the file were another one, or written to."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def directory_behind(path: Path) -> Path:
    """Return the directory that holds the files of `path` now: in a mounted volume the one that `..data` names.

    That one is complete and stays as it is until it is removed.
    """
    link = path / VOLUME_LINK
    return link.resolve() if link.is_symlink() else path


def _read_once(paths: Sequence[Path], limit: int) -> list[bytes] | None:
    """Return the contents, or None where they may be of different moments."""
    with ExitStack() as stack:
        files = [stack.enter_context(open_regular(path)) for path in paths]
        seen = [state_of(os.fstat(file.fileno())) for file in files]
        contents = [_content(path, file, limit) for path, file in zip(paths, files, strict=True)]
        # While the files are open: no other file can have got the inode of one that was removed.
        return contents if [state_of(path.stat()) for path in paths] == seen else None


def _content(path: Path, file: BinaryIO, limit: int) -> bytes:
    content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"it is larger than {limit} bytes", str(path))
    return content


def _check_regular(path: Path, found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
