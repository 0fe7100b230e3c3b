"""Draw SVG that stands in the page itself: shapes whose colours are the page's, and text that is only ever text."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup, escape

FONT = 12
"""Pixels; the page shows a drawing at its own size or smaller."""
_CHARACTER = 6.9
"""Pixels that a column of text takes up, on the safe side of what browsers' own fonts do."""


class Drawing:
    """One drawing, read out as one picture by its title and description."""

    def __init__(self, name: str, width: float, height: float, title: str, description: str) -> None:
        self._name = name
        self._width = width
        self._height = height
        self._title = title
        self._description = description
        self._parts: list[Markup] = []

    def rect(self, x: float, y: float, width: float, height: float, kind: str, tip: str = "") -> None:
        """Add a rectangle; nothing if it would not be seen."""
        if width <= 0 or height <= 0:
            return
        shape = Markup('<rect x="{}" y="{}" width="{}" height="{}" class="{}"').format(
            _round(x), _round(y), _round(width), _round(height), kind
        )
        self._add(shape, "rect", tip)

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str = "grid") -> None:
        """Add a line."""
        shape = Markup('<line x1="{}" y1="{}" x2="{}" y2="{}" class="{}"').format(
            _round(x1), _round(y1), _round(x2), _round(y2), kind
        )
        self._add(shape, "line", "")

    def circle(self, x: float, y: float, radius: float, kind: str, tip: str = "") -> None:
        """Add a dot."""
        shape = Markup('<circle cx="{}" cy="{}" r="{}" class="{}"').format(_round(x), _round(y), _round(radius), kind)
        self._add(shape, "circle", tip)

    def path(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        """Add a line through points."""
        steps = " ".join(f"{'L' if at else 'M'}{_round(x)} {_round(y)}" for at, (x, y) in enumerate(points))
        self._add(Markup('<path d="{}" class="{}"').format(steps, kind), "path", "")

    def text(
        self, x: float, y: float, content: str, kind: str = "label", *, anchor: str = "start", turn: float = 0
    ) -> None:
        """Add text, from its baseline; `turn` is in degrees around its beginning."""
        turned = Markup(' transform="rotate({} {} {})"').format(_round(turn), _round(x), _round(y)) if turn else ""
        self._parts.append(
            Markup('<text x="{}" y="{}" class="{}" text-anchor="{}"{}>{}</text>').format(
                _round(x), _round(y), kind, anchor, turned, content
            )
        )

    def legend(self, x: float, y: float, entries: Sequence[tuple[str, str]]) -> None:
        """Add a row that names the colours."""
        for kind, label in entries:
            self.rect(x, y - 10, 12, 12, kind)
            self.text(x + 17, y, label)
            x += 17 + text_width(label) + 22

    def markup(self) -> Markup:
        """Return the drawing."""
        named = Markup(
            '<svg viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img" aria-labelledby="{n}-t {n}-d">'
            '<title id="{n}-t">{t}</title><desc id="{n}-d">{d}</desc>'
        ).format(w=_round(self._width), h=_round(self._height), n=self._name, t=self._title, d=self._description)
        return named + Markup("").join(self._parts) + Markup("</svg>")

    def _add(self, shape: Markup, element: str, tip: str) -> None:
        if tip:
            shape += Markup("><title>{}</title></{}>").format(tip, element)
        else:
            shape += Markup("/>")
        self._parts.append(shape)


def text_width(content: str) -> float:
    """Return about how wide text is."""
    return _CHARACTER * len(content)


def ticks(most: float, count: int = 4) -> list[float]:
    """Return round values from 0 to the first one that is not below `most`."""
    if most <= 0:
        return [0, 1]
    rough = most / count
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    # Counts have no halves.
    step = max(step, 1.0) if most >= 1 else step
    if step != int(step) and most >= 10:
        step = math.ceil(step)
    return [step * at for at in range(math.ceil(most / step - 1e-9) + 1)]


def powers(most: float) -> list[float]:
    """Return 0 and the powers of ten up to the first one that is not below `most`."""
    values = [0.0, 1.0]
    while values[-1] < most:
        values.append(values[-1] * 10)
    return values


def log_share(value: float, most: float) -> float:
    """Return where a value lies between 0 and the most, so that each power of ten is as far from the next."""
    return math.log10(1 + value) / math.log10(1 + most) if most > 0 else 0.0


def _round(value: float) -> str:
    return str(escape(f"{value:.1f}".rstrip("0").rstrip(".")))
