"""Draw named quantities as bars below one another."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markupsafe import Markup

from signproxy.pipeline.report.charts.columns import WIDTH
from signproxy.pipeline.report.data import PrincipalReach, TableCost
from signproxy.pipeline.report.svg import Drawing, log_share, powers, ticks
from signproxy.pipeline.report.text import beginning, number, short, shortened

_ROW = 24.0
_BAR = 15.0
_TOP = 52.0
_NAME_COLUMNS = 34
_LEFT = _NAME_COLUMNS * 7.0 + 10
_RIGHT = 118.0


def draw_reach(reaches: Sequence[PrincipalReach], title: str, description: str) -> Markup:
    """Draw granted against used: how many tables, with each power of ten as far from the next."""
    floor = _TOP + _ROW * len(reaches)
    drawing = Drawing("reach", WIDTH, floor + 34, title, description)
    scale = powers(max((max(one.entitled, one.used, one.held) for one in reaches), default=1))
    wide = WIDTH - _LEFT - _RIGHT
    for tick in scale:
        x = _LEFT + wide * log_share(tick, scale[-1])
        drawing.line(x, _TOP - 6, x, floor, "axis" if not tick else "grid")
        drawing.text(x, floor + 16, short(tick), "tick", anchor="middle")
    whose = beginning([one.principal for one in reaches])
    if whose:
        drawing.text(0, 18, f"all of {shortened(whose, _NAME_COLUMNS)}", "tick")
    for row, one in enumerate(reaches):
        y = _TOP + _ROW * row + (_ROW - _BAR) / 2
        tip = f"{number(one.entitled)} granted, {number(one.held)} held at once, {number(one.used)} used"
        way = f" ({one.mode})" if one.mode else ""
        name = shortened(one.principal[len(whose) :], _NAME_COLUMNS - len(way))
        drawing.text(_LEFT - 8, y + 12, f"{name}{way}", "name", anchor="end")
        drawing.rect(_LEFT, y, wide * log_share(one.entitled, scale[-1]), _BAR, "granted", tip)
        drawing.rect(_LEFT, y + 3, wide * log_share(one.held, scale[-1]), _BAR - 6, "held", tip)
        drawing.rect(_LEFT, y + 5, wide * log_share(one.used, scale[-1]), _BAR - 10, "used", tip)
        drawing.text(WIDTH - _RIGHT + 12, y + 12, f"{number(one.entitled)} → {number(one.used)}", "value")
    drawing.text(_LEFT, 18, "Tables, each step ten times the one before", "axis-title")
    drawing.legend(_LEFT, 38, [("granted", "granted"), ("held", "held by keys at one time"), ("used", "used")])
    return drawing.markup()


def draw_pareto(
    tables: Sequence[TableCost],
    whole: float,
    value: Callable[[TableCost], float],
    write: Callable[[float], str],
    words: tuple[str, str, str],
) -> Markup:
    """Draw the dearest tables, and which part of the whole they come to together.

    The three words are the title, the description and what is measured.
    """
    title, description, measured = words
    floor = _TOP + _ROW * len(tables)
    drawing = Drawing("pareto", WIDTH, floor + 34, title, description)
    scale = ticks(max((value(one) for one in tables), default=0))
    wide = WIDTH - _LEFT - _RIGHT
    for tick in scale:
        x = _LEFT + wide * tick / scale[-1]
        drawing.line(x, _TOP - 6, x, floor, "axis" if not tick else "grid")
        drawing.text(x, floor + 16, short(tick), "tick", anchor="middle")
    sofar = 0.0
    points = []
    for row, one in enumerate(tables):
        y = _TOP + _ROW * row + (_ROW - _BAR) / 2
        sofar += value(one)
        drawing.text(_LEFT - 8, y + 12, shortened(one.table, _NAME_COLUMNS), "name", anchor="end")
        drawing.rect(_LEFT, y, wide * value(one) / scale[-1], _BAR, "cost", write(value(one)))
        points.append((_LEFT + wide * (sofar / whole if whole else 0.0), y + _BAR / 2))
        drawing.text(WIDTH - _RIGHT + 12, y + 12, f"{100 * sofar / whole if whole else 0:.1f} %", "value")
    drawing.path(points, "sum")
    for x, y in points:
        drawing.circle(x, y, 3, "sum-dot")
    drawing.text(_LEFT, 18, measured, "axis-title")
    together = "together, of everything"
    drawing.text(WIDTH, 18, together, "axis-title", anchor="end")
    drawing.legend(_LEFT, 38, [("cost", "the table"), ("sum-dot", "with all above it, from 0 % to 100 %")])
    return drawing.markup()
