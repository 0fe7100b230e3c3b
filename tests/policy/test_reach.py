"""Prove what a principal may do at a place that is known by its name alone."""

from __future__ import annotations

import pytest

from signproxy.model import Principal
from signproxy.policy.catalog import Catalog
from signproxy.policy.privileges import mask_of, names_of
from signproxy.policy.reach import grants_at, mask_at, may_list, names_below, namespace_at
from signproxy.policy.rights import Rights
from tests.inventory.policy_text import load

_POLICY = """
remote_signing: true
storages:
  aws: {kind: aws, region: us-east-1, buckets: [lake]}
catalogs:
  lake: {storages: [aws], remote_signing: true, tables: %s}
catalog_roles: {lake: [top, sales, table, view, nested, sign, drop, viewer]}
principal_roles:
  top: {lake: [top]}
  sales: {lake: [sales]}
  table: {lake: [table]}
  view: {lake: [view]}
  nested: {lake: [nested]}
  sign: {lake: [sign]}
  drop: {lake: [drop]}
  viewer: {lake: [viewer]}
principals:
  corp/top: {roles: [top]}
  corp/sales: {roles: [sales]}
  corp/table: {roles: [table]}
  corp/view: {roles: [view]}
  corp/nested: {roles: [nested]}
  corp/sign: {roles: [sign]}
  corp/drop: {roles: [drop]}
  corp/viewer: {roles: [viewer]}
  corp/nobody: {}
namespaces: {lake: [sales, sales.eu, hr]}
tables:
- {namespace: sales.eu, name: declared, location: "s3://lake/declared"}
grants:
- {role: top, privileges: [TABLE_READ_DATA]}
- {role: sales, namespace: sales, privileges: [TABLE_READ_DATA]}
- {role: table, namespace: sales.eu, table: declared, privileges: [TABLE_READ_DATA]}
- {role: nested, namespace: sales.eu, privileges: [NAMESPACE_LIST]}
- {role: sign, namespace: sales.eu, table: declared, privileges: [TABLE_REMOTE_SIGN]}
- {role: drop, namespace: sales.eu, table: declared, privileges: [TABLE_DROP]}
"""
_AHEAD = """
- {role: viewer, namespace: hr, table: names, privileges: [VIEW_LIST]}
- {role: view, namespace: hr, table: people, privileges: [VIEW_READ_PROPERTIES]}
- {role: table, namespace: made.up, table: later, privileges: [TABLE_WRITE_DATA]}
- {role: sales, namespace: made, privileges: [TABLE_CREATE]}
"""

EU = "sales\x1feu"
MADE = "made\x1fup"


def _known(who: str, tables: str = "upstream") -> tuple[Catalog, Rights]:
    state = load(_POLICY % tables + (_AHEAD if tables == "upstream" else ""))
    catalog = state.catalogs["lake"]
    rights = state.rights(Principal(f"corp/{who}", "corp", who, 4e9), catalog)
    assert rights is not None
    return catalog, rights


@pytest.mark.parametrize(
    ("who", "namespace", "name", "expected"),
    (
        ("top", None, None, "TABLE_READ_DATA"),
        ("top", "nowhere", None, "TABLE_READ_DATA"),
        ("top", "nowhere", "x", "TABLE_READ_DATA"),
        ("sales", None, None, ""),
        ("sales", "sales", None, "TABLE_READ_DATA"),
        # What is granted on a namespace reaches everything below it, whether or not the policy names it.
        ("sales", EU, None, "TABLE_READ_DATA"),
        ("sales", EU, "declared", "TABLE_READ_DATA"),
        ("sales", EU, "unknown", "TABLE_READ_DATA"),
        ("sales", f"{EU}\x1fdeeper\x1fstill", "unknown", "TABLE_READ_DATA"),
        ("sales", "sales2", "unknown", ""),
        ("sales", "hr", None, ""),
        # A grant on a table reaches that table and nothing beside it.
        ("table", EU, "declared", "TABLE_READ_DATA"),
        ("table", EU, "other", ""),
        ("table", EU, None, ""),
        ("table", "sales", "declared", ""),
        # Granted ahead: on tables, views and namespaces that are not declared.
        ("table", MADE, "later", "TABLE_WRITE_DATA"),
        ("sales", MADE, "later", "TABLE_CREATE"),
        ("sales", MADE, "other", "TABLE_CREATE"),
        ("view", "hr", "people", "VIEW_READ_PROPERTIES"),
        ("view", "hr", None, ""),
        ("nobody", EU, "declared", ""),
    ),
)
def test_rights_at_a_place_are_those_of_the_place_and_above(
    who: str, namespace: str | None, name: str | None, expected: str
) -> None:
    """A catalog call names its place before it is known to exist."""
    catalog, rights = _known(who)
    mask = mask_at(catalog, rights, namespace, name)
    assert mask == (mask_of([expected]) if expected else 0), names_of(mask)


