"""Keep on disk which table was first seen where, sealed, so that a restart does not make every place free again.

The file is a list of sealed lines that only grows, and is written anew now and then. Several processes write to one
file; a lock beside it keeps them apart. What a seal does not show is that a whole line is missing, or that all of the
file is an older one: the directory must be writable to signproxy alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from signproxy.errors import Finding, SettingsInvalid
from signproxy.inventory.learned.claims import UNVOUCHED_AT_MOST, Unvouched
from signproxy.inventory.learned.registry import Change, Holding, Registration, Removal, Stocktaking
from signproxy.model import TableId
from signproxy.sealing import MAX_SEALED, SealBroken, Sealer

PER_LINE = 8 * 1024
"""Bytes of changes that are sealed together; a sealed line is at most half as long again."""

SETTLED = 4
"""A file of so many times the lines that it needs is written anew when it is read."""

_SMALL = 64
"""Lines that are not worth writing anew."""


class _Place(msgspec.Struct, frozen=True, gc=False, array_like=True):
    bucket: str
    prefix: str
    since: int


class _Kept(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="k"):
    catalog: str
    namespace: str
    name: str
    uuid: str
    places: tuple[_Place, ...]
    changed: int


class _Removed(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="r"):
    catalog: str
    namespace: str
    name: str


class _Taken(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="t"):
    catalog: str
    upstream: str
    at: float


class _Doubted(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="u"):
    catalog: str
    namespace: str
    name: str
    location: str


_Record = _Kept | _Removed | _Taken | _Doubted

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[_Record, ...]).decode


FileState = tuple[int, int, int]
"""Inode, size and time of the last change."""


class SightingsFile:
    """One file. Every method blocks, and belongs beside the loop."""

    def __init__(self, path: Path, sealer: Sealer, most: int) -> None:
        """`most` is the bytes beyond which nothing is added to it."""
        self.path = path
        self._sealer = sealer
        self._most = most

    def load(self) -> tuple[Change, ...]:
        """Return what the file holds, in its order; write it anew where little of it counts any more.

        Raise SettingsInvalid where it cannot be read, or was not sealed with a secret that is known here.
        """
        with self._locked():
            changes, lines = self._read()
            kept = _settled(changes)
            # A secret that is about to be withdrawn must not be needed for the file any more.
            withdrawn = not all(self._sealer.is_current(line) for line in lines)
            if withdrawn or len(lines) > max(_SMALL, SETTLED * sum(1 for _ in self._lines(kept))):
                self._replace(kept)
        return kept

    def append(self, changes: Iterable[Change]) -> bool:
        """Add changes; return False where the file would become too large. Raise OSError."""
        text = "".join(f"{line}\n" for line in self._lines(changes)).encode()
        with self._locked():
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                size = os.fstat(descriptor).st_size
                if size + len(text) > self._most:
                    return False
                _cut_torn_line(descriptor, size)
                _write(descriptor, text)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        return True

    def take_over(self, taken: Stocktaking, found: Iterable[Registration]) -> bool:
        """Put an inventory in the place of what is kept of its catalog, but for what was seen since it began.

        Return False where the file would become too large. Raise OSError, SettingsInvalid.
        """
        began = int(taken.at * 1000)
        with self._locked():
            changes, _ = self._read()
            tables = {each.table: each for each in found}
            others: list[Change] = []
            for change in _settled(changes):
                if change_of(change) != taken.catalog or isinstance(change, Unvouched):
                    others.append(change)
                elif isinstance(change, Registration) and change.changed >= began:
                    tables[change.table] = change
            return self._replace((*others, *tables.values(), taken))

    def begin_anew(self) -> Path:
        """Put a file that cannot be read out of the way, and return where it is now. Raise OSError."""
        aside = self.path.with_name(f"{self.path.name}.unreadable")
        with self._locked():
            self.path.replace(aside)
        return aside

    def state(self) -> FileState | None:
        """Return what tells the file from how it was; None where there is none."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    def claim(self) -> BinaryIO | None:
        """Return the right to take an inventory, until it is closed; None while another process has it. Raise OSError.

        It ends with the process.
        """
        claim = self.path.with_name(f"{self.path.name}.taking").open("ab")
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            claim.close()
            return None
        return claim

    def _read(self) -> tuple[list[Change], list[str]]:
        """Return the changes and the sealed lines that hold them."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return [], []
        except OSError as error:
            raise self._invalid(f"cannot be read: {error.strerror}") from None
        if len(content) > 2 * self._most:
            raise self._invalid(f"has {len(content):,} bytes, over {2 * self._most:,}")
        # A crash may cut short the last line, and no other: the next one to write takes that away.
        *lines, torn = content.decode("ascii", "replace").split("\n")
        if torn and not self._sealer.is_begun(torn):
            raise self._invalid("ends with something that signproxy did not write")
        changes: list[Change] = []
        for number, line in enumerate(lines, 1):
            try:
                changes += map(_change, _decode(self._sealer.open(line)))
            except SealBroken as broken:
                raise self._invalid(f"line {number}: {broken}") from None
            except msgspec.MsgspecError:
                raise self._invalid(f"line {number}: written by another version") from None
        return changes, lines

    def _replace(self, changes: Iterable[Change]) -> bool:
        fresh = self.path.with_name(f"{self.path.name}.new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        size = 0
        try:
            for line in self._lines(changes):
                size += len(line) + 1
                if size > self._most:
                    return False
                _write(descriptor, f"{line}\n".encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        fresh.replace(self.path)
        directory = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        return True

    def _lines(self, changes: Iterable[Change]) -> Iterator[str]:
        batch: list[_Record] = []
        size = 0
        for record in map(_record, changes):
            length = len(_encode(record))
            if batch and size + length > PER_LINE:
                yield self._sealer.seal(_encode(tuple(batch)))
                batch, size = [], 0
            batch.append(record)
            size += length
        if batch:
            yield self._sealer.seal(_encode(tuple(batch)))

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            descriptor = os.open(
                self.path.with_name(f"{self.path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
        except OSError as error:
            raise self._invalid(f"cannot be locked: {error.strerror}") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _invalid(self, problem: str) -> SettingsInvalid:
        return SettingsInvalid([Finding("", "sightings.file", f"{str(self.path)!r} {problem}")])


def _write(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]


def _cut_torn_line(descriptor: int, size: int) -> None:
    """Take away what a crash left of the last line: it must not become the beginning of the next one."""
    tail = os.pread(descriptor, MAX_SEALED + 1, max(0, size - MAX_SEALED - 1))
    if tail and not tail.endswith(b"\n"):
        os.ftruncate(descriptor, size - len(tail) + tail.rfind(b"\n") + 1)


def change_of(change: Change) -> str:
    """Return the catalog that a change is about."""
    return change.catalog if isinstance(change, Stocktaking) else change.table.catalog


def _settled(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Return the changes without those that later ones undo."""
    tables: dict[TableId, Registration] = {}
    taken: dict[str, Stocktaking] = {}
    unvouched: dict[Unvouched, None] = {}
    for change in changes:
        match change:
            case Registration():
                tables.pop(change.table, None)
                tables[change.table] = change
            case Removal():
                tables.pop(change.table, None)
            case Stocktaking():
                taken[change.catalog] = change
            case Unvouched():
                unvouched.pop(change, None)
                unvouched[change] = None
    return (*tables.values(), *taken.values(), *tuple(unvouched)[-UNVOUCHED_AT_MOST:])


def _record(change: Change) -> _Record:
    match change:
        case Registration(table, uuid, holdings, changed):
            places = tuple([_Place(each.bucket, each.prefix, each.since) for each in holdings])
            return _Kept(table.catalog, table.namespace, table.name, uuid, places, changed)
        case Removal(table):
            return _Removed(table.catalog, table.namespace, table.name)
        case Stocktaking():
            return _Taken(change.catalog, change.upstream, change.at)
        case Unvouched(table, location):
            return _Doubted(table.catalog, table.namespace, table.name, location)


def _change(record: _Record) -> Change:
    match record:
        case _Kept():
            table = TableId(record.catalog, record.namespace, record.name)
            holdings = tuple([Holding(table, each.bucket, each.prefix, each.since) for each in record.places])
            return Registration(table, record.uuid, holdings, record.changed)
        case _Removed():
            return Removal(TableId(record.catalog, record.namespace, record.name))
        case _Taken():
            return Stocktaking(record.catalog, record.upstream, record.at)
        case _Doubted():
            return Unvouched(TableId(record.catalog, record.namespace, record.name), record.location)
