"""What an operator is told when a policy was replaced by another."""

from __future__ import annotations

import json

import pytest

from signproxy.inventory.changes.difference import difference
from signproxy.inventory.changes.notes import MAX_EXAMPLES, MAX_GROUPS, MAX_LINES, Notes
from signproxy.policy.catalog import Catalog
from signproxy.policy.state import PolicyState
from tests.inventory.policy_text import load

POLICY = """
remote_signing: true
default_catalog: lake
storages:
  aws: {kind: aws, region: us-east-1, buckets: [lake, cold]}
  minio: {kind: s3-compatible, region: r1, buckets: [small], endpoints: [{url: "http://minio:9000"}]}
catalogs:
  lake: {storages: [aws], remote_signing: true, prefixes: [opaque]}
  other: {storages: [minio]}
catalog_roles: {lake: [analyst, etl], other: [analyst]}
principal_roles:
  analysts: {lake: [analyst]}
  loaders: {lake: [etl]}
principals:
  corp/ann: {roles: [analysts]}
  corp/bob: {roles: [analysts, loaders]}
namespaces: {lake: [empty]}
tables:
  - {namespace: sales, name: orders, location: "s3://lake/orders"}
  - {namespace: sales.eu, name: returns, location: "s3://lake/returns", uuid: u-1}
  - {namespace: sales, name: items, location: "s3://lake/items", properties: {write.data.path: "s3://cold/items"}}
grants:
  - {role: analyst, privileges: [TABLE_READ_DATA, TABLE_REMOTE_SIGN]}
  - {role: etl, privileges: [TABLE_WRITE_DATA, TABLE_REMOTE_SIGN], namespace: sales}
  - {role: etl, privileges: [TABLE_FULL_METADATA], namespace: sales, table: orders}
"""
ORDERS = '  - {namespace: sales, name: orders, location: "s3://lake/orders"}\n'
RETURNS = '  - {namespace: sales.eu, name: returns, location: "s3://lake/returns", uuid: u-1}\n'
ON_LAKE = "  - {role: analyst, privileges: [TABLE_READ_DATA, TABLE_REMOTE_SIGN]}\n"
ON_SALES = "  - {role: etl, privileges: [TABLE_WRITE_DATA, TABLE_REMOTE_SIGN], namespace: sales}\n"
ON_ORDERS = "  - {role: etl, privileges: [TABLE_FULL_METADATA], namespace: sales, table: orders}\n"


def after(old: str, new: str, policy: str = POLICY) -> tuple[str, ...]:
    """Return what is told once some text of the policy was replaced."""
    assert policy.count(old) == 1, old
    return difference(load(policy), load(policy.replace(old, new)))


