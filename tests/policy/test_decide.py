"""Prove who may do what: privileges, ceilings, and that a key lies in the table."""

from __future__ import annotations

import itertools

import pytest

from signproxy.errors import Reason
from signproxy.model import NAMESPACE_SEPARATOR, Allow, Ceiling, Deny, Principal, Subject, TableId
from signproxy.policy.catalog import Catalog, Overlap
from signproxy.policy.decide import decide
from signproxy.policy.privileges import Privilege, mask_of
from signproxy.policy.table import Place, Table
from signproxy.s3.operation import Access, Operation
from signproxy.s3.request import S3Request
from signproxy.s3.storage import Storage
from tests.policy.world import (
    AWS,
    BACKUP,
    BOB,
    KEYED,
    NOT_OF_TABLES,
    OF_TABLES,
    OTHER_ROLE,
    PREFIX_LISTS,
    READ,
    ROLE,
    SIGN,
    WRITE,
    World,
    grants,
    request,
)

KEY = "wh/orders/data/f.parquet"


def _addressing(operation: Operation, key: str = KEY, bucket: str = "lake", store: Storage = AWS) -> S3Request:
    if operation in PREFIX_LISTS:
        return request(operation, bucket=bucket, store=store, prefix=key)
    if operation is Operation.DELETE_OBJECTS:
        return request(operation, bucket=bucket, store=store, delete_keys=(KEY, key))
    return request(operation, key, bucket=bucket, store=store)


@pytest.mark.parametrize("operation", OF_TABLES)
@pytest.mark.parametrize(
    "held",
    tuple(itertools.chain.from_iterable(itertools.combinations((SIGN, READ, WRITE), count) for count in range(4))),
)
def test_signing_needs_the_privilege_to_sign_and_that_on_the_data(operation: Operation, held: tuple[str, ...]) -> None:
    """Each of the two is taken away on its own; a hole in either opens every table."""
    world = World()
    table = world.table(given=grants(*held))
    writes = operation.needs_write
    if SIGN not in held:
        expected = Reason.NO_REMOTE_SIGN
    elif writes and WRITE not in held:
        expected = Reason.NO_WRITE_DATA
    elif not writes and READ not in held and WRITE not in held:
        expected = Reason.NO_READ_DATA
    else:
        expected = Reason.ALLOWED
    assert world.reason(_addressing(operation), table) is expected


@pytest.mark.parametrize("privilege", Privilege)
@pytest.mark.parametrize("operation", (Operation.GET_OBJECT, Operation.PUT_OBJECT))
def test_a_single_privilege_is_not_enough_but_one(privilege: Privilege, operation: Operation) -> None:
    """Only CATALOG_MANAGE_CONTENT holds both what signing and what the data needs."""
    world = World()
    table = world.table(given=grants(str(privilege.name)))
    allowed = world.reason(_addressing(operation), table) is Reason.ALLOWED
    assert allowed is (privilege is Privilege.CATALOG_MANAGE_CONTENT)


@pytest.mark.parametrize("level", ("catalog", "namespace", "parent", "table"))
@pytest.mark.parametrize("other", ("catalog", "namespace", "parent", "table"))
def test_grants_on_any_level_add_up(level: str, other: str) -> None:
    """A grant on a catalog or namespace reaches everything below it, however the two privileges are spread."""
    given: dict[str, dict[int, int]] = {name: {} for name in ("catalog", "parent", "namespace", "table")}
    given[level] = grants(SIGN)
    given[other] = {ROLE: given[other].get(ROLE, 0) | mask_of([READ])}
    world = World(on_catalog=given["catalog"])
    world.namespace("sales", given["parent"])
    inner = world.namespace("sales.emea", given["namespace"])
    table = world.table(given=given["table"], namespace=inner)
    sibling = world.table("other", "wh/other/", {}, namespace=world.namespace("marketing"))
    assert world.reason(request(key=KEY), table) is Reason.ALLOWED
    reaches_sibling = level == other == "catalog"
    assert (world.reason(request(key="wh/other/f"), sibling) is Reason.ALLOWED) is reaches_sibling


def test_a_grant_on_a_child_does_not_reach_its_parent() -> None:
    """Rights flow downwards only."""
    world = World()
    parent = world.namespace("sales")
    world.namespace("sales.emea", grants(SIGN, WRITE))
    table = world.table(given={}, namespace=parent)
    assert world.reason(request(key=KEY), table) is Reason.NO_REMOTE_SIGN


