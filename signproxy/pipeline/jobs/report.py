"""Make one page of what the other jobs found, with its figures as JSON and CSV beside it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from signproxy.errors import Finding, Invalid
from signproxy.pipeline.job import JobContext, Outcome
from signproxy.pipeline.report.data import ReportData
from signproxy.pipeline.report.files import PAGE, write_report
from signproxy.pipeline.report.queries import TITLE, read_report
from signproxy.pipeline.report.verdict import verdict

DIRECTORY = "report"


def run(context: JobContext) -> Outcome:
    """Read the tables and write the files where the driver runs."""
    directory = _local(context.options.get("output") or DIRECTORY)
    title = context.options.get("title") or TITLE
    data = read_report(context.warehouse, context.days, made_at=datetime.now(UTC), title=title)
    written = write_report(data, directory)
    return Outcome(
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


def _local(path: str) -> Path:
    plain = path.removeprefix("file://")
    if "://" in plain:
        raise Invalid([Finding("", "--output", f"{path}: the page is written to a directory of this machine")])
    return Path(plain)
