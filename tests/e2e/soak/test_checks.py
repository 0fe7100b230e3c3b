"""What the long runs and the fault runs rest on: a hole, a repetition, a leak and a lost answer are found."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.faults.evidence import check_every_answer, check_numbers
from tests.e2e.faults.load import CLOSED, SIGNED, Exchange
from tests.e2e.soak.client import digest_of
from tests.e2e.soak.processes import WARM_UP_SHARE, drift_of
from tests.e2e.soak.trail import Trail

pytestmark = pytest.mark.ci

SECONDS = 300.0
WARM = SECONDS * WARM_UP_SHARE


def _event(seq: int, *, boot: str = "B", name: str = "", **more: object) -> dict[str, Any]:
    return {
        "boot_id": boot, "seq": seq, "event_id": f"{boot}{seq:025}", "kind": "sign", "decision": "allow",
        "reason": "allowed", "http_status": 200, "request_id": name or f"load-{boot}-{seq}", **more,
    }  # fmt: skip


def _read(directory: Path, *events: Mapping[str, Any]) -> Trail:
    trail = Trail()
    file = directory / "audit.1"
    file.write_text("".join(json.dumps(event) + "\n" for event in events))
    trail.read(file)
    return trail


def test_a_whole_trail_is_summed_up(tmp_path: Path) -> None:
    """Two processes write one file, in any order, and a reload is no request."""
    events = [
        _event(1), _event(1, boot="C"), _event(2), _event(3, kind="reload"), _event(4, decision="deny", count=7),
    ]  # fmt: skip
    trail = _read(tmp_path, *events)
    assert (trail.events, trail.allowed, trail.denied, trail.boots, trail.faults) == (5, 3, 7, 2, [])
    ids = [event["event_id"] for event in events[:3]]
    assert trail.digest == sum(digest_of(each.encode()) for each in ids)
    assert trail.others == {"reload": 1}


@pytest.mark.parametrize(
    ("events", "fault"),
    (
        ([_event(1), _event(3)], "3 follows 1"),
        ([_event(1), _event(1)], "1 follows 1"),
        ([_event(2)], "2 follows 0"),
        ([_event(1), _event(2, event_id=_event(1)["event_id"])], "comes twice"),
    ),
)
def test_a_trail_that_is_not_whole_is_told(tmp_path: Path, events: list[dict[str, Any]], fault: str) -> None:
    """A soak that cannot fail proves nothing."""
    assert any(fault in each for each in _read(tmp_path, *events).faults)
    with pytest.raises(AssertionError):
        check_numbers(events)


def test_ids_that_were_exchanged_are_told_by_their_sum(tmp_path: Path) -> None:
    """The count alone would not show an answer whose event is another request's."""
    assert _read(tmp_path, _event(1), _event(2)).digest != _read(tmp_path, _event(1), _event(2, boot="D")).digest


def test_answers_and_events_are_held_against_each_other() -> None:
    """Each way in which they can differ has to be found."""
    signed = Exchange(0.0, 0.1, SIGNED, "load-B-1", 1, last=False)
    lost = Exchange(0.0, 0.1, CLOSED, "load-B-2", 1, last=True)
    refused = Exchange(0.0, 0.1, "503 ServiceUnavailableException", "load-B-3", 1, last=False)
    denied = Exchange(0.0, 0.1, "403 ForbiddenException", "load-B-4", 1, last=False)
    away = _event(3, name="-", decision="error", reason="audit_unavailable", http_status=503)
    told = _event(4, decision="deny", reason="table_unknown", http_status=403)
    # A lost answer may have an event or none: the client went away, or the server never heard.
    check_every_answer([_event(1), _event(2), away, told], [signed, lost, refused, denied])
    check_every_answer([_event(1), away, told], [signed, lost, refused, denied])
    for events in (
        [away, told],
        [_event(1, decision="deny"), away, told],
        [_event(1), told],
        [_event(1), away | {"count": 2}, told],
        [_event(1), away, told | {"http_status": 401}],
        [_event(1), _event(9, name="load-B-1"), away, told],
    ):
        with pytest.raises((AssertionError, KeyError)):
            check_every_answer(events, [signed, lost, refused, denied])


def test_memory_that_grows_is_told_and_the_warm_up_is_not_looked_at() -> None:
    """A leak of a tenth must show, and caches that fill at the start must not."""
    steady = [(float(at), 50.0 if at >= WARM else 10.0) for at in range(int(SECONDS))]
    drift = drift_of("steady", steady, SECONDS)
    assert (drift.least_percent, drift.most_percent, drift.first_mib) == (0.0, 0.0, 50.0)
    leaking = [(float(at), 50.0 * (1 + 0.1 * max(0.0, at - WARM) / (SECONDS - WARM))) for at in range(int(SECONDS))]
    assert drift_of("leaking", leaking, SECONDS).most_percent > 5.0
    shrinking = [(at, 100.0 - mib) for at, mib in leaking]
    assert drift_of("shrinking", shrinking, SECONDS).least_percent < -5.0
