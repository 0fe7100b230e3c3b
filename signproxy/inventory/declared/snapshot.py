"""Read the files of a policy as they stood at one moment, however they are replaced meanwhile.

An inventory is read line by line: a million tables or grants without holding more than one piece of the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

import msgspec

from signproxy.documents import decode
from signproxy.documents.files import ATTEMPTS, FileState, directory_behind, open_regular, read_together, state_of
from signproxy.errors import DocumentInvalid, Finding, PolicyInvalid
from signproxy.inventory.declared.document import InventoryLine
from signproxy.inventory.declared.findings import Findings

T = TypeVar("T")

MAX_DOCUMENT_BYTES = 16 << 20
"""Larger than a policy that people write; a million tables belong in an inventory, which is read in pieces."""

_ENDINGS = (".yaml", ".yml")

MAX_MENTIONS = 16
MAX_MENTION_BYTES = 64 * 1024
"""How many lists of inventories are looked for without loading a policy; each may have a thousand names."""

# A list in brackets, or one name a line. Whatever else it takes for a name is a file that does not exist.
_MENTION = re.compile(rb"""inventories["']?[ \t]*:\s*(\[[^\]]*|(?:-[^\n]*(?:\n\s*|$))+)""")
_MENTIONED = re.compile(rb"""[^\s\0,\[\]"'#-][^\s\0,\[\]"'#]*""")


class FileSnapshot:
    """One policy file, or all of a directory, and the inventories beside them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._base, self._names = _listed(path)
        self._seen: dict[str, FileState] = {}

    def documents(self) -> list[tuple[str, bytes]]:
        """Return name and content of each policy file, in the order of their names. Raise OSError, PolicyInvalid."""
        contents = []
        for name in self._names:
            with self._open(name) as file:
                content = file.read(MAX_DOCUMENT_BYTES + 1)
            if len(content) > MAX_DOCUMENT_BYTES:
                problem = f"larger than {MAX_DOCUMENT_BYTES >> 20} MiB; move tables and grants to an inventory"
                raise PolicyInvalid([Finding(name, "", problem)])
            contents.append((name, content))
        return contents

    def has(self, name: str) -> bool:
        """Whether a file of this name lies beside the policy files."""
        return (self._base / name).is_file()

    def inventory(self, name: str) -> BinaryIO:
        """Open an inventory. Raise OSError."""
        return self._open(name)

    def is_current(self) -> bool:
        """Whether everything that was read is still what a reader would find now."""
        if _listed(self._path) != (self._base, self._names):
            return False
        return all(state_of((self._base / name).stat()) == state for name, state in self._seen.items())

    def _open(self, name: str) -> BinaryIO:
        file = open_regular(self._base / name)
        # The first reading counts: one that is repeated must not hide that the file changed in between.
        self._seen.setdefault(name, state_of(os.fstat(file.fileno())))
        return file


def read_consistently(path: Path, read: Callable[[FileSnapshot], T]) -> T:
    """Return what `read` makes of the files, reading again where they changed meanwhile.

    Raise PolicyInvalid: what `read` found, or that the files cannot be read or do not come to rest.
    """
    last = Finding(str(path), "", f"changed during each of {ATTEMPTS} readings")
    for _ in range(ATTEMPTS):
        try:
            snapshot = FileSnapshot(path)
            try:
                result = read(snapshot)
            except PolicyInvalid:
                # Half of an old and half of a new policy may contradict each other.
                if snapshot.is_current():
                    raise
                continue
            if snapshot.is_current():
                return result
        except OSError as error:
            # A file may vanish while a directory is replaced; one that is not there will not appear either.
            last = Finding(str(path), "", f"cannot be read: {error.strerror or error}: {error.filename or path}")
    raise PolicyInvalid([last])


def files_of(path: Path) -> tuple[Path, ...]:
    """Return what to watch for a change of the policy: its directory, or its file and the inventories beside it.

    Without loading it, so that a policy that cannot be loaded is watched as well. An inventory whose name holds
    blanks or escapes is overlooked; a directory is watched whole.
    """
    if path.is_dir():
        return (path,)
    try:
        (content,) = read_together((path,), limit=MAX_DOCUMENT_BYTES)
    except OSError:
        return (path,)
    names: dict[str, None] = {}
    at = -1
    for _ in range(MAX_MENTIONS):
        at = content.find(b"inventories", at + 1)
        if at < 0:
            break
        mention = _MENTION.match(content, at, at + MAX_MENTION_BYTES)
        for name in _MENTIONED.findall(mention[1]) if mention is not None else ():
            names[os.fsdecode(name)] = None
    return (path, *(path.parent / name for name in names if "/" not in name and not name.startswith(".")))


def _listed(path: Path) -> tuple[Path, tuple[str, ...]]:
    """Return the directory that holds the files, and the names of the policy files in it."""
    if not path.is_dir():
        return path.parent, (path.name,)
    base = directory_behind(path)
    names = (entry.name for entry in base.iterdir() if entry.name.endswith(_ENDINGS) and not entry.name.startswith("."))
    return base, tuple(sorted(names))


MAX_LINE = 1 << 20
"""Bytes of a line: a table with a thousand properties fits many times over."""

_PIECE = 1 << 18
"""Bytes read at a time; reading lets other threads run."""

# To the type checker a union is no type.
_KIND = cast("type[InventoryLine]", InventoryLine)
_decode = msgspec.json.Decoder(InventoryLine).decode


def read_inventory(
    file: str, stream: BinaryIO, digest: Callable[[bytes], None], findings: Findings
) -> Iterator[tuple[int, InventoryLine]]:
    """Yield number and content of each line that is sound; show every byte to `digest`."""
    number = 0
    rest = b""
    while piece := stream.read(_PIECE):
        digest(piece)
        lines = (rest + piece).split(b"\n")
        rest = lines.pop()
        for line in lines:
            number += 1
            if line and not line.isspace():
                yield from _line(file, number, line, findings)
        if len(rest) > MAX_LINE:
            findings.add(file, f"line {number + 1}", f"longer than {MAX_LINE} bytes")
            return
    if rest and not rest.isspace():
        yield from _line(file, number + 1, rest, findings)


def _line(file: str, number: int, line: bytes, findings: Findings) -> Iterator[tuple[int, InventoryLine]]:
    try:
        yield number, _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        findings.extend(_explain(file, number, line, str(error)).findings)


def _explain(file: str, number: int, line: bytes, problem: str) -> DocumentInvalid:
    """Say what is wrong with a line, as for an entry of a policy file."""
    path = f"line {number}"
    try:
        decode(_KIND, msgspec.json.decode(line), file=file, path=path)
    except DocumentInvalid as invalid:
        return invalid
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    return DocumentInvalid([Finding(file, path, problem)])
