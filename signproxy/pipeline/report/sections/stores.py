"""Show what the stores' own logs say: who is behind their requests, and what they cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from signproxy.pipeline.report.charts.columns import Columns, Series, draw_columns
from signproxy.pipeline.report.charts.rows import draw_pareto
from signproxy.pipeline.report.charts.shares import draw_shares
from signproxy.pipeline.report.data import CLASSES, EXACT, SMALL, Distribution, ReportData, TableCost, Unattributed
from signproxy.pipeline.report.sections.section import Section, bucket_labels, histogram_twin, nothing
from signproxy.pipeline.report.text import day, money, number, percent, plural, shortened, size
from signproxy.pipeline.report.twin import Column, ColumnKind, Twin

_CLASS_WORDS = {
    "stamp": "by stamp",
    "request_id": "by request id",
    "session": "by session",
    "probable": "probably",
    "known_service": "known service",
    "unattributed": "by nothing",
}


def attribution(data: ReportData) -> Section:
    """Return how the requests of the stores' logs were attributed."""
    title, nav = "How storage requests were attributed", "Attribution"
    whole = data.requests
    if not whole:
        return nothing("attribution", title, nav, "access_attribution", "ingest-s3log, then reconcile")
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
    ]
    twin = Twin(
        name="attribution",
        caption="Storage requests by how they were attributed",
        columns=(
            Column("Class", ColumnKind.TEXT),
            Column("Requests"),
            Column("Share", ColumnKind.SHARE),
            Column("Bytes", ColumnKind.SIZE),
        ),
        rows=tuple((one.name, one.n, one.n / whole, one.bytes) for one in data.classes),
    )
    drawing = draw_shares("attribution", title, lead, parts)
    return Section(anchor="attribution", title=title, nav=nav, lead=lead, drawings=(drawing,), twins=(twin,))


def unattributed(data: ReportData) -> Section:
    """Return the requests that nothing explains, over time."""
    title, nav = "Storage requests that nothing explains", "Unexplained"
    days = data.unattributed
    if not days:
        return nothing("unattributed", title, nav, "access_attribution", "ingest-s3log, then reconcile")
    whole, found = sum(one.total for one in days), sum(one.unattributed for one in days)
    lead = f"{number(found)} of {plural(whole, 'request')}"
    if found:
        worst = max(days, key=lambda one: one.unattributed)
        lead += f", on {plural(sum(1 for one in days if one.unattributed), 'day')} of {number(len(days))}; most on "
        lead += f"{day(worst.day)}, {number(worst.unattributed)}."
    else:
        lead += ": every request has a decision, a session or a known service behind it."
    daily = Twin(
        name="unattributed",
        caption="Storage requests by day, and those that nothing explains",
        columns=(
            Column("Day", ColumnKind.DAY),
            Column("Requests"),
            Column("Unattributed"),
            Column("Share", ColumnKind.SHARE),
            Column("Probable only"),
        ),
        rows=tuple(
            (one.day, one.total, one.unattributed, one.unattributed / max(one.total, 1), one.probable) for one in days
        ),
    )
    origins = Twin(
        name="unattributed_origins",
        caption="Where the unexplained requests went",
        columns=(
            Column("Bucket", ColumnKind.NAME),
            Column("Operation", ColumnKind.TEXT),
            Column("Status", ColumnKind.TEXT),
            Column("Requester", ColumnKind.NAME),
            Column("Requests"),
            Column("First", ColumnKind.TIME),
            Column("Last", ColumnKind.TIME),
        ),
        rows=tuple(
            (one.bucket, one.op, str(one.status), one.requester, one.n, one.first, one.last) for one in data.origins
        ),
    )
    drawings = (draw_columns(_unattributed_chart(days, title, lead)),) if found else ()
    twins = tuple(twin for twin in (daily, origins) if twin.rows)
    return Section(anchor="unattributed", title=title, nav=nav, lead=lead, drawings=drawings, twins=twins)


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
    title, nav = "What tables cost", "Cost"
    costs = data.costs
    if not costs.tables:
        return nothing("cost", title, nav, "table_cost", "ingest-s3log, reconcile, then cost with a price list")
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
    twin = Twin(
        name="cost",
        caption="Tables by cost" if costs.cost else "Tables by requests",
        columns=(
            Column("Table", ColumnKind.NAME),
            Column("Requests"),
            Column("Bytes", ColumnKind.SIZE),
            Column("Cost", ColumnKind.MONEY),
            Column("Price of small files", ColumnKind.MONEY),
        ),
        rows=tuple((one.table, one.requests, one.bytes, one.cost, one.tax) for one in costs.tables),
    )
    words = (title, lead, "Cost, in the price list's currency" if costs.cost else "Requests")
    drawing = draw_pareto(costs.tables, whole, _by_cost if costs.cost else _by_requests, _write(data), words)
    return Section(anchor="cost", title=title, nav=nav, lead=lead, drawings=(drawing,), twins=(twin,))


def _by_cost(one: TableCost) -> float:
    return one.cost


def _by_requests(one: TableCost) -> float:
    return one.requests


def _write(data: ReportData) -> Callable[[float], str]:
    return money if data.costs.cost else number


def sizes(data: ReportData) -> Section:
    """Return how much a GET reads."""
    title, nav = "How much one GET reads", "GET sizes"
    sizes = data.costs.sizes
    if not sizes.total:
        return nothing("sizes", title, nav, "s3_access", "ingest-s3log")
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
        title=title,
        description=lead,
        labels=labels,
        series=(Series("size", "GETs", values),),
        x_title="bytes sent",
        y_title="GETs",
        tips=tuple(f"{label}: {number(value)}" for label, value in zip(labels, values, strict=True)),
    )
    twin = histogram_twin(
        "get_sizes", "GETs by the bytes that were sent", Distribution(sizes.bounds, {"GETs": values}), labels
    )
    return Section(anchor="sizes", title=title, nav=nav, lead=lead, drawings=(draw_columns(chart),), twins=(twin,))
