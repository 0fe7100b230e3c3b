"""Show how soon a revocation bites, and how far the inputs can be believed."""

from __future__ import annotations

import msgspec

from signproxy.pipeline.report.charts.columns import Columns, Series, draw_columns
from signproxy.pipeline.report.data import Distribution, ReportData
from signproxy.pipeline.report.sections.section import Section, bucket_labels, histogram_twin, nothing
from signproxy.pipeline.report.text import duration, number, plural
from signproxy.pipeline.report.twin import Column, ColumnKind, Twin

_WAYS = ("sign", "forward", "vend")
_CLIENT_CACHE, _SIGNATURE = 30.0, 900.0


def revocation(data: ReportData) -> Section:
    """Return how long withdrawn rights went on to work."""
    title, nav = "How long withdrawn rights went on to work", "Revocation"
    found = data.revocations
    if not found.latencies.total and not found.at_once:
        return nothing("revocation", title, nav, "revocation_latency", "revocation")
    late = found.latencies.total
    lead = f"After {plural(found.at_once, 'revocation')} nothing succeeded; after {number(late)} something did."
    if found.worst:
        lead += f" The longest took {duration(found.worst[0].seconds)}."
    lead += " A client may keep a signature for 30 s; it ends after 15 min. A vended key works until it expires."
    labels = bucket_labels(found.latencies.bounds, duration)
    ways = _by_way(found.latencies)
    marks = (
        (_after(found.latencies, _CLIENT_CACHE), "client's cache"),
        (_after(found.latencies, _SIGNATURE), "a signature's life"),
    )
    chart = Columns(
        name="revocation",
        title=title,
        description=lead,
        labels=labels,
        series=tuple(Series(f"way-{way}" if way in _WAYS else "way", way, counts) for way, counts in ways.items()),
        x_title="from the revocation to the last success",
        y_title="Revocations",
        marks=marks,
        tips=tuple(
            f"{label}: " + ", ".join(f"{way} {counts[at]}" for way, counts in ways.items())
            for at, label in enumerate(labels)
        ),
    )
    worst = Twin(
        name="revocations",
        caption="The revocations that took longest",
        columns=(
            Column("Principal", ColumnKind.NAME),
            Column("Resource", ColumnKind.NAME),
            Column("Way", ColumnKind.TEXT),
            Column("Revoked", ColumnKind.TIME),
            Column("Last success after", ColumnKind.DURATION),
            Column("Successes"),
        ),
        rows=tuple((one.principal, one.resource, one.kind, one.revoked_at, one.seconds, one.n) for one in found.worst),
    )
    counts = histogram_twin(
        "revocation_latency",
        "Revocations by how long the right went on to work",
        msgspec.structs.replace(found.latencies, series=ways),
        labels,
    )
    drawings = (draw_columns(chart),) if late else ()
    twins = tuple(twin for twin in (counts, worst) if twin.rows)
    return Section(anchor="revocation", title=title, nav=nav, lead=lead, drawings=drawings, twins=twins)


def _by_way(histogram: Distribution) -> dict[str, tuple[int, ...]]:
    """Return the counts of each way; a way that this version does not know is another one."""
    known = {way: tuple(histogram.series[way]) for way in _WAYS if way in histogram.series}
    others = [counts for way, counts in histogram.series.items() if way not in _WAYS]
    return known | ({"other": tuple(map(sum, zip(*others, strict=True)))} if others else {})


def _after(histogram: Distribution, bound: float) -> int:
    return histogram.bounds.index(bound) + 1


def quality(data: ReportData) -> Section:
    """Return what the inputs lacked, and what the page rests on."""
    title, nav = "Data quality", "Data quality"
    if not data.sources:
        return Section(anchor="quality", title=title, nav=nav, lead="", empty="No table was read.")
    rows = sum(one.n for one in data.quality)
    lead = (
        f"{plural(rows, 'row')} of the inputs lacked or contradicted something. No finding rests on them."
        if rows
        else "The inputs lacked nothing that the jobs look for."
    )
    quality = Twin(
        name="data_quality",
        caption="What the inputs lacked or contradicted",
        columns=(
            Column("Source", ColumnKind.TEXT),
            Column("Problem", ColumnKind.TEXT),
            Column("Rows"),
            Column("Days"),
            Column("Example", ColumnKind.NAME),
        ),
        rows=tuple((one.source, one.problem, one.n, one.days, one.example) for one in data.quality),
    )
    verdicts = Twin(
        name="segments",
        caption="Audit segments by what became of them",
        columns=(Column("Verdict", ColumnKind.TEXT), Column("Segments")),
        rows=tuple(sorted(data.trail.verdicts.items())),
    )
    gaps = Twin(
        name="gaps",
        caption="Gaps in the audit trail",
        columns=(
            Column("Instance", ColumnKind.NAME),
            Column("Boot", ColumnKind.NAME),
            Column("Missing numbers", ColumnKind.TEXT),
            Column("Events"),
        ),
        rows=tuple((gap.instance, gap.boot_id, gap.missing, gap.n) for gap in data.trail.worst),
    )
    sources = Twin(
        name="sources",
        caption="Tables that this page rests on",
        columns=(
            Column("Table", ColumnKind.NAME),
            Column("What it is", ColumnKind.TEXT),
            Column("Rows"),
            Column("First day", ColumnKind.DAY),
            Column("Last day", ColumnKind.DAY),
        ),
        rows=tuple((one.table, one.summary, one.rows, one.first_day, one.last_day) for one in data.sources),
    )
    runs = Twin(
        name="runs",
        caption="The last run of each job",
        columns=(
            Column("Job", ColumnKind.NAME),
            Column("Began", ColumnKind.TIME),
            Column("Took", ColumnKind.DURATION),
            Column("Status", ColumnKind.TEXT),
            Column("Rows in"),
            Column("Rows bad"),
            Column("Problem", ColumnKind.TEXT),
        ),
        rows=tuple(
            (one.job, one.began_at, one.seconds, str(one.exit), one.rows_in, one.rows_bad, one.problem)
            for one in data.runs
        ),
    )
    twins = tuple(twin for twin in (quality, gaps, verdicts, sources, runs) if twin.rows)
    return Section(anchor="quality", title=title, nav=nav, lead=lead, twins=twins, is_open=True)
