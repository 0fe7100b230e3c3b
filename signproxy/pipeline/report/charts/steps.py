"""Draw which part of all queries touched no more than so many tables."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from signproxy.pipeline.report.charts.columns import WIDTH
from signproxy.pipeline.report.data import QueryBreadth
from signproxy.pipeline.report.svg import Drawing, log_share, powers
from signproxy.pipeline.report.text import plural, short

_HEIGHT = 280.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 24.0, 34.0, 44.0
_MARKS = (0.5, 0.95)


def quantile(breadth: Sequence[QueryBreadth], share: float) -> int:
    """Return the number of tables that this share of the queries does not go beyond."""
    whole = sum(one.queries for one in breadth)
    sofar = 0
    for one in sorted(breadth, key=lambda each: each.tables):
        sofar += one.queries
        if sofar >= share * whole:
            return one.tables
    return 0


def draw_steps(breadth: Sequence[QueryBreadth], title: str, description: str) -> Markup:
    """Draw it."""
    drawing = Drawing("breadth", WIDTH, _HEIGHT, title, description)
    rows = sorted(breadth, key=lambda each: each.tables)
    whole = sum(one.queries for one in rows)
    floor = _HEIGHT - _BOTTOM
    tall = floor - _TOP
    scale = powers(max((one.tables for one in rows), default=1))
    wide = WIDTH - _LEFT - _RIGHT

    def place(tables: float) -> float:
        return _LEFT + wide * log_share(tables, scale[-1])

    for part in (0, 0.25, 0.5, 0.75, 1):
        y = floor - tall * part
        drawing.line(_LEFT, y, WIDTH - _RIGHT, y, "axis" if not part else "grid")
        drawing.text(_LEFT - 8, y + 4, f"{100 * part:.0f} %", "tick", anchor="end")
    for tick in scale:
        drawing.line(place(tick), _TOP, place(tick), floor, "grid")
        drawing.text(place(tick), floor + 18, short(tick), "tick", anchor="middle")
    points = [(_LEFT, floor)]
    sofar = 0
    for one in rows:
        points.append((place(one.tables), points[-1][1]))
        sofar += one.queries
        points.append((place(one.tables), floor - tall * sofar / whole))
    points.append((WIDTH - _RIGHT, points[-1][1]))
    drawing.path(points, "curve")
    for share in _MARKS:
        tables = quantile(rows, share)
        x, y = place(tables), floor - tall * share
        drawing.circle(x, y, 4, "curve-dot")
        is_right = x > WIDTH * 0.7
        says = f"{100 * share:.0f} % of queries: {plural(tables, 'table')} or fewer"
        drawing.text(x - 9 if is_right else x + 9, y + 16, says, "label", anchor="end" if is_right else "start")
    drawing.text(_LEFT, 18, "Share of queries", "axis-title")
    drawing.text(WIDTH - _RIGHT, _HEIGHT - 4, "tables that a query touched", "axis-title", anchor="end")
    return drawing.markup()
