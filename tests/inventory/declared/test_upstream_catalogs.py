"""Prove what a policy can say of a catalog whose tables an upstream tells of."""

# ruff: noqa: E501  (a fault is one row of a table, and reads as one)

from __future__ import annotations

import pytest

from signproxy.model import TableId
from signproxy.policy.catalog import Authorizer, TablesFrom
from signproxy.policy.privileges import mask_of
from signproxy.policy.table import MetadataLevel, Overwrite, Place, table_key
from tests.inventory.policy_text import BASE, TABLE, faults, load

UPSTREAM = BASE.replace("remote_signing: true}", "remote_signing: true, tables: upstream}")
GRANTS = """
grants:
- {role: analyst, namespace: sales, privileges: [TABLE_READ_DATA]}
- {role: loader, namespace: sales, table: orders, privileges: [TABLE_WRITE_DATA]}
- {role: analyst, namespace: hr.deep, table: people, privileges: [TABLE_DROP]}
- {role: loader, namespace: hr, privileges: [TABLE_LIST]}
"""
OTHER = '  other: {storages: [aws], roots: ["s3://lake/wh"], tables: %s}\n'


def test_the_policy_declares_its_tables_unless_it_says_otherwise() -> None:
    """A policy of before must mean what it meant."""
    catalog = load(BASE).catalogs["lake"]
    assert catalog.learning is None
    assert (catalog.tables_from, catalog.authorizer) == (TablesFrom.DECLARED, Authorizer.POLICY)
    assert load(BASE.replace("true}", "true, tables: declared, authorizer: policy}")).catalogs["lake"].learning is None


@pytest.mark.parametrize("authorizer", Authorizer)
def test_an_upstream_may_tell_of_the_tables_and_authorize(authorizer: Authorizer) -> None:
    """Each of the three ways is one word."""
    text = UPSTREAM.replace(
        "upstream}", f"upstream, authorizer: {authorizer.value}, metadata: open, overwrite: forbid}}"
    )
    catalog = load(text).catalogs["lake"]
    assert catalog.learning is not None
    assert (catalog.tables_from, catalog.authorizer) == (TablesFrom.UPSTREAM, authorizer)
    assert [str(root) for root in catalog.learning.roots] == ["s3://lake/wh", "s3://cold"]
    assert (catalog.learning.metadata, catalog.learning.overwrite) == (MetadataLevel.OPEN, Overwrite.FORBID)


