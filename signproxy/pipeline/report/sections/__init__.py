"""Arrange a report's charts: each with a sentence that says what it shows, and its figures as a table."""

from __future__ import annotations

from signproxy.pipeline.report.data import ReportData
from signproxy.pipeline.report.sections import decisions, evidence, stores
from signproxy.pipeline.report.sections.section import Section

__all__ = ["Section", "sections"]

_PARTS = (
    stores.attribution,
    decisions.timeline,
    decisions.heat,
    decisions.rights,
    decisions.breadth,
    stores.unattributed,
    evidence.revocation,
    stores.cost,
    stores.sizes,
    evidence.quality,
)


def sections(data: ReportData) -> tuple[Section, ...]:
    """Return the parts in the order in which they are read, after the verdict and the findings."""
    return tuple(part(data) for part in _PARTS)
