"""Write down an inventory while it is taken, so that one that is cut off goes on where it was."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Self

import msgspec

from signproxy.errors import Finding, Invalid
from signproxy.inventory.learned.sighting import TableFacts

GOOD_FOR_SECONDS = 24 * 3_600.0
"""An inventory that was begun longer ago is begun anew: what it lists first may be gone since."""

MAX_LINE = 1 << 20


class _Begun(msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag="inventory", forbid_unknown_fields=True):
    catalog: str
    upstream: str
    at: float


class _Listed(msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag="table", forbid_unknown_fields=True):
    facts: TableFacts


_encode = msgspec.json.Encoder().encode
_begun = msgspec.json.Decoder(_Begun).decode
_listed = msgspec.json.Decoder(_Listed).decode


class PartialInventory:
    """The file of one inventory under way. Use it as a context; `finish` takes the file away."""

    def __init__(self, path: Path, catalog: str, upstream: str, now: float) -> None:
        """Go on with what the file holds of the same catalog and upstream, or begin. Raise Invalid."""
        self.path = path
        self.began = now
        self.tables: dict[tuple[str, str], TableFacts] = {}
        try:
            self._file, known = _opened(path), True
            lines = _whole_lines(self._file)
            head = _begun(next(lines, b"{}"))
            fresh = 0 <= now - head.at <= GOOD_FOR_SECONDS
            if (head.catalog, head.upstream) == (catalog, upstream) and fresh:
                self.began = head.at
                for line in lines:
                    self._keep(_listed(line).facts)
            else:
                known = False
        except msgspec.MsgspecError:
            # Not of this version, or nothing yet.
            known = False
        except OSError as error:
            raise Invalid([Finding(str(path), "", f"cannot be used: {error.strerror}")]) from None
        if not known:
            self.tables.clear()
            self._file.seek(0)
            self._file.truncate()
            self._line(_Begun(catalog, upstream, now))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, facts: TableFacts) -> None:
        """Write a table down."""
        self._keep(facts)
        self._line(_Listed(facts))

    def finish(self) -> None:
        """Take the file away: what it holds is kept elsewhere now."""
        self.path.unlink(missing_ok=True)

    def _keep(self, facts: TableFacts) -> None:
        self.tables[facts.namespace, facts.name] = facts

    def _line(self, value: msgspec.Struct) -> None:
        self._file.write(_encode(value) + b"\n")
        self._file.flush()


def _opened(path: Path) -> BinaryIO:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    return os.fdopen(descriptor, "r+b")


def _whole_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines, and cut off one that was not written to its end."""
    end = 0
    while line := file.readline(MAX_LINE):
        if not line.endswith(b"\n"):
            break
        end += len(line)
        yield line
    file.seek(end)
    file.truncate()
