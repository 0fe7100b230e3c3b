"""Read what a report says from the warehouse, a few small answers at a time."""

from __future__ import annotations

from datetime import date, datetime

from signproxy.pipeline.days import Days
from signproxy.pipeline.report.data import ReportData
from signproxy.pipeline.report.queries import decisions, evidence, stores
from signproxy.pipeline.warehouse import Warehouse

TITLE = "Access report"


def read_report(warehouse: Warehouse, days: Days, *, made_at: datetime, title: str = TITLE) -> ReportData:
    """Return what the tables say of these days."""
    sources = evidence.sources(warehouse, days)
    first, last = _span(days, [day for one in sources for day in (one.first_day, one.last_day) if day is not None])
    groups = evidence.groups(warehouse, days)
    severities: dict[str, int] = {}
    for group in groups:
        severities[group.severity] = severities.get(group.severity, 0) + group.count
    return ReportData(
        title=title,
        made_at=made_at,
        first_day=first,
        last_day=last,
        warehouse=warehouse.path,
        classes=stores.classes(warehouse, days),
        severities=severities,
        groups=groups,
        trail=evidence.trail(warehouse, days, groups),
        timeline=decisions.timeline(warehouse, days),
        heat=decisions.heat(warehouse, days),
        rights=decisions.rights(warehouse),
        breadth=decisions.breadth(warehouse, days),
        unattributed=stores.unattributed(warehouse, days),
        origins=stores.origins(warehouse, days),
        revocations=evidence.revocations(warehouse, days),
        costs=stores.costs(warehouse, days),
        quality=evidence.quality(warehouse, days),
        sources=sources,
        runs=evidence.runs(warehouse),
    )


def _span(days: Days, seen: list[date]) -> tuple[date | None, date | None]:
    """Return the days that were asked for; where they do not end, those that there is something of."""
    return days.first or min(seen, default=None), days.last or max(seen, default=None)
