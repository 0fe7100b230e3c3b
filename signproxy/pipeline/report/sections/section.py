"""Hold what a part of the page is: a sentence that says what it shows, its charts, and their figures as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from markupsafe import Markup

from signproxy.pipeline.report.data import Distribution
from signproxy.pipeline.report.twin import Column, ColumnKind, Twin, Value


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the page."""

    anchor: str
    title: str
    nav: str
    """The title in a word or two."""
    lead: str
    """What it says, in a sentence or two."""
    drawings: tuple[Markup, ...] = ()
    twins: tuple[Twin, ...] = ()
    empty: str = ""
    """Why there is nothing, instead of all that."""
    is_open: bool = False
    """Whether the table is what is looked at, since there is no chart."""
    is_long: bool = False
    """Whether the table is left out in print, where there is no scrolling."""


def nothing(anchor: str, title: str, nav: str, tables: str, job: str) -> Section:
    """Return a part that says which tables are empty, and which jobs fill them."""
    return Section(anchor=anchor, title=title, nav=nav, lead="", empty=f"No rows in {tables}. They come from: {job}.")


def bucket_labels(bounds: Sequence[float], write: Callable[[float], str]) -> tuple[str, ...]:
    """Return a label for each bucket of a histogram."""
    return (*(f"≤ {write(bound)}" for bound in bounds), f"> {write(bounds[-1])}")


def histogram_twin(name: str, caption: str, histogram: Distribution, labels: Sequence[str]) -> Twin:
    """Return a histogram as a table."""
    series = tuple(histogram.series.items())
    rows: tuple[tuple[Value, ...], ...] = tuple(
        (label, *(counts[at] for _, counts in series)) for at, label in enumerate(labels)
    )
    columns = (Column("Up to", ColumnKind.TEXT), *(Column(word) for word, _ in series))
    return Twin(name=name, caption=caption, columns=columns, rows=rows if series else ())
