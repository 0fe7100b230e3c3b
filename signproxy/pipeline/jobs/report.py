"""Make one page of what the other jobs found, with its figures as JSON and CSV beside it."""

from __future__ import annotations

from datetime import UTC, datetime

from signproxy.pipeline.job import JobContext, JobOutcome, options_of
from signproxy.pipeline.report.data import ReportData
from signproxy.pipeline.report.files import PAGE, write_report
from signproxy.pipeline.report.queries import read_report
from signproxy.pipeline.report.verdict import verdict
from signproxy.pipeline.warehouse import local_directory


def run(context: JobContext) -> JobOutcome:
    """Read the tables and write the files where the driver runs."""
    options = options_of(context, "report")
    directory = local_directory(options["output"], "--output", "the page is written to a directory of this machine")
    data = read_report(context.warehouse, context.days, made_at=datetime.now(UTC), title=options["title"])
    written = write_report(data, directory)
    return JobOutcome(
        rows_in=sum(source.rows for source in data.sources),
        rows_out=len(written),
        notes=(f"{verdict(data).sentence}", f"{directory / PAGE}, with JSON and CSV beside it"),
        severities=data.severities,
        numbers=_numbers(data),
    )


def _numbers(data: ReportData) -> dict[str, float]:
    numbers: dict[str, float] = {"audit_gaps": data.trail.gaps, "events_missing": data.trail.missing}
    if data.requests:
        numbers["requests"] = data.requests
        numbers["unattributed"] = data.requests_of(("unattributed",))
    return numbers
