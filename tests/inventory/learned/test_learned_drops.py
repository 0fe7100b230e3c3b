"""Prove what a caller that dropped a table may still do: clear its files away, metadata included, and nothing else."""

from __future__ import annotations

import asyncio

import pytest

from signproxy.errors import Reason
from signproxy.inventory.learned.asked import Asked, Missing
from signproxy.inventory.learned.holders import Holders
from signproxy.inventory.learned.learned_table import Freshness
from signproxy.inventory.learned.sighting import Dropped, Live, Renamed
from signproxy.model import Allow, NamedTable, Principal, Subject
from signproxy.s3.operation import Operation
from tests.inventory.learned_rig import NOW, Site, facts, policy
from tests.policy.world import request

DATA = "wh/orders/data/f"
METADATA = "wh/orders/metadata/v1.metadata.json"

_READ = {"method": "GET"}
_DELETE = {"method": "DELETE"}

GRANT = "- {role: dropper, privileges: [%s]}\n"


def _dropped(text: str = "", who: str = "owner", freshness: Freshness | None = None) -> Site:
    site = Site(text or policy(), freshness or Freshness())
    site.live(facts())
    site.drop("orders", who)
    return site


@pytest.mark.parametrize("route", ("orders", None))
@pytest.mark.parametrize("key", (DATA, METADATA, "wh/orders/version-hint.text"))
@pytest.mark.parametrize("asked", (_READ, _DELETE, {"method": "HEAD"}))
async def test_the_caller_that_dropped_a_table_may_read_and_delete_its_files(
    route: str | None, key: str, asked: dict[str, str]
) -> None:
    """DROP … PURGE deletes the files after the catalog has forgotten the table; without this it leaves them all."""
    site = _dropped()
    allow = await site.sign(key, route, "owner", **asked)  # type: ignore[arg-type]  # as given
    assert isinstance(allow, Allow)
    assert allow.authority.rule_id.startswith("dropped@table:lake.sales.orders")
    assert site.judgement.table_uuid == "uuid-orders"


@pytest.mark.parametrize("route", ("orders", None))
async def test_its_files_are_listed_and_deleted_in_bulk_as_well(route: str | None) -> None:
    """Iceberg deletes a thousand files with one request, and orphans are found by listing."""
    site = _dropped()
    body = f"<Delete><Object><Key>{DATA}</Key></Object><Object><Key>{METADATA}</Key></Object></Delete>"
    assert await site.reason("", route, "owner", method="POST", query="?delete", body=body) is Reason.ALLOWED
    assert await site.reason("", route, "owner", query="?list-type=2&prefix=wh/orders/") is Reason.ALLOWED
    far = body.replace(METADATA, "wh/other/f")
    refused = await site.reason("", route, "owner", method="POST", query="?delete", body=far)
    assert refused in (Reason.TABLE_UNKNOWN, Reason.LOCATION_UNOWNED)
    assert await site.reason("", route, "owner", query="?list-type=2&prefix=wh/") is not Reason.ALLOWED


@pytest.mark.parametrize("route", ("orders", None))
@pytest.mark.parametrize(
    "asked",
    ({"method": "PUT"}, {"method": "POST", "query": "?uploads"}, {"method": "PUT", "source": "/lake/wh/orders/x"}),
)
async def test_nothing_is_written_into_a_dropped_table(route: str | None, asked: dict[str, str]) -> None:
    """Its directory would be a place of one's own that no catalog knows."""
    site = _dropped()
    assert await site.reason(DATA, route, "owner", **asked) in (Reason.TABLE_UNKNOWN, Reason.LOCATION_UNOWNED)


@pytest.mark.parametrize("route", ("orders", None))
@pytest.mark.parametrize("who", ("reader", "writer"))
async def test_no_other_caller_reads_or_deletes_the_files(route: str | None, who: str) -> None:
    """To every caller but the one that dropped it, the table is gone."""
    site = _dropped()
    for method in ("GET", "DELETE"):
        refused = await site.reason(DATA, route, who, method=method)
        assert refused in (Reason.TABLE_UNKNOWN, Reason.LOCATION_UNOWNED, Reason.NO_WRITE_DATA)


async def test_the_time_for_it_is_bounded() -> None:
    """A right that is forgotten would outlive the reason for it."""
    site = _dropped(freshness=Freshness(dropped=100.0))
    site.clock.forward(99.9)
    assert await site.reason(DATA, "orders", "owner") is Reason.ALLOWED
    site.clock.forward(0.1)
    assert await site.reason(DATA, "orders", "owner") is Reason.TABLE_UNKNOWN
    assert await site.reason(DATA, None, "owner") is Reason.LOCATION_UNOWNED
    assert len(site.tables.ground.of("lake").dropped) == 0


