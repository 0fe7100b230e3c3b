"""Prove which tables a request concerns, by name and by location."""

from __future__ import annotations

import pytest

from signproxy.errors import Reason, Refused
from signproxy.model import BY_LOCATION, ByLocation, NamedTable
from signproxy.policy.catalog import Overlap, TableBinding
from signproxy.policy.resolver import PolicyResolver
from signproxy.s3.operation import Operation
from tests.policy.world import World, request

KEY = "wh/orders/data/f"
NAMED = NamedTable("sales", "orders")


def _names(world: World, target: NamedTable | ByLocation, **asked: object) -> list[str]:
    resolved = PolicyResolver().resolve(world.catalog, target, request(**asked))  # type: ignore[arg-type]  # as given
    return [table.name for table in resolved]


def _world(binding: TableBinding = TableBinding.STRICT, overlap: Overlap = Overlap.FORBIDDEN) -> World:
    world = World(binding=binding, overlap=overlap)
    world.table("orders", "wh/orders/")
    world.table("other", "wh/other/")
    return world


@pytest.mark.parametrize("key", (KEY, "wh/other/f", "nowhere"))
def test_a_strict_route_means_the_table_that_it_names(key: str) -> None:
    """Whether the key lies in it is judged later, after the privileges, so that nothing is revealed."""
    assert _names(_world(), NAMED, key=key) == ["orders"]


@pytest.mark.parametrize(
    "target", (NamedTable("sales", "gone"), NamedTable("gone", "orders"), NamedTable("", ""), NamedTable("sales", ""))
)
@pytest.mark.parametrize("overlap", Overlap)
@pytest.mark.parametrize("binding", TableBinding)
def test_an_unknown_name_is_refused(target: NamedTable, overlap: Overlap, binding: TableBinding) -> None:
    """A name that is not there must not fall back to the location: a route outlived its table, or is mistyped."""
    with pytest.raises(Refused) as caught:
        _names(_world(binding, overlap), target, key=KEY)
    assert caught.value.reason is Reason.TABLE_UNKNOWN
    assert repr(target.name) in caught.value.detail


@pytest.mark.parametrize("binding", TableBinding)
@pytest.mark.parametrize("overlap", Overlap)
@pytest.mark.parametrize(
    ("asked", "owner"),
    (
        ({"key": KEY}, "orders"),
        ({"key": "wh/other/f"}, "other"),
        ({"operation": Operation.LIST_OBJECTS_V2, "prefix": "wh/other/"}, "other"),
        ({"operation": Operation.LIST_PARTS, "key": "wh/other/f"}, "other"),
        ({"operation": Operation.DELETE_OBJECTS, "delete_keys": ("wh/other/f", "wh/other/g")}, "other"),
        ({"key": "wh/other"}, None),
        ({"key": "wh/x/f"}, None),
        ({"key": "wh/other/f", "bucket": "cold"}, None),
        ({"operation": Operation.LIST_OBJECTS_V2, "prefix": "wh/other"}, None),
        ({"operation": Operation.LIST_OBJECTS_V2, "prefix": "wh/"}, None),
        ({"operation": Operation.DELETE_OBJECTS, "delete_keys": ()}, None),
        ({"operation": Operation.DELETE_OBJECTS, "delete_keys": ("wh/other/f", KEY)}, None),
        ({"operation": Operation.DELETE_OBJECTS, "delete_keys": ("wh/other/f", "wh/x")}, None),
        ({"operation": Operation.DELETE_OBJECTS, "delete_keys": ("wh/x", "wh/other/f")}, None),
    ),
)
def test_a_route_without_a_table_means_the_owner_of_the_keys(
    binding: TableBinding, overlap: Overlap, asked: dict[str, object], owner: str | None
) -> None:
    """Keys of two tables in one request belong to neither."""
    world = _world(binding, overlap)
    world.catalog.locations.sort()
    targets: list[NamedTable | ByLocation] = [BY_LOCATION]
    if binding is TableBinding.BY_LOCATION:
        # The path is a hint: PyIceberg 0.9 names one table and signs for another.
        targets += [NAMED]
    for target in targets:
        if owner is not None:
            assert _names(world, target, **asked) == [owner]
            continue
        with pytest.raises(Refused) as caught:
            _names(world, target, **asked)
        assert caught.value.reason is Reason.LOCATION_UNOWNED


def _overlapping(binding: TableBinding) -> World:
    world = World(binding=binding, overlap=Overlap.ALLOWED)
    world.table("orders", "wh/orders/")
    world.table("inner", "wh/orders/inner/")
    world.table("twin", "wh/orders/inner/")
    world.table("deep", "wh/orders/deep/er/")
    world.catalog.locations.sort()
    return world


@pytest.mark.parametrize(
    ("asked", "owners"),
    (
        ({"key": KEY}, ["orders"]),
        ({"key": "wh/orders/inner/f"}, ["orders", "inner", "twin"]),
        ({"operation": Operation.LIST_OBJECTS_V2, "prefix": "wh/orders/inner/"}, ["orders", "inner", "twin"]),
        # A list that shows a nested table's keys concerns that table, and will be refused for it.
        ({"operation": Operation.LIST_OBJECTS_V2, "prefix": "wh/orders/"}, ["orders", "deep"]),
        ({"operation": Operation.LIST_OBJECTS_V2, "prefix": "wh/orders/in"}, ["orders", "inner"]),
        ({"operation": Operation.LIST_OBJECTS_V2, "prefix": "wh/orders/data"}, ["orders"]),
        # So does deleting the folder around it.
        ({"operation": Operation.DELETE_OBJECT, "key": "wh/orders/deep"}, ["orders", "deep"]),
        ({"operation": Operation.DELETE_OBJECT, "key": "wh/orders/dee"}, ["orders"]),
        ({"operation": Operation.GET_OBJECT, "key": "wh/orders/deep"}, ["orders"]),
        ({"operation": Operation.DELETE_OBJECTS, "delete_keys": (KEY, "wh/orders/inner")}, ["orders", "inner"]),
        ({"operation": Operation.DELETE_OBJECTS, "delete_keys": (KEY, "wh/orders/x")}, ["orders"]),
    ),
)
@pytest.mark.parametrize("binding", TableBinding)
def test_where_locations_overlap_every_owner_is_named(
    binding: TableBinding, asked: dict[str, object], owners: list[str]
) -> None:
    """An owner that is not named is not asked."""
    assert _names(_overlapping(binding), NAMED, **asked) == owners


def test_a_strict_name_comes_first_and_once() -> None:
    """The table that the caller named is the one that audit shows."""
    world = _overlapping(TableBinding.STRICT)
    assert _names(world, NamedTable("sales", "twin"), key="wh/orders/inner/f") == ["twin", "orders", "inner"]


def test_keys_with_different_owners_are_refused_by_location() -> None:
    """Which table such a request is for cannot be said."""
    keys = (KEY, "wh/orders/inner/f")
    with pytest.raises(Refused) as caught:
        _names(
            _overlapping(TableBinding.BY_LOCATION), BY_LOCATION, operation=Operation.DELETE_OBJECTS, delete_keys=keys
        )
    assert caught.value.reason is Reason.LOCATION_UNOWNED
    assert repr(keys[1]) in caught.value.detail
    # Bound to a name, each owner of any key is asked; the judgement refuses what one of them does not hold.
    strict = _overlapping(TableBinding.STRICT)
    owners = _names(strict, NAMED, operation=Operation.DELETE_OBJECTS, delete_keys=keys)
    assert owners == ["orders", "inner", "twin"]
