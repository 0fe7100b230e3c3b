"""What stands in policies, events and answers word for word, and the defaults of what is not said."""

from __future__ import annotations

import pytest

from signproxy.errors import Reason
from signproxy.model import Deny, Principal, Subject
from signproxy.policy.catalog import CatalogKind, Overlap, TableBinding
from signproxy.policy.containment import contains_key
from signproxy.policy.explain import LocationMatch, nearest_grants, suggest
from signproxy.policy.location import Location, LocationInvalid, bucket_problem, parse_location
from signproxy.policy.location_index import LocationIndex
from signproxy.policy.rights import SIGN_S3_READ_REQUEST, Rights, authority_of
from signproxy.policy.state import PolicyState
from signproxy.policy.table import MetadataLevel, Overwrite, TableSettings
from tests.policy.world import ALICE, BOB, OTHER_ROLE, READ, ROLE, SIGN, WRITE, World, grants, request

KEY = "wh/orders/data/f"


def test_words_of_the_policy_are_what_they_are() -> None:
    """A word that changes breaks every policy that holds it."""
    words = {
        kind: [each.value for each in kind] for kind in (MetadataLevel, Overwrite, TableBinding, Overlap, CatalogKind)
    }
    assert words == {
        MetadataLevel: ["protected", "sealed", "open"],
        Overwrite: ["allowed", "forbid"],
        TableBinding: ["strict", "by-location"],
        Overlap: ["forbidden", "allowed"],
        CatalogKind: ["internal", "external"],
    }


def test_a_table_is_protected_unless_its_policy_says_otherwise() -> None:
    """The default is what nearly every table has."""
    assert TableSettings("aws", "lake") == TableSettings(
        "aws", "lake", MetadataLevel.PROTECTED, Overwrite.ALLOWED, (), None
    )
    assert World().table().uuid == ""


def test_a_key_is_inside_or_it_is_not() -> None:
    """A third answer would be read as one of the two by chance."""
    table = World().table()
    assert contains_key(table, "aws", "lake", KEY) is True
    assert contains_key(table, "aws", "lake", "elsewhere/f") is False


def test_no_location_contains_itself_not_even_a_whole_bucket() -> None:
    """A root that were its own child would let a table own its root."""
    assert not Location("lake", "").contains(Location("lake", ""))
    assert not Location("lake", "wh").contains(Location("lake", "wh"))
    assert Location("lake", "").contains(Location("lake", "wh"))
    assert Location("lake", "wh").contains(Location("lake", "wh/t"))
    assert not Location("lake", "wh").contains(Location("cold", "wh/t"))


@pytest.mark.parametrize(
    ("text", "problem"),
    (
        ("s3", "'s3' does not begin with s3://, s3a:// or s3n://"),
        ("s3://lake/a://b", "'s3://lake/a://b': key_empty_segment"),
        ("", "'' does not begin with s3://, s3a:// or s3n://"),
    ),
)
def test_the_fault_of_a_location_is_named(text: str, problem: str) -> None:
    """The operator has the line and needs the fault."""
    with pytest.raises(LocationInvalid) as invalid:
        parse_location(text)
    assert str(invalid.value) == problem


@pytest.mark.parametrize(
    ("name", "problem"),
    (
        ("lake", ""),
        ("a..b", "bucket 'a..b' holds two dots in a row, or is an address"),
        ("192.0.2.7", "bucket '192.0.2.7' holds two dots in a row, or is an address"),
        (
            "-a",
            "bucket '-a' is not 3 to 63 of a-z, 0-9, dot and hyphen, with a letter or digit at both ends",
        ),
    ),
)
def test_the_fault_of_a_bucket_is_named(name: str, problem: str) -> None:
    """A bucket that no store can have is a typing error."""
    assert bucket_problem(name) == problem


def test_a_list_reaches_tables_that_were_entered_in_any_order() -> None:
    """An index that is searched like a sorted one must be sorted."""
    world = World()
    index = LocationIndex()
    tables = [world.table(name, f"{name}/") for name in ("z", "a", "m", "c")]
    for table in tables:
        index.add("lake", table.location, table)
    index.sort()
    for table in tables:
        assert index.reached("lake", table.location, ()) is table
        assert index.reached("lake", table.location, (table,)) is None
    assert index.reached("lake", "", (tables[1],)) is tables[3]


def test_every_table_that_had_to_allow_is_named_in_the_rule() -> None:
    """With overlapping locations the rule of the first table alone would hide who else gave access."""
    world = World()
    first = world.table("one", "wh/one/", grants(SIGN, READ))
    second = world.table("two", "wh/two/", grants(SIGN, READ))
    rights = Rights(frozenset({ROLE}), 0)
    both = authority_of(world.catalog, rights, (first, second), SIGN_S3_READ_REQUEST)
    assert both.rule_id == "analyst@table:lake.sales.one+analyst@table:lake.sales.two"
    alone = authority_of(world.catalog, rights, (first,), SIGN_S3_READ_REQUEST)
    assert alone.rule_id == "analyst@table:lake.sales.one"


