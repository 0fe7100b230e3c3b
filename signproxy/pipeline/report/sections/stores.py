"""Show what the stores' own logs say: who is behind their requests, and what they cost."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from signproxy.pipeline.report.charts import Columns, Pareto, Series, Shares
from signproxy.pipeline.report.data import CLASSES, EXACT, SMALL, Distribution, ReportData, Unattributed
from signproxy.pipeline.report.sections.section import Section, bucket_labels, histogram_twin, nothing_in
from signproxy.pipeline.report.text import day, money, number, percent, plural, shortened, size
from signproxy.pipeline.report.twin import twin

_CLASS_WORDS = {
    "stamp": "by stamp",
    "request_id": "by request id",
    "session": "by session",
    "probable": "probably",
    "known_service": "known service",
    "unattributed": "by nothing",
}
_NOT_ATTRIBUTED = nothing_in("access_attribution", "ingest-s3log, then reconcile")


def attribution(data: ReportData) -> Section:
    """Return how the requests of the stores' logs were attributed."""
    part = Section("attribution", "How storage requests were attributed", "Attribution", _NOT_ATTRIBUTED)
    whole = data.requests
    if not whole:
        return part
    exact = data.requests_of(EXACT)
    probable = percent(data.requests_of(("probable",)), whole)
    lead = (
        f"{percent(exact, whole)} of {plural(whole, 'request')} in the stores' own logs lead to one decision by an "
        f"exact key. {probable} are matched by object, method, address and time alone."
    )
    parts = [
        (
            f"class-{one.name}" if one.name in CLASSES else "way",
            _CLASS_WORDS.get(one.name, shortened(one.name, 30)),
            one.n,
        )
        for one in data.classes
        if one.n
    ]
    classes = twin(
        "attribution",
        "Storage requests by how they were attributed",
        "Class:text, Requests, Share:share, Bytes:size",
        ((one.name, one.n, one.n / whole, one.bytes) for one in data.classes),
    )
    return part.saying(lead, [Shares("attribution", part.title, lead, parts)], classes)


def unattributed(data: ReportData) -> Section:
    """Return the requests that nothing explains, over time."""
    part = Section("unattributed", "Storage requests that nothing explains", "Unexplained", _NOT_ATTRIBUTED)
    days = data.unattributed
    if not days:
        return part
    whole, found = sum(one.total for one in days), sum(one.unattributed for one in days)
    lead = f"{number(found)} of {plural(whole, 'request')}"
    if found:
        worst = max(days, key=lambda one: one.unattributed)
        lead += f", on {plural(sum(1 for one in days if one.unattributed), 'day')} of {number(len(days))}; most on "
        lead += f"{day(worst.day)}, {number(worst.unattributed)}."
    else:
        lead += ": every request has a decision, a session or a known service behind it."
    daily = twin(
        "unattributed",
        "Storage requests by day, and those that nothing explains",
        "Day:day, Requests, Unattributed, Share:share, Probable only",
        ((one.day, one.total, one.unattributed, one.unattributed / max(one.total, 1), one.probable) for one in days),
    )
    origins = twin(
        "unattributed_origins",
        "Where the unexplained requests went",
        "Bucket:name, Operation:text, Status:text, Requester:name, Requests, First:time, Last:time",
        ((one.bucket, one.op, str(one.status), one.requester, one.n, one.first, one.last) for one in data.origins),
    )
    return part.saying(lead, [_unattributed_chart(days, part.title, lead)] if found else [], daily, origins)


def _unattributed_chart(days: Sequence[Unattributed], title: str, lead: str) -> Columns:
    return Columns(
        name="unattributed",
        title=title,
        description=lead,
        labels=tuple(f"{one.day:%d %b}" for one in days),
        series=(Series("class-unattributed", "unattributed", tuple(one.unattributed for one in days)),),
        x_title="day, UTC",
        y_title="Unattributed requests",
        tips=tuple(
            f"{day(one.day)}: {number(one.unattributed)} of {number(one.total)}, {percent(one.unattributed, one.total)}"
            for one in days
        ),
    )


def cost(data: ReportData) -> Section:
    """Return what tables cost."""
    empty = nothing_in("table_cost", "ingest-s3log, reconcile, then cost with a price list")
    part = Section("cost", "What tables cost", "Cost", empty)
    costs = data.costs
    if not costs.tables:
        return part
    lead = (
        f"{plural(costs.requests, 'request')} and {size(costs.bytes)} for {plural(costs.all_tables, 'table')}"
        if not costs.cost
        else f"{money(costs.cost)} for {plural(costs.requests, 'request')} and {size(costs.bytes)} of "
        f"{plural(costs.all_tables, 'table')}"
    )
    dearest = sum(one.cost if costs.cost else one.requests for one in costs.tables)
    whole = costs.cost or float(costs.requests)
    lead += f"; the {number(len(costs.tables))} shown come to {percent(dearest, whole)}."
    if costs.tax:
        lead += f" {percent(costs.tax, costs.cost)} of it is the price of small files, {money(costs.tax)}."
    if not costs.cost:
        lead += " No price list was given, so requests stand in for cost."
    tables = twin(
        "cost",
        "Tables by cost" if costs.cost else "Tables by requests",
        "Table:name, Requests, Bytes:size, Cost:money, Price of small files:money",
        map(msgspec.structs.astuple, costs.tables),
    )
    bars = [(one.table, one.cost if costs.cost else one.requests) for one in costs.tables]
    measured, write = ("Cost, in the price list's currency", money) if costs.cost else ("Requests", number)
    return part.saying(lead, [Pareto("pareto", part.title, lead, measured, bars, whole, write)], tables)


def sizes(data: ReportData) -> Section:
    """Return how much a GET reads."""
    part = Section("sizes", "How much one GET reads", "GET sizes", nothing_in("s3_access", "ingest-s3log"))
    sizes = data.costs.sizes
    if not sizes.total:
        return part
    small = sum(
        count
        for counts in sizes.series.values()
        for bound, count in zip(sizes.bounds, counts, strict=False)
        if bound <= SMALL
    )
    lead = (
        f"{percent(small, sizes.total)} of {plural(sizes.total, 'GET')} read {size(SMALL)} or less, where asking "
        "costs more than reading. Footers of Parquet files are among them."
    )
    labels = bucket_labels(sizes.bounds, size)
    values = tuple(sum(counts[at] for counts in sizes.series.values()) for at in range(len(sizes.bounds) + 1))
    chart = Columns(
        name="sizes",
        title=part.title,
        description=lead,
        labels=labels,
        series=(Series("size", "GETs", values),),
        x_title="bytes sent",
        y_title="GETs",
        tips=tuple(f"{label}: {number(value)}" for label, value in zip(labels, values, strict=True)),
    )
    counts = Distribution(sizes.bounds, {"GETs": values})
    gets = histogram_twin("get_sizes", "GETs by the bytes that were sent", counts, labels)
    return part.saying(lead, [chart], gets)
