"""Prove that an operator is told the truth about a decision, and one change that turns it."""

from __future__ import annotations

import msgspec
import pytest

from signproxy.documents import load_yaml
from signproxy.errors import Reason
from signproxy.model import Ceiling, Deny, Principal, Subject, TableId
from signproxy.policy import rights as rights_module
from signproxy.policy.catalog import Catalog, TableBinding
from signproxy.policy.explain import nearest_grants, nearest_location, suggest
from signproxy.policy.privileges import mask_of
from signproxy.policy.rights import (
    SIGN_S3_READ_REQUEST,
    SIGN_S3_WRITE_REQUEST,
    ReachingGrant,
    Rights,
    authority_of,
    grounds,
)
from signproxy.policy.table import MetadataLevel, Overwrite, Place, Table
from signproxy.s3.operation import Operation
from signproxy.s3.request import S3Request
from tests.inventory.policy_text import load
from tests.policy.world import ALICE, BOB, OTHER_ROLE, READ, ROLE, SIGN, WRITE, World, grants, request

KEY = "wh/orders/data/f"


def _told(world: World, asked: S3Request, *owners: Table, principal: Principal = ALICE) -> tuple[Reason, str]:
    decision = world.decide(asked, *owners, principal=principal)
    assert isinstance(decision, Deny)
    return decision.reason, suggest(world.state, world.catalog, Subject.of(principal), decision, asked)


def _rule(rights: Rights, catalog: Catalog, table: Table, need: int) -> str:
    return rights.authority(catalog, table, need).rule_id


def test_the_grants_that_reach_a_table_are_listed_from_the_top() -> None:
    """An operator reads from the catalog down where a right comes from."""
    world = World(on_catalog=grants(SIGN))
    world.namespace("sales", grants(READ))
    inner = world.namespace("sales.emea", grants(READ, role=OTHER_ROLE))
    table = world.table(given=grants(WRITE), namespace=inner)
    rights = world.state.rights(ALICE, world.catalog)
    assert rights is not None
    assert [ground.rule_id for ground in grounds(world.catalog, table, rights.roles)] == [
        "analyst@catalog:lake",
        "analyst@namespace:lake.sales",
        "analyst@table:lake.sales.emea.orders",
    ]
    assert len(tuple(grounds(world.catalog, table))) == 4


def test_a_table_is_not_credited_with_what_its_namespace_gives() -> None:
    """Revoking the grant that is named must take the right away."""
    world = World()
    table = world.table(given=grants(SIGN, READ), namespace=world.namespace("sales", grants(SIGN, READ)))
    assert [ground.securable for ground in grounds(world.catalog, table)] == ["namespace:lake.sales"]


def test_a_rule_id_names_each_deciding_grant_once() -> None:
    """The audit field must stay short and stable."""
    world = World(on_catalog={ROLE: mask_of([SIGN]), OTHER_ROLE: mask_of([SIGN, READ])})
    table = world.table(given=grants(WRITE))
    roles = frozenset({ROLE, OTHER_ROLE})
    authority = authority_of(world.catalog, Rights(roles, 0), (table, table), mask_of([SIGN]) | 2)
    assert authority.rule_id == "analyst@catalog:lake+loader@catalog:lake"
    nameless = authority_of(world.catalog, Rights(frozenset({99}), 0), (table,), 3)
    assert nameless.rule_id == ""


