"""Read sealed segments into the table `events`: each segment once, each line somewhere, whatever crashes in between.

Exactly once, by four facts:

1. Spark's streaming writes down which files a batch has before it hands the batch over, and hands over the same ones
   under the same number until the batch is done. The batch's name in the warehouse is made of that number and of the
   id of the list itself, so no other batch ever has it, not of another input and not of a list that was begun anew.
2. What a batch writes lies in partitions of its own name. Repeated, it takes the place of what it wrote before: its
   segments are immutable, and judged by the ledger without the batch itself, so it writes the same.
3. The batch's rows of the ledger are written last, as one partition that appears with a rename. Once they are there the
   batch is not repeated, also if Spark asks for it because it died before it noted so.
4. A segment whose bytes the ledger has is not taken again, by whatever name or list it comes.

What goes in comes out: the events of a segment, those of its lines that were quarantined, and what its last line says
are compared for each of them, counted in the tables after they were written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.audit.ids import new_event_id
from signproxy.audit.segment import SUFFIX
from signproxy.errors import Finding, Invalid
from signproxy.pipeline.findings import count_by
from signproxy.pipeline.gaps import audit_findings
from signproxy.pipeline.intake import SegmentIntake, take_again
from signproxy.pipeline.job import Exit, JobContext, JobOutcome, options_of
from signproxy.pipeline.sealed import SegmentVerdict
from signproxy.pipeline.stream import files_below, label_of, take_what_is_there

JOB = "ingest"

_FILES = {"pathGlobFilter": f"*{SUFFIX}"}
_JUDGED = "_checkpoints/ingest-judged"

CURABLE = (
    SegmentVerdict.TRUNCATED,
    SegmentVerdict.ALTERED,
    SegmentVerdict.UNREADABLE,
    SegmentVerdict.UNKNOWN_FORMAT,
    SegmentVerdict.MISNAMED,
)
"""Verdicts on a file that may be another one the next time."""


def run(context: JobContext) -> JobOutcome:
    """Read whatever is there and was not read yet."""
    if not context.inputs:
        raise Invalid([Finding("", "--input", "names the directory that the segments are below")])
    run_id = new_event_id()
    for path in context.inputs:
        _read(context, path, run_id)
        _read_again(context, path, run_id)
    context.progress.end()
    ledger = context.warehouse.read("segments")
    taken = ledger.where(F.col("run_id") == run_id).collect()
    entries = ledger.count()
    lives = {row["boot_id"] for row in taken}
    if not _is_judged(context, entries):
        # A run that died after it had read everything has not told what it found: then all there is is told.
        lives = lives or {row["boot_id"] for row in ledger.select("boot_id").distinct().collect()}
        findings = audit_findings(context.warehouse.read("segments"), context.warehouse.read("events"))
        context.warehouse.replace("findings", findings, {"job": JOB})
        said = context.spark.createDataFrame([(str(entries),)], "value string")
        said.coalesce(1).write.mode("overwrite").text(f"{context.warehouse.path}/{_JUDGED}")
    return _outcome(context, taken, lives)


def _is_judged(context: JobContext, entries: int) -> bool:
    """Whether the findings are of the whole ledger, which only ever grows."""
    try:
        said = context.spark.read.text(f"{context.warehouse.path}/{_JUDGED}").collect()
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return not entries
    return bool(said) and said[0]["value"] == str(entries)


def _read(context: JobContext, path: str, run_id: str) -> None:
    local = (context.spark, context.progress)
    intake = SegmentIntake(context.warehouse.path, f"ingest/{label_of(path)}", run_id, local)
    context.progress.begin(f"ingest {path}", _waiting(context, path), "segments")
    take_what_is_there(context, path, intake, _FILES, options_of(context, JOB)["files_per_batch"])


def _read_again(context: JobContext, path: str, run_id: str) -> None:
    """Look once more at what was refused and is still there: it may have been put right."""
    ledger = context.warehouse.read("segments")
    sound = ledger.where(F.col("verdict").isin(*SegmentVerdict.TAKEN)).select("segment").distinct()
    refused = (
        ledger.where(F.col("verdict").isin(*CURABLE)).join(sound, "segment", "left_anti").select("path").distinct()
    )
    if refused.isEmpty():
        return
    there = files_below(context.spark, path, _FILES)
    paths = [row["path"] for row in there.join(refused, "path", "left_semi").collect()]
    if paths:
        take_again(context.spark, context.warehouse, sorted(paths), run_id)


def _waiting(context: JobContext, path: str) -> int:
    """Return how many segments there are that the ledger does not have."""
    names = files_below(context.spark, path, _FILES).select(F.element_at(F.split("path", "/"), -1).alias("segment"))
    return names.join(context.warehouse.read("segments").select("segment"), "segment", "left_anti").count()


def _outcome(context: JobContext, taken: Sequence[Row], lives: set[str]) -> JobOutcome:
    good = sum(row["good"] for row in taken)
    bad = sum(row["quarantined"] for row in taken)
    # The findings about other lives were told when these were read.
    about = F.col("evidence")["boot_id"].isin(sorted(lives))
    severities = count_by(context.warehouse.read("findings").where((F.col("job") == JOB) & about), "severity")
    exit_code = Exit.OK
    if bad > options_of(context, JOB)["max_bad_ratio"] * (good + bad):
        exit_code = Exit.BAD_DATA
    if severities:
        exit_code = Exit.AUDIT_GAP
    verdicts = Counter(row["verdict"] for row in taken if row["verdict"] != SegmentVerdict.WHOLE)
    notes = [f"{count} segments {verdict}" for verdict, count in sorted(verdicts.items())]
    notes += [f"{count} findings {word}, in the table `findings`" for word, count in severities.items()]
    return JobOutcome(good + bad, good, bad, exit_code, tuple(notes), severities, {"segments": len(taken)})
