"""List the jobs that `signproxy pipeline` offers; none of them is imported before it is run."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from signproxy.pipeline.job import Job, Option, Run

_OTHER_SAMPLES = (
    "the sample that ships is always the same; in signproxy's repository, `python -m tools.sample_data` makes others"
)

JOBS = (
    Job(
        "ingest",
        "Read sealed audit segments into the table `events`.",
        "ingest",
        (
            Option("--max-bad-ratio", "Share of lines that may be quarantined before the run fails.", float, 0.001),
            Option("--files-per-batch", "Segments that are read and committed together.", int, 256),
        ),
    ),
    Job(
        "ingest-s3log",
        "Read the stores' own logs into the table `s3_access`.",
        "ingest_s3log",
        (
            Option("--format", "aws, cloudtrail, versitygw-webhook, versitygw-file or minio.", str, "aws"),
            Option("--max-bad-ratio", "Share of lines that may be quarantined before the run fails.", float, 0.001),
            Option("--files-per-batch", "Files that are read and committed together.", int, 1024),
        ),
    ),
    Job(
        "reconcile",
        "Hold the stores' logs against the audit trail: who made each request, and what no decision accounts for.",
        "reconcile",
        (
            Option("--proxy", "Requesters and access keys that are signproxy's alone, by commas; `*` is any text."),
            Option("--known-services", "Requesters that need no decision, by commas; `*` is any text."),
            Option("--vending-role", "Role of the sessions that keys are vended for."),
        ),
    ),
    Job(
        "revocation",
        "Measure how long rights went on to work after they were withdrawn.",
        "revocation",
        (Option("--reload-seconds", "Seconds in which a changed policy is in force everywhere.", int, 60),),
    ),
    Job("access", "Say who touched which table, by day, and by the engine's own word for its query.", "access"),
    Job(
        "privileges",
        "Hold what a policy export grants against what was used.",
        "privileges",
        (
            Option("--age", "Days without use, and as long must a grant have stood, to count as unused.", int, 90),
            Option("--observed", "Days that the trail must reach over before anything is recommended: as --age.", int),
            Option("--granted", "Day since which the grants of the oldest export have stood, if you know it."),
            Option("--patch", "File for the recommendations as a patch; see `signproxy policy patch`."),
        ),
    ),
    Job("anomalies", "Find bursts of refusals, enumeration and first uses, against habits.", "anomalies"),
    Job(
        "cost",
        "Price the requests and bytes of each table.",
        "cost",
        (
            Option("--prices", "Price list (YAML or JSON)."),
            Option("--small-mib", "Data files below this size count as small.", int, 8),
        ),
    ),
    Job(
        "compact",
        "Put the small files of past days together, sorted by table and principal.",
        "compact",
        (
            Option("--target-mib", "Size of a file that is aimed at.", int, 256),
            Option("--files", "Days of no more files than these stay as they are.", int, 4),
        ),
    ),
    Job(
        "publish",
        "Make the warehouse's tables tables of an Iceberg catalog, through PyIceberg.",
        "publish",
        (
            Option("--catalog", "A catalog of PyIceberg's own configuration.", str, "default"),
            Option("--namespace", "Where the tables are, in the catalog.", str, "signproxy"),
            Option("--tables", "Which, by commas; without it, all that have anything."),
        ),
    ),
    Job(
        "demo",
        "Write a month of a lake that never was, with planted faults and the truth beside it.",
        "demo",
        removed=dict.fromkeys(
            ("--events", "--seed", "--tables", "--principals", "--instances", "--processes"), _OTHER_SAMPLES
        ),
        needs_spark=False,
    ),
    Job(
        "schema",
        "Print every table of the warehouse, as Spark and as JSON Schema have it.",
        "schema",
        (),
        needs_spark=False,
    ),
    Job(
        "report",
        "Make one HTML page of what the other jobs found, with JSON and CSV beside it.",
        "report",
        (
            Option("--output", "Directory of this machine for the files.", str, "report"),
            Option("--title", "What the page is called.", str, "Access report"),
        ),
    ),
)


def job(name: str) -> Job | None:
    """Return a job by its name."""
    return next((one for one in JOBS if one.name == name), None)


def run_of(one: Job) -> Run:
    """Import a job and return what runs it."""
    return cast("Run", import_module(f"signproxy.pipeline.jobs.{one.module}").run)
