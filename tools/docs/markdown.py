"""Write Markdown tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; cells may hold any text on one line."""
    lines = [_row(titles), _row(["---"] * len(titles))]
    lines += [_row([_cell(cell) for cell in row]) for row in rows]
    return "\n".join(lines) + "\n"


def code(text: str) -> str:
    """Return text set as code, or nothing for none."""
    return f"`{text}`" if text else ""


def codes(names: Iterable[str]) -> str:
    """Return names set as code, one after the other."""
    return ", ".join(code(name) for name in names)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
