"""Read an inventory line by line: a million tables or grants without holding more than one piece of the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO, cast

import msgspec

from signproxy.documents import decode
from signproxy.errors import DocumentInvalid, Finding
from signproxy.inventory.declared.document import InventoryLine
from signproxy.inventory.declared.findings import Findings

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
