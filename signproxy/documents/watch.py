"""Notice that files changed, by looking at them from time to time.

Looking works where being told does not: a watch on a file goes deaf once a volume of Kubernetes is swapped, and none
works on network file systems. What no look can notice either is a file that is mounted by itself (`subPath`): kubelet
never replaces it, so that it stays as it was when the pod began.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from signproxy.documents.files import ATTEMPTS, FileState, can_name, directory_behind, open_regular, state_of

RESTLESS_LOOKS = 5
"""How often a change is held back because something is still being written; a log among the files must not hold back
a revoked grant for ever."""

YOUNG_NS = 2_000_000_000
"""Nanoseconds in which a file may be written twice and show one time: FAT counts in 2 s, most others in some ms."""

MAX_DIGESTED = 1 << 30
"""Bytes that one look reads; five inventories of a million tables. Where a directory of something else was named by
mistake, what is beyond counts as changed whenever it was touched."""


class FileWatch:
    """Tell which of the files changed. To be asked from one thread at a time; it reads, and so may take a while.

    A directory stands for the files in it, those of its subdirectories and hidden ones excepted. The first look takes
    stock: a caller that looks before it reads the files misses nothing.
    """

    def __init__(self, paths: Callable[[], Iterable[Path]]) -> None:
        self._paths = paths
        """Which files; asked at each look, for a changed settings file names others."""
        self._known: dict[Path, _Known] = {}
        self._last: dict[Path, _Look] | None = None
        self._last_at = 0
        self._restless = 0

    def changed(self) -> tuple[Path, ...]:
        """Return the files that hold something else than when they were last returned, or are gone or unreadable.

        A file that was written to is returned once nothing moved between two looks; a link that was set to another
        target at once, for what it names is complete.
        """
        now = time.time_ns()
        looks = dict(_looks(self._paths()))
        last, self._last = self._last, looks
        last_at, self._last_at = self._last_at, now
        if last is None:
            self._take_note(looks, looks, now)
            return ()
        # No longer asked for, which is no change.
        self._known = {path: known for path, known in self._known.items() if known.look.root in looks}
        new = [path for path, look in looks.items() if path not in self._known and look.root not in last]
        # Read for the first time after the last look, by a reload that it led to, and perhaps written since then.
        young = [path for path in new if _changed_at(path, looks[path]) > last_at - YOUNG_NS]
        self._take_note(set(new).difference(young), looks, now)
        differing = [path for path in looks.keys() | self._known.keys() if self._differs(path, looks)]
        if any(_moves(looks.get(path), last.get(path), looks, last) for path in differing):
            self._restless += 1
            if self._restless <= RESTLESS_LOOKS:
                return ()
        self._restless = 0
        return tuple(sorted(self._take_note(differing, looks, now)))

    def _differs(self, path: Path, looks: dict[Path, _Look]) -> bool:
        known, look = self._known.get(path), looks.get(path)
        return known is None or look is None or known.young or known.look[1:] != look[1:]

    def _take_note(self, paths: Iterable[Path], looks: dict[Path, _Look], now: int) -> Iterable[Path]:
        """Keep how the files are now; return those whose content is another than before."""
        changed = []
        left = MAX_DIGESTED
        for path in paths:
            known, look = self._known.get(path), looks.get(path)
            if look is None:
                del self._known[path]
                changed.append(path)
                continue
            if look.size <= left:
                left -= look.size
                digest = _digest(look)
            else:
                digest = b"%r" % (look.state,)
            if known is None or known.digest != digest:
                changed.append(path)
            self._known[path] = _Known(look, digest, abs(now - look.changed_at) < YOUNG_NS)
        return changed


class _Look(NamedTuple):
    """What a look shows of a file, or of a directory that was asked for."""

    root: Path
    """What was asked for: the path itself, or the directory that it lies in."""
    real: str
    """Where every link on the way leads to. What a directory's files have in common is its own."""
    kind: int
    """The file's type; 0 where there is none to be seen."""
    state: FileState = ()

    @property
    def size(self) -> int:
        return self.state[2] if self.kind == stat.S_IFREG else 0

    @property
    def changed_at(self) -> int:
        """When the file was last changed, by its system's clock; 0 where that is not known."""
        return self.state[-1] if self.kind == stat.S_IFREG else 0


class _Known(NamedTuple):
    """What a file was when it was last taken note of."""

    look: _Look
    digest: bytes
    young: bool
    """It was written so lately that it may have been written again, and look the same."""


def _looks(paths: Iterable[Path]) -> Iterator[tuple[Path, _Look]]:
    for path in paths:
        if not can_name(path):
            continue
        look = _look(path, os.path.realpath(path))
        if look.kind != stat.S_IFDIR:
            yield path, look
            continue
        base, names = _listed(path)
        yield path, _Look(path, base, stat.S_IFDIR)
        for name in names:
            look = _look(path, f"{base}/{name}")
            if look.kind != stat.S_IFDIR:
                yield path / name, look


def _listed(directory: Path) -> tuple[str, list[str]]:
    """Return where the files of a directory lie now, and the names of the visible ones."""
    base, names = "", list[str]()
    for _ in range(ATTEMPTS):
        base = os.path.realpath(directory_behind(directory))
        # A volume may be swapped, and the former one removed, after the link was followed.
        with contextlib.suppress(OSError):
            names = os.listdir(base)  # noqa: PTH208  (names are all that is needed, of as many files as there are)
            break
    return base, [name for name in names if not name.startswith(".")]


def _look(root: Path, real: str) -> _Look:
    try:
        found = os.stat(real)  # noqa: PTH116  (a path object for each of a thousand files would cost more)
    except OSError as error:
        return _Look(root, real, 0, (error.errno or 0,))
    kind = stat.S_IFMT(found.st_mode)
    # A device or a pipe is never opened, and changes its times as it likes.
    return _Look(root, real, kind, state_of(found) if kind == stat.S_IFREG else ())


def _changed_at(path: Path, look: _Look) -> int:
    """Return when what the path leads to last changed: the file, or the link to it."""
    try:
        return max(look.changed_at, path.lstat().st_ctime_ns)
    except OSError:
        return look.changed_at


def _moves(look: _Look | None, former: _Look | None, looks: dict[Path, _Look], last: dict[Path, _Look]) -> bool:
    """Whether a file may still be being written, or is just being replaced."""
    seen = look or former
    if seen is None or _swapped(seen.root, looks, last):
        return False
    return look is None or former is None or look[1:] != former[1:]


def _swapped(root: Path, looks: dict[Path, _Look], last: dict[Path, _Look]) -> bool:
    """Whether what was asked for leads elsewhere than before, to files that had been made ready there."""
    return root in looks and root in last and looks[root].real != last[root].real


def _digest(look: _Look) -> bytes:
    """Return what tells the content from any other."""
    if look.kind != stat.S_IFREG:
        return b"%d %r" % (look.kind, look.state)
    try:
        with open_regular(Path(look.real)) as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        return b"%d" % (error.errno or 0)
