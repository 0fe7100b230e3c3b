"""What one caller may use up, in requests and in places: exact, and nothing is remembered of who is idle."""

from __future__ import annotations

import itertools
from contextlib import ExitStack

import msgspec
import pytest

from signproxy.config.settings import LimitSettings
from signproxy.errors import Reason, Refused
from signproxy.gate import limits as module
from signproxy.gate import work
from signproxy.gate.limits import (
    HELD_PER_SECOND,
    LONGEST_WAIT,
    Held,
    Limits,
    Places,
)
from tests.places import placed


def test_each_caller_and_all_together_have_a_limit() -> None:
    """A job with a thousand connections would take the memory, and the store, of all others."""
    transfers = Places("transfers at a time", 2, 3)
    with ExitStack() as going:
        for name in ("a", "a", "b"):
            going.enter_context(placed(transfers, name))
        assert transfers.taken == 3
        for name, reason in (("a", Reason.IN_FLIGHT_LIMITED), ("b", Reason.OVERLOADED), ("c", Reason.OVERLOADED)):
            with pytest.raises(Refused) as caught, placed(transfers, name):
                pass
            assert caught.value.reason is reason
        transfers.replace(3, 4)
        with placed(transfers, "a"):
            assert transfers.taken == 4
    assert transfers.taken == 0
    with placed(transfers, "a"):
        assert transfers.taken == 1


def test_a_transfer_that_fails_is_counted_out() -> None:
    """After as many failures as the limit allows no request would be served any more."""
    transfers = Places("transfers at a time", 1, 1)
    for _ in range(3):
        with pytest.raises(RuntimeError), placed(transfers, "a"):
            raise RuntimeError
    assert transfers.taken == 0


def test_a_request_that_only_asks_is_counted_only_if_there_is_room() -> None:
    """A request that is left to another way would be counted twice, or not at all."""
    transfers = Places("transfers at a time", 1, 2)
    assert transfers.begin_at_once("a")
    assert not transfers.begin_at_once("a")
    assert transfers.begin_at_once("b")
    assert not transfers.begin_at_once("c")
    assert transfers.taken == 2
    transfers.end("a")
    assert transfers.begin_at_once("c")


# -- rates -----------------------------------------------------------------------------------------------------------

SECOND = 1_000_000_000
START = 5 * SECOND
"""Any moment: the clock counts from when the machine started."""


def _limits(**changes: int) -> Limits:
    return Limits(msgspec.structs.replace(LimitSettings(), **changes))


def _is_refused(limits: Limits, name: str, now: int) -> bool:
    try:
        limits.admit(name, now)
    except Refused as refused:
        return refused.reason is Reason.RATE_LIMITED
    return False


def test_a_burst_comes_at_once_and_the_next_request_waits_its_turn() -> None:
    """PyIceberg gives up at the first 429: a client that is a little too quick has to be slowed down instead."""
    limits = _limits(requests_per_second=100, burst=5)
    assert [limits.admit("a", START) for _ in range(5)] == [None] * 5
    waits = [limits.admit("a", START) for _ in range(10)]
    assert [hold and round(hold.seconds, 6) for hold in waits] == [pytest.approx(turn / 100) for turn in range(1, 11)]
    assert all(hold is not None and hold.among is limits.callers for hold in waits)


