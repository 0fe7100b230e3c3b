"""Read what a report says from the warehouse, a few small answers at a time."""

from __future__ import annotations

from datetime import datetime

from signproxy.pipeline.job import Days
from signproxy.pipeline.report.data import ReportData
from signproxy.pipeline.report.queries import decisions, evidence, stores
from signproxy.pipeline.warehouse import Warehouse


def read_report(warehouse: Warehouse, days: Days, *, made_at: datetime, title: str) -> ReportData:
    """Return what the tables say of these days."""
    sources = evidence.sources(warehouse, days)
    # Where the days that were asked for do not end, those that there is something of.
    seen = [day for one in sources for day in (one.first_day, one.last_day) if day is not None]
    first, last = days.first or min(seen, default=None), days.last or max(seen, default=None)
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
