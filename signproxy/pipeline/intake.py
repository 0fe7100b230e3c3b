"""Take one batch of segments after the other into the warehouse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it
from pyspark.sql.types import StringType, StructField, StructType

from signproxy.audit.event import SCHEMA
from signproxy.audit.segment import SegmentEnd, parse_name
from signproxy.pipeline.job import Progress
from signproxy.pipeline.schemas import BATCH, CORRUPT, DAY, EVENT_LINE, table
from signproxy.pipeline.sealed import Segment, SegmentPosition, SegmentVerdict, digests, judge, read_ends
from signproxy.pipeline.stream import MAX_LINE, SPARK_FAILED, Batch, Intake, number_of, unreadable
from signproxy.pipeline.warehouse import Warehouse

_EDGES = ("segment_start", "segment_end")
_LINES = StructType([*EVENT_LINE.fields, StructField(CORRUPT, StringType())])
_AS_JSON = {"columnNameOfCorruptRecord": CORRUPT, "mode": "PERMISSIVE", "allowSingleQuotes": "false"}
NEEDED = ("event_id", "boot_id", "seq", "kind", "decision", "reason", "policy_rev", "http_status")
"""What a line must have to be an event."""


class SegmentIntake(Intake):
    """Takes batches of segments, and remembers the lives of the processes that wrote them."""

    ledger = "segments"

    def __init__(self, warehouse: str, checkpoint: str, run_id: str, local: tuple[SparkSession, Progress]) -> None:
        super().__init__(warehouse, checkpoint, run_id, local)
        self._lives: dict[str, list[SegmentPosition]] = {}

    def read(self, batch: Batch, files: Mapping[str, int]) -> None:
        """Read, write and enter them."""
        _Batch(batch).take(sorted(files), self._lives)


def take_again(spark: SparkSession, warehouse: Warehouse, paths: Sequence[str], run_id: str) -> int:
    """Take the segments that were refused before and are sound now; return how many they are.

    Spark's list of what was read knows a file by its path alone, so it never hands over one that was put right. Each is
    a batch of its own, named after what it holds: repeated, it takes the place of what it wrote before.
    """
    ends = read_ends(spark, paths)
    of = digests(spark, ends)
    sound = [one for one in judge(ends, of, {}) if one.verdict == SegmentVerdict.WHOLE]
    taken = 0
    for one in sound:
        batch = Batch(spark, warehouse, number_of(f"again:{one.path}:{of[one.path]}"), run_id)
        # A digest may be that of bytes which cannot be unpacked: what the ledger says of them is said once.
        if not unreadable(spark, [one.path]):
            if warehouse.batch("segments", batch.number).isEmpty():
                _Batch(batch).take([one.path], {})
            taken += 1
    return taken


class _Counts(NamedTuple):
    """What the tables hold of a segment."""

    good: int = 0
    quarantined: int = 0
    first: int | None = None
    last: int | None = None
    total: int | None = None
    lives: frozenset[str] = frozenset()


_NOTHING = _Counts()


class _Batch:
    """One batch: which segments are taken, their lines, and its part of the ledger."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._spark, self._warehouse, self._number = batch.spark, batch.warehouse, batch.number
        self._held: dict[str, _Counts] = {}
        """What `events` holds of each segment that was written."""

    def take(self, paths: Sequence[str], lives: dict[str, list[SegmentPosition]]) -> None:
        """Read and write it, its part of the ledger last."""
        ends = read_ends(self._spark, paths)
        self._learn(lives, {one.trailer.end.boot_id for one in ends if one.trailer is not None})
        segments = judge(ends, digests(self._spark, ends), lives)
        segments = self._written(segments)
        counts = self._counts()
        rows = [self._row(segment, counts.get(segment.name, _NOTHING)) for segment in segments]
        for row in rows:
            if row["verdict"] in SegmentVerdict.TAKEN:
                lives.setdefault(row["boot_id"], []).append(_position(row))
        names = table("segments").columns.names
        self._batch.enter("segments", (tuple(row[name] for name in names) for row in rows))

    def _learn(self, lives: dict[str, list[SegmentPosition]], wanted: Iterable[str]) -> None:
        """Read of the ledger which segments of these lives were taken before."""
        new = sorted(set(wanted) - lives.keys())
        if not new:
            return
        for boot_id in new:
            lives[boot_id] = []
        taken = self._warehouse.read("segments").where(
            F.col("boot_id").isin(new) & F.col("verdict").isin(*SegmentVerdict.TAKEN) & (F.col(BATCH) != self._number)
        )
        for row in taken.select("boot_id", "number", "first_seq", "last_seq", "sha256").collect():
            lives[row["boot_id"]].append(_position(row.asDict()))

    def _written(self, segments: Sequence[Segment]) -> list[Segment]:
        """Write the lines of the segments that can be read; return all, those that cannot with that verdict."""
        whole = [one for one in segments if one.verdict == SegmentVerdict.WHOLE]
        try:
            bad = self._write(whole) if whole else None
        except SPARK_FAILED:
            torn = unreadable(self._spark, [one.path for one in whole])
            if not torn:
                raise
            return self._written(
                [one._replace(verdict=SegmentVerdict.UNREADABLE) if one.path in torn else one for one in segments]
            )
        refused = [
            (one.name, f"the segment is {one.verdict}", one.path, self._number)
            for one in segments
            if one.verdict in SegmentVerdict.FAULTS
        ]
        if refused:
            rows = self._spark.createDataFrame(refused, f"segment string, reason string, path string, {BATCH} long")
            bad = rows if bad is None else bad.unionByName(rows, allowMissingColumns=True)
        if bad is not None:
            self._warehouse.replace("quarantine", bad)
        return list(segments)

    def _write(self, segments: Sequence[Segment]) -> DataFrame | None:
        """Write the events; return the lines that are none, if there are any."""
        paths = [segment.path for segment in segments]
        seen = Observation()
        # Observed as it is read: further up, it would part in two what Spark compiles into one loop.
        lines = (
            self._spark.read.schema(_LINES)
            .options(**_AS_JSON)
            .json(paths)
            .observe(seen, F.count(F.lit(1)).alias("rows"))
        )
        judged = _judged(lines.withColumn("segment", F.col("_metadata.file_name")))
        good = judged.where(F.col("_reason").isNull()).select(
            *(name for name in EVENT_LINE.names if name not in ("schema", "ts", "kind")),
            _kind().alias("kind"),
            F.col("_at").alias("ts"),
            "segment",
            F.to_date("_at").alias(DAY),
            F.lit(self._number).alias(BATCH),
        )
        self._warehouse.replace("events", good)
        self._held = self._events()
        suspects = self._suspects(segments, seen.get["rows"])
        return self._bad_lines(suspects) if suspects else None

    def _suspects(self, segments: Sequence[Segment], rows: int) -> list[str]:
        """Return the files that hold lines which are no events, or not all that they say: those are read again.

        A file of which as many events were taken as it says has at least as many rows, beside its two edges. So if
        all such files together have no more rows than that, none of them has a line that was not taken.
        """
        paths: list[str] = []
        said = 0
        for segment in segments:
            if segment.end is not None and self._held.get(segment.name, _NOTHING).good == segment.end.count:
                said += segment.end.count + len(_EDGES)
            else:
                paths.append(segment.path)
        if paths:
            # Something of the line has to be asked for: lines alone are counted without a look at them.
            again = self._spark.read.schema(_LINES).options(**_AS_JSON).json(paths).select("schema", CORRUPT)
            counted = again.agg(F.count(F.lit(1)).alias("rows"), F.count("schema"), F.count(CORRUPT)).collect()
            rows -= counted[0]["rows"]
        return paths if rows == said else [segment.path for segment in segments]

    def _bad_lines(self, paths: Sequence[str]) -> DataFrame:
        """Return the lines that were not taken, those too that Spark's reader of JSON passes over without a word."""
        text = self._spark.read.text(list(paths)).select("value", F.col("_metadata.file_name").alias("segment"))
        parsed = text.withColumn("_line", F.from_json("value", _LINES, _AS_JSON))
        judged = _judged(parsed.select("value", "segment", "_line.*"))
        return judged.where(F.col("_reason").isNotNull()).select(
            "segment",
            F.col("_reason").alias("reason"),
            # As it is, but for bytes that no other reader would take for a text.
            F.substring(F.make_valid_utf8("value"), 1, MAX_LINE).alias("line"),
            F.lit(self._number).alias(BATCH),
        )

    def _events(self) -> dict[str, _Counts]:
        """Count what `events` holds of each segment now: what was meant to be written proves nothing."""
        events = self._warehouse.batch("events", self._number).groupBy("segment")
        seq = F.col("seq")
        sums = events.agg(
            F.count(F.lit(1)).alias("n"), F.min(seq).alias("first"), F.max(seq).alias("last"),
            F.try_sum(seq).alias("total"), F.min("boot_id").alias("life"), F.max("boot_id").alias("other"),
        )  # fmt: skip
        return {
            row["segment"]: _Counts(
                row["n"], 0, row["first"], row["last"], row["total"], frozenset((row["life"], row["other"]))
            )
            for row in sums.collect()
        }

    def _counts(self) -> dict[str, _Counts]:
        """Return what the tables hold of each segment."""
        counts = dict(self._held)
        bad = self._warehouse.batch("quarantine", self._number).where(F.col("line").isNotNull())
        for row in bad.groupBy("segment").count().collect():
            before = counts.get(row["segment"], _NOTHING)
            counts[row["segment"]] = before._replace(quarantined=row["count"])
        return counts

    def _row(self, segment: Segment, counts: _Counts) -> dict[str, Any]:
        """Return the row of the ledger; what lines and a name would say is empty where they are not there."""
        end, start, name = segment.end, segment.start, parse_name(segment.name)
        verdict = segment.verdict
        if verdict == SegmentVerdict.WHOLE and end is not None:
            verdict = _compared(end, counts)
        if verdict not in SegmentVerdict.TAKEN:
            counts = _NOTHING
        row: dict[str, Any] = dict.fromkeys(("instance", "boot_id", "sha256", "previous_sha256", "sealed_by"), "")
        row |= dict.fromkeys(("number", "first_seq", "last_seq", "said"), 0)
        if name is not None:
            row |= {"instance": name.instance, "boot_id": name.boot_id}
        if end is not None:
            row |= {field: getattr(end, field) for field in ("boot_id", "number", "first_seq", "last_seq", "sha256")}
            row |= {"said": end.count, "sealed_by": end.sealed_by.value}
        if start is not None:
            row["previous_sha256"] = start.previous_sha256
        return row | {
            "segment": segment.name,
            "good": counts.good,
            "quarantined": counts.quarantined,
            "verdict": verdict,
            "bytes": segment.bytes,
            "sealed_at": _time(end.ts) if end is not None else None,
            "version": start.version if start is not None else "",
            "path": segment.path,
            "run_id": self._batch.run_id,
            "ingest_batch": self._number,
        }


