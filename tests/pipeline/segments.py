"""Make segments for tests: as the server writes them, and as an attacker might have forged or broken them."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from signproxy.audit.event import AuditEvent
from signproxy.audit.segment import ROOT, SealedBy, SegmentEnd, SegmentName, SegmentStart, line_of
from tests.audit.events import an_event, encoded

BOOT = "01M7RKABN8Z7CP8YAFDE000000"
DAY = 1_795_046_400
"""2026-11-19, midnight."""


def event_lines(count: int, first: int = 1, at: float = DAY, boot_id: str = BOOT, **changes: object) -> list[bytes]:
    """Return events' lines as the server writes them, a second apart."""
    events = [(first + index, at + index, an_event(**changes)) for index in range(count)]
    return encoded(boot_id, events).splitlines(keepends=True)


def changed(line: bytes, **values: object) -> bytes:
    """Return a line with other values; None takes one away."""
    fields = {**json.loads(line), **values}
    return json.dumps({name: value for name, value in fields.items() if value is not None}).encode() + b"\n"


class Forged(NamedTuple):
    """A segment and what its last line says."""

    path: Path
    end: SegmentEnd
    body: bytes


def segment(
    directory: Path,
    lines: Sequence[bytes],
    *,
    first: int = 1,
    last: int | None = None,
    number: int = 1,
    previous: str = "",
    count: int | None = None,
    boot_id: str = BOOT,
    instance: str = "pod-1",
    name: str | None = None,
    day: str = "2026-11-19",
    body: bytes | None = None,
    form: int = 1,
) -> Forged:
    """Write a segment of these lines, with a digest that fits, whatever they are."""
    start = SegmentStart(
        instance=instance, boot_id=boot_id, number=number, first_seq=first, ts=f"{day}T00:00:00Z", version="0.1.0",
        previous_sha256=previous, format=form,
    )  # fmt: skip
    packed = gzip.compress(line_of(start) + b"".join(lines), 1) if body is None else body
    said = len(lines) if count is None else count
    end = SegmentEnd(
        boot_id=boot_id, number=number, count=said, first_seq=first,
        last_seq=first + said - 1 if last is None else last, ts=f"{day}T00:01:00Z",
        sha256=hashlib.sha256(packed).hexdigest(), sealed_by=SealedBy.TIME,
    )  # fmt: skip
    place = directory / ROOT / f"dt={day}"
    place.mkdir(parents=True, exist_ok=True)
    path = place / (name or SegmentName(instance, boot_id, first).text)
    path.write_bytes(packed + gzip.compress(line_of(end), 1))
    return Forged(path, end, packed)


def life(directory: Path, sizes: Sequence[int], *, at: float = DAY, boot_id: str = BOOT) -> list[Forged]:
    """Write the segments of one process's life, each following on the one before it."""
    made: list[Forged] = []
    first, previous = 1, ""
    for number, size in enumerate(sizes, 1):
        lines = event_lines(size, first, at + first, boot_id)
        one = segment(directory, lines, first=first, number=number, previous=previous, boot_id=boot_id)
        made.append(one)
        first, previous = first + size, one.end.sha256
    return made


def fields_of(event: AuditEvent) -> dict[str, object]:
    """Return an event as a row of the table has it: what is left out is null."""
    given = msgspec.to_builtins(event)
    assert isinstance(given, dict)
    return {name: given.get(name) for name in event.__struct_fields__}