def test_a_policy_does_not_differ_from_itself() -> None:
    """Each reload would read as a change."""
    state = load(POLICY)
    assert difference(state, state) == ()
    assert difference(state, load(POLICY)) == ()
    # Another revision that says the same.
    assert difference(state, load(POLICY + "volumes_of_later_are_a_comment: {}\n".replace("vol", "# vol"))) == ()
    assert after("namespaces: {lake: [empty]}", "namespaces: {lake: [empty, sales]}") == ()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    (
        # Switches
        ("remote_signing: true\ndef", "remote_signing: false\ndef", ["remote signing switched off"]),
        ("remote_signing: true, pre", "remote_signing: false, pre", ["catalog 'lake': remote signing switched off"]),
        ("other: {storages: [minio]}", "other: {storages: [minio], remote_signing: true}", [
            "catalog 'other': remote signing switched on",
        ]),
        ("other: {storages: [minio]}", "other: {storages: [minio], kind: external, allow_external: true}", [
            "catalog 'other': kind internal -> external",
            "catalog 'other': allow_external false -> true",
        ]),
        ("other: {storages: [minio]}", "other: {storages: [minio], binding: by-location, overlap: allowed}", [
            "catalog 'other': binding strict -> by-location",
            "catalog 'other': overlap forbidden -> allowed",
        ]),
        ("other: {storages: [minio]}", "other: {storages: [minio], delegation: [vended-credentials]}", [
            "catalog 'other': delegation 'vended-credentials' added",
            "catalog 'other': delegation 'remote-signing' removed",
        ]),
        ("principals:\n", "delegation: {analysts: {lake: [], other: [vended-credentials]}}\nprincipals:\n", [
            "principal role 'analysts' is offered nothing in catalog 'lake'",
            "principal role 'analysts' is offered vended-credentials in catalog 'other'",
        ]),
        ("prefixes: [opaque]", "prefixes: [other-one]", [
            "catalog 'lake': prefix 'other-one' added",
            "catalog 'lake': prefix 'opaque' removed",
        ]),
        # Storages
        ("region: us-east-1", "region: eu-west-1", [
            "storage 'aws': region 'us-east-1' -> 'eu-west-1'",
            *[
                f"storage 'aws': endpoints https://{host} (path, virtual-host) {what}"
                for region, what in (("eu-west-1", "added"), ("us-east-1", "removed"))
                for host in (
                    f"s3.{region}.amazonaws.com",
                    f"s3-{region}.amazonaws.com",
                    f"s3.dualstack.{region}.amazonaws.com",
                    f"s3-fips.{region}.amazonaws.com",
                    f"s3-fips.dualstack.{region}.amazonaws.com",
                )
            ],
        ]),
        ('{url: "http://minio:9000"}', '{url: "https://minio"}', [
            "storage 'minio': endpoints https://minio (path) added",
            "storage 'minio': endpoints http://minio:9000 (path) removed",
        ]),
        ("region: r1,", "region: r1, checks_unsigned_headers: true, opt_ins: {tagging: true}, bucket_owner: '12',", [
            "storage 'minio': checks_unsigned_headers false -> true",
            "storage 'minio': opt_ins.tagging false -> true",
            "storage 'minio': bucket_owner none -> '12'",
        ]),
        ("buckets: [lake, cold]", "buckets: [cold, lake]", ["storage 'aws': buckets in another order"]),
        ("storages: [minio]}", "storages: [minio, aws]}", ["catalog 'other': storage 'aws' added"]),
        # Roles
        ("lake: [analyst, etl], other", "lake: [new, analyst, etl], other", ["catalog 'lake': role 'new' added"]),
        ("analysts: {lake: [analyst]}", "analysts: {lake: [etl], other: [analyst]}", [
            "principal role 'analysts' gained role 'etl' of catalog 'lake'",
            "principal role 'analysts' gained role 'analyst' of catalog 'other'",
            "principal role 'analysts' lost role 'analyst' of catalog 'lake'",
        ]),
        ("  analysts: {lake: [analyst]}\n", "  analysts: {lake: [analyst]}\n  third: {lake: [etl]}\n", [
            "principal role 'third' added ('etl' of catalog 'lake')",
        ]),
        # Principals
        ("corp/bob: {roles: [analysts, loaders]}", "corp/bob: {roles: [analysts]}", [
            "principal 'corp/bob' lost role 'loaders'",
        ]),
        ("  corp/ann: {roles: [analysts]}\n", "", ["principal 'corp/ann' removed ('analysts')"]),
        ("corp/ann: {roles: [analysts]}", "corp/ann: {roles: [loaders, analysts]}", [
            "principal 'corp/ann' gained role 'loaders'",
        ]),
        ("corp/ann: {roles: [analysts]}", "corp/ann: {}", ["principal 'corp/ann' lost role 'analysts'"]),
        ("principals:\n", "principals:\n  corp/carl: {roles: [loaders]}\n", [
            "principal 'corp/carl' added ('loaders')",
        ]),
        # Grants
        (ON_LAKE, "", ["catalog 'lake': TABLE_REMOTE_SIGN, TABLE_READ_DATA revoked from role 'analyst'"]),
        (ON_LAKE, ON_LAKE.replace("READ", "WRITE"), ["catalog 'lake': TABLE_WRITE_DATA granted to role 'analyst'"]),
        (ON_SALES, ON_SALES.replace("WRITE", "READ"), [
            "namespace 'lake.sales': TABLE_WRITE_DATA revoked from role 'etl'",
        ]),
        (ON_SALES, ON_SALES.replace("role: etl", "role: analyst"), [
            "namespace 'lake.sales': TABLE_REMOTE_SIGN, TABLE_WRITE_DATA revoked from role 'etl'",
            "namespace 'lake.sales': TABLE_REMOTE_SIGN, TABLE_WRITE_DATA granted to role 'analyst'",
        ]),
        (ON_ORDERS, "", ["table 'lake.sales.orders': TABLE_FULL_METADATA revoked from role 'etl'"]),
        (ON_ORDERS, ON_ORDERS.replace("table: orders", "table: items"), [
            "table 'lake.sales.orders': TABLE_FULL_METADATA revoked from role 'etl'",
            "table 'lake.sales.items': TABLE_FULL_METADATA granted to role 'etl'",
        ]),
        # One grant moves up: what the table keeps is no news, what the others gain is told where it is granted.
        (ON_ORDERS, ON_ORDERS.replace(", table: orders", ""), [
            "namespace 'lake.sales': TABLE_FULL_METADATA granted to role 'etl'",
        ]),
        # Namespaces and tables
        ("[empty]", "[empty, [a, b.c]]", ["2 namespaces added ('lake.a', 'lake.a.b.c')"]),
        ("namespaces: {lake: [empty]}", "namespaces: {}", ["namespace 'lake.empty' removed"]),
        ("tables:\n", 'tables:\n  - {namespace: x, name: new, location: "s3://lake/new"}\n', [
            "namespace 'lake.x' added",
            "table 'lake.x.new' added (s3://lake/new)",
        ]),
        (RETURNS, "", ["namespace 'lake.sales.eu' removed", "table 'lake.sales.eu.returns' removed (s3://lake/returns)"]),
        ("s3://lake/orders", "s3://cold/orders", ["table 'lake.sales.orders' moved (s3://lake/orders -> s3://cold/orders)"]),
        ("s3://lake/orders", "s3://lake/o", ["table 'lake.sales.orders' moved (s3://lake/orders -> s3://lake/o)"]),
        ("uuid: u-1", "uuid: u-2", ["table 'lake.sales.eu.returns' has another UUID (u-1 -> u-2)"]),
        (", uuid: u-1", "", ["table 'lake.sales.eu.returns' has another UUID (u-1 -> none)"]),
        ('write.data.path: "s3://cold/items"', 'write.data.path: "s3://cold/new"', [
            "table 'lake.sales.items' location added (s3://cold/new)",
            "table 'lake.sales.items' location removed (s3://cold/items)",
        ]),
        ('write.data.path: "s3://cold/items"', 'write.metadata.path: "s3://cold/items"', [
            "table 'lake.sales.items' metadata path moved (below its location -> s3://cold/items)",
        ]),
        ("name: orders, loc", "name: orders, metadata: open, overwrite: forbid, loc", [
            "table 'lake.sales.orders': metadata protected -> open",
            "table 'lake.sales.orders': overwrite allowed -> forbid",
        ]),
    ),
)  # fmt: skip
def test_a_change_is_told_in_words(old: str, new: str, said: list[str]) -> None:
    """At three in the morning no operator compares two policies, one of which is no longer there."""
    assert list(after(old, new)) == said


