"""Run every job over the generated month, once for all tests that hold what they found against the truth."""

from __future__ import annotations

from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from signproxy.pipeline.job import JobContext, JobOutcome, Progress, job, run_of
from signproxy.pipeline.s3log.intake import FORMATS
from signproxy.pipeline.warehouse import Warehouse
from tests.pipeline.demo_month import Month


class Chain(NamedTuple):
    """A month, and the warehouse that all jobs wrote."""

    month: Month
    warehouse: Warehouse
    outcomes: dict[str, JobOutcome]

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return the rows of a table."""
        return [row.asDict(recursive=True) for row in self.warehouse.read(table).collect()]


def run_chain(spark: SparkSession, month: Month, warehouse: str) -> Chain:
    """Run the jobs in the order that an operator would."""
    outcomes: dict[str, JobOutcome] = {}
    target = Warehouse(spark, warehouse)

    def run(name: str, *inputs: str, label: str = "", **options: Any) -> None:
        found = job(name)
        assert found is not None
        given = {option.name: option.default for option in found.options} | options
        context = JobContext(spark, target, Progress(), inputs, options=given)
        outcomes[label or name] = run_of(found)(context)

    place, summary = month.directory, month.summary
    exports = str(place / "policy")
    run("ingest", str(place / "audit"), max_bad_ratio=1.0)
    for form in FORMATS:
        run("ingest-s3log", str(place / "logs" / form), label=form, format=form, max_bad_ratio=1.0)
    proxy = ",".join(sorted(set(summary.proxy.values())))
    services = ",".join(summary.known_services)
    run("reconcile", proxy=proxy, known_services=services, vending_role=summary.vending_role)
    run("revocation", exports)
    run("access")
    run("privileges", exports, observed=30)
    run("anomalies")
    run("cost", prices=str(place / "prices.yaml"))
    return Chain(month, target, outcomes)