def test_anothers_role_does_not_help() -> None:
    """A grant counts only for who holds the role."""
    world = World()
    table = world.table(given=grants(SIGN, WRITE, role=OTHER_ROLE))
    assert world.reason(request(key=KEY), table) is Reason.NO_REMOTE_SIGN


def test_an_unknown_principal_is_refused() -> None:
    """A valid token alone is no right to anything."""
    world = World()
    table = world.table()
    decision = world.decide(request(key=KEY), table, principal=BOB)
    assert decision == Deny(Reason.PRINCIPAL_UNKNOWN, "principal 'corp/bob'", table.id)


def test_a_role_that_the_token_brings_counts() -> None:
    """Groups of the identity provider stand for principal roles."""
    world = World()
    table = world.table(given=grants(SIGN, READ, role=OTHER_ROLE))
    carol = Principal("corp/carol", "corp", "carol", 4e9, roles=("loaders",))
    assert world.reason(request(key=KEY), table, principal=carol) is Reason.ALLOWED


@pytest.mark.parametrize("operation", OF_TABLES)
def test_under_a_read_only_ceiling_nothing_is_written(operation: Operation) -> None:
    """A clamp that one operation slips through is none."""
    world = World()
    table = world.table()
    expected = Reason.CEILING if operation.needs_write else Reason.ALLOWED
    assert world.reason(_addressing(operation), table, ceiling=Ceiling.READ_ONLY) is expected


@pytest.mark.parametrize("operation", OF_TABLES)
def test_a_delegated_subject_only_reads(operation: Operation) -> None:
    """A view's definer lends rights to read, never to write."""
    world = World()
    table = world.table()
    alice = Principal("corp/alice", "corp", "alice", 4e9)
    decision = decide(world.state, world.catalog, Subject(BOB, alice), (table,), _addressing(operation))
    if operation.needs_write:
        assert decision == Deny(Reason.CEILING, "delegated: True, none", table.id)
    else:
        assert isinstance(decision, Allow)


def test_the_effective_principal_is_judged_and_not_the_caller() -> None:
    """Falling back to the caller's own rights would hide that the definer lost the right."""
    world = World()
    table = world.table()
    alice = Principal("corp/alice", "corp", "alice", 4e9)
    decision = decide(world.state, world.catalog, Subject(alice, BOB), (table,), request(key=KEY))
    assert isinstance(decision, Deny)
    assert decision.reason is Reason.PRINCIPAL_UNKNOWN


def test_privileges_come_before_the_ceiling_and_both_before_the_location() -> None:
    """A caller that may not touch a table must not learn where it lies."""
    world = World()
    table = world.table(given=grants(SIGN, READ))
    outside = request(Operation.PUT_OBJECT, "elsewhere")
    assert world.reason(outside, table, ceiling=Ceiling.READ_ONLY) is Reason.NO_WRITE_DATA
    world = World()
    table = world.table()
    assert world.reason(outside, table, ceiling=Ceiling.READ_ONLY) is Reason.CEILING
    assert world.reason(outside, table) is Reason.OUTSIDE_TABLE


def test_a_missing_privilege_is_named_to_the_operator() -> None:
    """An operator must not have to guess which of two privileges is lacking."""
    world = World()
    table = world.table(given=grants(READ))
    decision = world.decide(request(Operation.PUT_OBJECT, KEY), table)
    assert isinstance(decision, Deny)
    assert decision.detail == ("principal 'corp/alice' lacks TABLE_REMOTE_SIGN, TABLE_WRITE_DATA on lake.sales.orders")


@pytest.mark.parametrize(
    ("key", "inside"),
    (
        (KEY, True),
        ("wh/orders/f", True),
        ("wh/orders/data/orders/f", True),
        ("wh/orders/", False),  # the folder itself: nothing follows the slash
        ("wh/orders", False),
        ("wh/orders2/f", False),
        ("wh/orders-old/f", False),
        ("wh/order/f", False),
        ("wh/Orders/f", False),
        ("WH/orders/f", False),
        ("wh/ord%65rs/f", False),
        ("xwh/orders/f", False),
        ("x/wh/orders/f", False),
        ("", False),
    ),
)
@pytest.mark.parametrize("operation", (*KEYED, Operation.DELETE_OBJECTS))
def test_a_key_lies_strictly_below_the_location(operation: Operation, key: str, inside: bool) -> None:
    """Any other reading signs for another table's data."""
    world = World()
    table = world.table()
    expected = Reason.ALLOWED if inside else Reason.OUTSIDE_TABLE
    assert world.reason(_addressing(operation, key), table) is expected


