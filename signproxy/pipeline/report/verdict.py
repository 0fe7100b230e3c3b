"""Say in one line how things stand, and how bad that is."""

from __future__ import annotations

from enum import Enum

import msgspec

from signproxy.pipeline.job import Severity
from signproxy.pipeline.report.data import EXACT, ReportData
from signproxy.pipeline.report.text import number, percent, plural


class ReportStatus(Enum):
    """How things stand; the value is the style's word for it."""

    NOTHING = "none"
    """There was nothing to judge by."""
    PLAIN = "plain"
    """A number that is neither good nor bad by itself."""
    GOOD = "good"
    LOOK = "look"
    WRONG = "wrong"


class Tile(msgspec.Struct, frozen=True):
    """One number of the verdict."""

    label: str
    value: str
    more: str
    standing: ReportStatus


class VerdictLine(msgspec.Struct, frozen=True):
    """The first thing that a reader sees."""

    standing: ReportStatus
    sentence: str
    tiles: tuple[Tile, ...]


def verdict(data: ReportData) -> VerdictLine:
    """Return how things stand."""
    tiles = (_attributed(data), _findings(data), _trail(data), _decisions(data), _rights(data))
    known = [tile.standing for tile in tiles if tile.standing is not ReportStatus.NOTHING]
    if not known:
        return VerdictLine(ReportStatus.NOTHING, "There is nothing to report on: the warehouse holds no rows", tiles)
    # A part that was never looked at keeps the whole from being good.
    judged = [tile.standing for tile in tiles[:3]]
    if ReportStatus.WRONG in judged:
        standing = ReportStatus.WRONG
    elif ReportStatus.LOOK in judged or ReportStatus.NOTHING in judged:
        standing = ReportStatus.LOOK
    else:
        standing = ReportStatus.GOOD
    sentence = "; ".join((_attributed_words(data), _finding_words(data), _trail_words(data)))
    return VerdictLine(standing, sentence[0].upper() + sentence[1:], tiles)


def _worst(data: ReportData) -> Severity | None:
    return max((Severity[word.upper()] for word, n in data.severities.items() if n), default=None)


def _attributed_words(data: ReportData) -> str:
    whole = data.requests
    if not whole:
        return "no store's log was read, so nothing is known of accesses past signproxy"
    explained = whole - data.requests_of(("unattributed",))
    return f"{percent(explained, whole)} of {plural(whole, 'storage request')} attributed"


def _finding_words(data: ReportData) -> str:
    if not any(data.severities.values()):
        return "no findings"
    parts = [
        f"{number(data.severities[severity.word])} {severity.word}"
        for severity in sorted(Severity, reverse=True)
        if data.severities.get(severity.word)
    ]
    return f"{', '.join(parts)} {'finding' if sum(data.severities.values()) == 1 else 'findings'}"


def _trail_words(data: ReportData) -> str:
    trail = data.trail
    if not trail.segments:
        return "no audit segment was read"
    faults = trail.faults
    if not trail.gaps and not faults:
        return "no gap in the audit trail"
    parts = []
    if trail.gaps:
        missing = f"{plural(trail.missing, 'event')} missing"
        parts.append(f"{plural(trail.gaps, 'gap')} in the audit trail ({missing})")
    if faults:
        parts.append(f"{plural(faults, 'segment')} not whole")
    return ", ".join(parts)


def _attributed(data: ReportData) -> Tile:
    whole = data.requests
    if not whole:
        return Tile("Attributed", "not known", "no rows in access_attribution", ReportStatus.NOTHING)
    unattributed = data.requests_of(("unattributed",))
    exact = data.requests_of(EXACT)
    more = f"{percent(exact, whole)} by an exact key; {number(unattributed)} by nothing"
    standing = ReportStatus.WRONG if unattributed else ReportStatus.GOOD
    return Tile("Attributed", percent(whole - unattributed, whole), more, standing)


def _findings(data: ReportData) -> Tile:
    total = sum(data.severities.values())
    worst = _worst(data)
    if worst is None:
        # Without a job that looks for them, none are found.
        looked = bool(data.requests)
        return Tile(
            "Findings", "none" if looked else "not known", "", ReportStatus.GOOD if looked else ReportStatus.NOTHING
        )
    serious = sum(data.severities.get(each.word, 0) for each in (Severity.HIGH, Severity.CRITICAL))
    standing = ReportStatus.WRONG if serious else ReportStatus.LOOK if worst >= Severity.LOW else ReportStatus.GOOD
    return Tile("Findings", number(total), f"{number(serious)} of them high or critical", standing)


def _trail(data: ReportData) -> Tile:
    trail = data.trail
    if not trail.segments:
        return Tile("Audit trail", "not known", "no rows in segments", ReportStatus.NOTHING)
    faults = trail.faults
    standing = ReportStatus.WRONG if trail.gaps or faults else ReportStatus.GOOD
    value = plural(trail.gaps, "gap") if trail.gaps else f"{number(faults)} not whole" if faults else "whole"
    more = f"{plural(trail.events, 'event')} in {plural(trail.segments, 'segment')}; {number(faults)} not whole"
    return Tile("Audit trail", value, more, standing)


def _decisions(data: ReportData) -> Tile:
    slots = data.timeline.slots
    whole = sum(slot.total for slot in slots)
    if not whole:
        return Tile("Refused", "not known", "no rows in access_daily", ReportStatus.NOTHING)
    refused = sum(slot.deny for slot in slots)
    return Tile(
        "Refused", percent(refused, whole), f"{number(refused)} of {number(whole)} decisions", ReportStatus.PLAIN
    )


def _rights(data: ReportData) -> Tile:
    rights = data.rights
    if not rights.principals:
        return Tile("Granted → used", "not known", "no rows in blast_radius", ReportStatus.NOTHING)
    value = f"{number(rights.median_entitled)} → {number(rights.median_used)}"
    more = f"tables of {number(rights.all_tables)}, median of {plural(rights.principals, 'principal')}"
    return Tile("Granted → used", value, more, ReportStatus.PLAIN)
