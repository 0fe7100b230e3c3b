"""Show how soon a revocation bites, and how far the inputs can be believed."""

from __future__ import annotations

import msgspec

from signproxy.pipeline.report.charts import Columns, Series
from signproxy.pipeline.report.data import Distribution, ReportData
from signproxy.pipeline.report.sections.section import Section, bucket_labels, histogram_twin, nothing_in
from signproxy.pipeline.report.text import duration, number, plural
from signproxy.pipeline.report.twin import twin

_WAYS = ("sign", "forward", "vend")
_CLIENT_CACHE, _SIGNATURE = 30.0, 900.0


def revocation(data: ReportData) -> Section:
    """Return how long withdrawn rights went on to work."""
    empty = nothing_in("revocation_latency", "revocation")
    part = Section("revocation", "How long withdrawn rights went on to work", "Revocation", empty)
    found = data.revocations
    late = found.latencies.total
    if not late and not found.at_once:
        return part
    lead = f"After {plural(found.at_once, 'revocation')} nothing succeeded; after {number(late)} something did."
    if found.worst:
        lead += f" The longest took {duration(found.worst[0].seconds)}."
    lead += " A client may keep a signature for 30 s; it ends after 15 min. A vended key works until it expires."
    labels = bucket_labels(found.latencies.bounds, duration)
    ways = _by_way(found.latencies)
    chart = Columns(
        name="revocation",
        title=part.title,
        description=lead,
        labels=labels,
        series=tuple(Series(f"way-{way}" if way in _WAYS else "way", way, counts) for way, counts in ways.items()),
        x_title="from the revocation to the last success",
        y_title="Revocations",
        marks=(
            (_after(found.latencies, _CLIENT_CACHE), "client's cache"),
            (_after(found.latencies, _SIGNATURE), "a signature's life"),
        ),
        tips=tuple(
            f"{label}: " + ", ".join(f"{way} {counts[at]}" for way, counts in ways.items())
            for at, label in enumerate(labels)
        ),
    )
    worst = twin(
        "revocations",
        "The revocations that took longest",
        "Principal:name, Resource:name, Way:text, Revoked:time, Last success after:duration, Successes",
        map(msgspec.structs.astuple, found.worst),
    )
    counts = histogram_twin(
        "revocation_latency",
        "Revocations by how long the right went on to work",
        msgspec.structs.replace(found.latencies, series=ways),
        labels,
    )
    return part.saying(lead, [chart] if late else [], counts, worst)


def _by_way(histogram: Distribution) -> dict[str, tuple[int, ...]]:
    """Return the counts of each way; a way that this version does not know is another one."""
    known = {way: tuple(histogram.series[way]) for way in _WAYS if way in histogram.series}
    others = [counts for way, counts in histogram.series.items() if way not in _WAYS]
    return known | ({"other": tuple(map(sum, zip(*others, strict=True)))} if others else {})


def _after(histogram: Distribution, bound: float) -> int:
    return histogram.bounds.index(bound) + 1


def quality(data: ReportData) -> Section:
    """Return what the inputs lacked, and what the page rests on."""
    part = Section("quality", "Data quality", "Data quality", "No table was read.", is_open=True)
    if not data.sources:
        return part
    rows = sum(one.n for one in data.quality)
    lead = (
        f"{plural(rows, 'row')} of the inputs lacked or contradicted something. No finding rests on them."
        if rows
        else "The inputs lacked nothing that the jobs look for."
    )
    return part.saying(
        lead,
        [],
        twin(
            "data_quality",
            "What the inputs lacked or contradicted",
            "Source:text, Problem:text, Rows, Days, Example:name",
            ((one.source, one.problem, one.n, one.days, one.example) for one in data.quality),
        ),
        twin(
            "gaps",
            "Gaps in the audit trail",
            "Instance:name, Boot:name, Missing numbers:text, Events",
            map(msgspec.structs.astuple, data.trail.worst),
        ),
        twin(
            "segments",
            "Audit segments by what became of them",
            "Verdict:text, Segments",
            sorted(data.trail.verdicts.items()),
        ),
        twin(
            "sources",
            "Tables that this page rests on",
            "Table:name, What it is:text, Rows, First day:day, Last day:day",
            map(msgspec.structs.astuple, data.sources),
        ),
        twin(
            "runs",
            "The last run of each job",
            "Job:name, Began:time, Took:duration, Status:text, Rows in, Rows bad, Problem:text",
            (msgspec.structs.astuple(msgspec.structs.replace(one, exit=str(one.exit))) for one in data.runs),
        ),
    )
