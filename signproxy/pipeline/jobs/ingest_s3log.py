"""Read the stores' own logs into the table `s3_access`: each file once, each line somewhere.

The list of files that were read, and the numbers of their batches, work as in `ingest`. A file is read once, when it is
first seen: what is still being written to belongs outside the input until it is complete, and one that grew after it
was read is told of.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.audit.ids import new_event_id
from signproxy.errors import Finding, Invalid
from signproxy.pipeline.job import Exit, JobContext, Outcome
from signproxy.pipeline.s3log.formats import FORMATS
from signproxy.pipeline.s3log.intake import LEDGER, SHORT, LogIntake
from signproxy.pipeline.schemas import DAY
from signproxy.pipeline.stream import FOREVER, label_of, take_what_is_there

JOB = "ingest-s3log"
MAX_BAD_RATIO = 0.001
FILES_PER_BATCH = 1024
"""S3 writes many small files; each batch costs a commit."""

_BINARY_FILE = "path string, modificationTime timestamp, length long, content binary"
_CHECKPOINTS = "_checkpoints/ingest-s3log"


def run(context: JobContext) -> Outcome:
    """Read whatever is there and was not read yet."""
    form = context.options.get("format") or "aws"
    if form not in FORMATS:
        raise Invalid([Finding("", "--format", f"{form!r} is none of {', '.join(FORMATS)}")])
    if not context.inputs:
        raise Invalid([Finding("", "--input", "names the directory that the logs are below")])
    run_id = new_event_id()
    for path in context.inputs:
        _read(context, form, path, run_id)
    context.progress.end()
    grown = [row["path"] for path in context.inputs for row in _grown(context, path).collect()]
    taken = context.warehouse.read(LEDGER).where(F.col("run_id") == run_id).collect()
    good = sum(row["good"] for row in taken)
    bad = sum(row["quarantined"] for row in taken)
    if taken:
        noted = quality(context.warehouse.read("s3_access"), context.warehouse.read(LEDGER))
        context.warehouse.replace("data_quality", noted, {"job": JOB})
    exit_code = Exit.OK
    if bad > float(context.options.get("max_bad_ratio") or MAX_BAD_RATIO) * (good + bad):
        exit_code = Exit.BAD_DATA
    if any(row["verdict"] == SHORT for row in taken):
        exit_code = Exit.FAILED
    notes = [f"{path} has changed since it was read: what was added is not in `s3_access`" for path in grown]
    notes += [f"{bad} lines are in `quarantine`"] if bad else []
    return Outcome(good + bad, good, bad, exit_code, tuple(notes), {}, {"files": len(taken)})


def quality(access: DataFrame, ledger: DataFrame) -> DataFrame:
    """Count what is wrong with rows that were kept, by log, problem and day, and what was not kept."""
    kept = (
        access.where(F.col("quality").isNotNull())
        .select("source", F.explode("quality").alias("problem"), DAY, "request_id")
        .groupBy("source", "problem", DAY)
        .agg(F.count(F.lit(1)).alias("n"), F.min("request_id").alias("example"))
    )
    lost = (
        ledger.where(F.col("quarantined") > 0)
        .groupBy(F.col("source"), F.lit("quarantined").alias("problem"), F.lit(None).cast("date").alias(DAY))
        .agg(F.sum("quarantined").alias("n"), F.min("path").alias("example"))
    )
    return kept.unionByName(lost).withColumn("job", F.lit(JOB))


def _read(context: JobContext, form: str, path: str, run_id: str) -> None:
    stream = (
        context.spark.readStream.format("binaryFile")
        .schema(_BINARY_FILE)
        .option("recursiveFileLookup", "true")
        .option("maxFileAge", FOREVER)
        .option("maxFilesPerTrigger", int(context.options.get("files_per_batch") or FILES_PER_BATCH))
        .load(path)
        .select("path", "length")
    )
    checkpoint = f"{context.warehouse.path}/{_CHECKPOINTS}/{form}-{label_of(path)}"
    intake = LogIntake(form, context.warehouse.path, checkpoint, run_id, (context.spark, context.progress))
    context.progress.begin(f"{JOB} {path}", 0, "files")
    take_what_is_there(stream, intake, checkpoint)


def _grown(context: JobContext, path: str) -> DataFrame:
    """Return the files that are longer or shorter now than they were when they were read."""
    files = context.spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(path)
    ledger = context.warehouse.read(LEDGER).select("path", F.col("bytes").alias("then"))
    return files.select("path", "length").join(ledger, "path").where(F.col("length") != F.col("then")).select("path")