@pytest.mark.parametrize(
    "claim", ("s3://lake/wh/orders", "s3://lake/wh/orders/", "s3a://lake/wh/orders/new", "s3://lake/wh/orders/a/b")
)
@pytest.mark.parametrize("name", ("orders", "heir"))
async def test_it_ends_once_any_other_table_claims_the_place(claim: str, name: str) -> None:
    """Deleting on would delete the successor's data."""
    site = _dropped()
    assert site.live(facts(name, claim, "two")) == [None]
    for key in (DATA, METADATA):
        for method in ("GET", "DELETE"):
            # The owner may do much, but only by its grants on the successor, whose metadata is protected.
            reason = await site.reason(key, "orders", "owner", method=method)
            allow = await site.sign(key, None, "owner", method=method)
            assert reason is not Reason.ALLOWED or name == "orders"
            if isinstance(allow, Allow):
                assert allow.table is not None
                assert allow.table.name == name
                assert "dropped" not in allow.authority.rule_id
    assert len(site.tables.ground.of("lake").dropped) == 0


async def test_it_does_not_come_back_when_the_successor_goes() -> None:
    """The successor's owner purges its own files; the right of the first table's dropper has long ended."""
    site = _dropped()
    site.live(facts("heir", "s3://lake/wh/orders/deep", "two"))
    site.drop("heir", "writer")
    assert await site.reason(DATA, None, "owner", method="DELETE") is Reason.LOCATION_UNOWNED
    assert await site.reason("wh/orders/deep/f", None, "owner", method="DELETE") is Reason.LOCATION_UNOWNED


async def test_it_ends_even_if_the_claim_is_not_believed() -> None:
    """A table that an engine without signproxy writes has an owner, whether or not it is believed here."""
    site = _dropped()
    site.live(facts("wide", "s3://lake/wh/wide"))
    [refusal] = site.live(facts("wide", "s3://lake/wh/wide", write_data_path="s3://lake/wh/orders/data"))
    assert refusal is not None
    assert await site.reason(DATA, "orders", "owner") is Reason.TABLE_UNKNOWN
    site = _dropped()
    site.live(facts("kept"))
    [refusal] = site.live(facts("wide", "s3://lake/wh/x", write_folder_storage_path="s3://elsewhere/y"))
    assert await site.reason(DATA, "orders", "owner") is Reason.ALLOWED


async def test_it_ends_once_a_table_is_staged_there() -> None:
    """The files of a table that is about to be committed lie there already."""
    site = _dropped()
    assert site.take(site.stage(facts("heir", "s3://lake/wh/orders", "two"), "writer")) is None
    assert await site.reason(DATA, "orders", "owner") is Reason.TABLE_UNKNOWN
    assert await site.reason(DATA, "heir", "writer", method="PUT") is Reason.ALLOWED


async def test_it_ends_once_the_very_table_is_registered_again() -> None:
    """A drop without purge is undone by registering the metadata: the files are a live table's again."""
    site = _dropped()
    # By a call that was made before, and could have been answered before.
    assert site.live(facts()) != [None]
    assert await site.reason(METADATA, "orders", "owner", method="DELETE") is Reason.ALLOWED
    site.clock.forward(0.001)
    assert site.live(facts()) == [None]
    assert await site.reason(DATA, "orders", "writer", method="PUT") is Reason.ALLOWED
    assert await site.reason(METADATA, "orders", "reader", method="DELETE") is Reason.NO_WRITE_DATA
    site.take(Renamed("lake", "sales", "orders", "sales", "again"))
    site.upstream.tables.clear()
    assert await site.reason(METADATA, "orders", "owner", method="DELETE") is Reason.TABLE_UNKNOWN


async def test_it_ends_once_the_policy_gives_the_place_to_a_table() -> None:
    """A reload that declares a table must protect it from that moment on."""
    site = _dropped()
    site.upstream.put(facts("heir", "s3://lake/wh/orders", namespace="a"))
    site.reload(policy(more='tables: [{namespace: a, name: heir, location: "s3://lake/wh/orders"}]'))
    assert await site.reason(DATA, "orders", "owner") is Reason.TABLE_UNKNOWN
    allow = await site.sign(DATA, None, "owner")
    assert isinstance(allow, Allow)
    assert "dropped" not in allow.authority.rule_id


