"""Draw who asked for what as a field of cells, darker for more, with a dot where something was refused."""

from __future__ import annotations

from markupsafe import Markup

from signproxy.pipeline.report.data import Cell, HeatMap
from signproxy.pipeline.report.svg import FONT, Drawing, log_share
from signproxy.pipeline.report.text import beginning, harmless, number, short, shortened

_PITCH = 17.0
_NAME_COLUMNS = 28
_LEFT = _NAME_COLUMNS * 7.0 + 8
_TOP = 150.0
_RIGHT = 142.0
_STEPS = 6
_TIP = 200


def draw_heat(heat: HeatMap, title: str, description: str) -> Markup:
    """Draw it."""
    width = max(_LEFT + _PITCH * len(heat.tables) + _RIGHT, 640.0)
    floor = _TOP + _PITCH * len(heat.principals)
    drawing = Drawing("heat", width, floor + 44, title, description)
    most = max((cell.allow + cell.deny for cell in heat.cells), default=0)
    whose, of = beginning(heat.principals), beginning(heat.tables)
    for row, principal in enumerate(heat.principals):
        name = shortened(principal[len(whose) :], _NAME_COLUMNS)
        drawing.text(_LEFT - 8, _TOP + _PITCH * row + 12.5, name, "name", anchor="end")
    for column, table in enumerate(heat.tables):
        x = _LEFT + _PITCH * column + _PITCH / 2 + 4
        drawing.text(x, _TOP - 7, shortened(table[len(of) :], _NAME_COLUMNS), "name", turn=-45)
    for y, what, common in ((18, "tables", of), (36, "principals", whose)):
        if common:
            drawing.text(0, y, f"{what} begin with {shortened(common, _NAME_COLUMNS)}", "tick")
    drawing.rect(_LEFT, _TOP, _PITCH * len(heat.tables), floor - _TOP, "field")
    for cell in heat.cells:
        _draw(drawing, heat, cell, most)
    _key(drawing, most, floor)
    return drawing.markup()


def step(count: int, most: int) -> int:
    """Return how dark a cell is, from 1 to 6."""
    return min(_STEPS, 1 + int(log_share(count, most) * _STEPS * 0.999))


def _draw(drawing: Drawing, heat: HeatMap, cell: Cell, most: int) -> None:
    x, y = _LEFT + _PITCH * cell.column, _TOP + _PITCH * cell.row
    refused = f", {number(cell.deny)} refused" if cell.deny else ""
    tip = (
        f"{harmless(heat.principals[cell.row], _TIP)} · {harmless(heat.tables[cell.column], _TIP)}: "
        f"{number(cell.allow)} allowed{refused}"
    )
    if cell.allow:
        drawing.rect(x + 0.5, y + 0.5, _PITCH - 1, _PITCH - 1, f"heat{step(cell.allow + cell.deny, most)}", tip)
    if cell.deny:
        drawing.circle(x + _PITCH / 2, y + _PITCH / 2, 4, "dot", tip)


def _key(drawing: Drawing, most: int, floor: float) -> None:
    y = floor + 16
    drawing.text(_LEFT, y + FONT, "requests:", "tick")
    x = _LEFT + 66
    drawing.text(x, y + FONT, "1", "tick")
    x += 12
    for shade in range(1, _STEPS + 1):
        drawing.rect(x, y, _PITCH - 1, _PITCH - 1, f"heat{shade}")
        x += _PITCH
    drawing.text(x + 5, y + FONT, short(most), "tick")
    x += 60
    drawing.rect(x, y, _PITCH - 1, _PITCH - 1, "field")
    drawing.circle(x + _PITCH / 2 - 0.5, y + _PITCH / 2 - 0.5, 4, "dot")
    drawing.text(x + 24, y + FONT, "some refused", "tick")
    drawing.rect(x + 120, y, _PITCH - 1, _PITCH - 1, "field")
    drawing.text(x + 144, y + FONT, "none asked", "tick")
