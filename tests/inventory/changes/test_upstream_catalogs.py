"""Prove that an operator is told what a reload changes for tables that an upstream tells of."""

from __future__ import annotations

import pytest

from signproxy.inventory.changes.difference import difference
from tests.inventory.policy_text import BASE, load

UPSTREAM = BASE.replace("remote_signing: true}", "remote_signing: true, tables: upstream}")
LISTED = 'tables: [{namespace: sales, name: orders, uuid: u1, locations: ["s3://cold/x"]}]'
GRANT = "grants: [{role: %s, namespace: sales, table: orders, privileges: [%s]}]"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    (
        (
            BASE,
            UPSTREAM,
            [
                "catalog 'lake': tables_from declared -> upstream",
                "catalog 'lake': root of learned tables 's3://lake/wh' added",
                "catalog 'lake': root of learned tables 's3://cold' added",
            ],
        ),
        (
            UPSTREAM,
            UPSTREAM.replace("upstream}", "upstream, authorizer: both, metadata: open, overwrite: forbid}"),
            [
                "catalog 'lake': authorizer policy -> both",
                "catalog 'lake': metadata protected -> open",
                "catalog 'lake': overwrite allowed -> forbid",
            ],
        ),
        (
            UPSTREAM.replace("upstream}", 'upstream, caller_locations: ["s3://lake/wh/a"]}'),
            UPSTREAM.replace("upstream}", 'upstream, caller_locations: ["s3://lake/wh/b"]}'),
            [
                "catalog 'lake': location that callers may choose 's3://lake/wh/b' added",
                "catalog 'lake': location that callers may choose 's3://lake/wh/a' removed",
            ],
        ),
        (
            UPSTREAM,
            UPSTREAM.replace('"s3://lake/wh"', '"s3://lake/new"'),
            [
                "catalog 'lake': root of learned tables 's3://lake/new' added",
                "catalog 'lake': root of learned tables 's3://lake/wh' removed",
            ],
        ),
        (UPSTREAM, UPSTREAM + LISTED, ["namespace 'lake.sales' added", "listing of table 'lake.sales.orders' added"]),
        (
            UPSTREAM + LISTED,
            UPSTREAM,
            ["namespace 'lake.sales' removed", "listing of table 'lake.sales.orders' removed"],
        ),
        (
            UPSTREAM + LISTED,
            UPSTREAM + LISTED.replace("uuid: u1", "metadata: sealed").replace("cold/x", "cold/y"),
            [
                "listing of table 'lake.sales.orders': metadata protected -> sealed",
                "listing of table 'lake.sales.orders': uuid 'u1' -> ''",
                "listing of table 'lake.sales.orders' location added (s3://cold/y)",
                "listing of table 'lake.sales.orders' location removed (s3://cold/x)",
            ],
        ),
        (
            UPSTREAM + GRANT % ("analyst", "TABLE_READ_DATA"),
            UPSTREAM + GRANT % ("analyst", "TABLE_WRITE_DATA"),
            ["table 'lake.sales.orders': TABLE_WRITE_DATA granted to role 'analyst'"],
        ),
        (
            UPSTREAM + GRANT % ("analyst", "TABLE_DROP"),
            UPSTREAM + GRANT.replace("orders", "x") % ("loader", "TABLE_DROP"),
            [
                "table 'lake.sales.orders': TABLE_DROP revoked from role 'analyst'",
                "table 'lake.sales.x': TABLE_DROP granted to role 'loader'",
            ],
        ),
        # What is granted above is told there, and not of every table again.
        (
            UPSTREAM + GRANT % ("analyst", "TABLE_DROP"),
            UPSTREAM
            + (GRANT % ("analyst", "TABLE_DROP")).replace(
                "grants: [", "grants: [{role: loader, namespace: sales, privileges: [TABLE_LIST]}, "
            ),
            ["namespace 'lake.sales': TABLE_LIST granted to role 'loader'"],
        ),
        (UPSTREAM + LISTED, UPSTREAM.replace("rue}", "rue }") + LISTED, []),
    ),
)
def test_each_change_is_told(old: str, new: str, told: list[str]) -> None:
    """A reload that cannot be checked is one that operators avoid."""
    assert list(difference(load(old), load(new))) == told
