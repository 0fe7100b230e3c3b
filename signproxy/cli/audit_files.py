"""Find the segments below a directory, and read the events in them as far as they go."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import msgspec

from signproxy.audit.event import AuditEvent
from signproxy.audit.segment import DAMAGED
from signproxy.audit.unpack import UNREADABLE, TornError, lines_of
from signproxy.audit.verify import segments
from signproxy.errors import Finding, Invalid

_event_of = msgspec.json.Decoder(AuditEvent).decode


def directory_argument(parser: argparse.ArgumentParser) -> None:
    """Declare where the segments are."""
    parser.add_argument(
        "directory", metavar="DIRECTORY", type=Path, help="the `audit.directory` of the settings, or a copy of it"
    )


def segments_below(directory: Path) -> tuple[Path, ...]:
    """Return the segments; raise Invalid where there are none, which is no trail that is whole."""
    found = segments(directory)
    if not found:
        problem = "has no segments; they are below audit/v1 in it" if directory.is_dir() else "is no directory"
        raise Invalid([Finding(str(directory), "", problem)])
    return found


def newest_first(found: tuple[Path, ...]) -> list[Path]:
    """Return segments in the order of their last write, without those that went meanwhile, or hold damaged data."""
    times: list[tuple[float, Path]] = []
    for path in found:
        try:
            times.append((path.stat(follow_symlinks=False).st_mtime, path))
        except FileNotFoundError:
            continue
    return [path for _, path in sorted(times, reverse=True) if not path.name.endswith(DAMAGED)]


def lines_in(path: Path) -> Iterator[bytes]:
    """Yield the lines of a segment, open or broken ones as far as they go; raise Invalid for one that is unreadable."""
    try:
        yield from lines_of(path)
    except (TornError, FileNotFoundError):
        # One that is being written ends anywhere; one that was shipped is somewhere else.
        return
    except OSError as error:
        raise Invalid([Finding(str(path), "", f"cannot be read: {error.strerror}")]) from None


def event_of(line: bytes) -> AuditEvent | None:
    """Return the event of a line; None for the first and last of a segment, and for what is none."""
    try:
        return _event_of(line)
    except UNREADABLE:
        return None
