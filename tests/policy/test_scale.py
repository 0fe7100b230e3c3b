"""Prove that the work of a decision does not grow with the policy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import TypeAlias

from signproxy.model import Allow, Subject
from signproxy.policy.decide import decide
from tests.policy.world import ALICE, World, request

TraceFunction: TypeAlias = "Callable[[FrameType, str, object], TraceFunction]"


def _steps(world: World, number: int) -> int:
    """Return how many lines a decision by name and by location executes."""
    steps = 0

    def count(_: FrameType, event: str, __: object) -> TraceFunction:
        nonlocal steps
        steps += event == "line"
        return count

    # The first decision for a principal adds up his rights; later ones remember them.
    world.state.rights(ALICE, world.catalog)
    asked = request(key=f"wh/t{number}/data/f")
    before = sys.gettrace()
    sys.settrace(count)
    try:
        named = world.catalog.table("sales", f"t{number}")
        owners = world.catalog.locations.owners("lake", asked.key)
        decision = decide(world.state, world.catalog, Subject.of(ALICE), owners, asked)
    finally:
        sys.settrace(before)
    assert owners == (named,)
    assert isinstance(decision, Allow)
    return steps


def _world(tables: int) -> World:
    world = World()
    namespace = world.namespace()
    for number in range(tables):
        world.table(f"t{number}", f"wh/t{number}/", namespace=namespace)
    return world


def test_a_decision_takes_as_many_steps_with_ten_tables_as_with_twenty_thousand() -> None:
    """A walk over tables or grants would slow every request down with each table that is added."""
    small, large = _world(10), _world(20_000)
    assert _steps(small, 3) > 20
    assert {_steps(small, number) for number in (3, 7)} == {_steps(large, number) for number in (3, 7)}
