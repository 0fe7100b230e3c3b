"""Who was first seen where: kept for longer than tables are, in bounds, and by an inventory where there is one."""

from __future__ import annotations

import msgspec
import pytest

from signproxy.errors import Reason
from signproxy.inventory.learned.registry import (
    Change,
    Completeness,
    Holding,
    LocationRegistry,
    Registration,
    Removal,
    Shelf,
    Stocktaking,
)
from signproxy.inventory.learned.sighting import Dropped, Live, Renamed
from signproxy.model import TableId
from signproxy.policy.table import Place
from tests.inventory.learned_rig import NOW, Site, facts

KEY = "wh/orders/data/f"
TAKEN = Stocktaking("lake", "digest", NOW)


def table(name: str = "orders", catalog: str = "lake") -> TableId:
    return TableId(catalog, "sales", name)


def place(prefix: str = "wh/orders/", bucket: str = "lake") -> Place:
    return Place("aws", bucket, prefix)


def registry_of(*names: str, at_most: int = 100) -> LocationRegistry:
    registry = LocationRegistry(at_most)
    for name in names:
        registry.register(table(name), facts(name), facts(name).location, NOW)
    return registry


def names_in(registry: LocationRegistry, catalog: str = "lake") -> set[str]:
    return {each.table.name for each in registry.of(catalog)}


@pytest.mark.parametrize("prefix", ("wh/orders/", "wh/orders/data/", "wh/"))
def test_a_place_that_meets_anothers_is_a_conflict(prefix: str) -> None:
    """Equal, inside or around: each of them opens the other table."""
    registry = registry_of("orders")
    (found,) = set(registry.conflicts("lake", place(prefix), table("thief")))
    assert (found.table, str(found)) == (table(), "s3://lake/wh/orders")
    assert not list(registry.conflicts("lake", place(prefix), table()))
    assert not list(registry.conflicts("other", place(prefix), table("thief")))
    assert not list(registry.conflicts("lake", place(prefix, "cold"), table("thief")))


@pytest.mark.parametrize("prefix", ("wh/orders2/", "wh/order/", "wh/Orders/"))
def test_a_sibling_is_none(prefix: str) -> None:
    """Names that begin alike would keep each other out."""
    assert not list(registry_of("orders").conflicts("lake", place(prefix), table("thief")))


def test_the_older_of_two_stands_and_of_two_equally_old_ones_neither() -> None:
    """An inventory finds a thief and its victim at one moment."""
    registry = LocationRegistry()
    for name, since in (("old", 1), ("mid", 2), ("twin", 2)):
        registry.replay([Registration(table(name), name, (Holding(table(name), "lake", "wh/orders/", since),))])

    def found(name: str) -> set[str]:
        return {each.table.name for each in registry.conflicts("lake", place(), table(name))}

    assert found("old") == set()
    assert found("mid") == {"old", "twin"}
    assert found("twin") == {"old", "mid"}
    assert found("new") == {"old", "mid", "twin"}


def test_of_tables_that_are_seen_one_is_always_older() -> None:
    """Two tables of one millisecond would both lose."""
    registry = LocationRegistry()
    for name in ("a", "b"):
        registry.register(table(name), facts(name, "s3://lake/wh/orders"), "s3://lake/wh/orders", NOW)
    assert not list(registry.conflicts("lake", place(), table("a")))
    assert list(registry.conflicts("lake", place(), table("b")))


def test_each_change_is_told_once() -> None:
    """The file would grow with each load of a table, or miss a drop."""
    registry, told = LocationRegistry(), list[Change]()
    registry.on_change = told.append
    for _ in range(2):
        registry.register(table(), facts(), facts().location, NOW)
    registry.rename(table(), table("now"), NOW + 1)
    registry.remove(table("now"), NOW + 2)
    registry.remove(table("now"), NOW + 2)
    kinds = [type(change).__name__ for change in told]
    assert kinds == ["Registration", "Removal", "Registration", "Removal"]
    again = LocationRegistry()
    again.replay(told[:3])
    assert names_in(again) == {"now"}
    again.replay(told[3:])
    assert len(again) == 0


