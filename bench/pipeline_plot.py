"""Draw what a job cost against how much it was given, as an SVG that needs nothing beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

PLOT = Path(__file__).parent.parent / "docs" / "pipeline-cost.svg"

Point = tuple[float, float]
"""Millions of events, and CPU seconds."""

_WIDTH, _HEIGHT = 640, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 24, 56
_STEPS = 5
_COLOURS = ("#2563eb", "#d97706", "#059669")


def draw(series: Mapping[str, Sequence[Point]], date: str, path: Path = PLOT) -> None:
    """Write the plot of one line per name."""
    path.write_text(plot(series, date))


def plot(series: Mapping[str, Sequence[Point]], date: str) -> str:
    """Return the plot; both axes begin at nothing, so that what is linear looks so."""
    points = [point for line in series.values() for point in line]
    far, high = (_round_up(max(point[axis] for point in points)) for axis in (0, 1))

    def x(value: float) -> float:
        return _LEFT + value / far * (_WIDTH - _LEFT - _RIGHT)

    def y(value: float) -> float:
        return _HEIGHT - _BOTTOM - value / high * (_HEIGHT - _TOP - _BOTTOM)

    size = f'viewBox="0 0 {_WIDTH} {_HEIGHT}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="system-ui, sans-serif">',
        f"<title>CPU seconds of ingest by millions of events, {date}</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        '<g font-size="12" fill="#475569">',
    ]
    for step in range(_STEPS + 1):
        across, up = far * step / _STEPS, high * step / _STEPS
        parts += [
            f'<path d="M{_LEFT} {y(up):.1f}H{_WIDTH - _RIGHT}" stroke="#e2e8f0"/>',
            f'<text x="{_LEFT - 8}" y="{y(up) + 4:.1f}" text-anchor="end">{up:g}</text>',
            f'<text x="{x(across):.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{across:g}</text>',
        ]
    parts.append(
        f'<text x="{(_WIDTH + _LEFT) / 2:.0f}" y="{_HEIGHT - 14}" text-anchor="middle">million events</text>'
        f'<text transform="translate(16 {_HEIGHT / 2:.0f}) rotate(-90)" text-anchor="middle">CPU seconds</text>'
    )
    for number, (name, line) in enumerate(series.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        path = " ".join(f"{x(at):.1f},{y(cost):.1f}" for at, cost in line)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [
            f'<circle cx="{x(at):.1f}" cy="{y(cost):.1f}" r="4" fill="{colour}">'
            f"<title>{name}: {at:g} million, {cost:.1f} s</title></circle>"
            for at, cost in line
        ]
        legend = _TOP + 14 + 18 * number
        parts.append(
            f'<rect x="{_LEFT + 12}" y="{legend - 9}" width="12" height="12" fill="{colour}"/>'
            f'<text x="{_LEFT + 30}" y="{legend + 1}">{name}</text>'
        )
    return "\n".join([*parts, "</g>", "</svg>", ""])


def _round_up(value: float) -> float:
    """Return a number with few digits that is not below a value."""
    unit = 10.0 ** (len(str(int(value))) - 1)
    return next(unit * step for step in (1, 2, 3, 4, 5, 6, 8, 10, 20) if unit * step >= value)
