"""A store that takes `t1` for `T1` gives no keys for either, in whichever catalog the other is."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

import pytest

from signproxy.model import TableId
from signproxy.policy.catalog import Catalog
from signproxy.policy.location import Location
from signproxy.policy.state import PolicyState
from signproxy.policy.table import Table, table_key
from signproxy.vending.folded_places import folded_places
from signproxy.vending.scope import CatalogPlaces
from tests.inventory.learned_rig import NOW, Site, facts, policy
from tests.policy.world import World

T = TypeVar("T")

ELSEWHERE = "  elsewhere: {kind: s3-compatible, region: eu-1, buckets: [lake], endpoints: [{url: 'http://s.local'}]}\n"


def beside(storage: str = "aws", tables: str = "upstream") -> str:
    """Return a second catalog whose tables may lie in the same bucket."""
    return f'  other: {{storages: [{storage}], roots: ["s3://lake/wh"], remote_signing: true, tables: {tables}}}'


def said(looking: Generator[None, None, T]) -> tuple[int, T]:
    """Return in how many pieces something was found, and what."""
    pieces = 0
    while True:
        try:
            next(looking)
        except StopIteration as end:
            found: T = end.value
            return pieces, found
        pieces += 1


def alike(site: Site, catalog: str, name: str) -> str:
    """Return whose place a learned table's is to a store that knows no case."""
    known = site.tables.named(site.state.catalogs[catalog], "sales", name, NOW)
    assert known is not None
    places = CatalogPlaces(site.state.catalogs[catalog], known.table, site.tables, NOW, site.state.catalogs.values())
    location = Location(known.place.bucket, known.place.prefix[:-1])
    assert places.meets(location) == ""
    return said(places.resembles(location))[1]


def test_a_learned_table_of_another_catalog_is_found() -> None:
    """Two catalogs over one bucket have two upstreams, and neither knows of the other's tables."""
    site = Site(policy(catalogs=beside()))
    assert site.live(facts("t1"), facts("t2")) == [None, None]
    assert alike(site, "lake", "t1") == ""
    assert site.live(facts("T1"), facts("t3"), catalog="other") == [None, None]
    assert alike(site, "lake", "t1") == "table other.sales.T1"
    assert alike(site, "other", "T1") == "table lake.sales.t1"
    assert alike(site, "lake", "t2") == ""
    assert alike(site, "other", "t3") == ""


def test_a_declared_table_of_another_catalog_is_found() -> None:
    """A policy is sound with both: to it they are two places."""
    declared = 'tables: [{catalog: other, namespace: a, name: t, location: "s3://lake/WH/t1/x"}]'
    site = Site(policy(more=declared, catalogs=beside(tables="declared").replace('"s3://lake/wh"', '"s3://lake"')))
    site.live(facts("t1"))
    assert alike(site, "lake", "t1") == "table other.a.t"


def test_the_same_name_on_another_store_is_another_place() -> None:
    """Else nothing could be vended where a catalog for tests has the tables of the real one."""
    site = Site(policy(catalogs=beside("elsewhere")).replace("catalogs:\n", f"{ELSEWHERE}catalogs:\n", 1))
    site.live(facts("t1"))
    site.live(facts("T1"), catalog="other")
    assert alike(site, "lake", "t1") == ""


def test_what_was_learned_and_forgotten_since_counts() -> None:
    """The first question must not be the last one that looks."""
    site = Site(policy(), at_most=3)
    site.live(facts("t1"), facts("t2"))
    assert alike(site, "lake", "t1") == ""
    site.live(facts("T1"))
    assert alike(site, "lake", "t1") == "table lake.sales.T1"
    site.tables.ground.forget(site.tables.ground.of("lake").by_name[table_key("sales", "T1")])
    # It is remembered where it lay, until it is dropped.
    assert alike(site, "lake", "t1") == "table lake.sales.T1"
    site.tables.registry.remove(TableId("lake", "sales", "T1"), NOW)
    assert alike(site, "lake", "t1") == ""


@pytest.mark.parametrize("tables", (1_000, 10_000))
def test_no_piece_of_the_work_grows_with_the_tables(tables: int) -> None:
    """A million tables would keep every other request from its turn for seconds, after each reload."""
    catalog, mine = _many(tables)
    pieces, found = said(CatalogPlaces(catalog, mine).resembles(Location("lake", "wh/a/T1")))
    assert found == "table lake.sales.t1"
    assert pieces >= tables
    # The next question finds it done.
    assert said(CatalogPlaces(catalog, mine).resembles(Location("lake", "wh/a/X1"))) == (0, "")


def test_work_that_was_given_up_is_done_by_the_next() -> None:
    """Half of an index would let a neighbour through."""
    catalog, mine = _many(100)
    given_up = folded_places(catalog)
    next(given_up)
    given_up.close()
    assert said(CatalogPlaces(catalog, mine).resembles(Location("lake", "wh/a/T99")))[1] == "table lake.sales.t99"


def _many(tables: int) -> tuple[Catalog, Table]:
    world = World()
    for number in range(tables):
        world.table(f"t{number}", f"wh/a/t{number}/")
    state: PolicyState = world.state
    return state.catalogs["lake"], world.table("mine", "wh/mine/")
