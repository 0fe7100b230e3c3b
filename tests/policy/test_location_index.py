"""Prove that a key finds every table that owns it, and no other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signproxy.policy.catalog import Overlap
from signproxy.policy.location_index import LocationIndex
from signproxy.policy.table import Place, Table
from tests.policy.world import World


def _index(*locations: str) -> tuple[LocationIndex, dict[str, Table]]:
    world = World(overlap=Overlap.ALLOWED)
    tables = {location: world.table(f"t{number}", location) for number, location in enumerate(locations)}
    return world.catalog.locations, tables


@pytest.mark.parametrize(
    ("key", "owner"),
    (
        ("wh/a/f", "wh/a/"),
        ("wh/a/", "wh/a/"),  # a list prefix
        ("wh/a/b/c/d/f", "wh/a/"),
        ("wh/a", None),
        ("wh/ab/f", None),
        ("wh/a-b/f", None),
        ("wh/A/f", None),
        ("wh/", None),
        ("f", None),
        ("", None),
        ("x/wh/a/f", None),
        ("deep/x/y/z/f", "deep/x/y/"),
        ("deep/x/f", None),
    ),
)
def test_the_owner_of_a_key(key: str, owner: str | None) -> None:
    """A sibling that merely shares its beginning must not be taken for the table."""
    index, tables = _index("wh/a/", "deep/x/y/")
    assert index.owners("lake", key) == (() if owner is None else (tables[owner],))


def test_a_bucket_has_its_own_locations() -> None:
    """The same path in another bucket is other data."""
    index, _ = _index("wh/a/")
    assert index.owners("cold", "wh/a/f") == ()


def test_nested_and_shared_locations_have_several_owners() -> None:
    """Every owner must be asked, the outermost first."""
    world = World(overlap=Overlap.ALLOWED)
    outer = world.table("outer", "wh/")
    inner = world.table("inner", "wh/a/")
    twin = world.table("twin", "wh/a/")
    third = world.table("third", "wh/a/")
    # A table is named once, in however many places it holds the key.
    both = world.table("both", "wh/a/b/", extra=(Place("aws", "lake", "wh/a/"), Place("aws", "lake", "wh/a/")))
    owners = world.catalog.locations.owners
    assert owners("lake", "wh/f") == (outer,)
    assert [table.name for table in owners("lake", "wh/a/f")] == ["outer", "inner", "twin", "third", "both"]
    assert [table.name for table in owners("lake", "wh/a/b/f")] == ["outer", "inner", "twin", "third", "both"]
    assert owners("lake", "wh/a/f")[1:4] == (inner, twin, third)
    assert both.name == "both"


def test_equal_tables_are_two_owners() -> None:
    """Owners are told apart by what they are, not by how they look."""
    index, tables = _index("wh/a/")
    twin = Table(*(getattr(tables["wh/a/"], field) for field in Table.__struct_fields__))
    index.add("lake", "wh/a/", twin)
    assert len(index.owners("lake", "wh/a/f")) == 2


@pytest.mark.parametrize(
    ("locations", "expected"),
    (
        (("wh/a/", "wh/b/"), set()),
        (("wh/a/", "wh/ab/"), set()),
        (("wh/a/", "wh/a/b/"), {("s3://lake/wh/a/b", 1, 0)}),
        (("wh/a/b/", "wh/a/"), {("s3://lake/wh/a/b", 0, 1)}),  # whichever was declared first
        (("wh/a/", "wh/a/"), {("s3://lake/wh/a", 1, 0)}),
        (("w/", "w/a/b/c/", "x/y/"), {("s3://lake/w/a/b/c", 1, 0)}),
    ),
)
def test_clashing_locations_are_found(locations: tuple[str, ...], expected: set[tuple[str, int, int]]) -> None:
    """Nested tables would hand the grants of one to the data of the other."""
    world = World()
    tables = [world.table(f"t{number}", location) for number, location in enumerate(locations)]
    found = {(where, int(one.name[1:]), int(other.name[1:])) for where, one, other in world.catalog.locations.clashes()}
    assert found == expected
    assert len(tables) == len(locations)


def test_a_table_may_nest_in_itself() -> None:
    """`write.data.path` usually lies below the location."""
    world = World()
    world.table("t", "wh/t/", extra=(Place("aws", "lake", "wh/t/data/"), Place("aws", "lake", "wh/t/")))
    assert list(world.catalog.locations.clashes()) == []


def test_locations_can_be_listed() -> None:
    """Whether two catalogs stay apart is checked location by location."""
    index, tables = _index("wh/a/", "wh/b/")
    assert list(index.buckets()) == ["lake"]
    assert list(index.locations("lake")) == [("wh/a/", tables["wh/a/"]), ("wh/b/", tables["wh/b/"])]
    assert list(index.locations("cold")) == []


@pytest.mark.parametrize(
    ("prefix", "owner", "reached"),
    (
        ("wh/", "wh/", "wh/a/"),
        ("wh/a", "wh/", "wh/a/"),
        ("wh/a/", "wh/a/", None),
        ("wh/b", "wh/", None),
        ("wh/c", "wh/", "wh/c/d/"),
        ("wh/zz", "wh/", None),
        ("wh/c/d/", "wh/", "wh/c/d/"),
    ),
)
def test_a_prefix_reaches_into_nested_tables(prefix: str, owner: str, reached: str | None) -> None:
    """A list of the outer table must not show the keys of a table inside it."""
    index, tables = _index("wh/", "wh/a/", "wh/c/d/")
    index.sort()
    expected = None if reached is None else tables[reached]
    assert index.reached("lake", prefix, (tables[owner],)) is expected
    assert index.reached("cold", prefix, ()) is None


def test_only_other_tables_are_reached() -> None:
    """Otherwise a table with two locations could never be listed."""
    world = World(overlap=Overlap.ALLOWED)
    table = world.table("t", "wh/t/", extra=(Place("aws", "lake", "wh/t/data/"),))
    twin = world.table("twin", "wh/t/data/")
    world.catalog.locations.sort()
    assert world.catalog.locations.reached("lake", "wh/t/", (table, twin)) is None
    assert world.catalog.locations.reached("lake", "wh/t/", (table,)) is twin


SEGMENT = st.sampled_from(["a", "b", "ab", "A", "a-b", "%61"])
PATH = st.lists(SEGMENT, min_size=1, max_size=4).map("/".join)


@given(st.lists(PATH, min_size=1, max_size=8, unique=True), PATH)
def test_owners_are_those_whose_location_the_key_lies_below(locations: list[str], key: str) -> None:
    """The index must say the same as a comparison with every location."""
    index, tables = _index(*(f"{location}/" for location in locations))
    expected = {location for location in tables if key.startswith(location)}
    assert {table.location for table in index.owners("lake", key)} == expected
    clashing = {where for where, _, _ in index.clashes()}
    assert clashing == {
        f"s3://lake/{inner}"
        for inner in locations
        if any(inner != outer and inner.startswith(f"{outer}/") for outer in locations)
    }
