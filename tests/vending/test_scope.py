"""Whose places keys for a table would touch, and what of the table its keys are made for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from signproxy.errors import Reason, Refused
from signproxy.model import KeyScope, Principal, TableId, VolumeId
from signproxy.policy.catalog import Authorizer, Catalog, Learning, Listing, Overlap
from signproxy.policy.location import Location
from signproxy.policy.places import PlaceTree
from signproxy.policy.table import MetadataLevel, Overwrite, Place, Table
from signproxy.policy.volume import Volume
from signproxy.s3.rules import Rules
from signproxy.vending.scope import CatalogPlaces, VendCaller, scope_of
from tests.policy.world import ALICE, World
from tests.vending.scopes import ALONE, READ, READ_WRITE, resembled

OUTER, INNER = "wh/orders/", "wh/orders/archive/"


def test_another_table_inside_or_around_is_met() -> None:
    """A signature asks every owner of a key; keys cannot, so they are not made for a place that is shared."""
    world = World(overlap=Overlap.ALLOWED)
    outer, inner = world.table("outer", OUTER), world.table("inner", INNER)
    beside = world.table("beside", "wh/orders2/")
    world.catalog.locations.sort()
    assert CatalogPlaces(world.catalog, outer).meets(Location("lake", OUTER[:-1])) == "table lake.sales.inner"
    assert CatalogPlaces(world.catalog, inner).meets(Location("lake", INNER[:-1])) == "table lake.sales.outer"
    assert CatalogPlaces(world.catalog, beside).meets(Location("lake", "wh/orders2")) == ""
    assert CatalogPlaces(world.catalog, outer).meets(Location("cold", OUTER[:-1])) == ""


def test_the_same_place_of_another_table_is_met() -> None:
    """Two tables at one location are both owners of each key."""
    world = World(overlap=Overlap.ALLOWED)
    one, _ = world.table("one", OUTER), world.table("two", OUTER)
    world.catalog.locations.sort()
    assert CatalogPlaces(world.catalog, one).meets(Location("lake", OUTER[:-1])) == "table lake.sales.two"


@pytest.mark.parametrize("prefix", ("", "wh/", OUTER, INNER))
def test_a_volume_is_met(prefix: str) -> None:
    """A volume has grants of its own."""
    world = World()
    table = world.table("orders", OUTER)
    assert CatalogPlaces(world.catalog, table).meets(Location("lake", OUTER[:-1])) == ""
    world.catalog.volumes.add(Volume(VolumeId("lake", "v"), "aws", "lake", prefix, Rules()))
    assert CatalogPlaces(world.catalog, table).meets(Location("lake", OUTER[:-1])) == "volume lake/v"


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    (
        ("wh/t1/", "wh/T1/", True),
        ("wh/t1/", "WH/T1/x/", True),
        ("wh/t1/x/", "WH/T1/", True),
        ("wh/tä/", "wh/TÄ/", True),
        ("wh/ti/", "wh/Tİ/", True),
        ("wh/ts/", "wh/tſ/", True),
        ("wh/tk/", "wh/t\u212a/", True),
        ("wh/t1/", "wh/T10/", False),
        ("wh/t1/", "WH/t/", False),
        ("wh/t10/", "wh/T1/", False),
    ),
)
def test_places_that_differ_by_case_alone_are_found(one: str, other: str, alike: bool) -> None:
    """SeaweedFS takes a policy for the one as a policy for the other."""
    world = World()
    first, second = world.table("first", one), world.table("second", other)
    world.table("between", "wh/t1-and-more/")
    for table, its_other in ((first, second), (second, first)):
        found = resembled(CatalogPlaces(world.catalog, table), Location("lake", table.location[:-1]))
        assert found == (f"table {its_other.id}" if alike else "")
        assert resembled(CatalogPlaces(world.catalog, table), Location("cold", table.location[:-1])) == ""


def test_a_volume_that_differs_by_case_alone_is_found() -> None:
    """A volume has grants of its own."""
    world = World()
    table = world.table("orders", OUTER)
    world.catalog.volumes.add(Volume(VolumeId("lake", "v"), "aws", "lake", "WH/Orders/", Rules()))
    places = CatalogPlaces(world.catalog, table)
    assert places.meets(Location("lake", OUTER[:-1])) == ""
    assert resembled(places, Location("lake", OUTER[:-1])) == "volume lake/v"


class Known:
    """Tables of an upstream, all of them in one bucket."""

    def __init__(self, *tables: Table) -> None:
        self._found = tuple(KnownOne(table) for table in tables)

    def owners(self, _catalog: Catalog, _bucket: str, key: str, now: float) -> tuple[KnownOne, ...]:
        """Return those that a key lies in."""
        assert now == 7.0
        return tuple(each for each in self._found if key.startswith(each.table.location))

    def reached(self, _catalog: Catalog, _bucket: str, prefix: str, now: float) -> tuple[KnownOne, ...]:
        """Return those whose place begins with a prefix."""
        assert now == 7.0
        return tuple(each for each in self._found if each.table.location.startswith(prefix))

    def alike(self, _catalog: str, _bucket: str, prefix: str, fold: Callable[[str], str]) -> Iterator[TableId]:
        """Return those that meet a place once names are folded."""
        for each in self._found:
            one, other = fold(each.table.location), fold(prefix)
            if one.startswith(other) or other.startswith(one):
                yield each.table.id


class KnownOne(NamedTuple):
    """A table of an upstream."""

    table: Table


def learning(world: World, *listings: Listing) -> Learning:
    """Return what makes a catalog one whose tables an upstream tells of, but for those that are listed."""
    reserved: PlaceTree[Listing] = PlaceTree()
    for listing in listings:
        for place in listing.places:
            reserved.add(place.bucket, place.prefix, listing)
    nowhere, level = world.namespace("none"), MetadataLevel.PROTECTED
    listed = {str(listing.id): listing for listing in listings}
    return Learning(Authorizer.POLICY, (), (), level, Overwrite.ALLOWED, nowhere, listed, {}, reserved)


def test_the_tables_of_another_catalog_that_differ_by_case_alone_are_found() -> None:
    """A caller that may make tables in one catalog would get keys for the tables of the other, in the same bucket."""
    mine, beside, apart = World(), World(), World()
    table, other = mine.table("orders", OUTER), beside.table("orders2", "wh/Orders/")
    apart.table("orders2", "wh/Orders/")
    apart.catalog.storages.clear()
    location = Location("lake", OUTER[:-1])
    for catalogs, found in (((mine, beside), f"table {other.id}"), ((mine, apart), ""), ((mine,), "")):
        every = [world.catalog for world in catalogs]
        assert resembled(CatalogPlaces(mine.catalog, table, None, 0.0, every), location) == found


def test_the_tables_of_an_upstream_are_found_as_well() -> None:
    """They are in no index of the policy."""
    elsewhere = World()
    mine, inner, capital = (elsewhere.table(name, at) for name, at in (("a", OUTER), ("b", INNER), ("c", "wh/Orders/")))
    empty = World().catalog
    empty.learning = learning(World())
    alone = CatalogPlaces(empty, mine, Known(mine), 7.0)
    assert (alone.meets(Location("lake", OUTER[:-1])), resembled(alone, Location("lake", OUTER[:-1]))) == ("", "")
    nested = CatalogPlaces(empty, mine, Known(mine, inner), 7.0)
    assert nested.meets(Location("lake", OUTER[:-1])) == f"table {inner.id}"
    assert (
        CatalogPlaces(empty, inner, Known(mine, inner), 7.0).meets(Location("lake", INNER[:-1])) == f"table {mine.id}"
    )
    alike = CatalogPlaces(empty, mine, Known(mine, capital), 7.0)
    assert alike.meets(Location("lake", OUTER[:-1])) == ""
    assert resembled(alike, Location("lake", OUTER[:-1])) == f"table {capital.id}"


@pytest.mark.parametrize(
    ("listed", "met", "alike"),
    (
        (OUTER, True, True),
        (INNER, True, True),
        ("wh/", True, True),
        ("wh/Orders/", False, True),
        ("wh/orders2/", False, False),
    ),
)
def test_a_place_that_the_policy_lists_for_another_table_is_found(listed: str, met: bool, alike: bool) -> None:
    """No other table may claim it, although nothing is known of the table yet."""
    world = World()
    table = world.table("orders", OUTER)
    listing = Listing(
        TableId("lake", "sales", "late"),
        MetadataLevel.PROTECTED,
        Overwrite.ALLOWED,
        (Place("aws", "lake", listed), Place("aws", "cold", OUTER)),
        "",
    )
    world.catalog.learning = learning(world, listing)
    places, location = CatalogPlaces(world.catalog, table), Location("lake", OUTER[:-1])
    assert (places.meets(location) == "table lake.sales.late") is met
    assert (resembled(places, location) == "table lake.sales.late") is alike


def test_a_scope_has_every_place_of_the_table() -> None:
    """Keys that leave out the data path are no use; those that leave out a metadata path leave it open."""
    world = World()
    extra = (Place("aws", "cold", "data/orders/"), Place("aws", "lake", "meta/orders/"))
    table = world.table("orders", OUTER, extra=extra, metadata_place=extra[1])
    found = scope_of(table, READ_WRITE, VendCaller(ALICE, 7, "event"), ALONE)
    assert found.locations == (
        Location("lake", "wh/orders"),
        Location("cold", "data/orders"),
        Location("lake", "meta/orders"),
    )
    assert Location("lake", "wh/orders/metadata") in found.metadata_locations
    assert Location("lake", "meta/orders") in found.metadata_locations
    assert (found.storage, found.principal, found.policy_epoch, found.event_id) == ("aws", "corp/alice", 7, "event")


@pytest.mark.parametrize(
    ("level", "full", "holds"),
    (
        (MetadataLevel.PROTECTED, False, MetadataLevel.PROTECTED),
        (MetadataLevel.PROTECTED, True, MetadataLevel.OPEN),
        (MetadataLevel.SEALED, True, MetadataLevel.SEALED),
        (MetadataLevel.OPEN, False, MetadataLevel.OPEN),
    ),
)
def test_full_metadata_opens_what_is_protected_and_not_what_is_sealed(
    level: MetadataLevel,
    full: bool,
    holds: MetadataLevel,
) -> None:
    """The privilege means for keys what it means for signatures."""
    table = World().table(metadata=level)
    assert scope_of(table, READ, VendCaller(ALICE, 1, "x", full_metadata=full), ALONE).metadata is holds


def test_a_table_on_two_storages_is_refused() -> None:
    """A session holds in one store; a key pair that opens half of a table fails in the middle of a job."""
    table = World().table(extra=(Place("backup", "vault", "data/orders/"),))
    with pytest.raises(Refused) as caught:
        scope_of(table, READ, VendCaller(ALICE, 1, "x"), ALONE)
    assert caught.value.reason is Reason.SCOPE_NOT_VENDABLE


def test_what_is_made_from_a_scoped_key_ends_with_it() -> None:
    """Nothing made from a credential lives longer than the credential."""
    scoped = Principal("corp/alice", "corp", "alice", 1000.0, key_scope=KeyScope("lake"))
    assert scope_of(World().table(), READ, VendCaller(scoped, 1, "x"), ALONE).latest == 1000.0
