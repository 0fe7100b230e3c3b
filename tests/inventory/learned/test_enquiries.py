"""Prove how much may be asked because of one caller."""

from __future__ import annotations

import pytest

from signproxy.inventory.learned import enquiries
from signproxy.inventory.learned.enquiries import Allowance, Questions


def test_an_allowance_comes_back_with_time() -> None:
    """A start with many tables is let through; going on like that is not."""
    asks = Questions(Allowance(per_second=2.0, burst=3.0))
    assert [asks.may_ask("alice", 100.0) for _ in range(5)] == [True, True, True, False, False]
    assert [asks.may_ask("alice", 100.5) for _ in range(2)] == [True, False]
    assert [asks.may_ask("alice", 1000.0) for _ in range(4)] == [True, True, True, False]
    assert asks.may_ask("bob", 100.0)


def test_a_clock_that_is_set_back_takes_nothing_away() -> None:
    """Hosts do that, and callers would be refused for as long."""
    asks = Questions(Allowance(per_second=1.0, burst=2.0))
    assert asks.may_ask("alice", 100.0)
    assert asks.may_ask("alice", 50.0)
    assert not asks.may_ask("alice", 50.5)
    assert asks.may_ask("alice", 51.1)


def test_callers_are_counted_in_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Service accounts are made by the thousand."""
    monkeypatch.setattr(enquiries, "CALLERS_AT_MOST", 2)
    asks = Questions(Allowance(per_second=0.0, burst=1.0))
    for who in ("a", "b", "c"):
        assert asks.may_ask(who, 100.0)
    assert not asks.may_ask("c", 100.0)
    assert not asks.may_ask("b", 100.0)
    # Pushed out, and begins anew.
    assert asks.may_ask("a", 100.0)


async def test_asking_twice_is_seen() -> None:
    """A caller that asks looks first whether it is under way."""
    asks = Questions(Allowance())
    done: list[str] = []

    async def question() -> None:
        done.append("asked")

    key = ("lake", "t", "")
    assert not asks.is_under_way(key)
    asks.begin(key, question())
    assert asks.is_under_way(key)
    await asks.answer(key)
    assert done == ["asked"]
    assert not asks.is_under_way(key)
    await asks.aclose()
