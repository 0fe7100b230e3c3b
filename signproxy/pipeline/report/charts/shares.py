"""Draw the parts of a whole as one bar."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from signproxy.pipeline.report.charts.columns import WIDTH
from signproxy.pipeline.report.svg import Drawing, text_width
from signproxy.pipeline.report.text import percent

_BAR, _ROW = 30.0, 22.0
_LEAST = 2.0
"""Pixels: a single request among millions is still seen."""

Part = tuple[str, str, int]
"""The class of its shape, its label, and how many there are."""


def draw_shares(name: str, title: str, description: str, parts: Sequence[Part]) -> Markup:
    """Draw it, each part at least so wide that it is seen."""
    parts = [part for part in parts if part[2]]
    whole = sum(count for _, _, count in parts)
    rows = _rows([f"{label} {percent(count, whole)}" for _, label, count in parts])
    drawing = Drawing(name, WIDTH, _BAR + 12 + _ROW * len(rows), title, description)
    spare = WIDTH - _LEAST * len(parts)
    x = 0.0
    for kind, label, count in parts:
        wide = _LEAST + spare * count / whole
        drawing.rect(x, 0, wide, _BAR, kind, f"{label}: {count:,} ({percent(count, whole)})")
        x += wide
    at = 0
    for row, labels in enumerate(rows):
        drawing.legend(0, _BAR + 22 + _ROW * row, [(parts[at + place][0], label) for place, label in enumerate(labels)])
        at += len(labels)
    return drawing.markup()


def _rows(labels: Sequence[str]) -> list[list[str]]:
    rows: list[list[str]] = [[]]
    taken = 0.0
    for label in labels:
        wide = 39 + text_width(label)
        if rows[-1] and taken + wide > WIDTH:
            rows.append([])
            taken = 0.0
        rows[-1].append(label)
        taken += wide
    return rows
