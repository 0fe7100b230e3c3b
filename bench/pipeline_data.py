"""Lay out the month that the pipeline is measured on: generated once, kept in the cache, and made longer by copies."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from bench.process import BenchFailed, output_of
from signproxy.audit.segment import SUFFIX, SegmentEnd, SegmentStart, line_of, parse_name
from signproxy.audit.trailer import trailer_of
from tests.e2e.stores.install import _cache

SEED = 7
_PROCESSES = 2
_GENERATION_TIMEOUT = 7_200.0
_ROOT = Path(__file__).parent.parent
_ID = b'"event_id":"'
_LIFE = b'"boot_id":"'
_ALPHABET = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_MEMBER = 8 << 20
"""Bytes of lines that are packed together, as the server packs what came between two flushes."""


class Segment(msgspec.Struct, frozen=True):
    """A sealed segment that is sound."""

    path: Path
    events: int
    boot_id: str
    number: int


def demo(events: int) -> Path:
    """Return the directory of the generated month; it is made anew when what makes it has changed."""
    home = _cache() / "bench-pipeline" / f"demo-{events}-{SEED}-{_digest()}"
    done = home / "complete"
    if not done.exists():
        shutil.rmtree(home, ignore_errors=True)
        output_of(
            [
                *(sys.executable, "-m", "tools.sample_data", str(home / "demo"), "--events", str(events)),
                *("--seed", str(SEED), "--processes", str(_PROCESSES)),
            ],
            timeout=_GENERATION_TIMEOUT,
        )
        done.touch()
    return home / "demo"


def _digest() -> str:
    """Return a digest of what the content follows from, besides size and seed."""
    files = sorted((*_ROOT.glob("tools/sample_data/*.py"), *_ROOT.glob("signproxy/audit/*.py")))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def sound_segments(directory: Path) -> list[Segment]:
    """Return the segments that are whole, life after life, each in its order: what is cut off at the end is no gap."""
    found = []
    for path in sorted(directory.glob(f"audit/v1/dt=*/*{SUFFIX}")):
        trailer, digest = trailer_of(path)
        if trailer is not None and trailer.end.sha256 == digest:
            found.append(Segment(path, trailer.end.count, trailer.end.boot_id, trailer.end.number))
    return sorted(found, key=lambda segment: (segment.boot_id, segment.number))


def laid_out(segments: Sequence[Segment], events: int, directory: Path) -> int:
    """Put so many events below a directory, and return how many there are: the month's own, then copies.

    Copies have ids and lives of their own, and all else of the segment that they are made of. So they take as long to
    read and to write as new ones would; only a reader that looked for duplicates of content would find some.
    """
    directory.mkdir(parents=True)
    written = 0
    for generation in range(len(_ALPHABET) - 1):
        chain: dict[str, str] = {}
        for number, segment in enumerate(segments):
            if written >= events:
                return written
            if generation:
                _copied(segment, generation, directory / f"dt={number:04d}", chain)
            else:
                place = directory / segment.path.parent.name
                place.mkdir(exist_ok=True)
                _shared(segment.path, place / segment.path.name)
            written += segment.events
    raise BenchFailed(f"{len(segments)} segments are too few for {events} events")


def _shared(path: Path, target: Path) -> None:
    """Make a file appear at another place: as a link, which readers take for a file, where both are on one disk."""
    try:
        target.hardlink_to(path)
    except OSError:
        shutil.copyfile(path, target)


def _copied(segment: Segment, generation: int, place: Path, chain: dict[str, str]) -> None:
    """Write a segment anew as another life's, its first and its last line right for it and for the one before."""
    lines = gzip.decompress(segment.path.read_bytes()).splitlines(keepends=True)
    start = msgspec.json.decode(lines[0], type=SegmentStart)
    end = msgspec.json.decode(lines[-1], type=SegmentEnd)
    name = parse_name(segment.path.name)
    if name is None:
        raise BenchFailed(f"{segment.path} has not the name of a segment")
    boot_id = _moved(start.boot_id, generation)
    # All ids of a month begin alike: another beginning makes them others.
    body = b"".join(lines[1:-1]).replace(_LIFE + start.boot_id.encode(), _LIFE + boot_id.encode())
    body = body.replace(_ID + start.boot_id[:2].encode(), _ID + boot_id[:2].encode())
    head = line_of(msgspec.structs.replace(start, boot_id=boot_id, previous_sha256=chain.get(boot_id, "")))
    packed = b"".join(gzip.compress(piece, 1, mtime=0) for piece in (head, *_pieces(body)))
    chain[boot_id] = hashlib.sha256(packed).hexdigest()
    tail = gzip.compress(line_of(msgspec.structs.replace(end, boot_id=boot_id, sha256=chain[boot_id])), 1, mtime=0)
    place.mkdir(exist_ok=True)
    (place / msgspec.structs.replace(name, boot_id=boot_id).text).write_bytes(packed + tail)


def _moved(identity: str, generation: int) -> str:
    """Return an id that begins otherwise: it names a time that is years away, which nothing here looks at."""
    at = _ALPHABET.index(identity[1].encode())
    return f"{identity[0]}{chr(_ALPHABET[(at + generation) % len(_ALPHABET)])}{identity[2:]}"


def _pieces(body: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(body):
        end = body.find(b"\n", min(at + _MEMBER, len(body) - 1)) + 1
        yield body[at:end]
        at = end