def test_a_request_that_would_have_to_wait_long_is_refused() -> None:
    """Answers that pile up are memory; and a client that is told can go elsewhere."""
    limits = _limits(requests_per_second=100, burst=5)
    for _ in range(5 + round(LONGEST_WAIT * 100)):
        assert not _is_refused(limits, "a", START)
    assert _is_refused(limits, "a", START)
    # One past the bound, and exactly at it.
    assert _is_refused(limits, "a", START + SECOND // 100 - 1)
    assert not _is_refused(limits, "a", START + SECOND // 100)


@pytest.mark.parametrize(("rate", "burst"), ((1, 1), (7, 3), (100, 100), (2_000, 4_000), (10_000_000, 10_000_000)))
def test_over_any_time_no_more_than_burst_and_rate_are_served(rate: int, burst: int) -> None:
    """A limit that leaks by rounding is another limit."""
    limits = _limits(requests_per_second=rate, burst=burst)
    asked_at = [START + step * SECOND // (50 * rate) for step in range(1_000)]
    served = 0
    for now in asked_at:
        served += not _is_refused(limits, "a", now)
        most = burst + rate * (now - START) / SECOND + rate * LONGEST_WAIT + 1
        assert served <= most
    assert served >= min(len(asked_at), burst)


def test_a_pause_gives_the_burst_back_and_no_more() -> None:
    """A job that begins anew after an hour is as welcome as the first time, and not more."""
    limits = _limits(requests_per_second=10, burst=10)
    for now in (START, START + 2 * SECOND, START + 3600 * SECOND):
        assert [limits.admit("a", now) is None for _ in range(11)] == [True] * 10 + [False]


def test_principals_do_not_share() -> None:
    """That is the point of it."""
    limits = _limits(requests_per_second=1, burst=1)
    assert limits.admit("a", START) is None
    assert _is_refused(limits, "a", START)
    assert limits.admit("b", START) is None


def test_a_refused_request_uses_nothing_up() -> None:
    """Else a client that repeats in time would never be served again."""
    limits = _limits(requests_per_second=1, burst=1)
    assert limits.admit("a", START) is None
    for _ in range(1_000):
        assert _is_refused(limits, "a", START)
    assert limits.admit("a", START + SECOND) is None


def test_who_is_idle_is_forgotten_and_who_is_not_is_kept() -> None:
    """An issuer with a million users must not fill the memory, nor may filling it wipe out a debt."""
    limits = _limits(requests_per_second=10, burst=10)
    for _ in range(11):
        limits.admit("greedy", START)
    for number in range(100_000):
        limits.admit(f"user{number}", START + number * SECOND // 100_000)
        assert len(limits._due) <= 25_000
    # Of a second in which 100,000 asked once each, those of the last tenth are not idle yet.
    assert len(limits._due) >= 10_000
    limits.replace(msgspec.structs.replace(LimitSettings(), requests_per_second=10, burst=10))
    assert "greedy" in limits._due
    for number in range(25_000):
        limits.admit(f"late{number}", START + 3600 * SECOND + number * SECOND)
    assert len(limits._due) <= 2_048


def test_new_settings_are_for_the_next_request() -> None:
    """A reload that lowers a limit during an incident has to bite now."""
    limits = _limits(requests_per_second=1_000, burst=1_000)
    assert limits.admit("a", START) is None
    limits.replace(msgspec.structs.replace(LimitSettings(), requests_per_second=1, burst=1, connections=20))
    assert limits.connections.limit == 20
    # What was used up before is not given back, and counts for no more than it was.
    assert limits.admit("a", START + SECOND // 1_000) is None
    assert _is_refused(limits, "a", START + SECOND // 2)
    limits.replace(msgspec.structs.replace(LimitSettings(), requests_per_second=1_000, burst=1_000))
    assert limits.admit("a", START + SECOND // 2) is None


@pytest.mark.parametrize(
    ("cost", "more"),
    (
        (work.of_bytes(4095), 0),
        (work.of_bytes(4096), 1),
        (work.of_bytes(8191), 1),
        (work.of_bytes(150_000), 36),
        (work.of_bulk_delete("<Key>" * 7), 0),
        (work.of_bulk_delete(b"<Key>" * 8), 1),
        (work.of_bulk_delete("<Key >" * 600), 75),
        # No more of them are read.
        (work.of_bulk_delete(b"<Key>" * 70_000), 125),
    ),
)
def test_work_counts_for_what_it_costs(cost: int, more: int) -> None:
    """Bulk deletes of a thousand keys take as long as a hundred reads; so many would starve the others."""
    limits = _limits(requests_per_second=1, burst=200)
    limits.admit("a", START)
    limits.charge("a", cost, START)
    left = sum(limits.admit("a", START) is None for _ in range(199 - more))
    assert left == 199 - more
    assert _is_refused(limits, "a", START)


def test_work_of_requests_that_came_together_is_refused_before_it_is_done() -> None:
    """Each of a hundred connections is admitted before the first of them was charged: all of it would be done."""
    limits = _limits(requests_per_second=100, burst=100)
    for _ in range(8):
        assert limits.admit("a", START) is None
    # However much it is, nothing was owed.
    limits.charge("a", 125, START)
    with pytest.raises(Refused) as refused:
        limits.charge("a", 125, START)
    assert refused.value.reason is Reason.RATE_LIMITED
    # What costs nothing is done all the same, and no other caller is concerned.
    limits.charge("a", 0, START)
    limits.admit("b", START)
    limits.charge("b", 125, START)
    # Within the longest wait an answer would be late, and is not refused.
    limits.charge("a", 1, START + 25 * SECOND // 100)


def test_work_of_a_caller_who_was_forgotten_counts() -> None:
    """A request that takes long would have its work done for nothing."""
    limits = _limits(requests_per_second=1, burst=10)
    limits.admit("a", START)
    limits._forget_idle(START + 3600 * SECOND)
    limits.charge("a", 10, START + 3600 * SECOND)
    assert _is_refused(limits, "a", START + 3600 * SECOND)


def test_a_request_that_begins_anew_counts_once() -> None:
    """One that has to be waited for is begun twice: each would use up two."""
    limits = _limits(requests_per_second=1, burst=3)
    for cost in (0, 2):
        limits.admit("a", START)
        limits.charge("a", cost, START)
        limits.give_back("a", cost)
    assert [_is_refused(limits, "a", START) for _ in range(4)] == [False, False, False, True]


def test_a_request_that_begins_anew_after_an_idle_sweep_is_no_fault() -> None:
    """A request that waits while its caller is forgotten as idle would end without an answer."""
    limits = Limits(LimitSettings())
    limits.admit("a", 1)
    limits._forget_idle(2**63)
    limits.give_back("a", 2)
    assert limits.admit("a", 2) is None


def test_strangers_are_answered_at_once_so_often_a_second_all_together() -> None:
    """They have no names; were they told apart by address, one address more would be one share more."""
    limits = _limits(unauthenticated_per_second=20)
    for second in range(3):
        now = START + 10 * second * SECOND
        assert [limits.stranger(now) for _ in range(20)] == [None] * 20
        held = [limits.stranger(now) for _ in range(50)]
        assert all(hold is not None and hold.among is limits.strangers for hold in held)
    assert sum(limits.stranger(START + 100 * SECOND + step * SECOND // 1_000) is None for step in range(5_000)) == 119
    assert limits._due == {}


def test_held_refusals_come_back_one_by_one() -> None:
    """Held alike, a flood would return as one wave each second, and all callers behind it would wait."""
    held = Held(1_000)
    seconds = sorted(held.penalty().seconds for _ in range(100))
    assert seconds[0] >= 0.5 * module.HOLD_SECONDS
    assert seconds[-1] <= 1.5 * module.HOLD_SECONDS
    gaps = [later - earlier for earlier, later in itertools.pairwise(seconds)]
    assert max(gaps) < 3 * module.HOLD_SECONDS / 100
    assert sum(seconds) / 100 == pytest.approx(module.HOLD_SECONDS, rel=0.05)


@pytest.mark.parametrize("times", (1, 2, 8))
def test_the_more_are_held_the_longer(times: int) -> None:
    """So that answering a flood costs the same however many connections it has."""
    held = Held(10_000)
    for _ in range(times * HELD_PER_SECOND):
        assert held.begin()
    seconds = [held.penalty().seconds for _ in range(100)]
    assert sum(seconds) / 100 == pytest.approx(times * module.HOLD_SECONDS, rel=0.05)


def test_held_answers_have_a_bound_and_are_counted() -> None:
    """Each is a connection and an answer in memory."""
    held = Held(2)
    assert [held.begin(), held.begin(), held.begin()] == [True, True, False]
    held.end()
    assert held.begin()
    assert (held.now, held.total) == (2, 3)


def test_what_is_in_flight_has_a_bound_of_its_own_for_each_and_for_all() -> None:
    """Requests that wait for a slow body or an upstream are memory; one caller's must not be that of all."""
    limits = _limits(in_flight=2, total_in_flight=3)
    with placed(limits.waiting, "a"), placed(limits.waiting, "a"):
        with pytest.raises(Refused) as mine, placed(limits.waiting, "a"):
            pass
        assert mine.value.reason is Reason.IN_FLIGHT_LIMITED
        with placed(limits.waiting, "b"):
            assert limits.waiting.taken == 3
            for name in ("b", "c"):
                with pytest.raises(Refused) as of_all, placed(limits.waiting, name):
                    pass
                assert of_all.value.reason is Reason.OVERLOADED
        with placed(limits.waiting, "c"):
            pass
    with pytest.raises(ZeroDivisionError), placed(limits.waiting, "a"):
        raise ZeroDivisionError
    assert limits.waiting.taken == 0
    assert limits.waiting._by_name == {}


def test_a_caller_that_may_go_on_at_once_is_counted_as_if_it_had_been_admitted() -> None:
    """A way that is quicker must not be one without limits, nor count a request twice that is left to the other one."""
    for rate, burst in ((100, 5), (7, 3), (10_000, 1)):
        limits, other = (_limits(requests_per_second=rate, burst=burst) for _ in range(2))
        # A caller that is not known yet has to be entered.
        assert not limits.admits_at_once("a", START)
        assert limits.admit("a", START) is other.admit("a", START) is None
        for turn in range(200):
            now = START + turn * SECOND // (3 * rate)
            went_on = limits.admits_at_once("a", now)
            if went_on:
                assert other.admit("a", now) is None
            elif turn % 2 and not _is_refused(limits, "a", now):
                other.admit("a", now)
            assert limits._due == other._due