def test_a_catalog_that_comes_or_goes_is_one_line() -> None:
    """A million lines for one decision."""
    without = POLICY.replace("  other: {storages: [minio]}\n", "").replace(", other: [analyst]}", "}")
    assert difference(load(without), load(POLICY)) == ("storage 'minio' added", "catalog 'other' added (0 tables)")
    small = POLICY.replace("lake: {storages: [aws],", "renamed: {storages: [aws],").replace("{lake:", "{renamed:")
    said = difference(load(POLICY), load(small.replace("default_catalog: lake", "default_catalog: renamed")))
    assert "catalog 'lake' removed (3 tables)" in said
    assert "catalog 'renamed' added (3 tables)" in said
    assert not [line for line in said if line.startswith("table")]


def test_another_default_catalog_is_a_change() -> None:
    """Routes without a prefix would mean other tables all at once."""
    bare = POLICY[: POLICY.index("namespaces:")]
    assert after("default_catalog: lake", "default_catalog: other", bare) == ("default catalog 'lake' -> 'other'",)
    assert after("default_catalog: lake\n", "", bare) == ("default catalog 'lake' -> none",)


def test_how_principals_are_named_is_a_change() -> None:
    """With a second issuer, bare names no longer mean a principal."""
    assert difference(load(POLICY), load(POLICY, single_issuer=True)) == (
        "names of principals may leave out the issuer",
    )
    assert difference(load(POLICY, single_issuer=True), load(POLICY)) == (
        "names of principals must begin with the issuer",
    )


def tables(*names: str, first: str = "", **changes: object) -> str:
    return first + "".join(
        json.dumps(
            {"kind": "table", "namespace": "bulk", "name": name, "location": f"s3://lake/bulk/{name}", **changes}
        )
        + "\n"
        for name in names
    )


WITH_INVENTORY = POLICY + "inventories: [big.ndjson]\n"
MANY = [f"t{number:03}" for number in range(300)]
FIRST = "'lake.bulk.t000', 'lake.bulk.t001', 'lake.bulk.t002'"


def test_changes_that_are_alike_make_one_line() -> None:
    """What one line of the policy did would be hidden below what it did to three hundred tables."""
    before = load(WITH_INVENTORY, big=tables(*MANY))
    assert difference(before, load(WITH_INVENTORY, big=tables(*MANY, metadata="sealed"))) == (
        f"300 tables: metadata protected -> sealed ({FIRST} and 297 more)",
    )
    assert difference(before, load(WITH_INVENTORY, big=tables(*MANY[2:]))) == (
        "2 tables removed ('lake.bulk.t000' s3://lake/bulk/t000, 'lake.bulk.t001' s3://lake/bulk/t001)",
    )
    grant = {"kind": "grant", "role": "etl", "privileges": ["TABLE_CREATE"], "namespace": "bulk"}
    granted = [json.dumps({**grant, "table": name}) for name in MANY[:4]]
    assert difference(before, load(WITH_INVENTORY, big=tables(*MANY) + "\n".join(granted))) == (
        f"4 tables: TABLE_CREATE granted to role 'etl' ({FIRST} and 1 more)",
    )