async def test_a_successor_elsewhere_leaves_it_the_old_files() -> None:
    """Catalogs that give every table a new directory drop and create one name many times a day."""
    site = _dropped()
    site.live(facts(location="s3://lake/wh/orders-2", uuid="two"))
    assert await site.reason(METADATA, "orders", "owner", method="DELETE") is Reason.ALLOWED
    assert site.judgement.table_uuid == "uuid-orders"
    allow = await site.sign("wh/orders-2/f", "orders", "owner", method="DELETE")
    assert isinstance(allow, Allow)
    assert allow.authority.rule_id == "owner@catalog:lake"
    assert site.judgement.table_uuid == "two"
    assert await site.reason("wh/elsewhere/f", "orders", "owner", method="DELETE") is Reason.OUTSIDE_TABLE
    # And no other caller gains the old files by the new table.
    assert await site.reason(DATA, "orders", "writer", method="DELETE") is Reason.OUTSIDE_TABLE


async def test_two_drops_of_one_name_leave_both_tables_files() -> None:
    """A job that rebuilds its table twice purges twice."""
    site = _dropped()
    site.live(facts(location="s3://lake/wh/orders-2", uuid="two"))
    site.drop("orders")
    for key in (DATA, "wh/orders-2/data/f"):
        assert await site.reason(key, "orders", "owner", method="DELETE") is Reason.ALLOWED


@pytest.mark.parametrize(
    ("privileges", "allowed"),
    (
        ("TABLE_REMOTE_SIGN, TABLE_DROP", True),
        ("TABLE_REMOTE_SIGN, TABLE_FULL_METADATA", True),
        ("TABLE_DROP", False),
        ("TABLE_REMOTE_SIGN, TABLE_WRITE_DATA", False),
    ),
)
async def test_the_policy_must_still_let_the_caller_drop_and_sign(privileges: str, allowed: bool) -> None:
    """Privileges are judged live: a caller that lost the table's grants yesterday deletes nothing today."""
    text = policy(more=GRANT % "TABLE_REMOTE_SIGN, TABLE_DROP")
    site = _dropped_by_dropper(text)
    site.reload(_with_dropper(policy(more=GRANT % privileges)))
    assert (await site.reason(METADATA, "orders", "dropper", method="DELETE") is Reason.ALLOWED) is allowed
    assert (await site.reason(METADATA, None, "dropper", method="DELETE") is Reason.ALLOWED) is allowed


def _with_dropper(text: str) -> str:
    return text.replace("owner, lender]", "owner, lender, dropper]").replace(
        "principals:\n", "  droppers: {lake: [dropper]}\nprincipals:\n  corp/dropper: {roles: [droppers]}\n"
    )


def _dropped_by_dropper(text: str) -> Site:
    return _dropped(_with_dropper(text), "dropper")


async def test_dropping_gives_no_right_to_anything_else() -> None:
    """Read and delete come with the drop, and only there."""
    site = _dropped_by_dropper(policy(more=GRANT % "TABLE_REMOTE_SIGN, TABLE_DROP"))
    site.live(facts("other"))
    assert await site.reason("wh/other/f", "other", "dropper") is Reason.NO_READ_DATA
    assert await site.reason("wh/other/f", None, "dropper") is Reason.NO_READ_DATA
    assert await site.reason("wh/other/f", "orders", "dropper") is Reason.NO_READ_DATA
    assert await site.reason("wh/orders2/f", "orders", "dropper") is Reason.NO_READ_DATA


async def test_a_drop_that_was_not_asked_for_gives_no_right() -> None:
    """A sighting without a principal must not become one for every caller."""
    site = Site()
    site.live(facts())
    site.take(Dropped("lake", "sales", "orders", "", NOW, site.uuid_of("orders")))
    assert await site.reason(DATA, None, "owner") is Reason.LOCATION_UNOWNED
    late = _dropped()
    late.tables.forget("lake")
    late.live(facts())
    late.take(Dropped("lake", "sales", "orders", "corp/owner", NOW - 7200.0, late.uuid_of("orders")))
    assert await late.reason(DATA, None, "owner") is Reason.LOCATION_UNOWNED
    unknown = Site()
    unknown.live(facts())
    unknown.take(Dropped("lake", "sales", "orders", "corp/owner", NOW))
    assert await unknown.reason(DATA, None, "owner") is Reason.LOCATION_UNOWNED


async def test_a_table_that_took_the_name_while_a_drop_was_under_way_is_not_the_dropped_one() -> None:
    """A caller that drops a table just before another takes its name could delete that one's files."""
    site = Site()
    site.live(facts(uuid="one"))
    asked_for = site.uuid_of("orders")
    site.live(facts(uuid="two"))
    site.take(Dropped("lake", "sales", "orders", "corp/dropper", site.clock.now, asked_for))
    assert site.uuid_of("orders") == "two"
    assert await site.reason(DATA, "orders", "dropper", method="DELETE") is not Reason.ALLOWED
    assert await site.reason(DATA, None, "dropper", method="DELETE") is not Reason.ALLOWED


