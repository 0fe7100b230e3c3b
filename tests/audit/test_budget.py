"""How much a caller without an identity can make signproxy keep and write."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

import pytest

from signproxy.audit.budget import (
    CALLERS_PER_WINDOW,
    EVENTS_PER_CALLER,
    EVENTS_PER_WINDOW,
    OVER_LIMIT,
    RefusalBudget,
)
from signproxy.audit.event import AuditEvent, Kind, Verdict
from signproxy.errors import Reason
from tests.audit.events import an_event, refusal


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_the_first_sixty_of_a_minute_are_events_of_their_own() -> None:
    """An operator who debugs a client needs to see its refusals, not a count."""
    budget = RefusalBudget()
    assert [budget.take(refusal()) for _ in range(62)] == [True] * EVENTS_PER_WINDOW + [False, False]
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
    assert (budget.take(refusal()), budget.take(refusal())) == (True, False)
    clock.now += 60
    budget.settle()
    assert not budget.is_over
    assert (budget.take(refusal()), budget.take(refusal())) == (True, False)


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


def _too_much(principal: str, reason: str = "rate_limited") -> AuditEvent:
    issuer = principal.partition("/")[0]
    return an_event(principal=principal, issuer=issuer, decision=Verdict.DENY, reason=reason, http_status=429)


def callers_budget(clock: Callable[[], float] = monotonic) -> RefusalBudget:
    return RefusalBudget(EVENTS_PER_CALLER, callers=CALLERS_PER_WINDOW, clock=clock)


def _ask(budget: RefusalBudget, event: AuditEvent) -> bool:
    """Do what the trail does; say whether it became an event of its own."""
    taken = budget.take(event)
    if not taken:
        budget.put_aside(event)
    return taken


def test_what_is_refused_for_its_amount_has_a_budget() -> None:
    """Each reason that repeats as often as its caller likes must be one of them, or it fills the disk."""
    amounts = {reason.code for reason in Reason if reason.status == 429} | {Reason.OVERLOADED.code}
    assert amounts == OVER_LIMIT


def test_the_first_refusals_of_each_caller_are_events_and_the_others_one() -> None:
    """An operator has to see whose job runs wild and from where; thousands of lines say no more than five."""
    budget = callers_budget()
    assert [_ask(budget, _too_much("idp/a")) for _ in range(1000)] == [True] * EVENTS_PER_CALLER + [False] * 995
    # Another one's flood does not hide it.
    assert [_ask(budget, _too_much("idp/b")) for _ in range(8)] == [True] * EVENTS_PER_CALLER + [False] * 3
    assert not _ask(budget, _too_much("idp/b", "overloaded"))
    events = budget.settle()
    assert [(event.principal, event.issuer, event.reason, event.count, event.decision) for event in events] == [
        ("idp/a", "idp", "rate_limited", 995, Verdict.DENY),
        ("idp/b", "idp", "rate_limited", 3, Verdict.DENY),
        # Not this caller's doing alone.
        ("idp/b", "idp", "overloaded", 1, Verdict.ERROR),
    ]
    assert [event.http_status for event in events] == [429, 429, 503]
    assert {(event.policy_rev, event.key, event.table) for event in events} == {("5f2c", "", "")}
    assert len({event.event_id for event in events}) == 3
    assert budget.settle() == []


def test_a_new_window_is_new_for_every_caller() -> None:
    """Yesterday's flood must not hide today's."""
    clock = Clock()
    budget = callers_budget(clock)
    for _ in range(EVENTS_PER_CALLER + 1):
        _ask(budget, _too_much("idp/a"))
    over = [budget.is_over]
    clock.now += 60
    over.append(budget.is_over)
    assert len(budget.settle()) == 1
    over.append(budget.is_over)
    assert over == [False, True, False]
    assert _ask(budget, _too_much("idp/a"))


def test_an_issuers_many_callers_are_told_apart_up_to_a_bound() -> None:
    """A stranger who makes up identities could fill memory and disk with them."""
    budget = callers_budget()
    callers = [f"idp/{number}" for number in range(10 * CALLERS_PER_WINDOW)]
    own = sum(_ask(budget, _too_much(caller)) for _ in range(EVENTS_PER_CALLER + 2) for caller in callers)
    assert own == CALLERS_PER_WINDOW * EVENTS_PER_CALLER
    events = budget.settle()
    assert len(events) == CALLERS_PER_WINDOW + 1
    (others,) = [event for event in events if not event.principal]
    assert others.issuer == ""
    assert others.count == 9 * CALLERS_PER_WINDOW * (EVENTS_PER_CALLER + 2)
    assert own + sum(event.count for event in events) == len(callers) * (EVENTS_PER_CALLER + 2)


def test_counts_that_are_put_aside_again_stay_their_callers() -> None:
    """The disk may be full when a window ends; whose flood it was must survive that."""
    budget = callers_budget()
    for _ in range(EVENTS_PER_CALLER + 7):
        _ask(budget, _too_much("idp/a"))
    for event in budget.settle():
        budget.put_aside(event)
    assert [(event.principal, event.count) for event in budget.settle()] == [("idp/a", 7)]