@pytest.mark.parametrize(
    ("prefix", "inside"),
    (
        ("wh/orders/", True),
        ("wh/orders/data", True),
        ("wh/orders/metadata", True),
        ("wh/orders", False),  # also lists wh/orders_secret
        ("wh/orders2/", False),
        ("wh/", False),
        ("wh/Orders/", False),
        ("", False),
    ),
)
@pytest.mark.parametrize("operation", PREFIX_LISTS)
def test_a_list_reaches_past_the_slash(operation: Operation, prefix: str, inside: bool) -> None:
    """The store matches raw text: a prefix that ends before the slash lists the neighbours too."""
    world = World()
    table = world.table()
    expected = Reason.ALLOWED if inside else Reason.OUTSIDE_TABLE
    assert world.reason(request(operation, prefix=prefix), table) is expected


@pytest.mark.parametrize("operation", OF_TABLES)
@pytest.mark.parametrize(("bucket", "store"), (("cold", AWS), ("lake", BACKUP)))
def test_the_bucket_and_the_storage_must_be_the_tables(operation: Operation, bucket: str, store: Storage) -> None:
    """The same key in another bucket or store is other data."""
    world = World()
    table = world.table()
    assert world.reason(_addressing(operation, KEY, bucket, store), table) is Reason.OUTSIDE_TABLE


def test_every_key_of_a_bulk_delete_is_checked() -> None:
    """One foreign key among a thousand would delete another table's object."""
    world = World()
    table = world.table()
    keys = tuple(f"wh/orders/data/{number}" for number in range(5))
    assert world.reason(request(Operation.DELETE_OBJECTS, delete_keys=keys), table) is Reason.ALLOWED
    for position in range(6):
        mixed = (*keys[:position], "wh/other/f", *keys[position:])
        assert world.reason(request(Operation.DELETE_OBJECTS, delete_keys=mixed), table) is Reason.OUTSIDE_TABLE


def test_a_bulk_delete_without_keys_is_refused() -> None:
    """What was not checked must not pass as checked."""
    world = World()
    table = world.table()
    decision = world.decide(request(Operation.DELETE_OBJECTS, KEY), table)
    assert isinstance(decision, Deny)
    assert decision.reason is Reason.OUTSIDE_TABLE
    assert decision.detail == "'s3://lake/' on storage 'aws' is not below 's3://lake/wh/orders'"


def test_a_foreign_key_is_named_to_the_operator_escaped() -> None:
    """The detail must tell the difference and must not steer a terminal."""
    world = World()
    table = world.table(extra=(Place("backup", "vault", "orders/"),))
    decision = world.decide(request(key="wh/\x1b[2J"), table)
    assert isinstance(decision, Deny)
    assert decision.table == table.id
    assert decision.detail == (
        "'s3://lake/wh/\\x1b[2J' on storage 'aws' is not below 's3://lake/wh/orders', 's3://vault/orders'"
    )


EXTRA = (Place("aws", "cold", "data/orders/"), Place("backup", "vault", "old/"))


@pytest.mark.parametrize(
    ("bucket", "store", "key", "inside"),
    (
        ("cold", AWS, "data/orders/f", True),
        ("cold", AWS, "data/orders/", False),
        ("cold", AWS, "data/orders2/f", False),
        ("cold", AWS, "wh/orders/f", False),
        ("lake", AWS, "data/orders/f", False),
        ("cold", BACKUP, "data/orders/f", False),
        ("vault", BACKUP, "old/f", True),
        ("vault", AWS, "old/f", False),
        ("lake", AWS, "wh/orders/f", True),
    ),
)
def test_a_table_may_have_several_locations(bucket: str, store: Storage, key: str, inside: bool) -> None:
    """`write.data.path` may lie in another bucket, even on another store."""
    world = World()
    table = world.table(extra=EXTRA)
    expected = Reason.ALLOWED if inside else Reason.OUTSIDE_TABLE
    assert world.reason(request(key=key, bucket=bucket, store=store), table) is expected


