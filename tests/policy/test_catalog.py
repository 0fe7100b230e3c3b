"""Prove that a table is found by its exact name, and what it tells of itself."""

from __future__ import annotations

import gc

import pytest

from signproxy.model import NAMESPACE_SEPARATOR
from signproxy.policy.catalog import CatalogKind, Overlap, TableBinding
from signproxy.policy.table import MetadataLevel, Overwrite, Place, TableSettings
from tests.policy.world import World


@pytest.mark.parametrize(
    ("namespace", "name", "found"),
    (
        (f"a{NAMESPACE_SEPARATOR}b", "t", True),
        ("a", "t", False),
        ("a", f"b{NAMESPACE_SEPARATOR}t", False),  # one level less is another name
        ("a.b", "t", False),
        (f"a{NAMESPACE_SEPARATOR}b\0t", "", False),
        ("", f"a{NAMESPACE_SEPARATOR}b\0t", False),
        (f"A{NAMESPACE_SEPARATOR}b", "t", False),
        (f"a{NAMESPACE_SEPARATOR}b", "T", False),
        ("", "", False),
    ),
)
def test_a_table_has_one_name(namespace: str, name: str, found: bool) -> None:
    """A name that could be read in two ways would let a route mean another table."""
    world = World()
    table = world.table("t", namespace=world.namespace("a.b"))
    assert world.catalog.table(namespace, name) is (table if found else None)
    assert list(world.catalog.tables()) == [table]


def test_a_table_tells_its_places() -> None:
    """What is explained must be what is judged."""
    metadata_place = Place("aws", "cold", "meta/")
    table = World().table(
        extra=(metadata_place, Place("backup", "vault", "old/")),
        metadata_place=metadata_place,
        metadata=MetadataLevel.OPEN,
        overwrite=Overwrite.FORBID,
    )
    assert [str(place) for place in table.places] == ["s3://lake/wh/orders", "s3://cold/meta", "s3://vault/old"]
    assert [str(place) for place in table.metadata_places] == [
        "s3://cold/meta",
        "s3://lake/wh/orders/metadata",
        "s3://cold/meta/metadata",
        "s3://vault/old/metadata",
    ]
    assert table.name == "orders"
    assert table.metadata is MetadataLevel.OPEN
    assert table.overwrite is Overwrite.FORBID


def test_tables_are_invisible_to_the_garbage_collector() -> None:
    """A collection that walks a million tables stops every request for as long."""
    world = World()
    table = world.table()
    assert not any(map(gc.is_tracked, (table, table.id, table.namespace, table.settings)))
    assert not any(part is table.namespace for part in gc.get_referrers(table))


def test_the_words_of_the_policy_language() -> None:
    """Policies that were written once must still be read."""
    words = {
        kind: [member.value for member in kind]
        for kind in (TableBinding, CatalogKind, MetadataLevel, Overlap, Overwrite)
    }
    assert words == {
        TableBinding: ["strict", "by-location"],
        CatalogKind: ["internal", "external"],
        MetadataLevel: ["protected", "sealed", "open"],
        Overlap: ["forbidden", "allowed"],
        Overwrite: ["allowed", "forbid"],
    }


def test_the_defaults_of_a_table() -> None:
    """Metadata is protected unless the policy says otherwise; overwriting is allowed, for Iceberg never does it."""
    settings = TableSettings("aws", "lake")
    assert settings.metadata is MetadataLevel.PROTECTED
    assert settings.overwrite is Overwrite.ALLOWED
    assert settings.extra == ()
    assert settings.metadata_place is None


def test_a_policy_is_shown_by_its_revision_and_a_catalog_by_its_name() -> None:
    """A log line, or a test that fails, would print a million tables."""
    world = World()
    world.table("t")
    assert repr(world.state) == f"PolicyState({world.state.rev!r})"
    assert repr(world.catalog) == f"Catalog({world.catalog.name!r})"
