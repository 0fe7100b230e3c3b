"""Draw counts as columns, stacked by kind: over time, or by size."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from markupsafe import Markup

from signproxy.pipeline.report.svg import FONT, Drawing, text_width, ticks
from signproxy.pipeline.report.text import short

WIDTH = 960.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 16.0, 34.0, 44.0
_WIDEST = 72.0


class Series(msgspec.Struct, frozen=True):
    """One kind of what is counted."""

    kind: str
    """The class of its shapes, which the style sheet gives a colour."""
    label: str
    values: tuple[float, ...]


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """A chart of columns."""

    name: str
    title: str
    description: str
    labels: tuple[str, ...]
    """One below each column; some are left out where there is no room."""
    series: tuple[Series, ...]
    """From the bottom up."""
    x_title: str
    y_title: str
    tips: tuple[str, ...] = ()
    marks: tuple[tuple[int, str], ...] = ()
    """Lines before columns, with what they say."""
    write: Callable[[float], str] = short
    height: float = 280.0


def draw_columns(chart: Columns) -> Markup:
    """Draw it."""
    drawing = Drawing(chart.name, WIDTH, chart.height, chart.title, chart.description)
    count = len(chart.labels)
    floor = chart.height - _BOTTOM
    totals = [sum(one.values[at] for one in chart.series) for at in range(count)]
    scale = ticks(max(totals, default=0))
    height = (floor - _TOP) / scale[-1]
    for tick in scale:
        y = floor - tick * height
        drawing.line(_LEFT, y, WIDTH - _RIGHT, y, "axis" if not tick else "grid")
        drawing.text(_LEFT - 8, y + 4, chart.write(tick), "tick", anchor="end")
    pitch = (WIDTH - _LEFT - _RIGHT) / max(count, 1)
    width = min(_WIDEST, pitch * 0.8)
    for at in range(count):
        x = _LEFT + pitch * at + (pitch - width) / 2
        y = floor
        for one in chart.series:
            # A count that is small beside the others is still seen.
            tall = max(one.values[at] * height, 1.5) if one.values[at] else 0.0
            y -= tall
            drawing.rect(x, y, width, tall, one.kind, chart.tips[at] if chart.tips else "")
    _label(drawing, chart.labels, pitch, floor)
    for before, says in chart.marks:
        x = _LEFT + pitch * before
        drawing.line(x, _TOP, x, floor, "mark")
        drawing.text(x - 5, _TOP + 10, says, "tick", anchor="end")
    drawing.text(_LEFT, 18, chart.y_title, "axis-title")
    drawing.text(WIDTH - _RIGHT, chart.height - 4, chart.x_title, "axis-title", anchor="end")
    if len(chart.series) > 1:
        entries = [(one.kind, one.label) for one in chart.series]
        width = sum(39 + text_width(label) for _, label in entries) - 22
        drawing.legend(WIDTH - _RIGHT - width, 18, entries)
    return drawing.markup()


def _label(drawing: Drawing, labels: Sequence[str], pitch: float, floor: float) -> None:
    longest = max((text_width(label) for label in labels), default=0.0)
    every = max(1, int(-(-(longest + 10) // pitch)))
    for at in range(0, len(labels), every):
        drawing.text(_LEFT + pitch * (at + 0.5), floor + FONT + 6, labels[at], "tick", anchor="middle")