@pytest.mark.parametrize(
    ("bucket", "store", "prefix", "inside"),
    (
        ("cold", AWS, "data/orders/", True),
        ("cold", AWS, "data/orders", False),
        ("lake", AWS, "data/orders/", False),
        ("cold", BACKUP, "data/orders/", False),
        ("vault", BACKUP, "old/", True),
    ),
)
def test_any_location_may_be_listed(bucket: str, store: Storage, prefix: str, inside: bool) -> None:
    """Orphan files are looked for below every location."""
    world = World()
    table = world.table(extra=EXTRA)
    expected = Reason.ALLOWED if inside else Reason.OUTSIDE_TABLE
    listing = request(Operation.LIST_OBJECTS_V2, bucket=bucket, store=store, prefix=prefix)
    assert world.reason(listing, table) is expected


def _pair() -> tuple[World, Table, Table]:
    world = World(overlap=Overlap.ALLOWED)
    return world, world.table(), world.table("twin", "wh/orders/", grants(SIGN, READ))


def test_every_owner_must_grant() -> None:
    """Where two tables share a location, the rights on one must not open the other."""
    world, table, twin = _pair()
    assert world.reason(request(key=KEY), table, twin) is Reason.ALLOWED
    for owners in ((table, twin), (twin, table)):
        decision = world.decide(request(Operation.PUT_OBJECT, KEY), *owners)
        assert isinstance(decision, Deny)
        assert decision.reason is Reason.NO_WRITE_DATA
        assert decision.table == twin.id


def test_every_owner_must_hold_the_key() -> None:
    """A table that does not hold the key cannot consent to it."""
    world = World(overlap=Overlap.ALLOWED)
    table = world.table()
    inner = world.table("inner", "wh/orders/inner/")
    assert world.reason(request(key="wh/orders/inner/f"), table, inner) is Reason.ALLOWED
    for owners in ((table, inner), (inner, table)):
        assert world.reason(request(key=KEY), *owners) is Reason.OUTSIDE_TABLE
        assert world.reason(request(Operation.LIST_OBJECTS_V2, prefix="wh/orders/"), *owners) is Reason.OUTSIDE_TABLE


def test_the_allow_names_the_first_owner_and_the_grants() -> None:
    """Audit and explain name what decided, not only that it did."""
    world = World(on_catalog=grants(SIGN))
    table = world.table(given=grants(READ), namespace=world.namespace("sales.emea"))
    decision = world.decide(request(key=KEY), table)
    assert isinstance(decision, Allow)
    assert decision.table == TableId("lake", f"sales{NAMESPACE_SEPARATOR}emea", "orders")
    assert decision.authority.rule_id == "analyst@catalog:lake+analyst@table:lake.sales.emea.orders"
    assert not decision.write_once
    assert not decision.unsafe_storage


def test_without_a_table_nothing_is_allowed() -> None:
    """A resolver that found nothing must not turn into permission."""
    world = World(on_catalog=grants("CATALOG_MANAGE_CONTENT"))
    assert world.decide(request(key=KEY)) == Deny(Reason.TABLE_UNKNOWN, "no table was resolved for the request")


def test_a_table_of_another_catalog_is_refused() -> None:
    """The rights in one catalog say nothing about another, even with equal names."""
    world = World(on_catalog=grants("CATALOG_MANAGE_CONTENT"))
    table = world.table()
    foreign = Catalog("hr", storages={"aws": AWS}, grants=grants("CATALOG_MANAGE_CONTENT"))
    decision = decide(world.state, foreign, Subject.of(BOB), (table,), request(key=KEY))
    assert isinstance(decision, Deny)
    assert decision.reason is Reason.PRINCIPAL_UNKNOWN
    alice = Subject.of(Principal("corp/alice", "corp", "alice", 4e9))
    decision = decide(world.state, foreign, alice, (table,), request(key=KEY))
    assert decision == Deny(Reason.TABLE_UNKNOWN, "table lake.sales.orders is none of catalog 'hr'", table.id)


def test_the_operations_of_this_suite_are_all_there_are() -> None:
    """A new operation must find its way into these tables."""
    assert len(KEYED) + len(PREFIX_LISTS) + 1 + len(NOT_OF_TABLES) == len(Operation)
    assert {operation.access for operation in PREFIX_LISTS} == {Access.LIST}