def test_remembered_rules_are_exact_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that was remembered for one table must never be told of another, nor fill the memory."""
    monkeypatch.setattr(rights_module, "MAX_AUTHORITIES", 2)
    world = World(on_catalog=grants(SIGN))
    namespaces = [world.namespace(name, grants(READ) if name == "b" else {}) for name in "abc"]
    tables = [
        world.table(f"{inside.name}{number}", f"wh/{inside.name}{number}/", given, namespace=inside)
        for inside in namespaces
        for number, given in enumerate((grants(WRITE), grants(READ), {OTHER_ROLE: mask_of([WRITE])}))
    ]
    rights = Rights(frozenset({ROLE, OTHER_ROLE}), 0)
    for _ in range(2):
        for table in tables:
            for need in (SIGN_S3_READ_REQUEST, SIGN_S3_WRITE_REQUEST):
                fresh = Rights(rights.roles, 0)
                assert _rule(rights, world.catalog, table, need) == _rule(fresh, world.catalog, table, need)
                assert len(rights._rules) <= 2
                assert len(rights.authorities) <= 2
    assert (
        _rule(rights, world.catalog, tables[0], SIGN_S3_READ_REQUEST) == "analyst@catalog:lake+analyst@table:lake.a.a0"
    )
    assert _rule(rights, world.catalog, tables[3], SIGN_S3_READ_REQUEST) == (
        "analyst@catalog:lake+analyst@namespace:lake.b"
    )
    # Equal grants in one namespace are remembered once, and told with each table's own name.
    twin = msgspec.structs.replace(tables[0], id=TableId("lake", "a", "twin"))
    for table, name in ((tables[0], "a0"), (twin, "twin"), (tables[0], "a0")):
        told = _rule(rights, world.catalog, table, SIGN_S3_READ_REQUEST)
        assert told == f"analyst@catalog:lake+analyst@table:lake.a.{name}"
    alone = World()
    own = alone.table()
    assert _rule(Rights(frozenset({ROLE}), 0), alone.catalog, own, 3) == "analyst@table:lake.sales.orders"


def test_shared_grants_are_told_apart_by_namespace() -> None:
    """Equal grants are one object; where they come from still differs from namespace to namespace."""
    given = grants(SIGN, READ)
    world = World()
    own = world.table("own", "wh/own/", {}, namespace=world.namespace("a"))
    inherited = world.table("inherited", "wh/in/", {}, namespace=world.namespace("b", given))
    rights = Rights(frozenset({ROLE}), 0)
    for table, rule in ((own, "analyst@table:lake.a.own"), (inherited, "analyst@namespace:lake.b")):
        shared = msgspec.structs.replace(table, grants=given)
        assert _rule(rights, world.catalog, shared, SIGN_S3_READ_REQUEST) == rule
    assert len(rights._rules) == 2
    # A second question for the same table is answered from memory.
    remembered = dict(rights._rules)
    _rule(rights, world.catalog, msgspec.structs.replace(own, grants=given), SIGN_S3_READ_REQUEST)
    assert {key: id(text) for key, text in rights._rules.items()} == {key: id(text) for key, text in remembered.items()}


def test_several_roles_on_one_table_are_all_named() -> None:
    """Two roles may each give half of what was needed; their order must not depend on the order of grants."""
    world = World()
    both = {OTHER_ROLE: mask_of([READ]), ROLE: mask_of([SIGN])}
    table = world.table(given=both)
    rights = Rights(frozenset(both), 0)
    assert _rule(rights, world.catalog, table, SIGN_S3_READ_REQUEST) == (
        "analyst@table:lake.sales.orders+loader@table:lake.sales.orders"
    )


def test_a_role_without_a_name_is_shown_by_its_number() -> None:
    """Explaining must not fail where the policy is odd."""
    world = World(on_catalog={99: 1})
    assert next(grounds(world.catalog, world.table())).rule_id == "99@catalog:lake"


def test_the_nearest_grant_gives_the_most_of_what_is_missing() -> None:
    """The best hint is the role that already has it all."""
    world = World(on_catalog={ROLE: 1, OTHER_ROLE: mask_of([SIGN, WRITE])})
    table = world.table(given={})
    nearest = nearest_grants(world.catalog, table, 1 | 4)
    assert [ground.rule_id for ground in nearest] == ["loader@catalog:lake", "analyst@catalog:lake"]
    assert nearest_grants(world.catalog, table, 8) == ()
    assert nearest[0] == ReachingGrant("loader", "catalog:lake", mask_of([SIGN, WRITE]))


@pytest.mark.parametrize(
    ("bucket", "key", "shown"),
    (
        ("lake", "wh/orders2/f", "lake/wh/orders[2/f]; the location goes on with [/]"),
        ("lake", "wh/orders", "lake/wh/orders[ends here]; the location goes on with [/]"),
        ("lake", "wh/Orders/f", "lake/wh/[Orders/f]; the location goes on with [orders/]"),
        ("x", "wh", "[x/wh]; the location goes on with [lake/wh/orders/]"),
        ("lake", "wh/\x1b[2J", "lake/wh/[\\x1b[2J]; the location goes on with [orders/]"),
        ("lake", "wh/orders/", "lake/wh/orders/[ends here]; the location goes on with [nothing: a key must follow]"),
        ("cold", "old/x", "cold/old/[x]; the location goes on with [nothing: a key must follow]"),
        ("lake", "wh/" + "z" * 60, f"lake/wh/[{'z' * 40}]; the location goes on with [orders/]"),
    ),
)
def test_the_first_difference_is_marked(bucket: str, key: str, shown: str) -> None:
    """The eye does not find `orders2` in a hundred characters."""
    table = World().table(extra=(Place("aws", "cold", "old/"),))
    assert str(nearest_location(table, bucket, key)) == shown


def test_a_stranger_is_introduced() -> None:
    """The first denial of every installation is a principal that the policy does not have."""
    world = World()
    reason, fix = _told(world, request(key=KEY), world.table(), principal=BOB)
    assert reason is Reason.PRINCIPAL_UNKNOWN
    assert fix == 'add the principal to the policy: principals: {"corp/bob": {roles: ["analysts"]}}'


@pytest.mark.parametrize(
    ("operation", "given", "lacking"),
    (
        (Operation.GET_OBJECT, (READ,), "TABLE_REMOTE_SIGN"),
        (Operation.GET_OBJECT, (SIGN,), "TABLE_READ_DATA"),
        (Operation.PUT_OBJECT, (SIGN, READ), "TABLE_WRITE_DATA"),
        (Operation.PUT_OBJECT, (), "TABLE_REMOTE_SIGN, TABLE_WRITE_DATA"),
    ),
)
def test_the_missing_grant_is_written_out(operation: Operation, given: tuple[str, ...], lacking: str) -> None:
    """The fix must be exactly what is missing, on the table that was asked for."""
    world = World()
    _, fix = _told(world, request(operation, KEY), world.table(given=grants(*given), namespace=world.namespace("a.b")))
    assert fix == (
        f'grant {lacking}: grants: [{{role: "analyst", catalog: "lake", namespace: ["a", "b"], table: "orders", '
        f"privileges: [{lacking}]}}]"
    )


def test_the_nearest_holder_is_named() -> None:
    """Often the right role exists, and the principal only lacks it."""
    world = World()
    _, fix = _told(world, request(key=KEY), world.table(given=grants(SIGN, READ, role=OTHER_ROLE)))
    assert fix.startswith("grant TABLE_REMOTE_SIGN, TABLE_READ_DATA (nearest: loader@table:lake.sales.orders): grants:")


def test_the_role_that_has_the_most_is_extended() -> None:
    """A grant to the reader of this table is smaller than one to a role that has nothing here."""
    world = World()
    table = world.table(given=grants(SIGN, role=OTHER_ROLE))
    carol = Principal("corp/carol", "corp", "carol", 4e9, roles=("analysts", "loaders"))
    _, fix = _told(world, request(key=KEY), table, principal=carol)
    assert 'role: "loader"' in fix


@pytest.mark.parametrize(
    ("given", "expected"),
    (
        ({}, 'give it a role in the catalog: principal_roles: {"idle": {"lake": ["analyst"]}}'),
        (
            grants(SIGN, READ, role=OTHER_ROLE),
            (
                "give it a role in the catalog (nearest: loader@table:lake.sales.orders): "
                'principal_roles: {"idle": {"lake": ["loader"]}}'
            ),
        ),
    ),
)
def test_a_caller_without_a_role_in_the_catalog_is_given_one(given: dict[int, int], expected: str) -> None:
    """A grant to a role that the caller does not hold would not help."""
    world = World()
    world.state.principal_roles = {**world.state.principal_roles, "idle": {}}
    table = world.table(given=given)
    dave = Principal("corp/dave", "corp", "dave", 4e9, roles=("idle",))
    assert _told(world, request(key=KEY), table, principal=dave) == (Reason.NO_REMOTE_SIGN, expected)


def test_metadata_is_granted_or_unsealed() -> None:
    """The two levels need different changes."""
    world = World()
    _, fix = _told(world, request(key="wh/orders/v1.metadata.json"), world.table())
    assert fix == (
        'grant TABLE_FULL_METADATA: grants: [{role: "analyst", catalog: "lake", namespace: ["sales"], '
        'table: "orders", privileges: [TABLE_FULL_METADATA]}]'
    )
    world = World()
    _, fix = _told(world, request(key="wh/orders/metadata/f"), world.table(metadata=MetadataLevel.SEALED))
    assert fix == (
        'lift the seal of the table: tables: [{catalog: "lake", namespace: ["sales"], name: "orders", '
        "metadata: protected}]"
    )


def test_a_key_without_an_owner_may_be_a_missing_location() -> None:
    """`write.data.path` that the policy does not know is the usual cause."""
    world = World()
    _, fix = _told(world, request(Operation.DELETE_OBJECTS, delete_keys=(KEY, "data/orders/f")), world.table())
    assert fix == (
        "lake/[data/orders/f]; the location goes on with [wh/orders/]; if this is the table's: "
        'tables: [{catalog: "lake", namespace: ["sales"], name: "orders", locations: ["s3://lake/data/orders"]}]'
    )


def test_a_key_of_another_table_names_that_table() -> None:
    """Widening the wrong table would be the worst of all fixes."""
    world = World()
    table = world.table()
    world.table("other", "wh/other/")
    _, fix = _told(world, request(key="wh/other/f"), table)
    assert "the key lies in lake.sales.other" in fix
    assert fix.endswith('catalogs: {"lake": {binding: by-location}}')


def test_a_copy_from_another_table_needs_the_looser_binding() -> None:
    """Strict binding is the default; who copies between tables must say so."""
    world = World()
    table = world.table()
    world.table("other", "wh/other/")
    _, fix = _told(world, request(Operation.COPY_OBJECT, KEY, source="wh/other/f"), table)
    assert fix == (
        "the source lies in lake.sales.other; to copy between tables that may be read: "
        'catalogs: {"lake": {binding: by-location}}'
    )
    _, fix = _told(world, request(Operation.COPY_OBJECT, KEY, source="wh/x"), table)
    assert fix == "source lake/wh/[x]; the location goes on with [orders/]"


def test_a_source_of_the_same_table_is_not_blamed_on_the_binding() -> None:
    """By location, the source may be refused although its table is the target."""
    world = World(binding=TableBinding.BY_LOCATION)
    table = world.table()
    copy = request(Operation.COPY_OBJECT, KEY, source="wh/orders/f")
    denial = Deny(Reason.COPY_SOURCE_OUTSIDE, "", table.id)
    fix = suggest(world.state, world.catalog, Subject.of(ALICE), denial, copy)
    assert fix == "source lake/wh/orders/[f]; the location goes on with [nothing: a key must follow]"


def test_nothing_is_suggested_where_no_grant_would_help() -> None:
    """An empty answer lets the caller fall back to the remedy of the reason."""
    world = World()
    table = world.table(overwrite=Overwrite.FORBID)
    assert _told(world, request(Operation.PUT_OBJECT, KEY, conditional=True), table) == (Reason.WRITE_ONCE, "")
    subject = Subject(ALICE, ALICE, (), Ceiling.READ_ONLY)
    for denial, asked in (
        (Deny(Reason.OUTSIDE_TABLE, "", table.id), request(key=KEY)),  # inside after all
        (Deny(Reason.COPY_SOURCE_OUTSIDE, "", table.id), request(key=KEY)),
        (Deny(Reason.OUTSIDE_TABLE, "", table.id), None),
        (Deny(Reason.OUTSIDE_TABLE, ""), request(key=KEY)),
        (Deny(Reason.OUTSIDE_TABLE, "", TableId("lake", "sales", "gone")), request(key=KEY)),
    ):
        assert suggest(world.state, world.catalog, subject, denial, asked) == ""
    assert (
        suggest(world.state, world.catalog, Subject.of(BOB), Deny(Reason.NO_READ_DATA, "", table.id), request()) == ""
    )


@pytest.mark.parametrize(
    "name", ("plain", 'a "b"', "a\\b", "\u00e9\u65e5", "a\x1b[2J", "a\x7f\u200b", "it's", "a: b", "#x")
)
def test_a_fix_is_yaml_that_means_the_same_name(name: str) -> None:
    """A fix that is pasted into the policy must grant on the table that was asked for, and not steer a terminal."""
    world = World()
    _, fix = _told(world, request(key=KEY), world.table(name, given={}))
    assert fix.isascii()
    assert fix.isprintable()
    document = load_yaml(fix.partition(": ")[2], "fix")
    assert isinstance(document, dict)
    assert document["grants"][0]["table"] == name


LEARNED = """
remote_signing: true
storages: {aws: {kind: aws, region: us-east-1, buckets: [lake]}}
catalogs: {lake: {storages: [aws], remote_signing: true, tables: %s}}
catalog_roles: {lake: [analyst, lender]}
principal_roles: {analysts: {lake: [analyst]}}
principals: {corp/alice: {roles: [analysts]}}
namespaces: {lake: [sales]}
tables: [{namespace: sales, name: fixed, location: "s3://lake/wh/fixed"}]
grants:
- {role: lender, namespace: sales, privileges: [TABLE_REMOTE_SIGN]}
- {role: analyst, privileges: [TABLE_LIST]}
"""


def _suggested(tables: str, reason: Reason, namespace: str = "sales\x1feu", name: str = "orders") -> str:
    state = load(LEARNED % tables)
    deny = Deny(reason, "detail", TableId("lake", namespace, name))
    return suggest(state, state.catalogs["lake"], Subject.of(ALICE), deny, request(key="wh/x/f", source="wh/y/f"))


def test_what_is_granted_is_suggested_for_a_table_that_only_an_upstream_knows() -> None:
    """Learned tables are the ones that an operator asks about most; their grants are in the policy."""
    wanted = "grant TABLE_REMOTE_SIGN, TABLE_READ_DATA"
    on = 'catalog: "lake", namespace: ["sales", "eu"], table: "orders"'
    told = _suggested("upstream", Reason.NO_REMOTE_SIGN)
    assert told.startswith(f"{wanted} (nearest: lender@namespace:lake.sales): ")
    assert on in told
    assert _suggested("upstream", Reason.NO_READ_DATA, "hr").startswith(f"{wanted}: grants")
    assert "TABLE_FULL_METADATA" in _suggested("upstream", Reason.METADATA_PROTECTED)
    assert "metadata: protected" in _suggested("upstream", Reason.METADATA_SEALED)
    # Where it lies is not in the policy, so nothing is suggested of that.
    for reason in (Reason.OUTSIDE_TABLE, Reason.COPY_SOURCE_OUTSIDE):
        assert _suggested("upstream", reason) == ""
        assert _suggested("upstream", reason, "sales", "fixed")
    for reason in (Reason.NO_REMOTE_SIGN, Reason.OUTSIDE_TABLE):
        assert _suggested("declared", reason) == ""
        assert _suggested("declared", reason, "sales", "fixed")
