"""Read the stores' own logs into the table `s3_access`: each file once, each line somewhere.

The list of files that were read, and the numbers of their batches, work as in `ingest`. A file is read once, when it is
first seen: what is still being written to belongs outside the input until it is complete, and one that grew after it
was read is told of. One that cannot be unpacked is in quarantine, keeps nothing else back, and is tried each time.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.audit.ids import new_event_id
from signproxy.errors import Finding, Invalid
from signproxy.pipeline.job import Exit, JobContext, JobOutcome, options_of
from signproxy.pipeline.s3log.intake import FORMATS, LEDGER, SHORT, UNREADABLE, LogIntake, take_again
from signproxy.pipeline.schemas import DAY
from signproxy.pipeline.stream import files_below, label_of, take_what_is_there

JOB = "ingest-s3log"


def run(context: JobContext) -> JobOutcome:
    """Read whatever is there and was not read yet."""
    form = options_of(context, JOB)["format"]
    if form not in FORMATS:
        raise Invalid([Finding("", "--format", f"{form!r} is none of {', '.join(FORMATS)}")])
    if not context.inputs:
        raise Invalid([Finding("", "--input", "names the directory that the logs are below")])
    run_id = new_event_id()
    for path in context.inputs:
        _read(context, form, path, run_id)
        _read_again(context, path, run_id)
    context.progress.end()
    grown = [row["path"] for path in context.inputs for row in _grown(context, path).collect()]
    taken = context.warehouse.read(LEDGER).where(F.col("run_id") == run_id).collect()
    good = sum(row["good"] for row in taken)
    bad = sum(row["quarantined"] for row in taken)
    torn = _torn(context).count()
    if taken:
        noted = quality(context.warehouse.read("s3_access"), context.warehouse.read(LEDGER))
        context.warehouse.replace("data_quality", noted, {"job": JOB})
    exit_code = Exit.OK
    if torn or bad > options_of(context, JOB)["max_bad_ratio"] * (good + bad):
        exit_code = Exit.BAD_DATA
    if any(row["verdict"] == SHORT for row in taken):
        exit_code = Exit.FAILED
    notes = [f"{path} has changed since it was read: what was added is not in `s3_access`" for path in grown]
    notes += [f"{bad} lines are in `quarantine`"] if bad else []
    notes += [f"{torn} files cannot be unpacked: fetch them again, nothing of them was read"] if torn else []
    return JobOutcome(good + bad, good, bad, exit_code, tuple(notes), {}, {"files": len(taken)})


def quality(access: DataFrame, ledger: DataFrame) -> DataFrame:
    """Count what is wrong with rows that were kept, by log, problem and day, and what was not kept."""
    problem, each = F.explode("quality").alias("problem"), F.lit(1).alias("n")
    kept = access.where(F.col("quality").isNotNull()).select(
        "source", problem, DAY, F.col("request_id").alias("example"), each
    )
    of_file = ("source", F.lit(None).cast("date").alias(DAY), F.col("path").alias("example"))
    lost = ledger.where(F.col("quarantined") > 0).select(
        *of_file, F.lit("quarantined").alias("problem"), F.col("quarantined").alias("n")
    )
    torn = _never_read(ledger).select(*of_file, F.lit(UNREADABLE).alias("problem"), each)
    counted = kept.unionByName(lost).unionByName(torn).groupBy("source", "problem", DAY)
    return counted.agg(F.sum("n").alias("n"), F.min("example").alias("example")).withColumn("job", F.lit(JOB))


def _never_read(ledger: DataFrame) -> DataFrame:
    """Return the entries of files of which nothing could be read so far."""
    read = ledger.where(F.col("verdict") != UNREADABLE).select("path")
    return ledger.where(F.col("verdict") == UNREADABLE).join(read, "path", "left_anti")


def _torn(context: JobContext) -> DataFrame:
    return _never_read(context.warehouse.read(LEDGER))


def _read_again(context: JobContext, path: str, run_id: str) -> None:
    """Look once more at the files that could not be unpacked and are still there: they may have been put right."""
    torn = _torn(context)
    if torn.isEmpty():
        return
    rows = files_below(context.spark, path, {}).join(torn.select("path", "source"), "path").collect()
    if rows:
        files = {row["path"]: (row["source"], row["length"]) for row in rows}
        take_again(context.spark, context.warehouse, files, run_id)


def _read(context: JobContext, form: str, path: str, run_id: str) -> None:
    local = (context.spark, context.progress)
    checkpoint = f"{JOB}/{form}-{label_of(path)}"
    intake = LogIntake(form, context.warehouse.path, checkpoint, run_id, local)
    context.progress.begin(f"{JOB} {path}", 0, "files")
    take_what_is_there(context, path, intake, {}, options_of(context, JOB)["files_per_batch"])


def _grown(context: JobContext, path: str) -> DataFrame:
    """Return the files that are longer or shorter now than they were when they were read."""
    ledger = context.warehouse.read(LEDGER).where(F.col("verdict") != UNREADABLE)
    files = files_below(context.spark, path, {}).join(ledger, "path", "left_semi").withColumnRenamed("length", "bytes")
    return files.join(ledger, ["path", "bytes"], "left_anti").select("path")
