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
    judged = (_attributed(data), _findings(data), _trail(data))
    tiles = (*(tile for _, tile in judged), _decisions(data), _rights(data))
    if all(tile.standing is ReportStatus.NOTHING for tile in tiles):
        return VerdictLine(ReportStatus.NOTHING, "There is nothing to report on: the warehouse holds no rows", tiles)
    # A part that was never looked at keeps the whole from being good.
    standings = {tile.standing for _, tile in judged}
    if ReportStatus.WRONG in standings:
        standing = ReportStatus.WRONG
    elif standings & {ReportStatus.LOOK, ReportStatus.NOTHING}:
        standing = ReportStatus.LOOK
    else:
        standing = ReportStatus.GOOD
    sentence = "; ".join(words for words, _ in judged)
    return VerdictLine(standing, sentence[0].upper() + sentence[1:], tiles)


def _attributed(data: ReportData) -> tuple[str, Tile]:
    whole = data.requests
    if not whole:
        words = "no store's log was read, so nothing is known of accesses past signproxy"
        return words, _not_known("Attributed", "access_attribution")
    unattributed = data.requests_of(("unattributed",))
    share = percent(whole - unattributed, whole)
    more = f"{percent(data.requests_of(EXACT), whole)} by an exact key; {number(unattributed)} by nothing"
    standing = ReportStatus.WRONG if unattributed else ReportStatus.GOOD
    return f"{share} of {plural(whole, 'storage request')} attributed", Tile("Attributed", share, more, standing)


def _findings(data: ReportData) -> tuple[str, Tile]:
    found = {severity: n for severity in sorted(Severity, reverse=True) if (n := data.severities.get(severity.word))}
    if not found:
        # Without a job that looks for them, none are found.
        value, standing = ("none", ReportStatus.GOOD) if data.requests else ("not known", ReportStatus.NOTHING)
        return "no findings", Tile("Findings", value, "", standing)
    total, serious = sum(found.values()), sum(n for severity, n in found.items() if severity >= Severity.HIGH)
    standing = ReportStatus.GOOD if max(found) < Severity.LOW else ReportStatus.LOOK
    if serious:
        standing = ReportStatus.WRONG
    words = ", ".join(f"{number(n)} {severity.word}" for severity, n in found.items())
    tile = Tile("Findings", number(total), f"{number(serious)} of them high or critical", standing)
    return f"{words} {'finding' if total == 1 else 'findings'}", tile


def _trail(data: ReportData) -> tuple[str, Tile]:
    trail = data.trail
    if not trail.segments:
        return "no audit segment was read", _not_known("Audit trail", "segments")
    faults, parts = trail.faults, []
    if trail.gaps:
        missing = f"{plural(trail.missing, 'event')} missing"
        parts.append(f"{plural(trail.gaps, 'gap')} in the audit trail ({missing})")
    if faults:
        parts.append(f"{plural(faults, 'segment')} not whole")
    standing = ReportStatus.WRONG if parts else ReportStatus.GOOD
    value = plural(trail.gaps, "gap") if trail.gaps else f"{number(faults)} not whole" if faults else "whole"
    more = f"{plural(trail.events, 'event')} in {plural(trail.segments, 'segment')}; {number(faults)} not whole"
    return ", ".join(parts) or "no gap in the audit trail", Tile("Audit trail", value, more, standing)


def _decisions(data: ReportData) -> Tile:
    whole = sum(slot.total for slot in data.timeline.slots)
    if not whole:
        return _not_known("Refused", "access_daily")
    refused = sum(slot.deny for slot in data.timeline.slots)
    more = f"{number(refused)} of {number(whole)} decisions"
    return Tile("Refused", percent(refused, whole), more, ReportStatus.PLAIN)


def _rights(data: ReportData) -> Tile:
    rights = data.rights
    if not rights.principals:
        return _not_known("Granted → used", "blast_radius")
    value = f"{number(rights.median_entitled)} → {number(rights.median_used)}"
    more = f"tables of {number(rights.all_tables)}, median of {plural(rights.principals, 'principal')}"
    return Tile("Granted → used", value, more, ReportStatus.PLAIN)


def _not_known(label: str, table: str) -> Tile:
    return Tile(label, "not known", f"no rows in {table}", ReportStatus.NOTHING)