async def test_a_delegated_caller_drops_for_no_other() -> None:
    """A caller that acts on another's rights only ever reads, and of live tables alone."""
    site = _dropped()
    caller, effective = Principal("corp/owner", "corp", "owner", 4e9), Principal("corp/reader", "corp", "reader", 4e9)
    catalog = site.state.catalogs["lake"]
    subject, target = Subject(caller, effective), NamedTable("sales", "orders")
    asked = Asked(catalog, subject, None, "", target, request(Operation.GET_OBJECT, DATA), None, None, NOW)
    assert isinstance(Holders(site.tables).find(asked), Missing)


async def test_shared_places_are_cleared_away_by_no_caller() -> None:
    """With `overlap: allowed` the files of a dropped table may be another's as well."""
    site = Site(policy("overlap: allowed"))
    site.live(facts(), facts("twin", "s3://lake/wh/orders"))
    site.drop("orders")
    assert await site.reason(METADATA, "orders", "owner", method="DELETE") is Reason.TABLE_UNKNOWN
    allow = await site.sign(DATA, None, "owner", method="DELETE")
    assert isinstance(allow, Allow)
    assert allow.table is not None
    assert allow.table.name == "twin"
    alone = Site(policy("overlap: allowed"))
    alone.live(facts())
    alone.drop("orders")
    assert await alone.reason(METADATA, "orders", "owner", method="DELETE") is Reason.ALLOWED
    alone.live(facts("heir", "s3://lake/wh/orders/deep"))
    assert await alone.reason(METADATA, "orders", "owner", method="DELETE") is Reason.TABLE_UNKNOWN


async def test_a_late_answer_does_not_bring_a_dropped_table_back() -> None:
    """A load that was answered before the drop would make the table live again and end the purge."""
    site = Site()
    site.live(facts())
    sent = site.clock.now
    site.clock.forward(3.0)
    site.drop("orders")
    # However late it comes.
    for late in (0.0, 4.0, 60.0):
        site.clock.forward(late)
        assert site.take(Live("lake", facts()), sent) is not None
        assert await site.reason(DATA, "orders", "owner", method="DELETE") is Reason.ALLOWED
        assert await site.reason(DATA, "orders", "writer") is Reason.TABLE_UNKNOWN
    assert sum(site.tables.alarms.counts.values()) == 0


async def test_a_question_of_before_the_drop_is_asked_again() -> None:
    """A table that is dropped and registered again within a moment would be refused to those that happened to ask."""
    site = Site()
    site.live(facts())
    site.clock.forward(Freshness().hard)
    site.upstream.held = asyncio.Event()
    asking = asyncio.create_task(site.reason(DATA, "orders", "writer", method="PUT"))
    await site.settle()
    site.clock.forward(1.0)
    site.drop("orders")
    site.upstream.put(facts())
    site.clock.forward(1.0)
    site.upstream.held.set()
    assert await asking is Reason.ALLOWED
    assert [table for table, _ in site.upstream.asked] == ["orders", "orders"]


async def test_a_denial_of_before_the_creation_does_not_outlive_it() -> None:
    """A job that looks for a table, creates it and writes would be refused for as long as a denial is remembered."""
    site = Site()
    site.upstream.held = asyncio.Event()
    looking = asyncio.create_task(site.reason(DATA, "orders", "writer"))
    await site.settle()
    site.clock.forward(1.0)
    site.live(facts())
    site.clock.forward(1.0)
    site.upstream.held.set()
    assert await looking is Reason.ALLOWED
    assert await site.reason(DATA, "orders", "writer", method="PUT") is Reason.ALLOWED
    assert [table for table, _ in site.upstream.asked] == ["orders"]


@pytest.mark.parametrize("authorizer", ("catalog", "both"))
async def test_where_the_upstream_authorizes_the_drop_is_its_word(authorizer: str) -> None:
    """The upstream let the caller drop it; deleting is writing, for which `authorizer: catalog` asks the policy."""
    site = _dropped(policy(f"authorizer: {authorizer}"))
    assert await site.reason(METADATA, "orders", "owner") is Reason.ALLOWED
    assert await site.reason(METADATA, "orders", "owner", method="DELETE") is Reason.ALLOWED
    stranger = _dropped(policy(f"authorizer: {authorizer}"), "stranger")
    if authorizer == "catalog":
        assert await stranger.reason(METADATA, "orders", "stranger") is Reason.ALLOWED
        assert await stranger.reason(METADATA, "orders", "stranger", method="DELETE") is Reason.NO_WRITE_DATA
    else:
        assert await stranger.reason(METADATA, "orders", "stranger") is Reason.PRINCIPAL_UNKNOWN
