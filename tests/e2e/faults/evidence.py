"""Hold the audit trail against what callers saw: nothing served without an event, nothing invented, nothing twice."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.e2e.faults.load import SIGNED, Exchange

UNAVAILABLE = "audit_unavailable"


def check_numbers(events: Iterable[Mapping[str, Any]]) -> int:
    """Assert that ids are unique and that sequences have neither holes nor repetitions; return how many boots."""
    boots: dict[str, list[int]] = defaultdict(list)
    ids: Counter[str] = Counter()
    for event in events:
        boots[event["boot_id"]].append(event["seq"])
        ids[event["event_id"]] += 1
    assert [each for each, count in ids.items() if count > 1] == []
    for boot, numbers in boots.items():
        assert numbers == list(range(1, len(numbers) + 1)), f"boot {boot}: {holes(numbers)}"
    return len(boots)


def holes(numbers: Sequence[int]) -> list[int]:
    """Return the numbers that are missing from 1 to the last."""
    return sorted(set(range(1, max(numbers, default=0) + 1)) - set(numbers))


def check_every_answer(events: Iterable[Mapping[str, Any]], exchanges: Iterable[Exchange]) -> None:
    """Assert that each answer has its event, with the same outcome, and that only lost requests may have one more."""
    told: dict[str, Mapping[str, Any]] = {}
    turned_away = 0
    for event in events:
        if event["reason"] == UNAVAILABLE:
            # Events for many: the trail was not there for a single one.
            turned_away += event.get("count", 1)
        elif event.get("request_id", "").startswith("load-"):
            assert event["request_id"] not in told, event
            told[event["request_id"]] = event
    seen_away = 0
    for each in exchanges:
        if each.outcome == SIGNED:
            assert each.request_id in told, f"{each} has no event"
            assert told[each.request_id]["decision"] == "allow", each
        elif each.outcome.startswith("503 "):
            seen_away += told.get(each.request_id, {"reason": UNAVAILABLE})["reason"] == UNAVAILABLE
        elif each.outcome[:1].isdigit() and not each.outcome.startswith("401"):
            assert f"{told[each.request_id]['http_status']}" == each.outcome[:3], each
    assert turned_away == seen_away