def _compared(end: SegmentEnd, counts: _Counts) -> str:
    """Return the verdict on a segment of which the lines were read."""
    if counts.good + counts.quarantined != end.count:
        return SegmentVerdict.MISCOUNTED
    if not counts.good:
        return SegmentVerdict.WHOLE
    first, last = counts.first or 0, counts.last or 0
    if counts.lives != {end.boot_id} or first < end.first_seq or last > end.last_seq:
        return SegmentVerdict.CONTRADICTS
    width = end.last_seq - end.first_seq + 1
    if counts.good == width and counts.total != width * (end.first_seq + end.last_seq) // 2:
        return SegmentVerdict.CONTRADICTS
    return SegmentVerdict.WHOLE if counts.good <= width else SegmentVerdict.CONTRADICTS


def _judged(lines: DataFrame) -> DataFrame:
    """Return the lines that should be events, with when that was and why one cannot be taken; null if it can."""
    # The first and the last line of a segment are none of the events.
    events = lines.where(~F.coalesce(F.col("kind").isin(*_EDGES), F.lit(False)))
    return events.withColumn("_at", F.col("ts").try_cast("timestamp")).withColumn("_reason", _reason())


def _kind() -> Column:
    """Return the kind of an event by its name of today: `vend` without a method was a key for the S3 listener."""
    return F.when((F.col("kind") == "vend") & F.col("method").isNull(), F.lit("issue")).otherwise(F.col("kind"))


def _reason() -> Column:
    """Return why a line cannot be taken; null where it can."""
    lacking = [F.when(F.col(name).isNull(), F.lit(f"it has no {name}")) for name in NEEDED]
    return F.coalesce(
        F.when(F.col(CORRUPT).isNotNull(), F.lit("no JSON object, or a field of another type")),
        F.when(F.col("schema").isNull(), F.lit("it has no schema")),
        F.when(F.col("schema") != SCHEMA, F.concat(F.lit("schema "), F.col("schema"), F.lit(" is not known"))),
        *lacking,
        F.when(F.col("_at").isNull(), F.lit("it has no time")),
    )


def _position(row: Mapping[str, Any]) -> SegmentPosition:
    return SegmentPosition(row["number"], row["first_seq"], row["last_seq"], row["sha256"])


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