def test_what_is_compared_once_is_compared_rightly(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered of one table must not pass for another's, nor fill the memory."""
    kinds = [{}, {"metadata": "open"}, {"overwrite": "forbid"}, {"metadata": "open", "overwrite": "forbid"}]
    grant = {"kind": "grant", "privileges": ["TABLE_CREATE"], "namespace": "bulk"}

    def policy(turn: int) -> str:
        lines = [tables(name, **kinds[(turn * number) % 4]) for number, name in enumerate(MANY[:40])]
        return "".join(lines) + "\n".join(
            json.dumps({**grant, "table": name, "role": ("etl", "analyst")[(turn * number) % 3 == 1]})
            for number, name in enumerate(MANY[:40])
        )

    old, new = (load(WITH_INVENTORY, big=policy(turn)) for turn in (1, 2))
    said = difference(old, new)
    assert len(said) > 5
    for remembered in (0, 1):
        monkeypatch.setattr("signproxy.inventory.changes.table_difference._MAX_REMEMBERED", remembered)
        assert difference(old, new) == said


def test_another_order_of_the_tables_is_no_change() -> None:
    """Inventories are exported in whatever order a catalog lists its tables."""
    before = load(WITH_INVENTORY, big=tables(*MANY))
    assert difference(before, load(WITH_INVENTORY, big=tables(*reversed(MANY)))) == ()
    changed = tables(*reversed(MANY[1:])) + tables("new") + tables(MANY[0], uuid="x")
    assert difference(before, load(WITH_INVENTORY, big=changed)) == (
        "table 'lake.bulk.t000' has another UUID (none -> x)",
        "table 'lake.bulk.new' added (s3://lake/bulk/new)",
    )


def test_roles_that_only_get_other_ids_are_no_change() -> None:
    """One new role at the top of a list would read as if every grant had changed."""
    before = load(WITH_INVENTORY, big=tables(*MANY))
    other = WITH_INVENTORY.replace("lake: [analyst, etl], other", "lake: [etl, analyst], other")
    assert before.rev != load(other, big=tables(*MANY)).rev
    assert difference(before, load(other, big=tables(*MANY))) == ()


def test_two_roles_that_change_places_are_a_change() -> None:
    """Ids that mean something else would hide that one role has got what the other had."""
    said = after(
        ON_ORDERS,
        ON_ORDERS.replace("role: etl", "role: analyst"),
    )
    assert said == (
        "table 'lake.sales.orders': TABLE_FULL_METADATA revoked from role 'etl'",
        "table 'lake.sales.orders': TABLE_FULL_METADATA granted to role 'analyst'",
    )


def test_the_lines_are_bounded() -> None:
    """A policy that has nothing in common with the former one would fill the log and the status page."""
    roles = [f"r{number:02}" for number in range(MAX_LINES + 5)]
    wide = POLICY.replace("lake: [analyst, etl], other", f"lake: [analyst, etl, {', '.join(roles)}], other")
    said = difference(load(POLICY), load(wide.replace(RETURNS, "").replace("uuid: u-1", "")))
    assert len(said) == MAX_LINES + 1
    assert said[-1] == "and more changes: 5 catalogs, 1 namespace, 1 table"


def test_what_is_remembered_is_bounded() -> None:
    """A million tables with a grant each to a role of its own would take the memory of two policies."""
    notes = Notes()
    for number in range(MAX_GROUPS + 10):
        notes.add("table", f"t{number}", f": X granted to role 'r{number}'")
    lines = notes.lines()
    assert len(lines) == MAX_LINES + 1
    assert lines[-1] == f"and more changes: {MAX_GROUPS + 10 - MAX_LINES:,} tables"
    assert len(notes._groups) == MAX_GROUPS


def test_details_are_made_for_examples_alone() -> None:
    """Text for each of a million tables would take seconds and be thrown away."""
    made: list[int] = []
    notes = Notes()
    for number in range(10):

        def detail(number: int = number) -> str:
            made.append(number)
            return "d"

        notes.add("table", number, "added", detail)
    assert made == list(range(MAX_EXAMPLES))
    assert notes.lines() == ("10 tables added ('0' d, '1' d, '2' d and 7 more)",)


def test_what_is_told_is_harmless_to_the_terminal() -> None:
    """A name of a catalog's own making could clear the screen of the log's reader, or add a line to it."""
    old = PolicyState(rev="1", epoch=1, catalogs={"a": Catalog("a", storages={})})
    evil = "x\x1b[2J\n\u202e" + "y" * 5000
    new = PolicyState(rev="2", epoch=2, catalogs={name: Catalog(name, storages={}) for name in ("a", evil)})
    (line,) = difference(old, new)
    assert line.isprintable()
    assert "\\x1b[2J" in line
    assert len(line) < 400
