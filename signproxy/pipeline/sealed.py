"""Judge sealed segments by their first and last lines and their digests, before a line between them is read."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.audit.segment import FORMAT, SegmentEnd, SegmentStart, parse_name
from signproxy.audit.trailer import TAIL, Trailer, read_trailer

HEAD = 4096
"""Bytes: the first line is some 400, and stands at the beginning of what is packed."""
MAX_BYTES = 256 * 1024 * 1024
"""Of a packed file; segments have 64 MiB unpacked. Spark holds a file whole to compute its digest."""

_GZIP = 31
_start_of = msgspec.json.Decoder(SegmentStart).decode


class SegmentVerdict:
    """What became of a segment, as the ledger says it."""

    WHOLE = "whole"
    MISCOUNTED = "miscounted"
    """Taken; it holds another number of lines than its last line says."""
    CONTRADICTS = "contradicts"
    """Taken; its events are not those that its last line names: another process's, or other numbers."""
    TRUNCATED = "truncated"
    """It has no last line: it was cut, or never sealed."""
    ALTERED = "altered"
    """Its digest is another one than its last line says."""
    DUPLICATE = "duplicate"
    """It was read before, under this name or another."""
    CONFLICT = "conflict"
    """Another one has its place in the life of the same process."""
    MISNAMED = "misnamed"
    """Its name, its first and its last line do not say the same."""
    UNKNOWN_FORMAT = "unknown_format"
    """A newer server's, which this version cannot judge."""
    UNREADABLE = "unreadable"
    """It cannot be unpacked, or is far too large."""

    TAKEN = (WHOLE, MISCOUNTED, CONTRADICTS)
    FAULTS = (MISCOUNTED, CONTRADICTS, TRUNCATED, ALTERED, CONFLICT, MISNAMED, UNKNOWN_FORMAT, UNREADABLE)


class Segment(NamedTuple):
    """A segment, and what is known of it before its lines are read: its size, its first line and its last."""

    path: str
    bytes: int
    start: SegmentStart | None
    trailer: Trailer | None
    verdict: str = ""
    """Empty until it is judged."""

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.path.rpartition("/")[2]

    @property
    def end(self) -> SegmentEnd | None:
        """Its last line."""
        return None if self.trailer is None else self.trailer.end


class SegmentPosition(NamedTuple):
    """The place of a segment in the life of a process."""

    number: int
    first_seq: int
    last_seq: int
    sha256: str

    def overlaps(self, other: SegmentPosition) -> bool:
        """Whether both claim an event of the same number."""
        return self.first_seq <= other.last_seq and other.first_seq <= self.last_seq


Lives = Mapping[str, list[SegmentPosition]]
"""The segments that were taken before, by the life of the process that wrote them."""


def read_ends(spark: SparkSession, paths: Sequence[str]) -> list[Segment]:
    """Return segments that are not judged yet, ordered by path, whatever the files hold."""
    files = spark.read.format("binaryFile").load(list(paths))
    content = F.when(F.col("length") <= MAX_BYTES, F.col("content"))
    rows = files.select(
        "path",
        "length",
        F.substring(content, 1, HEAD).alias("head"),
        F.substring(content, -TAIL, TAIL).alias("tail"),
    ).collect()
    found = []
    for row in rows:
        head, tail = bytes(row["head"] or b""), bytes(row["tail"] or b"")
        found.append(Segment(row["path"], row["length"], read_start(head), read_trailer(tail)))
    return sorted(found, key=lambda one: one.path)


def read_start(head: bytes) -> SegmentStart | None:
    """Return the first line that a file's first bytes hold; None where they hold none."""
    try:
        line, newline, _ = zlib.decompressobj(_GZIP).decompress(head, HEAD).partition(b"\n")
        return _start_of(line) if newline else None
    except (zlib.error, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def digests(spark: SparkSession, ends: Iterable[Segment]) -> dict[str, str]:
    """Return the digest of what stands before each file's last line, computed where the file is."""
    befores = [(one.path, one.bytes - one.trailer.size) for one in ends if one.trailer is not None]
    if not befores:
        return {}
    files: DataFrame = spark.read.format("binaryFile").load([path for path, _ in befores])
    lengths = spark.createDataFrame(befores, "path string, before int")
    content = F.substring(F.col("content"), F.lit(1), F.col("before"))
    found = files.join(F.broadcast(lengths), "path").select("path", F.sha2(content, 256).alias("digest"))
    return {row["path"]: row["digest"] for row in found.collect()}


def judge(ends: Iterable[Segment], digest_of: Mapping[str, str], known: Lives) -> list[Segment]:
    """Return the segments with their verdicts; of two that contradict each other, the one that came first is taken."""
    lives = {boot_id: list(places) for boot_id, places in known.items()}
    judged = []
    for one in ends:
        verdict = _verdict(one, digest_of.get(one.path, ""), lives)
        if verdict == SegmentVerdict.WHOLE and one.trailer is not None:
            lives.setdefault(one.trailer.end.boot_id, []).append(place_of(one.trailer.end))
        judged.append(one._replace(verdict=verdict))
    return judged


def place_of(end: SegmentEnd) -> SegmentPosition:
    """Return the place that a last line claims."""
    return SegmentPosition(end.number, end.first_seq, end.last_seq, end.sha256)


def _verdict(one: Segment, digest: str, lives: Lives) -> str:
    if one.bytes > MAX_BYTES:
        return SegmentVerdict.UNREADABLE
    if one.trailer is None:
        return SegmentVerdict.TRUNCATED
    end = one.trailer.end
    if digest != end.sha256:
        return SegmentVerdict.ALTERED
    start = one.start
    if start is None:
        return SegmentVerdict.UNREADABLE
    if start.format != FORMAT:
        return SegmentVerdict.UNKNOWN_FORMAT
    name = parse_name(one.path.rpartition("/")[2])
    said = (end.boot_id, end.first_seq)
    if name is None or (name.boot_id, name.first_seq) != said:
        return _duplicate(end, lives) or SegmentVerdict.MISNAMED
    if (start.boot_id, start.first_seq, start.number) != (*said, end.number):
        return SegmentVerdict.MISNAMED
    duplicate = _duplicate(end, lives)
    if duplicate is not None:
        return duplicate
    place = place_of(end)
    contested = any(other.number == place.number or other.overlaps(place) for other in lives.get(end.boot_id, ()))
    return SegmentVerdict.CONFLICT if contested else SegmentVerdict.WHOLE


def _duplicate(end: SegmentEnd, lives: Lives) -> str | None:
    """Return the verdict on the very bytes that were taken before, by whatever name they come now."""
    return SegmentVerdict.DUPLICATE if place_of(end) in lives.get(end.boot_id, ()) else None
