"""Prove that staged and dropped tables are found by name and place, for their principal, and do not pile up."""

from __future__ import annotations

import msgspec
import pytest

from signproxy.inventory.learned import learned_table
from signproxy.inventory.learned.learned_table import PersonalTable, PersonalTables, Phase
from signproxy.model import TableId
from signproxy.policy.location import Location
from signproxy.policy.table import Place, table_key
from tests.inventory.learned_rig import facts
from tests.policy.world import World

_TABLE = World().table()


def _record(name: str = "t", path: str = "wh/t", who: str = "alice", until: float = 100.0) -> PersonalTable:
    place = Place("aws", "lake", f"{path}/")
    identity = TableId("lake", "sales", name)
    return PersonalTable(Phase.STAGED, identity, who, until, facts(name), Location("lake", path), place, _TABLE, 1)


def test_a_table_is_its_principals_alone() -> None:
    """Two principals may have staged one name."""
    tables = PersonalTables()
    mine, his = _record(), _record(who="bob", path="wh/u")
    tables.add(mine)
    tables.add(his)
    assert tables.of("sales", "t", "alice", 0.0) == (mine,)
    assert tables.of("sales", "t", "carol", 0.0) == ()
    assert tables.of("hr", "t", "alice", 0.0) == ()
    assert tables.over("lake", "wh/t/f", "alice", 0.0) == (mine,)
    assert tables.over("lake", "wh/t/f", "bob", 0.0) == ()
    assert tables.over("lake", "wh/x/f", "alice", 0.0) == ()
    assert (table_key("sales", "t"), "bob") in tables
    assert (table_key("sales", "t"), "carol") not in tables


def test_the_newest_of_a_name_comes_first() -> None:
    """A job that rebuilds its table looks for what it did last."""
    tables = PersonalTables()
    old, new = _record(path="wh/old"), _record(path="wh/new")
    tables.add(old)
    tables.add(new)
    assert tables.of("sales", "t", "alice", 0.0) == (new, old)
    tables.remove(new)
    assert tables.of("sales", "t", "alice", 0.0) == (old,)
    tables.remove(old)
    assert len(tables) == 0
    assert (table_key("sales", "t"), "alice") not in tables


@pytest.mark.parametrize(
    ("prefix", "meets"),
    (("wh/t/", True), ("wh/t/deep/", True), ("wh/", True), ("wh/t2/", False), ("wh/T/", False), ("x/", False)),
)
def test_a_place_meets_what_it_contains_equals_or_lies_in(prefix: str, meets: bool) -> None:
    """Each of them is a claim on files of the other."""
    tables = PersonalTables()
    assert tables.meeting(Place("aws", "lake", prefix), 0.0) == ()
    record = _record()
    tables.add(record)
    assert tables.meeting(Place("aws", "lake", prefix), 0.0) == ((record,) if meets else ())
    assert tables.meeting(Place("aws", "cold", prefix), 0.0) == ()


def test_what_is_too_old_is_not_found() -> None:
    """The end of its time is the end."""
    for look in range(3):
        tables = PersonalTables()
        tables.add(_record(until=10.0))
        kept = _record("u", "wh/t/deep", until=11.0)
        tables.add(kept)
        found = (
            tables.of("sales", "t", "alice", 10.0),
            tables.over("lake", "wh/t/deep/f", "alice", 10.0),
            tables.meeting(Place("aws", "lake", "wh/t/"), 10.0),
        )[look]
        assert found == (() if look == 0 else (kept,))
        assert len(tables) == 1


def test_no_caller_pushes_out_what_is_anothers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Staging costs nothing: a thousand stages must not end another caller's job."""
    monkeypatch.setattr(learned_table, "EACH_AT_MOST", 2)
    monkeypatch.setattr(learned_table, "PERSONAL_AT_MOST", 4)
    tables = PersonalTables()
    his = _record("his", "wh/his", "bob")
    tables.add(his)
    for number in range(4):
        tables.add(_record(f"t{number}", f"wh/t{number}"))
    assert [record.id.name for record in tables] == ["his", "t2", "t3"]
    # With many principals the oldest of all goes.
    for who in ("carol", "dave", "erin"):
        tables.add(_record(who, f"wh/{who}", who))
    assert [record.id.name for record in tables] == ["t3", "carol", "dave", "erin"]
    assert len(tables) == 4
    assert tables.over("lake", "wh/his/f", "bob", 0.0) == ()


def test_one_at_most_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last table of a principal makes room for its next one."""
    monkeypatch.setattr(learned_table, "EACH_AT_MOST", 1)
    tables = PersonalTables()
    for number in range(3):
        tables.add(_record(f"t{number}", f"wh/t{number}"))
    assert [record.id.name for record in tables] == ["t2"]


def test_equal_records_are_told_apart() -> None:
    """They are looked up by identity: removing one must not remove the other."""
    tables = PersonalTables()
    one = _record()
    two = msgspec.structs.replace(one)
    tables.add(one)
    tables.add(two)
    tables.remove(one)
    assert [record is two for record in tables] == [True]
