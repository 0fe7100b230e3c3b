"""Measure how long rights went on to work after they were withdrawn, by what the stores served."""

from __future__ import annotations

from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.errors import Finding, Invalid
from signproxy.pipeline.findings import count_by, findings_of
from signproxy.pipeline.job import JobContext, JobOutcome, options_of
from signproxy.pipeline.policy_snapshot import read_lines
from signproxy.pipeline.revocations import late, latency, revocations, uses_after

JOB = "revocation"


def run(context: JobContext) -> JobOutcome:
    """Measure every revoke that the exports tell of; the requests are those that `reconcile` attributed."""
    if not context.inputs:
        raise Invalid([Finding("", "--input", "names what `signproxy policy export` wrote, before and after")])
    warehouse = context.warehouse
    withdrawn = revocations(read_lines(context.spark, context.inputs), warehouse.read("events"))
    # A handful of rows, which are needed three times.
    revoked = context.spark.createDataFrame(withdrawn.collect(), withdrawn.schema)
    uses = uses_after(revoked, warehouse.read("access_attribution", context.days)).persist()
    try:
        warehouse.replace("revocation_latency", latency(revoked, uses))
        found = late(uses, options_of(context, JOB)["reload_seconds"])
        warehouse.replace("findings", findings_of(found, JOB), {"job": JOB})
    finally:
        uses.unpersist()
    worked = warehouse.read("revocation_latency").where(F.col("n") > 0)
    ways = (
        worked.groupBy("kind").agg(F.max("seconds").alias("longest"), F.sum("n").alias("n")).orderBy("kind").collect()
    )
    notes = tuple(f"{row['kind']}: {row['n']} uses, the last {row['longest']:,.0f} s after the revoke" for row in ways)
    return JobOutcome(
        revoked.count(),
        warehouse.read("revocation_latency").count(),
        notes=notes,
        severities=count_by(warehouse.read("findings").where(F.col("job") == JOB), "severity"),
        numbers={f"longest_{row['kind']}": row["longest"] for row in ways},
    )