def test_a_rename_keeps_the_age_of_a_place() -> None:
    """Renaming would make a table younger than the one that claims its place."""
    registry = registry_of("orders")
    registry.register(table("thief"), facts("thief", "s3://lake/wh/orders"), "s3://lake/wh/orders", NOW + 5)
    registry.rename(table(), table("now"), NOW + 9)
    assert not list(registry.conflicts("lake", place(), table("now")))


def test_there_is_an_end_to_it() -> None:
    """A caller that makes tables without end would fill the memory."""
    registry = registry_of("a", "b", "c", at_most=2)
    assert names_in(registry) == {"a", "b"}
    assert registry.full
    registry.register(table("a"), facts("a", uuid="other"), "s3://lake/wh/a", NOW)
    known = registry.find(table("a"))
    assert known is not None
    assert known.uuid == "other"


def test_two_processes_agree_on_the_older_age() -> None:
    """Both write what they saw of one table into one file."""
    older = Registration(table(), "u", (Holding(table(), "lake", "wh/orders/", 5),), 5)
    newer = Registration(
        table(), "u", (Holding(table(), "lake", "wh/orders/", 9), Holding(table(), "cold", "x/", 9)), 9
    )
    for first, second in ((older, newer), (newer, older)):
        registry = LocationRegistry()
        registry.replay([first, second])
        (found,) = registry.of("lake")
        assert [(each.prefix, each.since) for each in found.holdings] == [("wh/orders/", 5), ("x/", 9)]
        assert found.changed == 9


class TestInventory:
    """What one says of the places that are not in it."""

    def test_only_one_that_is_asked_for_and_new_enough_is_complete(self) -> None:
        """An old inventory would vouch for what was made since."""
        registry = LocationRegistry()
        assert registry.completeness("lake", NOW) is Completeness.NOT_ASKED
        registry.require({"lake": 60.0})
        assert registry.completeness("lake", NOW) is Completeness.MISSING
        assert registry.adopt(TAKEN, Shelf())
        assert registry.completeness("lake", NOW + 60) is Completeness.COMPLETE
        assert registry.completeness("lake", NOW + 60.1) is Completeness.MISSING
        assert registry.completeness("other", NOW) is Completeness.NOT_ASKED

    def test_it_says_what_is_gone_and_keeps_what_is_known(self) -> None:
        """A table that was dropped elsewhere would hold its place for good; one that is known would become younger."""
        registry = registry_of("orders", "gone")
        taken = msgspec.structs.replace(TAKEN, at=NOW + 100)
        listed = [(table(), facts()), (table("more"), facts("more", write_data_path="s3://cold/data/x"))]
        assert registry.adopt(taken, Shelf(registry.found(taken, listed)))
        assert names_in(registry) == {"orders", "more"}
        known, more = registry.find(table()), registry.find(table("more"))
        assert known is not None
        assert more is not None
        assert [each.since for each in known.holdings] == [int(NOW * 1000)]
        began = int((NOW + 100) * 1000)
        # What a property claims comes after what locations do.
        assert [(each.prefix, each.since) for each in more.holdings] == [("wh/more/", began), ("data/x/", began + 1)]

    def test_a_table_that_moved_keeps_its_first_place_first(self) -> None:
        """A caller that moves a table past signproxy would move what may be signed."""
        registry = registry_of("orders")
        taken = msgspec.structs.replace(TAKEN, at=NOW + 100)
        moved = facts(location="s3://lake/wh/other")
        assert registry.adopt(taken, Shelf(registry.found(taken, [(table(), moved)])))
        known = registry.find(table())
        assert known is not None
        assert [each.prefix for each in known.holdings] == ["wh/orders/", "wh/other/"]

    def test_what_changed_since_it_began_counts_more(self) -> None:
        """It was listed before, and says the opposite."""
        registry = registry_of("dropped", "renamed")
        shelf = Shelf(registry.found(TAKEN, [(table(name), facts(name)) for name in ("dropped", "renamed", "listed")]))
        registry.remove(table("dropped"), NOW + 1)
        registry.rename(table("renamed"), table("now"), NOW + 1)
        registry.register(table("made"), facts("made"), facts("made").location, NOW + 1)
        assert registry.adopt(TAKEN, shelf)
        assert names_in(registry) == {"now", "made", "listed"}

    def test_one_with_too_many_tables_is_none(self) -> None:
        """Those beyond the bound would be free."""
        registry = LocationRegistry(2)
        registry.require({"lake": 60.0})
        listed = [(table(name), facts(name)) for name in ("a", "b", "c")]
        assert not registry.adopt(TAKEN, Shelf(registry.found(TAKEN, listed)))
        assert registry.completeness("lake", NOW) is Completeness.MISSING
        assert registry.adopt(TAKEN, Shelf(registry.found(TAKEN, listed[:2])))

    def test_another_upstream_says_nothing_of_the_places_of_the_former(self) -> None:
        """Tables of a catalog that is no more would keep those of the new one out."""
        registry, told = registry_of("orders"), list[Change]()
        registry.on_change = told.append
        registry.note_upstream("lake", "one")
        registry.note_upstream("lake", "one")
        assert names_in(registry) == {"orders"}
        registry.note_upstream("lake", "two")
        assert names_in(registry) == set()
        assert told == [Stocktaking("lake", "one", 0.0), Removal(table()), Stocktaking("lake", "two", 0.0)]


