"""Show what signproxy decided: over time, by principal and table, against what was granted, and by query."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from signproxy.pipeline.report.charts import Chart, Columns, Heat, ReachBars, Series, Steps, quantile
from signproxy.pipeline.report.data import ReportData, TimelineSlot
from signproxy.pipeline.report.sections.section import Section, nothing_in
from signproxy.pipeline.report.text import number, percent, plural
from signproxy.pipeline.report.twin import twin

_BARELY_SEEN = 0.1
"""Of a column; below it, what was refused is drawn again by itself."""
_NO_ACCESS = nothing_in("access_daily", "ingest, then access")


def timeline(data: ReportData) -> Section:
    """Return how decisions ended, over time."""
    part = Section("timeline", "Decisions over time", "Over time", _NO_ACCESS)
    slots = data.timeline.slots
    if not any(slot.total for slot in slots):
        return part
    whole = sum(slot.total for slot in slots)
    refused = sum(slot.deny for slot in slots)
    unit = data.timeline.unit
    worst = max(slots, key=lambda slot: slot.deny)
    lead = f"{number(whole)} decisions, {percent(refused, whole)} of them refusals."
    if worst.deny:
        lead += f" Most refusals in one {unit}: {number(worst.deny)}, {_of_slot(worst, unit)}."
    chart = Columns(
        name="timeline",
        title=part.title,
        description=lead,
        labels=tuple(f"{slot.at:%d %b %H:%M}" if unit == "hour" else f"{slot.at:%d %b}" for slot in slots),
        series=(
            Series("allow", "allowed", tuple(slot.allow for slot in slots)),
            Series("error", "failed", tuple(slot.error for slot in slots)),
            Series("deny", "refused", tuple(slot.deny for slot in slots)),
        ),
        x_title={"hour": "hour, UTC", "day": "day, UTC"}.get(unit, "week from, UTC"),
        y_title="Requests",
        tips=tuple(
            f"{_of_slot(slot, unit)}: {number(slot.allow)} allowed, {number(slot.deny)} refused, "
            f"{number(slot.error)} failed"
            for slot in slots
        ),
    )
    drawings: list[Chart] = [chart]
    if 0 < refused < whole * _BARELY_SEEN:
        drawings.append(_refused_alone(slots, chart))
    columns = f"{unit.capitalize()}:{'time' if unit == 'hour' else 'day'}, Allowed, Refused, Failed"
    rows = ((slot.at if unit == "hour" else slot.at.date(), slot.allow, slot.deny, slot.error) for slot in slots)
    return part.saying(lead, drawings, twin("timeline", f"Decisions by {unit}", columns, rows))


def _refused_alone(slots: Sequence[TimelineSlot], beside: Columns) -> Columns:
    return msgspec.structs.replace(
        beside,
        name="refused",
        title="Refusals over time",
        description="The refusals of the chart above, on a scale of their own.",
        series=(Series("deny", "refused", tuple(slot.deny for slot in slots)),),
        y_title="Refused, on a scale of their own",
        height=170,
    )


def _of_slot(slot: TimelineSlot, unit: str) -> str:
    return f"{slot.at:%Y-%m-%d %H:%M} UTC" if unit == "hour" else f"{slot.at:%Y-%m-%d}"


def heat(data: ReportData) -> Section:
    """Return who asked for what."""
    part = Section("heat", "Who asked for what", "Who and what", _NO_ACCESS, is_long=True)
    heat = data.heat
    if not heat.cells:
        return part
    lead = (
        f"The {number(len(heat.principals))} busiest of {plural(heat.all_principals, 'principal')} and the "
        f"{number(len(heat.tables))} busiest of {plural(heat.all_tables, 'table')}. The stronger the colour, "
        "the more requests: each shade is several times the one before. A dot is a refusal."
    )
    cells = sorted(heat.cells, key=lambda cell: (cell.row, cell.column))
    rows = ((heat.principals[cell.row], heat.tables[cell.column], cell.allow, cell.deny) for cell in cells)
    cells_twin = twin("heat", "Requests by principal and table", "Principal:name, Table:name, Allowed, Refused", rows)
    return part.saying(lead, [Heat("heat", part.title, lead, heat)], cells_twin)


def rights(data: ReportData) -> Section:
    """Return what was granted against what was used."""
    empty = nothing_in("blast_radius and grant_use", "privileges, with a policy export")
    part = Section("rights", "Granted against used", "Granted and used", empty)
    rights = data.rights
    if not rights.reaches and not rights.states:
        return part
    lead = (
        f"In the median a principal may reach {plural(rights.median_entitled, 'table')} of "
        f"{number(rights.all_tables)} and used {number(rights.median_used)} in 90 days."
    )
    if rights.states:
        grants = sum(rights.states.values())
        lead += (
            f" {number(rights.states.get('unused', 0))} of {plural(grants, 'grant')} unused; "
            f"{number(rights.withdrawable)} could be withdrawn."
        )
    violations = sum(one.violations for one in rights.reaches)
    if violations:
        lead += f" Vended keys reached {plural(violations, 'table')} that no principal had asked for."
    reach = twin(
        "reach",
        "Tables that principals may reach, held by keys at one time, and used",
        "Principal:name, Way:text, Granted, Held at once, Used, Beyond what was asked",
        map(msgspec.structs.astuple, rights.reaches),
    )
    grants_twin = twin("grants", "Grants by whether they are used", "State:text, Grants", sorted(rights.states.items()))
    drawings = [ReachBars("reach", part.title, lead, rights.reaches)] if rights.reaches else []
    return part.saying(lead, drawings, reach, grants_twin)


def breadth(data: ReportData) -> Section:
    """Return how many tables queries touched."""
    tables = "access_queries (engines have to say which query asks)"
    part = Section("breadth", "Tables per query", "Tables per query", nothing_in(tables, "ingest, then access"))
    if not data.breadth:
        return part
    half, most = quantile(data.breadth, 0.5), max(one.tables for one in data.breadth)
    nearly = quantile(data.breadth, 0.95)
    lead = (
        f"Half of {plural(sum(one.queries for one in data.breadth), 'query', 'queries')} touched "
        f"{plural(half, 'table')} or fewer, 95 % {number(nearly)} or fewer, and the broadest one {number(most)}. "
        "Which query asks is the engine's own word."
    )
    rows = sorted((one.tables, one.queries) for one in data.breadth)
    counts = twin("breadth", "Queries by how many tables they touched", "Tables, Queries", rows)
    return part.saying(lead, [Steps("breadth", part.title, lead, data.breadth)], counts)
