"""Prove that operators hear of what is not believed, and are not drowned by it."""

from __future__ import annotations

import pytest

from signproxy.errors import Reason
from signproxy.inventory.learned import alarms as module
from signproxy.inventory.learned.alarms import TOLD_FOR, AlarmKind, Alarms, SightingRefusal
from signproxy.model import TableId

THIEF = TableId("lake", "sales", "thief")


def _refusal(detail: str = "why", reason: Reason = Reason.LOCATION_DISPUTED) -> SightingRefusal:
    return SightingRefusal(reason, detail, THIEF, TableId("lake", "sales", "orders"))


def _lines(capfd: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capfd.readouterr().err.splitlines() if "location not believed" in line]


def test_an_alarm_names_both_tables_and_why(capfd: pytest.CaptureFixture[str]) -> None:
    """Which of them is wrong is for the operator to find out."""
    Alarms().sound(_refusal(), 100.0)
    [line] = _lines(capfd)
    for part in ("lake.sales.thief", "lake.sales.orders", "location_disputed", "why"):
        assert part in line


def test_each_alarm_is_counted_and_told_once_in_a_while(capfd: pytest.CaptureFixture[str]) -> None:
    """A job repeats its request a thousand times until an operator looks."""
    alarms = Alarms()
    for now in (100.0, 100.0 + TOLD_FOR - 1, 100.0 + TOLD_FOR, 100.0 + TOLD_FOR + 1):
        alarms.sound(_refusal(), now)
    alarms.sound(_refusal("another"), 100.0)
    alarms.sound(_refusal(reason=Reason.LOCATION_OUTSIDE_ROOTS, detail="root"), 100.0)
    assert alarms.counts == {AlarmKind.DISPUTED: 5, AlarmKind.OUTSIDE: 1, AlarmKind.UNVOUCHED: 0}
    assert len(_lines(capfd)) == 4


def test_what_is_no_attack_is_no_alarm(capfd: pytest.CaptureFixture[str]) -> None:
    """An answer that came late is everyday."""
    alarms = Alarms()
    alarms.sound(_refusal(reason=Reason.TABLE_UNKNOWN), 100.0)
    assert sum(alarms.counts.values()) == 0
    assert _lines(capfd) == []


def test_what_was_told_is_remembered_in_bounds(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hostile catalog makes up a new claim each time."""
    monkeypatch.setattr(module, "TOLD_AT_MOST", 2)
    alarms = Alarms()
    for detail in ("a", "b", "c", "b", "a"):
        alarms.sound(_refusal(detail), 100.0)
    assert len(_lines(capfd)) == 4
    assert len(alarms._told) == 2
