"""Say what a segment of the trail is: its name, its first and its last line.

    <directory>/audit/v1/dt=2026-11-19/<instance>-<boot id>-<first seq>.ndjson.gz

A segment is gzipped JSON lines of one process's life. While it is written its name begins with a dot, which every
reader of directories passes over; sealed, it never changes again. The first line says what came before it, the last
what it holds: leaving out, adding or altering a line, or a segment between two others, contradicts one of them.
"""

from __future__ import annotations

import re
from enum import Enum
from pathlib import PurePosixPath
from typing import Literal

import msgspec

from signproxy.audit.event import SCHEMA
from signproxy.audit.ids import ID_LENGTH

FORMAT = 1
"""Of the lines around the events; the events have a version of their own."""

ROOT = PurePosixPath("audit/v1")
SUFFIX = ".ndjson.gz"
OPEN = "."
"""What the name begins with until the segment is sealed."""
DAMAGED = ".damaged"
"""What is added to the name of one that was left by a process and holds more than could be read."""

_NAME = re.compile(rf"([A-Za-z0-9][A-Za-z0-9.\-]{{0,62}})-([0-9A-HJKMNP-TV-Z]{{{ID_LENGTH}}})-([0-9]{{12}})")
_INSTANCE = re.compile(r"[^A-Za-z0-9.\-]")
_MAX_INSTANCE = 63


class SealedBy(Enum):
    """Why a segment ends where it does."""

    SIZE = "size"
    TIME = "time"
    ROTATION = "rotation"
    """A new file was asked for."""
    CLOSE = "close"
    """The process ended: no segment of its life follows."""
    RECOVERY = "recovery"
    """The process ended without sealing it; another one did, and kept every whole line."""


class SegmentStart(msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag=SCHEMA):
    """The first line of a segment."""

    kind: Literal["segment_start"] = "segment_start"
    format: int = FORMAT
    instance: str
    boot_id: str
    number: int
    """Counts the segments of one life of a process, from 1."""
    first_seq: int
    ts: str
    version: str
    """Of the server."""
    config_digest: str = ""
    previous_sha256: str = ""
    """The `sha256` of the segment before it in the same life; empty in the first."""


class SegmentEnd(msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag=SCHEMA):
    """The last line of a segment."""

    kind: Literal["segment_end"] = "segment_end"
    boot_id: str
    number: int
    count: int
    """Events; neither the first nor the last line."""
    first_seq: int
    last_seq: int
    ts: str
    """When it was sealed; by a recovery, when its last event was."""
    sha256: str
    """Over every byte of the file before the gzip member that this line is: nothing has to be unpacked to check it."""
    sealed_by: SealedBy


class SegmentName(msgspec.Struct, frozen=True):
    """What the name of a segment says."""

    instance: str
    boot_id: str
    first_seq: int

    @property
    def text(self) -> str:
        """The name of the sealed file."""
        return f"{self.instance}-{self.boot_id}-{self.first_seq:012d}{SUFFIX}"


def parse_name(name: str) -> SegmentName | None:
    """Return what a file's name says, sealed or not; None where it is no segment's."""
    match = _NAME.fullmatch(name.removeprefix(OPEN).removesuffix(SUFFIX)) if name.endswith(SUFFIX) else None
    return None if match is None else SegmentName(match[1], match[2], int(match[3]))


def instance_name(text: str) -> str:
    """Return a host's or pod's name as a part of file names."""
    plain = _INSTANCE.sub("-", text).strip("-.")[:_MAX_INSTANCE].rstrip("-.")
    return plain or "signproxy"


_encode = msgspec.json.Encoder().encode


def line_of(edge: SegmentStart | SegmentEnd) -> bytes:
    """Return the line as it stands in the file."""
    return _encode(edge) + b"\n"