class TestLearned:
    """What a process believes because of it."""

    async def test_a_table_is_where_it_was_first_seen_also_once_it_was_forgotten(self) -> None:
        """Moving a table that is not used would move what may be signed."""
        site = Site()
        site.live(facts())
        site.tables.ground.forget(site.tables.ground.of("lake").by_name["sales\0orders"])
        site.live(facts(location="s3://lake/wh/other"))
        assert await site.reason(KEY) is Reason.ALLOWED
        assert await site.reason("wh/other/f") is Reason.OUTSIDE_TABLE

    async def test_a_forgotten_table_that_is_gone_leaves_its_place(self) -> None:
        """A drop past signproxy would close the place until an operator comes."""
        site = Site()
        site.live(facts())
        site.tables.ground.forget(site.tables.ground.of("lake").by_name["sales\0orders"])
        site.upstream.remove("orders")
        site.upstream.put(facts("next", "s3://lake/wh/orders"))
        assert await site.reason(KEY, "next", "reader") is Reason.LOCATION_DISPUTED
        site.clock.forward(60)
        assert await site.reason(KEY, "next", "writer") is Reason.ALLOWED

    async def test_a_drop_and_a_rename_of_a_forgotten_table_are_noted(self) -> None:
        """The place would stay with a name that no table has."""
        site = Site()
        for name in ("orders", "items"):
            site.live(facts(name))
            site.tables.ground.forget(site.tables.ground.of("lake").by_name[f"sales\0{name}"])
        site.take(Dropped("lake", "sales", "orders", "corp/owner", site.clock.now, "uuid-orders"))
        site.take(Renamed("lake", "sales", "items", "sales", "now"))
        assert names_in(site.tables.registry) == {"now"}
        assert site.live(facts("next", "s3://lake/wh/orders")) == [None]

    async def test_nothing_new_is_believed_while_an_inventory_is_missing(self) -> None:
        """Whose place it is, is not known yet."""
        site = Site()
        site.live(facts("known"))
        site.tables.registry.require({"lake": 60.0})
        refusal = site.take(Live("lake", facts()))
        assert refusal is not None
        assert refusal.reason is Reason.INVENTORY_MISSING
        staged = site.take(site.stage(facts("new")))
        assert staged is not None
        assert staged.reason is Reason.INVENTORY_MISSING
        assert await site.reason("wh/known/f", "known") is Reason.ALLOWED