@pytest.mark.parametrize(
    ("who", "namespace", "name", "shown"),
    (
        ("top", "anything", None, True),
        ("sales", "sales", None, True),
        ("sales", EU, "x", True),
        ("sales", "hr", None, False),
        ("sales", "made", None, True),
        # A caller that may read one table sees the way to it, and it alone.
        ("table", "sales", None, True),
        ("table", EU, None, True),
        ("table", EU, "declared", True),
        ("table", EU, "other", False),
        ("table", "made", None, True),
        ("table", MADE, None, True),
        ("table", MADE, "later", True),
        ("view", "hr", None, True),
        ("view", "hr", "people", True),
        ("view", "hr", "other", False),
        ("view", "sales", None, False),
        ("viewer", "hr", "names", True),
        ("viewer", "hr", "people", False),
        ("viewer", "hr", None, True),
        ("nested", "sales", None, True),
        ("nested", EU, None, True),
        ("nested", EU, "declared", False),
        # Neither lets its holder look at the table.
        ("sign", EU, "declared", False),
        ("sign", "sales", None, False),
        ("drop", EU, "declared", False),
        ("nobody", "sales", None, False),
    ),
)
def test_lists_show_what_may_be_looked_at(who: str, namespace: str, name: str | None, shown: bool) -> None:
    """Names alone tell a competitor what a tenant works on; a way that is hidden cannot be gone."""
    catalog, rights = _known(who)
    assert may_list(catalog, rights, namespace, name) is shown


@pytest.mark.parametrize(
    ("who", "namespace", "found"),
    (
        ("table", None, True),
        ("table", "sales", True),
        ("table", "hr", False),
        ("view", None, True),
        ("sign", None, False),
        ("top", None, False),
        ("nested", "sales", True),
        ("nested", EU, False),
        ("table", "nowhere", False),
        ("viewer", None, True),
        ("nested", None, True),
    ),
)
def test_what_lies_below_counts_for_every_namespace_above(who: str, namespace: str | None, found: bool) -> None:
    """A list of the catalog's namespaces must lead to the one table that the caller may read."""
    catalog, rights = _known(who)
    assert names_below(catalog, rights, namespace) is found


def test_a_catalog_that_declares_its_tables_is_answered_for_in_the_same_way() -> None:
    """A facade may stand before a catalog whose tables the operator wrote down."""
    catalog, rights = _known("table", "declared")
    assert may_list(catalog, rights, "sales", None)
    assert mask_at(catalog, rights, EU, "declared")
    assert not mask_at(catalog, rights, EU, "unknown")
    assert grants_at(catalog, "nowhere", "x") == {}


def test_the_nearest_namespace_stands_for_those_below() -> None:
    """Grants hang on the namespaces that the policy names."""
    catalog, _ = _known("top")
    found = namespace_at(catalog, f"{EU}\x1fdeeper")
    assert found is not None
    assert found.name == EU
    assert namespace_at(catalog, "nowhere\x1fx") is None
    assert namespace_at(catalog, "") is None
