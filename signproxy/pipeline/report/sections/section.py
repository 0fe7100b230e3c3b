"""Hold what a part of the page is: a sentence that says what it shows, its charts, and their figures as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from signproxy.pipeline.report.charts import Chart
from signproxy.pipeline.report.data import Distribution
from signproxy.pipeline.report.twin import Twin, twin


class Section(msgspec.Struct, frozen=True):
    """A part of the page."""

    anchor: str
    title: str
    nav: str
    """The title in a word or two."""
    empty: str = ""
    """Why there is nothing, instead of all that follows."""
    lead: str = ""
    """What it says, in a sentence or two."""
    drawings: tuple[Chart, ...] = ()
    twins: tuple[Twin, ...] = ()
    is_open: bool = False
    """Whether the table is what is looked at, since there is no chart."""
    is_long: bool = False
    """Whether the table is left out in print, where there is no scrolling."""

    def saying(self, lead: str, drawings: Sequence[Chart], *twins: Twin) -> Section:
        """Return it with what it shows; a table without rows is left out."""
        held = tuple(each for each in twins if each.rows)
        return msgspec.structs.replace(self, empty="", lead=lead, drawings=tuple(drawings), twins=held)


def nothing_in(tables: str, job: str) -> str:
    """Return which tables are empty, and which jobs fill them."""
    return f"No rows in {tables}. They come from: {job}."


def bucket_labels(bounds: Sequence[float], write: Callable[[float], str]) -> tuple[str, ...]:
    """Return a label for each bucket of a histogram."""
    return (*(f"≤ {write(bound)}" for bound in bounds), f"> {write(bounds[-1])}")


def histogram_twin(name: str, caption: str, histogram: Distribution, labels: Sequence[str]) -> Twin:
    """Return a histogram as a table."""
    rows = zip(labels, *histogram.series.values(), strict=True) if histogram.series else ()
    return twin(name, caption, ", ".join(("Up to:text", *histogram.series)), rows)
