"""Prove that the work of a decision does not grow with the policy."""

from __future__ import annotations

import sys
from types import FrameType

from signproxy.model import Allow, Subject
from signproxy.policy.decide import decide
from tests.policy.world import ALICE, World, request


def _calls(world: World, number: int) -> int:
    """Return how many functions a decision by name and by location calls, those in C included."""
    # The first decision for a principal adds up its rights; later ones remember them.
    world.state.rights(ALICE, world.catalog)
    asked = request(key=f"wh/t{number}/data/f")
    subject = Subject.of(ALICE)
    calls = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        named = world.catalog.table("sales", f"t{number}")
        owners = world.catalog.locations.owners("lake", asked.key)
        decision = decide(world.state, world.catalog, subject, owners, asked)
    finally:
        sys.setprofile(before)
    assert owners == (named,)
    assert isinstance(decision, Allow)
    return calls


def _world(tables: int) -> World:
    world = World()
    namespace = world.namespace()
    for number in range(tables):
        world.table(f"t{number}", f"wh/t{number}/", namespace=namespace)
    return world


def test_a_decision_takes_as_many_steps_with_ten_tables_as_with_twenty_thousand() -> None:
    """A walk over tables or grants would slow every request down with each table that is added."""
    small, large = _world(10), _world(20_000)
    # What Python itself looks up for the first time is no part of a decision.
    _calls(small, 5)
    first = _calls(small, 3)
    assert {_calls(large, number) for number in (0, 7, 9_999, 19_999)} == {first}
    # The grants that decide are named once for a table, and known from then on.
    assert {_calls(large, number) for number in (0, 7, 9_999, 19_999)} == {_calls(small, 3)}
    assert first > _calls(small, 3) > 10
