"""Show what signproxy decided: over time, by principal and table, against what was granted, and by query."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from signproxy.pipeline.report.charts.columns import Columns, Series, draw_columns
from signproxy.pipeline.report.charts.heat import draw_heat
from signproxy.pipeline.report.charts.rows import draw_reach
from signproxy.pipeline.report.charts.steps import draw_steps, quantile
from signproxy.pipeline.report.data import ReportData, TimelineSlot
from signproxy.pipeline.report.sections.section import Section, nothing
from signproxy.pipeline.report.text import number, percent, plural
from signproxy.pipeline.report.twin import Column, ColumnKind, Twin

_BARELY_SEEN = 0.1
"""Of a column; below it, what was refused is drawn again by itself."""


def timeline(data: ReportData) -> Section:
    """Return how decisions ended, over time."""
    title, nav = "Decisions over time", "Over time"
    slots = data.timeline.slots
    if not any(slot.total for slot in slots):
        return nothing("timeline", title, nav, "access_daily", "ingest, then access")
    whole = sum(slot.total for slot in slots)
    refused = sum(slot.deny for slot in slots)
    unit = data.timeline.unit
    worst = max(slots, key=lambda slot: slot.deny)
    lead = f"{number(whole)} decisions, {percent(refused, whole)} of them refusals."
    if worst.deny:
        lead += f" Most refusals in one {unit}: {number(worst.deny)}, {_of_slot(worst, unit)}."
    chart = Columns(
        name="timeline",
        title=title,
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
    drawings = [draw_columns(chart)]
    if 0 < refused < whole * _BARELY_SEEN:
        drawings.append(draw_columns(_refused_alone(slots, chart)))
    twin = Twin(
        name="timeline",
        caption=f"Decisions by {unit}",
        columns=(
            Column(unit.capitalize(), ColumnKind.TIME if unit == "hour" else ColumnKind.DAY),
            *(Column(word) for word in ("Allowed", "Refused", "Failed")),
        ),
        rows=tuple(
            (slot.at if unit == "hour" else slot.at.date(), slot.allow, slot.deny, slot.error) for slot in slots
        ),
    )
    return Section(anchor="timeline", title=title, nav=nav, lead=lead, drawings=tuple(drawings), twins=(twin,))


def _refused_alone(slots: Sequence[TimelineSlot], beside: Columns) -> Columns:
    return msgspec.structs.replace(
        beside,
        name="refused",
        title="Refusals over time",
        description="The refusals of the chart above, on a scale of their own.",
        series=(Series("deny", "refused", tuple(slot.deny for slot in slots)),),
        y_title="Refused, on a scale of their own",
        height=170.0,
    )


def _of_slot(slot: TimelineSlot, unit: str) -> str:
    return f"{slot.at:%Y-%m-%d %H:%M} UTC" if unit == "hour" else f"{slot.at:%Y-%m-%d}"


def heat(data: ReportData) -> Section:
    """Return who asked for what."""
    title, nav = "Who asked for what", "Who and what"
    heat = data.heat
    if not heat.cells:
        return nothing("heat", title, nav, "access_daily", "ingest, then access")
    lead = (
        f"The {number(len(heat.principals))} busiest of {plural(heat.all_principals, 'principal')} and the "
        f"{number(len(heat.tables))} busiest of {plural(heat.all_tables, 'table')}. The stronger the colour, "
        "the more requests: each shade is several times the one before. A dot is a refusal."
    )
    twin = Twin(
        name="heat",
        caption="Requests by principal and table",
        columns=(
            Column("Principal", ColumnKind.NAME),
            Column("Table", ColumnKind.NAME),
            Column("Allowed"),
            Column("Refused"),
        ),
        rows=tuple(
            (heat.principals[cell.row], heat.tables[cell.column], cell.allow, cell.deny)
            for cell in sorted(heat.cells, key=lambda cell: (cell.row, cell.column))
        ),
    )
    drawing = draw_heat(heat, title, lead)
    return Section(anchor="heat", title=title, nav=nav, lead=lead, drawings=(drawing,), twins=(twin,), is_long=True)


def rights(data: ReportData) -> Section:
    """Return what was granted against what was used."""
    title, nav = "Granted against used", "Granted and used"
    rights = data.rights
    if not rights.reaches and not rights.states:
        return nothing("rights", title, nav, "blast_radius and grant_use", "privileges, with a policy export")
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
    reach = Twin(
        name="reach",
        caption="Tables that principals may reach, held by keys at one time, and used",
        columns=(
            Column("Principal", ColumnKind.NAME),
            Column("Way", ColumnKind.TEXT),
            Column("Granted"),
            Column("Held at once"),
            Column("Used"),
            Column("Beyond what was asked"),
        ),
        rows=tuple(
            (one.principal, one.mode, one.entitled, one.held, one.used, one.violations) for one in rights.reaches
        ),
    )
    states = Twin(
        name="grants",
        caption="Grants by whether anybody uses them",
        columns=(Column("State", ColumnKind.TEXT), Column("Grants")),
        rows=tuple(sorted(rights.states.items())),
    )
    drawings = (draw_reach(rights.reaches, title, lead),) if rights.reaches else ()
    twins = tuple(twin for twin in (reach, states) if twin.rows)
    return Section(anchor="rights", title=title, nav=nav, lead=lead, drawings=drawings, twins=twins)


def breadth(data: ReportData) -> Section:
    """Return how many tables queries touched."""
    title, nav = "Tables per query", "Tables per query"
    if not data.breadth:
        tables = "access_queries (engines have to say which query asks)"
        return nothing("breadth", title, nav, tables, "ingest, then access")
    half, most = quantile(data.breadth, 0.5), max(one.tables for one in data.breadth)
    nearly = quantile(data.breadth, 0.95)
    lead = (
        f"Half of {plural(sum(one.queries for one in data.breadth), 'query', 'queries')} touched "
        f"{plural(half, 'table')} or fewer, 95 % {number(nearly)} or fewer, and the broadest one {number(most)}. "
        "Which query asks is the engine's own word."
    )
    twin = Twin(
        name="breadth",
        caption="Queries by how many tables they touched",
        columns=(Column("Tables"), Column("Queries")),
        rows=tuple((one.tables, one.queries) for one in sorted(data.breadth, key=lambda each: each.tables)),
    )
    drawing = draw_steps(data.breadth, title, lead)
    return Section(anchor="breadth", title=title, nav=nav, lead=lead, drawings=(drawing,), twins=(twin,))