@pytest.mark.parametrize(
    ("text", "expected"),
    (
        (BASE.replace("true}", "true, authorizer: catalog}"), ["0.yaml: catalogs.lake.authorizer: 'catalog' needs `tables: upstream`"]),
        (BASE.replace("true}", "true, authorizer: both, tables: declared}"), ["0.yaml: catalogs.lake.authorizer: 'both' needs `tables: upstream`"]),
        (BASE.replace("true}", "true, caller_locations: ['s3://lake/x']}"), ["0.yaml: catalogs.lake.caller_locations: has no effect without `tables: upstream`"]),
        (UPSTREAM.replace("upstream}", "learned}"), ["0.yaml: catalogs.lake.tables: "]),
        (BASE + "tables: [{name: t, namespace: a}]", ["0.yaml: tables[0].location: this key is missing"]),
        (UPSTREAM + "tables: [{name: t, namespace: a, location: ''}]", ["0.yaml: tables[0].location: '' does not begin with s3://"]),
        (UPSTREAM + "tables: [{name: t, namespace: a}, {name: t, namespace: a}]", ["0.yaml: tables[1]: table a.t is declared twice"]),
        (UPSTREAM + 'tables: [{name: t, namespace: a}, {name: t, namespace: a, location: "s3://lake/wh/t"}]', ["0.yaml: tables[1]: table a.t is declared twice"]),
        (UPSTREAM + 'tables: [{name: t, namespace: a, location: "s3://lake/wh/t"}, {name: t, namespace: a}]', ["0.yaml: tables[1]: table a.t is declared twice"]),
        (UPSTREAM + 'tables: [{name: t, namespace: a, locations: ["s3://lake/elsewhere"]}]', ["0.yaml: tables[0].locations[0]: 's3://lake/elsewhere' is not below a root"]),
        (UPSTREAM + 'tables: [{name: t, namespace: a, properties: {write.data.path: "s3://pond/x"}}]', ["0.yaml: tables[0].properties['write.data.path']: no storage"]),
        (UPSTREAM + 'tables: [{name: "t\\0", namespace: a}]', ["0.yaml: tables[0].name: 't\\x00' is no name of a table"]),
        (UPSTREAM + "grants: [{role: nobody, namespace: a, table: t, privileges: [TABLE_LIST]}]", ["0.yaml: grants[0].role: catalog 'lake' has no role 'nobody'"]),
        # Places of two listings, of a listing and a table, in one catalog and across two.
        (UPSTREAM + f'tables:\n{TABLE}- {{name: t, namespace: a, locations: ["s3://lake/wh/orders/x"]}}', ["0.yaml: tables[1]: table 'lake.a.t': 's3://lake/wh/orders/x' nests in, or equals, a location of table 'lake.sales.orders'"]),
        (UPSTREAM + f'tables:\n{TABLE.replace("wh/orders", "wh/t/orders")}- {{name: t, namespace: a, locations: ["s3://lake/wh/t"]}}', ["0.yaml: tables[1]: table 'lake.a.t': 's3://lake/wh/t' nests in, or equals, a location of table 'lake.sales.orders'"]),
        (UPSTREAM + 'tables: [{name: t, namespace: a, locations: ["s3://cold/x"]}, {name: u, namespace: a, locations: ["s3://cold/x/y"]}]', ["0.yaml: tables[0]: table 'lake.a.t': 's3://cold/x' nests in, or equals, a location of table 'lake.a.u'", "0.yaml: tables[1]: table 'lake.a.u': 's3://cold/x/y' nests in, or equals, a location of table 'lake.a.t'"]),
        (UPSTREAM.replace("catalog_roles", OTHER % "declared" + "catalog_roles") + f'tables:\n{TABLE.replace("{", "{catalog: other, ")}- {{name: t, namespace: a, catalog: lake, locations: ["s3://lake/wh/orders"]}}', ["0.yaml: tables[1]: table 'lake.a.t': 's3://lake/wh/orders' nests in, or equals, a location of table 'other.sales.orders'"]),
        (UPSTREAM.replace("catalog_roles", OTHER % "upstream, overlap: allowed" + "catalog_roles") + 'tables: [{catalog: lake, name: t, namespace: a, locations: ["s3://lake/wh/x"]}, {catalog: other, name: u, namespace: a, locations: ["s3://lake/wh/x"]}]', ["0.yaml: tables[0]: table 'lake.a.t'", "0.yaml: tables[1]: table 'other.a.u'"]),
    ),
)  # fmt: skip
def test_what_contradicts_itself_is_told_with_its_place(text: str, expected: list[str]) -> None:
    """Nothing of a policy with a fault takes effect."""
    found = faults(text)
    assert len(found) == len(expected), found
    for fault, beginning in zip(found, expected, strict=True):
        assert fault.startswith(beginning), found


def test_places_may_be_shared_where_the_catalog_says_so() -> None:
    """Then all owners must allow, wherever they are declared."""
    text = UPSTREAM.replace("upstream}", "upstream, overlap: allowed}")
    tables = (
        f'tables:\n{TABLE}- {{name: t, namespace: a, locations: ["s3://lake/wh/orders/x", "s3://lake/wh/orders/x/y"]}}'
    )
    assert faults(text + tables) == []
    shared = 'tables: [{name: t, namespace: a, locations: ["s3://cold/x", "s3://cold/x/y"]}]'
    assert faults(UPSTREAM + shared) == []


def test_a_bucket_of_one_name_on_another_store_is_another_bucket() -> None:
    """A listing would be refused for a place that is none of its business."""
    text = UPSTREAM.replace(
        "catalogs:",
        "  away: {kind: s3-compatible, region: r1, buckets: [cold], endpoints: [{url: 'http://s.local'}]}\ncatalogs:",
    ).replace("catalog_roles", "  other: {storages: [away], tables: upstream}\ncatalog_roles")
    listed = "{catalog: %s, name: t, namespace: a, locations: ['s3://cold/x']}"
    assert faults(f"{text}tables: [{listed % 'lake'}, {listed % 'other'}]") == []


def test_a_table_without_a_location_is_listed_and_not_declared() -> None:
    """What is said of it is kept until the upstream tells where it is."""
    text = (
        UPSTREAM
        + """
tables:
- name: orders
  namespace: [sales, "v1.0"]
  uuid: u1
  metadata: sealed
  properties: {write.data.path: "s3://cold/data", other: x}
  locations: ["s3://lake/wh/old"]
- {name: plain, namespace: sales}
"""
    )
    catalog = load(text).catalogs["lake"]
    assert catalog.learning is not None
    assert len(catalog.tables()) == 0
    listing = catalog.learning.listings[table_key("sales\x1fv1.0", "orders")]
    assert listing.id == TableId("lake", "sales\x1fv1.0", "orders")
    assert (listing.uuid, listing.metadata, listing.overwrite) == ("u1", MetadataLevel.SEALED, Overwrite.ALLOWED)
    assert listing.places == (Place("aws", "cold", "data/"), Place("aws", "lake", "wh/old/"))
    assert catalog.learning.reserved.over("lake", "wh/old/f") == (listing,)
    assert catalog.learning.listings[table_key("sales", "plain")].places == ()


