"""Prove that the rule of a decision is the same whether it was named just now or is remembered."""

from __future__ import annotations

import random

import pytest

from signproxy.model import Allow, Subject
from signproxy.policy import rights as rights_module
from signproxy.policy.catalog import Catalog
from signproxy.policy.decide import decide
from signproxy.policy.rights import SIGN_S3_READ_REQUEST, SIGN_S3_WRITE_REQUEST, Rights, grounds
from signproxy.policy.table import Table
from signproxy.s3.operation import Operation
from tests.policy.world import ALICE, FULL, OTHER_ROLE, READ, ROLE, SIGN, WRITE, World, grants, request

GRANTS = ((), (SIGN,), (READ,), (WRITE,), (SIGN, READ), (SIGN, WRITE), (FULL, WRITE))


def _plainly(catalog: Catalog, rights: Rights, table: Table, need: int) -> str:
    """Name the deciding grants from the catalog down, and remember nothing."""
    rules: list[str] = []
    for ground in grounds(catalog, table, rights.roles):
        if ground.mask & need:
            need &= ~ground.mask
            rules.append(ground.rule_id)
    return "+".join(dict.fromkeys(rules))


def _world(draw: random.Random) -> tuple[World, list[Table]]:
    def given(role: int = ROLE) -> dict[int, int]:
        return grants(*draw.choice(GRANTS), role=role)

    world = World(on_catalog=given())
    shared = given() | given(OTHER_ROLE)
    namespaces = [world.namespace(name, given()) for name in ("a", "b", "b.c")]
    tables = [
        world.table(
            f"t{number}",
            f"wh/t{number}/",
            shared if draw.random() < 0.5 else given(),
            namespace=draw.choice(namespaces),
        )
        for number in range(6)
    ]
    return world, tables


@pytest.mark.parametrize("most", (1, 3, rights_module.MAX_AUTHORITIES))
@pytest.mark.parametrize("seed", range(40))
def test_a_remembered_rule_is_the_one_that_would_be_named(
    seed: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The audit trail would name a grant that did not decide, and an operator revoke another one in vain."""
    monkeypatch.setattr(rights_module, "MAX_AUTHORITIES", most)
    draw = random.Random(seed)
    world, tables = _world(draw)
    rights = world.state.rights(ALICE, world.catalog)
    assert rights is not None
    for _ in range(60):
        table = draw.choice(tables)
        operation, need = draw.choice(
            ((Operation.GET_OBJECT, SIGN_S3_READ_REQUEST), (Operation.PUT_OBJECT, SIGN_S3_WRITE_REQUEST))
        )
        decision = decide(
            world.state, world.catalog, Subject.of(ALICE), (table,), request(operation, f"{table.location}data/f")
        )
        if isinstance(decision, Allow):
            assert decision.authority.rule_id == _plainly(world.catalog, rights, table, need)
        assert max(len(rights.authorities), len(rights._rules)) <= most


def test_a_known_rule_is_found_without_naming_it() -> None:
    """Every signed request would walk over the grants of its table."""
    world = World(on_catalog=grants(SIGN, READ))
    table = world.table()
    asked = request(key=f"{table.location}data/f")
    first, second = (decide(world.state, world.catalog, Subject.of(ALICE), (table,), asked) for _ in range(2))
    assert isinstance(first, Allow)
    assert isinstance(second, Allow)
    assert first.authority is second.authority
