"""How much a caller without an identity can make signproxy keep and write."""

from __future__ import annotations

import pytest

from signproxy.audit.budget import EVENTS_PER_WINDOW, RefusalBudget
from signproxy.audit.event import Kind, Verdict
from signproxy.errors import Reason
from tests.audit.events import refusal


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_the_first_sixty_of_a_minute_are_events_of_their_own() -> None:
    """An operator who debugs a client needs to see its refusals, not a count."""
    budget = RefusalBudget()
    assert [budget.take() for _ in range(62)] == [True] * EVENTS_PER_WINDOW + [False, False]
    assert EVENTS_PER_WINDOW == 60


@pytest.mark.parametrize(("elapsed", "over"), ((0.0, False), (59.999, False), (60.0, True), (600.0, True)))
def test_a_window_lasts_a_minute(elapsed: float, over: bool) -> None:
    """Shorter, the budget is larger than promised; longer, counts are late."""
    clock = Clock()
    budget = RefusalBudget(clock=clock)
    clock.now += elapsed
    assert budget.is_over is over


def test_a_new_window_has_a_new_budget() -> None:
    """A flood yesterday must not hide today's refusals."""
    clock = Clock()
    budget = RefusalBudget(events=1, clock=clock)
    assert (budget.take(), budget.take()) == (True, False)
    clock.now += 60
    budget.settle()
    assert not budget.is_over
    assert (budget.take(), budget.take()) == (True, False)


def test_what_was_put_aside_becomes_one_event_per_kind_and_reason() -> None:
    """The count is exact, so that a flood can be seen for what it was."""
    budget = RefusalBudget()
    for reason, times in (("token_missing", 1000), ("token_expired", 3), ("keys_unavailable", 2)):
        for _ in range(times):
            budget.put_aside(refusal(reason))
    events = budget.settle()
    assert [(event.reason, event.count, event.http_status, event.decision) for event in events] == [
        ("token_missing", 1000, 401, Verdict.DENY),
        ("token_expired", 3, 401, Verdict.DENY),
        # Not the caller's doing.
        ("keys_unavailable", 2, 503, Verdict.ERROR),
    ]
    assert {event.policy_rev for event in events} == {"5f2c"}
    assert len({event.event_id for event in events}) == 3
    assert budget.settle() == []


def test_what_is_kept_is_bounded_by_the_closed_sets() -> None:
    """Were a caller able to choose what is counted by, the counting itself would fill the memory."""
    budget = RefusalBudget()
    for number in range(10_000):
        budget.put_aside(refusal(f"made_up_{number}"))
    for reason in Reason:
        budget.put_aside(refusal(reason.code))
    events = budget.settle()
    assert len(events) == len(Reason) <= len(Reason) * len(Kind)
    assert next(event.count for event in events if event.reason == "internal") == 10_001