@pytest.mark.parametrize("form", ("yaml", "ndjson"))
def test_what_is_granted_on_undeclared_tables_and_namespaces_is_kept(form: str) -> None:
    """The policy would have to list the tables after all, to grant anything on one of them."""
    if form == "yaml":
        state = load(UPSTREAM, GRANTS)
    else:
        lines = """{"kind": "grant", "role": "analyst", "namespace": "sales", "privileges": ["TABLE_READ_DATA"]}
{"kind": "grant", "role": "loader", "namespace": "sales", "table": "orders", "privileges": ["TABLE_WRITE_DATA"]}
{"kind": "grant", "role": "analyst", "namespace": "hr.deep", "table": "people", "privileges": ["TABLE_DROP"]}
{"kind": "grant", "role": "loader", "namespace": "hr", "privileges": ["TABLE_LIST"]}
{"kind": "table", "namespace": "hr", "name": "listed", "locations": ["s3://cold/listed"]}
"""
        state = load(UPSTREAM, "inventories: [big.ndjson]", big=lines)
        assert state.catalogs["lake"].learning is not None
        assert table_key("hr", "listed") in state.catalogs["lake"].learning.listings
    catalog = state.catalogs["lake"]
    assert catalog.learning is not None
    read, write, drop, name = (
        mask_of([privilege]) for privilege in ("TABLE_READ_DATA", "TABLE_WRITE_DATA", "TABLE_DROP", "TABLE_LIST")
    )
    assert catalog.namespaces["sales"].grants == {0: read}
    assert catalog.namespaces["hr"].own == {1: name}
    assert catalog.namespaces["hr\x1fdeep"].grants == {1: name}
    assert catalog.learning.grants == {
        table_key("sales", "orders"): {0: read, 1: write},
        table_key("hr\x1fdeep", "people"): {0: drop, 1: name},
    }
    assert catalog.below == {
        "": {0: read | drop, 1: write | name},
        "sales": {1: write},
        "hr": {0: drop},
        "hr\x1fdeep": {0: drop},
    }


def test_a_grant_on_a_declared_table_is_the_tables_own() -> None:
    """Declared tables beside are declared tables."""
    grant = "grants: [{role: loader, namespace: sales, table: orders, privileges: [TABLE_WRITE_DATA]}]"
    catalog = load(UPSTREAM + f"tables:\n{TABLE}{grant}").catalogs["lake"]
    table = catalog.table("sales", "orders")
    assert table is not None
    assert catalog.learning is not None
    assert table.grants == {1: mask_of(["TABLE_WRITE_DATA"])}
    assert catalog.learning.grants == {}
    assert catalog.below == {"sales": table.grants, "": table.grants}


def test_what_tables_have_in_common_is_noted_once_and_whole() -> None:
    """Of a million tables with one grant the second must not cost what the first did, and none may be forgotten."""
    tables = "".join(f'- {{namespace: a.b, name: t{n}, location: "s3://lake/wh/{n}"}}\n' for n in range(3))
    grants = "".join(f"- {{role: analyst, namespace: a.b, table: t{n}, privileges: [TABLE_DROP]}}\n" for n in range(2))
    last = "- {role: loader, namespace: a.b, table: t2, privileges: [TABLE_LIST]}\n"
    catalog = load(BASE + f"tables:\n{tables}grants:\n{grants}{last}").catalogs["lake"]
    both = {0: mask_of(["TABLE_DROP"]), 1: mask_of(["TABLE_LIST"])}
    assert catalog.below == {"a\x1fb": both, "a": both, "": both}


@pytest.mark.parametrize("other", ("upstream", "declared"))
def test_catalogs_that_may_be_asked_what_lies_below_a_place_are_ready_for_it(other: str) -> None:
    """A learned table's claim must meet every declared one, in this catalog and in those beside it."""
    text = UPSTREAM.replace("catalog_roles", OTHER % other + "catalog_roles")
    theirs = TABLE.replace("{", "{catalog: other, ")
    ours = TABLE.replace("{", "{catalog: lake, ").replace("wh/", "wh/l/")
    state = load(f"{text}tables:\n{theirs}{ours}")
    for catalog, prefix in (("other", "wh/"), ("lake", "wh/l/")):
        assert state.catalogs[catalog].locations.reached("lake", prefix, ()) is not None


def test_where_nothing_is_learned_nothing_is_prepared_for_it() -> None:
    """Sorting a million locations takes a second of every reload."""
    state = load(BASE + f"tables:\n{TABLE}")
    assert state.catalogs["lake"].locations.reached("lake", "wh/", ()) is None