BOTH = Principal("corp/carol", "corp", "carol", 4e9)


def _suggested(world: World, principal: Principal = BOTH) -> str:
    """Return what is suggested to a caller with both roles that may not read."""
    state = PolicyState(
        rev="r2",
        epoch=1,
        catalogs={"lake": world.catalog},
        remote_signing=True,
        principals={"corp/carol": ("all",)},
        principal_roles={"all": {"lake": frozenset({ROLE, OTHER_ROLE})}},
    )
    table = next(iter(world.catalog.tables()))
    deny = Deny(Reason.NO_READ_DATA, "", table.id)
    return suggest(state, world.catalog, Subject.of(principal), deny, request(key=KEY))


@pytest.mark.parametrize(
    ("given", "role"),
    (
        # Neither has anything: the one that the policy names first.
        ({}, "analyst"),
        ({ROLE: SIGN}, "analyst"),
        ({OTHER_ROLE: SIGN}, "loader"),
        # What does not help does not count.
        ({ROLE: "TABLE_CREATE", OTHER_ROLE: SIGN}, "loader"),
        ({ROLE: SIGN, OTHER_ROLE: "TABLE_CREATE"}, "analyst"),
    ),
)
def test_the_role_that_is_closest_is_suggested(given: dict[int, str], role: str) -> None:
    """A grant to the role that has the rest already is the smallest change."""
    world = World()
    merged: dict[int, int] = {}
    for each, privilege in given.items():
        merged |= grants(privilege, role=each)
    world.table(given=merged)
    assert f'{{role: "{role}", ' in _suggested(world)


def test_the_nearest_grant_is_the_one_with_most_of_what_is_missing() -> None:
    """Sorted by how much a role may, an administrator's grant on something else would come first."""
    world = World(on_catalog=grants("TABLE_CREATE", "TABLE_WRITE_PROPERTIES", SIGN))
    table = world.table(given=grants(SIGN, READ, role=OTHER_ROLE))
    nearest = nearest_grants(world.catalog, table, SIGN_S3_READ_REQUEST)
    assert [ground.role for ground in nearest] == ["loader", "analyst"]


def test_where_the_policy_has_no_roles_the_suggestion_has_a_place_for_one() -> None:
    """A suggestion that cannot be pasted because it names nothing is none."""
    world = World()
    table = world.table(given={})
    state = PolicyState(rev="r", epoch=1, catalogs={"lake": world.catalog})
    deny = Deny(Reason.PRINCIPAL_UNKNOWN, "", table.id)
    told = suggest(state, world.catalog, Subject.of(BOB), deny, request(key=KEY))
    assert told == 'add the principal to the policy: principals: {"corp/bob": {roles: ["a-principal-role"]}}'


def test_a_comparison_shows_a_bounded_part_of_both_sides() -> None:
    """Keys have a thousand characters; the difference stands in the first of them."""
    shown = str(LocationMatch("lake/" + "a" * 100, "lake/" + "b" * 100, 5))
    assert shown == f"lake/[{'b' * 40}]; the location goes on with [{'a' * 40}]"


def test_a_key_of_another_table_is_told_with_both_ways_out() -> None:
    """Either the caller meant the other table, or the catalog should let keys decide."""
    world = World()
    asked = world.table(given=grants(SIGN, WRITE))
    world.table("lines", "wh/lines/", grants(SIGN, WRITE))
    outside = request(key="wh/lines/f")
    decision = world.decide(outside, asked)
    assert isinstance(decision, Deny)
    told = suggest(world.state, world.catalog, Subject.of(ALICE), decision, outside)
    assert told == (
        "lake/wh/[lines/f]; the location goes on with [orders/]; the key lies in lake.sales.lines: ask for that table, "
        'or let keys decide: catalogs: {"lake": {binding: by-location}}'
    )


def test_a_caller_without_any_role_is_given_a_place_for_one() -> None:
    """A principal that the policy names without roles is the commonest beginning."""
    world = World()
    world.catalog.roles.clear()
    table = world.table(given={})
    state = PolicyState(rev="r", epoch=1, catalogs={"lake": world.catalog}, principals={"corp/bob": ()})
    deny = Deny(Reason.NO_READ_DATA, "", table.id)
    told = suggest(state, world.catalog, Subject.of(BOB), deny, request(key=KEY))
    assert told == ('give it a role in the catalog: principal_roles: {"a-principal-role": {"lake": ["a-role"]}}')


@pytest.mark.parametrize(
    "name", ("v1.metadata.json<;a", "v1.metadata.json-;a", "v1.metadata.json_.", "xv1.metadata.jso n")
)
def test_only_what_lenient_stores_drop_is_dropped_from_a_name(name: str) -> None:
    """A guard that reads more into a name than any store does closes data files."""
    world = World()
    table = world.table(given=grants(SIGN, READ))
    assert world.reason(request(key=f"wh/orders/data/{name}"), table) is Reason.ALLOWED
