"""Prove when an upstream is asked for a table, with whose token and how often, and what serves while it is down."""

from __future__ import annotations

import asyncio

import pytest

from signproxy.errors import Reason, Refused
from signproxy.gate.request import AskedFor, CatalogAddress
from signproxy.inventory.learned.enquiries import Allowance
from signproxy.inventory.learned.learned_resolver import NoUpstream
from signproxy.inventory.learned.learned_table import Freshness
from signproxy.inventory.learned.sighting import Changed, Gone, Loaded
from signproxy.inventory.learned.vouchers import AsksAs, recipient_of
from signproxy.model import Allow, NamedTable, Subject
from signproxy.s3.request import WireRequest
from tests.coroutines import finished
from tests.gate.cases import judged, verdict_of
from tests.inventory.learned_rig import FAR, FakeUpstream, Site, facts, policy, principal

KEY = "wh/orders/data/f"
BY_LOCATION = policy("binding: by-location")

OTHER = '  other: {storages: [aws], roots: ["s3://lake"], remote_signing: true, tables: upstream}'

DOWN = Refused(Reason.UPSTREAM_UNAVAILABLE, "down")


async def test_an_unknown_table_is_asked_for_with_the_callers_own_token() -> None:
    """Signproxy has no token of its own, and another caller's would tell this one what it may not know."""
    site = Site()
    site.upstream.put(facts())
    assert await site.reason(KEY, who="writer") is Reason.ALLOWED
    assert await site.reason(KEY) is Reason.ALLOWED
    assert site.upstream.asked == [("orders", "writer-token"), ("orders", "reader-token")]
    assert await site.reason(KEY) is Reason.ALLOWED
    assert len(site.upstream.asked) == 2


async def test_a_caller_that_the_policy_refuses_causes_no_question() -> None:
    """Guessing names would load the upstream, and tell by the time it takes which tables there are."""
    site = Site()
    site.upstream.put(facts(), facts("lent"))
    for key, table in ((KEY, "orders"), ("wh/x/f", "x")):
        assert await site.reason(key, table, "lender") is Reason.NO_REMOTE_SIGN
        assert site.judgement.deny is not None
        assert str(site.judgement.deny.table) == f"lake.sales.{table}"
        assert await site.reason(key, table, method="PUT") is Reason.NO_WRITE_DATA
    assert site.upstream.asked == []
    assert await site.reason("wh/lent/f", "lent", "lender") is Reason.ALLOWED


async def test_a_caller_that_the_policy_refuses_does_not_refresh_what_is_known() -> None:
    """The upstream would be asked with the token of a caller that gets nothing of the answer."""
    site = Site()
    site.live(facts())
    site.clock.forward(Freshness().hard)
    for route in ("orders", None):
        assert await site.reason(KEY, route, "lender") is Reason.NO_REMOTE_SIGN
    assert site.upstream.asked == []


@pytest.mark.parametrize(("namespace", "name"), (("sales", "x" * 1025), ("x" * 1025, "t"), ("sales", "a\0b")))
async def test_a_name_that_no_table_has_is_not_asked_for(namespace: str, name: str) -> None:
    """Denials are remembered by name: endless ones would fill the memory."""
    site = Site()
    assert await site.reason(KEY, name, namespace=namespace) is Reason.TABLE_UNKNOWN
    assert site.upstream.asked == []


async def test_a_denial_is_remembered_for_a_moment_and_for_its_caller() -> None:
    """A client that polls a missing table must not pass every poll on; one who may see it must not wait."""
    site = Site()
    for _ in range(3):
        assert await site.reason(KEY) is Reason.TABLE_UNKNOWN
    assert len(site.upstream.asked) == 1
    site.upstream.put(facts())
    assert await site.reason(KEY) is Reason.TABLE_UNKNOWN
    assert await site.reason(KEY, who="writer") is Reason.ALLOWED
    assert await site.reason(KEY) is Reason.ALLOWED
    assert len(site.upstream.asked) == 3
    later = Site()
    assert await later.reason(KEY) is Reason.TABLE_UNKNOWN
    later.upstream.put(facts())
    later.clock.forward(Freshness().absent)
    assert await later.reason(KEY) is Reason.ALLOWED


async def test_a_table_that_is_seen_ends_its_denial() -> None:
    """CREATE TABLE right after a look for it is the first thing that every job does."""
    site = Site()
    assert await site.reason(KEY) is Reason.TABLE_UNKNOWN
    site.live(facts())
    assert await site.reason(KEY) is Reason.ALLOWED
    site.take(Changed("lake", "sales", "orders"))
    assert await site.reason(KEY) is Reason.ALLOWED


async def test_a_table_that_is_not_believed_is_not_asked_for_again_at_once() -> None:
    """The alarm is one, and so is the question."""
    site = Site()
    site.upstream.put(facts(location="s3://elsewhere/x"))
    for _ in range(3):
        assert await site.reason(KEY) is Reason.LOCATION_OUTSIDE_ROOTS
    assert await site.reason(KEY, who="writer") is Reason.LOCATION_OUTSIDE_ROOTS
    assert len(site.upstream.asked) == 1
    site.clock.forward(Freshness().absent)
    assert await site.reason(KEY) is Reason.LOCATION_OUTSIDE_ROOTS
    assert len(site.upstream.asked) == 2


@pytest.mark.parametrize(("as_", "times"), ((AsksAs.CALLER, 3), (AsksAs.SERVICE, 1)))
async def test_many_who_wait_for_one_table_ask_once(as_: AsksAs, times: int) -> None:
    """A job of five hundred executors starts at one moment; what an upstream restricts, it says to each principal."""
    site = Site()
    site.upstream.as_ = as_
    site.upstream.put(facts())
    site.upstream.held = asyncio.Event()
    asked = [asyncio.create_task(site.reason(KEY, who=who)) for who in ("reader", "reader", "writer", "owner")]
    await site.settle()
    assert len(site.upstream.asked) == times
    site.upstream.held.set()
    assert await asyncio.gather(*asked) == [Reason.ALLOWED] * 4
    assert len(site.upstream.asked) == times


@pytest.mark.parametrize("fault", (None, Refused(Reason.UPSTREAM_UNAUTHORIZED, "token")))
async def test_a_caller_that_waited_for_anothers_answer_asks_by_itself(fault: Refused | None) -> None:
    """One caller who may not see a table, or whose token is spent, must not refuse it to all that ask with it."""
    site = Site()
    site.upstream.as_ = AsksAs.SERVICE
    site.upstream.put(facts())
    site.upstream.hidden.add(("reader-token", "orders"))
    site.upstream.held = asyncio.Event()
    site.upstream.fault = fault
    first = asyncio.create_task(site.reason(KEY))
    await site.settle()
    second = asyncio.create_task(site.reason(KEY, who="writer"))
    await site.settle()
    site.upstream.held.set()
    refused = await first
    site.upstream.fault = None
    assert refused is (Reason.TABLE_UNKNOWN if fault is None else fault.reason)
    assert await second is Reason.ALLOWED
    assert site.upstream.asked == [("orders", "reader-token"), ("orders", "writer-token")]


async def test_a_fault_is_for_all_that_waited() -> None:
    """Each of them asking again, one after the other, would keep a dead upstream busy and all of them waiting."""
    site = Site()
    site.upstream.held = asyncio.Event()
    site.upstream.fault = DOWN
    asked = [asyncio.create_task(site.reason(KEY)) for _ in range(2)]
    await site.settle()
    site.upstream.held.set()
    assert await asyncio.gather(*asked) == [Reason.UPSTREAM_UNAVAILABLE] * 2
    assert len(site.upstream.asked) == 1
    # And it is not remembered.
    site.upstream.fault = None
    site.upstream.put(facts())
    assert await site.reason(KEY) is Reason.ALLOWED


async def test_a_caller_that_goes_away_leaves_the_question_to_the_others() -> None:
    """A client that closes its connection must not fail those who wait with it."""
    site = Site()
    site.upstream.put(facts())
    site.upstream.held = asyncio.Event()
    first = asyncio.create_task(site.reason(KEY))
    await site.settle()
    second = asyncio.create_task(site.reason(KEY))
    await site.settle()
    first.cancel()
    await site.settle()
    site.upstream.held.set()
    assert await second is Reason.ALLOWED
    assert len(site.upstream.asked) == 1


async def test_a_fault_that_is_not_waited_for_any_more_is_looked_at(capfd: pytest.CaptureFixture[str]) -> None:
    """Python would tell of it when the task is collected, on a line of its own and of no use."""
    site = Site()
    site.upstream.held = asyncio.Event()
    site.upstream.fault = ZeroDivisionError("fault")
    asked = asyncio.create_task(site.reason(KEY))
    await site.settle()
    asked.cancel()
    await site.settle()
    site.upstream.held.set()
    await site.settle()
    assert "upstream not asked" in capfd.readouterr().err


async def test_what_is_under_way_ends_with_the_server() -> None:
    """A question that outlives its server keeps the process from ending."""
    site = Site()
    site.upstream.held = asyncio.Event()
    asked = asyncio.create_task(site.reason(KEY))
    await site.settle()
    await site.resolver.aclose()
    with pytest.raises(asyncio.CancelledError):
        await asked
    await site.resolver.aclose()


async def test_facts_are_asked_for_anew_beside_the_requests_that_use_them() -> None:
    """No request is to wait for the upstream each minute."""
    site = Site()
    site.live(facts())
    site.clock.forward(Freshness().soft)
    site.upstream.put(facts(uuid="two", location="s3://lake/wh/orders-2"))
    assert await site.reason(KEY) is Reason.ALLOWED
    assert site.judgement.table_uuid == "uuid-orders"
    await site.settle()
    assert await site.reason("wh/orders-2/f") is Reason.ALLOWED
    assert site.judgement.table_uuid == "two"
    assert site.upstream.asked == [("orders", "reader-token")]


async def test_a_refresh_is_one_however_many_requests_there_are() -> None:
    """A thousand requests a second must not become a thousand questions, least of all when there is no answer."""
    site = Site()
    site.live(facts())
    site.upstream.fault = DOWN
    site.clock.forward(Freshness().soft)
    for _ in range(5):
        assert await site.reason(KEY) is Reason.ALLOWED
        await site.settle()
    assert len(site.upstream.asked) == 1
    site.clock.forward(Freshness().retry)
    site.upstream.held = asyncio.Event()
    for _ in range(5):
        assert await site.reason(KEY, None) is Reason.ALLOWED
        await site.settle()
        site.clock.forward(Freshness().retry)
    assert len(site.upstream.asked) == 2
    site.upstream.held.set()


async def test_facts_that_are_too_old_are_waited_for() -> None:
    """A table that was replaced an hour ago by an engine without signproxy must not be served as it was."""
    site = Site()
    site.live(facts())
    site.clock.forward(Freshness().hard)
    site.upstream.put(facts(uuid="two", location="s3://lake/wh/orders-2"))
    assert await site.reason(KEY) is Reason.OUTSIDE_TABLE
    assert site.upstream.asked == [("orders", "reader-token")]


@pytest.mark.parametrize(
    "fault",
    (
        Reason.UPSTREAM_UNAVAILABLE,
        Reason.UPSTREAM_TIMEOUT,
        Reason.UPSTREAM_INVALID,
    ),
)
@pytest.mark.parametrize("route", ("orders", None))
async def test_known_tables_are_signed_for_while_the_upstream_does_not_answer(fault: Reason, route: str | None) -> None:
    """An hour without the catalog must not stop the jobs that are running."""
    site = Site()
    site.live(facts())
    site.upstream.fault = Refused(fault, "why")
    for _ in range(5):
        site.clock.forward(Freshness().hard)
        assert await site.reason(KEY, route) is Reason.ALLOWED
        # Within the next seconds no request waits for it again.
        asked = len(site.upstream.asked)
        assert await site.reason(KEY, route) is Reason.ALLOWED
        assert len(site.upstream.asked) == asked
    site.take(Changed("lake", "sales", "orders"))
    assert await site.reason(KEY, route) is Reason.ALLOWED


@pytest.mark.parametrize(
    ("fault", "told"),
    (
        (Reason.UPSTREAM_UNAVAILABLE, Reason.UPSTREAM_UNAVAILABLE),
        # A sign call is repeated for 503 and 429, and for nothing else.
        (Reason.UPSTREAM_TIMEOUT, Reason.UPSTREAM_UNAVAILABLE),
        (Reason.UPSTREAM_INVALID, Reason.UPSTREAM_UNAVAILABLE),
        (Reason.UPSTREAM_UNAUTHORIZED, Reason.UPSTREAM_UNAUTHORIZED),
    ),
)
async def test_nothing_else_is_signed_for_while_the_upstream_does_not_answer(fault: Reason, told: Reason) -> None:
    """Failing open here would be guessing where a table lies."""
    site = Site()
    site.live(facts("other"))
    site.upstream.fault = Refused(fault, "why")
    refused = await site.sign(KEY)
    assert isinstance(refused, Refused)
    assert refused.reason is told
    assert "why" in refused.detail
    # A table that the upstream said is gone is not known any more.
    site.take(Gone("lake", "sales", "other"))
    site.take(Changed("lake", "sales", "other"))
    assert await site.reason("wh/other/f", "other") is told


async def test_a_table_that_the_upstream_denies_is_gone_for_the_caller_that_asked() -> None:
    """Dropped elsewhere: its files must not be signed for as long as memory lasts."""
    site = Site()
    site.live(facts())
    site.upstream.tables.clear()
    site.clock.forward(Freshness().hard)
    assert await site.reason(KEY) is Reason.TABLE_UNKNOWN
    assert await site.reason(KEY, None) is Reason.TABLE_UNKNOWN
    assert len(site.upstream.asked) == 1
    # Found out beside a request, it is gone with the next.
    beside = Site()
    beside.live(facts())
    beside.upstream.tables.clear()
    beside.clock.forward(Freshness().soft)
    assert await beside.reason(KEY) is Reason.ALLOWED
    await beside.settle()
    assert await beside.reason(KEY) is Reason.TABLE_UNKNOWN


async def test_an_answer_about_another_table_is_none() -> None:
    """An upstream, or a loader, that mixes up its answers must not place one table where another is."""

    class Mixed(FakeUpstream):
        async def load(self, *_: object) -> Loaded:
            return Loaded(facts("other"))

    site = Site()
    site.resolver._enquiries._loader = Mixed()
    assert await site.reason(KEY) is Reason.UPSTREAM_UNAVAILABLE
    assert len(site.tables.ground) == 0


async def test_an_answer_of_a_former_upstream_is_none() -> None:
    """It was asked before the settings named another one, which may hold another table of that name."""
    site = Site()
    site.upstream.put(facts(location="s3://lake/wh/former"))
    site.upstream.held = asyncio.Event()
    asked = asyncio.create_task(site.reason(KEY))
    await site.settle()
    site.tables.forget("lake")
    site.upstream.held.set()
    await asyncio.sleep(0)
    site.upstream.put(facts())
    assert await asked is Reason.ALLOWED
    assert len(site.upstream.asked) == 2


async def test_a_former_upstreams_word_is_none() -> None:
    """What it let a caller load, or denied it, says nothing of the tables of another."""
    site = Site(policy("authorizer: catalog", catalogs=OTHER))
    for catalog in ("lake", "other"):
        site.live(facts(location=f"s3://lake/wh/{catalog}"), catalog=catalog)
        site.answered(facts(), catalog=catalog)
        site.tables.denials.absent(catalog, "sales\0x", "corp/reader", site.clock.now)
    site.tables.forget("lake")
    recipient, now = recipient_of(principal("reader"), "reader-token"), site.clock.now
    found = [
        (
            site.tables.vouchers.find(catalog, "sales\0orders", None, recipient, now),
            site.tables.denials.found(catalog, "sales\0x", "corp/reader", now),
        )
        for catalog in ("lake", "other")
    ]
    assert found[0] == (None, None)
    assert None not in found[1]


async def test_questions_are_limited_for_each_principal() -> None:
    """Guessing names at the rate of sign calls would bring the upstream down."""
    site = Site(allowance=Allowance(per_second=1.0, burst=3.0))
    site.live(facts())
    reasons = [await site.reason("wh/x/f", f"x{number}") for number in range(5)]
    assert reasons == [Reason.TABLE_UNKNOWN] * 3 + [Reason.UPSTREAM_BUSY] * 2
    assert len(site.upstream.asked) == 3
    # Others are not held up, and neither is what is known.
    assert await site.reason("wh/x/f", "x0", "writer") is Reason.TABLE_UNKNOWN
    assert await site.reason(KEY) is Reason.ALLOWED
    site.clock.forward(1.0)
    reasons = [await site.reason("wh/x/f", f"y{number}") for number in range(2)]
    assert reasons == [Reason.TABLE_UNKNOWN, Reason.UPSTREAM_BUSY]


async def test_a_caller_that_may_not_ask_is_served_what_is_known() -> None:
    """A refresh is the server's wish, not the caller's: running jobs must not fail because their user loads much."""
    site = Site(allowance=Allowance(per_second=0.0, burst=0.0))
    site.live(facts())
    site.clock.forward(Freshness().soft)
    assert await site.reason(KEY) is Reason.ALLOWED
    await site.settle()
    site.clock.forward(Freshness().hard)
    assert await site.reason(KEY) is Reason.ALLOWED
    # What the upstream answered this caller before is asked for again without counting; what it did not, is not.
    assert site.upstream.asked == [("orders", "reader-token")] * 2
    assert await site.reason(KEY, bearer="reader-token-2") is Reason.UPSTREAM_BUSY


async def test_a_caller_that_waits_for_one_that_may_not_ask_asks_by_itself() -> None:
    """Each caller's allowance is its own."""
    site = Site(allowance=Allowance(per_second=0.0, burst=1.0))
    site.upstream.put(facts())
    assert await site.reason("wh/x/f", "x") is Reason.TABLE_UNKNOWN
    assert await site.reason(KEY) is Reason.UPSTREAM_BUSY
    assert await site.reason(KEY, who="writer") is Reason.ALLOWED


# Routes that find the table by what is addressed.


async def test_a_key_is_found_by_the_learned_tables() -> None:
    """The table-less endpoint is the legacy default of every client."""
    site = Site()
    site.live(facts(), facts("other"))
    allow = await site.sign("wh/other/f", None)
    assert isinstance(allow, Allow)
    assert allow.table is not None
    assert allow.table.name == "other"
    assert await site.reason("wh/other", None) is Reason.LOCATION_UNOWNED
    assert await site.reason("wh/nobody/f", None) is Reason.LOCATION_UNOWNED
    assert await site.reason("", None, query="?list-type=2&prefix=wh/other/") is Reason.ALLOWED
    assert await site.reason("", None, query="?list-type=2&prefix=wh/other") is Reason.LOCATION_UNOWNED
    assert site.upstream.asked == []


async def test_the_table_of_the_path_is_a_hint_where_the_location_decides() -> None:
    """PyIceberg signs table A's files at the endpoint of table B; after a restart neither is known."""
    site = Site(BY_LOCATION)
    site.upstream.put(facts())
    assert await site.reason(KEY, "orders") is Reason.ALLOWED
    assert site.upstream.asked == [("orders", "reader-token")]
    site.live(facts("other"))
    allow = await site.sign("wh/other/f", "orders")
    assert isinstance(allow, Allow)
    assert allow.table is not None
    assert allow.table.name == "other"
    assert await site.reason("wh/nobody/f", "orders") is Reason.LOCATION_UNOWNED
    assert await site.reason("wh/nobody/f", "nobody") is Reason.TABLE_UNKNOWN
    assert len(site.upstream.asked) == 2
    # Moved away: it is known, and owns none of this.
    assert await site.reason("wh/nobody/f", "orders") is Reason.LOCATION_UNOWNED


async def test_a_listed_place_names_the_table_to_ask_for() -> None:
    """Of a listed place the policy says whose it is, so the first request for it need not fail."""
    listed = 'tables: [{namespace: sales, name: orders, locations: ["s3://cold/data/orders"]}]'
    site = Site(policy(more=listed))
    assert await site.reason("data/orders/f", None, bucket="cold") is Reason.LOCATION_UNOWNED
    site.clock.forward(Freshness().absent)
    site.upstream.put(facts())
    assert await site.reason("data/orders/f", None, bucket="cold") is Reason.ALLOWED
    assert len(site.upstream.asked) == 2


async def test_a_route_whose_table_does_not_exist_serves_no_caller_where_keys_decide() -> None:
    """A route that outlived its table, or is mistyped, would go on to be signed for as long as a client keeps it."""
    site = Site(BY_LOCATION)
    site.live(facts(), facts("other"))
    assert await site.reason(KEY, "other") is Reason.ALLOWED
    assert not site.upstream.asked
    assert await site.reason(KEY, "gone") is Reason.TABLE_UNKNOWN
    # It was asked for, since it may have been made a moment ago, and once.
    assert await site.reason(KEY, "gone") is Reason.TABLE_UNKNOWN
    assert [name for name, _ in site.upstream.asked] == ["gone"]
    site.upstream.put(facts("new"))
    assert await site.reason(KEY, "new") is Reason.ALLOWED
    site.drop("other")
    assert await site.reason(KEY, "other") is Reason.TABLE_UNKNOWN
    # The caller that dropped it may still remove its files by its own route.
    assert await site.reason(KEY, None) is Reason.ALLOWED


async def test_keys_of_several_tables_have_no_owner() -> None:
    """One table's consent would delete another's files."""
    site = Site()
    site.live(facts(), facts("other"))
    keys = ("wh/orders/a", "wh/other/a")
    body = "<Delete>" + "".join(f"<Object><Key>{key}</Key></Object>" for key in keys) + "</Delete>"
    asked = {"method": "POST", "query": "?delete", "body": body}
    assert await site.reason("", None, "owner", **asked) is Reason.LOCATION_UNOWNED
    assert await site.reason("", "orders", "owner", **asked) is Reason.OUTSIDE_TABLE
    inside = body.replace("wh/other/a", "wh/orders/b")
    assert await site.reason("", None, "owner", method="POST", query="?delete", body=inside) is Reason.ALLOWED


async def test_copies_between_learned_tables_need_both() -> None:
    """A copy reads its source: write access to one table must not be read access to all of them."""
    site = Site(
        policy(
            "binding: by-location",
            more="- {role: lender, namespace: sales, table: mine, privileges: [TABLE_REMOTE_SIGN, TABLE_WRITE_DATA]}",
        )
    )
    site.live(facts("mine"), facts("lent"), facts("secret"))
    copy = {"method": "PUT"}
    assert await site.reason("wh/mine/f", "mine", "lender", source="/lake/wh/lent/f", **copy) is Reason.ALLOWED
    assert site.judgement.allow is not None
    assert "lent" in site.judgement.allow.authority.rule_id
    refused = await site.reason("wh/mine/f", "mine", "lender", source="/lake/wh/secret/f", **copy)
    assert refused is Reason.COPY_SOURCE_OUTSIDE
    refused = await site.reason("wh/mine/f", "mine", "lender", source="/lake/wh/nobody/f", **copy)
    assert refused is Reason.COPY_SOURCE_OUTSIDE
    strict = Site()
    strict.live(facts(), facts("other"))
    assert await strict.reason(KEY, "orders", "writer", source="/lake/wh/orders/g", **copy) is Reason.ALLOWED
    outside = await strict.reason(KEY, "orders", "writer", source="/lake/wh/other/g", **copy)
    assert outside is Reason.COPY_SOURCE_OUTSIDE


async def test_the_source_of_a_copy_is_asked_for_like_a_table() -> None:
    """What is known of the source may be as old as of any table, and its listed place names a table, too."""
    listed = 'tables: [{namespace: sales, name: other, locations: ["s3://cold/data/other"]}]'
    site = Site(policy("binding: by-location", more=listed))
    site.live(facts())
    site.upstream.put(facts("other"))
    refused = await site.reason(KEY, "orders", "writer", method="PUT", source="/cold/data/other/f")
    assert refused is Reason.ALLOWED
    assert [name for name, _ in site.upstream.asked] == ["other"]
    site.take(Changed("lake", "sales", "other"))
    await site.reason(KEY, "orders", "writer", method="PUT", source="/cold/data/other/f")
    assert [name for name, _ in site.upstream.asked] == ["other", "other"]


# Places that are shared.


@pytest.mark.parametrize("route", ("lent", "secret", None))
async def test_where_locations_overlap_all_owners_must_allow(route: str | None) -> None:
    """Registering a victim's directory as one's own table would else be all that it takes."""
    site = Site(policy("overlap: allowed"))
    assert site.live(facts("lent"), facts("secret", "s3://lake/wh/lent/deep")) == [None, None]
    assert await site.reason("wh/lent/deep/f", route, "lender") is not Reason.ALLOWED
    assert await site.reason("wh/lent/deep/f", route, "reader") is Reason.ALLOWED
    if route != "secret":
        assert await site.reason("wh/lent/f", route, "lender") is Reason.ALLOWED
        # What lists the folder would show the other's names, and deleting it would empty it.
        assert await site.reason("", route, "lender", query="?list-type=2&prefix=wh/lent/") is Reason.NO_REMOTE_SIGN
        listed = await site.reason("", route, "reader", query="?list-type=2&prefix=wh/lent/")
        assert listed is Reason.OUTSIDE_TABLE
        assert await site.reason("wh/lent/deep", route, "writer", method="DELETE") is Reason.OUTSIDE_TABLE
        inside = await site.reason("", "secret", "reader", query="?list-type=2&prefix=wh/lent/deep/")
        assert inside is Reason.ALLOWED
        assert await site.reason("wh/lent/other", route, "writer", method="DELETE") is Reason.ALLOWED


async def test_declared_and_learned_tables_may_share_a_place_where_all_allow() -> None:
    """The policy's tables are owners like the others."""
    declared = """tables:
- {namespace: sales, name: fixed, location: "s3://lake/wh/lent/fixed"}
- {namespace: sales, name: listed, locations: ["s3://lake/wh/lent/listed"]}
"""
    site = Site(policy("overlap: allowed", more=declared))
    site.upstream.put(facts("fixed", "s3://lake/wh/lent/fixed"))
    site.answered(facts("fixed"))
    assert site.live(facts("lent")) == [None]
    for route in ("lent", "fixed", None):
        assert await site.reason("wh/lent/fixed/f", route, "lender") is Reason.NO_REMOTE_SIGN
        assert await site.reason("wh/lent/fixed/f", route, "reader") is Reason.ALLOWED
    assert await site.reason("", "lent", query="?list-type=2&prefix=wh/lent/fi") is Reason.OUTSIDE_TABLE
    assert await site.reason("", "lent", query="?list-type=2&prefix=wh/lent/li") is Reason.LOCATION_UNOWNED
    assert await site.reason("", "lent", query="?list-type=2&prefix=wh/lent/x") is Reason.ALLOWED
    # Whose the listed place is is asked for, since that table must allow.
    assert await site.reason("wh/lent/listed/f", "lent") is Reason.ALLOWED
    assert [name for name, _ in site.upstream.asked] == ["listed"]
    site.clock.forward(Freshness().absent)
    site.upstream.put(facts("listed", "s3://lake/wh/elsewhere"))
    assert await site.reason("wh/lent/listed/f", "lent", "lender") is Reason.NO_REMOTE_SIGN
    assert await site.reason("wh/lent/listed/f", "lent") is Reason.ALLOWED
    assert await site.reason("", "listed", query="?list-type=2&prefix=wh/elsewhere/") is Reason.ALLOWED


# Disputes with a table that may be gone.


async def test_a_table_in_the_way_is_asked_for_before_another_is_refused() -> None:
    """Dropped or replaced by an engine without signproxy, it would keep its place for as long as memory lasts."""
    site = Site()
    site.live(facts("old", "s3://lake/wh/orders"))
    site.clock.forward(60.0)
    site.upstream.put(facts("old", "s3://lake/wh/old-2", "another"))
    site.upstream.put(facts())
    assert await site.reason(KEY) is Reason.ALLOWED
    assert [name for name, _ in site.upstream.asked] == ["orders", "old"]
    assert sum(site.tables.alarms.counts.values()) == 0


async def test_a_table_in_the_way_that_is_still_there_stays() -> None:
    """The question must not be a way around the rule."""
    site = Site()
    site.live(facts("old", "s3://lake/wh/orders"))
    site.upstream.put(facts())
    assert await site.reason(KEY) is Reason.LOCATION_DISPUTED
    # It was seen just now.
    assert [name for name, _ in site.upstream.asked] == ["orders"]
    site.clock.forward(60.0)
    assert await site.reason(KEY, who="owner") is Reason.LOCATION_DISPUTED
    assert [name for name, _ in site.upstream.asked] == ["orders", "orders", "old"]
    assert await site.reason(KEY, "old") is Reason.ALLOWED


@pytest.mark.parametrize(("who", "freed"), (("reader", False), ("writer", True), ("owner", True)))
async def test_a_table_in_the_way_is_let_go_only_for_callers_that_may_write_it(who: str, freed: bool) -> None:
    """`There is no such table` is also the answer to a caller that may not see it."""
    site = Site()
    site.live(facts("old", "s3://lake/wh/orders"))
    site.clock.forward(60.0)
    site.upstream.remove("old")
    site.upstream.put(facts())
    assert (await site.reason(KEY, who=who) is Reason.ALLOWED) is freed
    assert ("old", f"{who}-token") in site.upstream.asked


async def test_a_caller_that_may_not_read_the_table_in_the_way_does_not_ask_for_it() -> None:
    """Claiming a place would tell what else there is, and at whose cost."""
    site = Site()
    site.live(facts("old", "s3://lake/wh/lent"))
    site.clock.forward(60.0)
    site.upstream.remove("old")
    site.upstream.put(facts("lent"))
    assert await site.reason("wh/lent/f", "lent", "lender") is Reason.LOCATION_DISPUTED
    assert [name for name, _ in site.upstream.asked] == ["lent"]


async def test_the_question_for_a_table_in_the_way_counts_like_any_other() -> None:
    """It is asked because of a caller."""
    site = Site(allowance=Allowance(per_second=0.0, burst=1.0))
    site.live(facts("old", "s3://lake/wh/orders"))
    site.clock.forward(60.0)
    site.upstream.put(facts())
    assert await site.reason(KEY) is Reason.LOCATION_DISPUTED
    assert [name for name, _ in site.upstream.asked] == ["orders"]


async def test_a_table_of_another_catalog_in_the_way_is_not_asked_for() -> None:
    """The caller's token is for this catalog's upstream alone."""
    site = Site(policy(catalogs=OTHER))
    site.live(facts("old", "s3://lake/wh/orders"), catalog="other")
    site.clock.forward(60.0)
    site.upstream.put(facts())
    assert await site.reason(KEY) is Reason.LOCATION_DISPUTED
    assert [name for name, _ in site.upstream.asked] == ["orders"]


async def test_a_table_in_the_way_may_leave_while_it_is_asked_for() -> None:
    """Another request may have found out first."""
    site = Site()
    site.live(facts("old", "s3://lake/wh/orders"))
    site.clock.forward(60.0)
    site.upstream.remove("old")
    site.upstream.put(facts())
    site.upstream.held = asyncio.Event()
    asked = asyncio.create_task(site.reason(KEY, who="owner"))
    await site.settle()
    site.tables.forget("lake")
    site.upstream.held.set()
    assert await asked is Reason.ALLOWED


# The upstream's own word.


@pytest.mark.parametrize("authorizer", ("catalog", "both"))
async def test_an_upstreams_word_is_asked_for_by_each_caller_with_its_token(authorizer: str) -> None:
    """One caller's answer would open the table for all."""
    site = Site(policy(f"authorizer: {authorizer}"))
    site.live(facts())
    site.upstream.hidden.add(("writer-token", "orders"))
    allow = await site.sign(KEY, who="reader")
    assert isinstance(allow, Allow)
    assert allow.authority.rule_id.startswith("upstream@table:lake.sales.orders")
    assert await site.reason(KEY, who="writer") is Reason.TABLE_UNKNOWN
    assert await site.reason(KEY, who="reader", bearer="reader-token-2") is Reason.ALLOWED
    assert [bearer for _, bearer in site.upstream.asked] == ["reader-token", "writer-token", "reader-token-2"]
    # Each of them is remembered for itself.
    for bearer in ("reader-token", "reader-token-2"):
        assert await site.reason(KEY, None, bearer=bearer) is Reason.ALLOWED
    assert await site.reason(KEY, who="writer") is Reason.TABLE_UNKNOWN
    assert len(site.upstream.asked) == 3


@pytest.mark.parametrize("route", ("orders", None))
async def test_an_upstreams_word_counts_for_a_minute(route: str | None) -> None:
    """Revoked upstream, the table must be closed here soon after."""
    site = Site(policy("authorizer: catalog"))
    site.live(facts())
    assert await site.reason(KEY, route) is Reason.ALLOWED
    site.upstream.hidden.add(("reader-token", "orders"))
    site.clock.forward(29.9)
    assert await site.reason(KEY, route) is Reason.ALLOWED
    await site.settle()
    assert len(site.upstream.asked) == 1
    # Half of the time is over: asked beside the request, and withdrawn by the answer.
    site.clock.forward(0.2)
    assert await site.reason(KEY, route) is Reason.ALLOWED
    await site.settle()
    assert len(site.upstream.asked) == 2
    assert await site.reason(KEY, route) is Reason.TABLE_UNKNOWN
    # Unless no caller asked in between, a minute is the end in any case.
    again = Site(policy("authorizer: catalog"))
    again.live(facts())
    assert await again.reason(KEY, route) is Reason.ALLOWED
    again.upstream.hidden.add(("reader-token", "orders"))
    again.clock.forward(60.0)
    assert await again.reason(KEY, route) is Reason.TABLE_UNKNOWN


async def test_an_upstreams_word_ends_with_the_token() -> None:
    """A token that is over must not go on by an answer that it once got."""
    site = Site(policy("authorizer: catalog"))
    site.live(facts())
    caller = principal("reader", expires_at=site.clock.now + 10.0)
    assert await site.reason(KEY, caller=caller) is Reason.ALLOWED
    site.clock.forward(10.0)
    site.upstream.fault = DOWN
    assert await site.reason(KEY, caller=caller) is Reason.UPSTREAM_UNAVAILABLE


async def test_an_upstreams_word_is_about_one_uuid() -> None:
    """A successor of the name is another table, which the caller may never have been allowed."""
    site = Site(policy("authorizer: catalog"))
    site.live(facts())
    assert await site.reason(KEY) is Reason.ALLOWED
    site.live(facts(uuid="two"))
    site.upstream.hidden.add(("reader-token", "orders"))
    assert await site.reason(KEY) is Reason.TABLE_UNKNOWN


async def test_an_upstreams_word_is_about_one_name() -> None:
    """A table of one's own that bears the victim's UUID would open the victim's."""
    site = Site(policy("authorizer: catalog"))
    site.live(facts(uuid="same"), facts("mine", uuid="same"))
    assert await site.reason("wh/mine/f", "mine") is Reason.ALLOWED
    site.upstream.hidden.add(("reader-token", "orders"))
    assert await site.reason(KEY) is Reason.TABLE_UNKNOWN
    assert await site.reason(KEY, None) is Reason.TABLE_UNKNOWN


@pytest.mark.parametrize("authorizer", ("catalog", "both"))
async def test_where_the_upstream_authorizes_nothing_is_signed_without_it(authorizer: str) -> None:
    """What was allowed an hour ago says nothing of now."""
    site = Site(policy(f"authorizer: {authorizer}"))
    site.live(facts())
    site.upstream.fault = DOWN
    assert await site.reason(KEY) is Reason.UPSTREAM_UNAVAILABLE
    assert await site.reason(KEY, None) is Reason.UPSTREAM_UNAVAILABLE
    site.upstream.fault = None
    assert await site.reason(KEY) is Reason.ALLOWED
    site.upstream.fault = DOWN
    assert await site.reason(KEY) is Reason.ALLOWED
    site.clock.forward(60.0)
    assert await site.reason(KEY) is Reason.UPSTREAM_UNAVAILABLE


async def test_what_passed_by_is_an_answer_to_its_caller() -> None:
    """A client loads the table through the facade right before it signs: a second load would tell nothing new."""
    site = Site(policy("authorizer: catalog"))
    site.live(facts())
    site.answered(facts())
    assert await site.reason(KEY) is Reason.ALLOWED
    assert site.upstream.asked == []
    assert await site.reason(KEY, bearer="reader-token-2") is Reason.ALLOWED
    assert site.upstream.asked == [("orders", "reader-token-2")]


@pytest.mark.parametrize(
    ("authorizer", "who", "method", "told"),
    (
        # The upstream's word stands for signing and reading; a caller that it lets in need not be in the policy.
        ("catalog", "stranger", "GET", Reason.ALLOWED),
        ("catalog", "stranger", "PUT", Reason.NO_WRITE_DATA),
        ("catalog", "stranger", "DELETE", Reason.NO_WRITE_DATA),
        ("catalog", "lender", "GET", Reason.ALLOWED),
        ("catalog", "reader", "PUT", Reason.NO_WRITE_DATA),
        ("catalog", "writer", "PUT", Reason.ALLOWED),
        ("catalog", "writer", "DELETE", Reason.ALLOWED),
        # Both: neither alone is enough.
        ("both", "stranger", "GET", Reason.PRINCIPAL_UNKNOWN),
        ("both", "lender", "GET", Reason.NO_REMOTE_SIGN),
        ("both", "reader", "GET", Reason.ALLOWED),
        ("both", "reader", "PUT", Reason.NO_WRITE_DATA),
        ("both", "writer", "PUT", Reason.ALLOWED),
    ),
)
@pytest.mark.parametrize("hidden", (False, True))
async def test_whose_word_counts_for_what(authorizer: str, who: str, method: str, told: Reason, hidden: bool) -> None:
    """Reading is what a load-table proves; nothing that an upstream answers proves that its caller may write."""
    site = Site(policy(f"authorizer: {authorizer}"))
    site.upstream.put(facts())
    if hidden:
        site.upstream.hidden.add((f"{who}-token", "orders"))
        told = Reason.TABLE_UNKNOWN if told is Reason.ALLOWED else told
    assert await site.reason(KEY, who=who, method=method) is told
    # No upstream is asked for a caller that the answer could not help.
    assert len(site.upstream.asked) == int(told in (Reason.ALLOWED, Reason.TABLE_UNKNOWN))


@pytest.mark.parametrize(
    ("authorizer", "method", "rule"),
    (
        ("catalog", "GET", "upstream@table:lake.sales.orders"),
        ("catalog", "PUT", "upstream@table:lake.sales.orders+writer@catalog:lake"),
        ("both", "GET", "upstream@table:lake.sales.orders+writer@catalog:lake"),
        ("both", "PUT", "upstream@table:lake.sales.orders+writer@catalog:lake"),
        ("policy", "GET", "writer@catalog:lake"),
    ),
)
async def test_the_authority_says_whose_word_it_was(authorizer: str, method: str, rule: str) -> None:
    """An auditor must see which system let a caller in."""
    site = Site(policy(f"authorizer: {authorizer}"))
    site.live(facts())
    for route in ("orders", None, "orders"):
        allow = await site.sign(KEY, route, "writer", method=method)
        assert isinstance(allow, Allow)
        assert allow.authority.rule_id == rule


async def test_the_upstreams_word_does_not_open_metadata() -> None:
    """Its answer holds the metadata already; the files are protected even from callers that can write tables."""
    site = Site(policy("authorizer: catalog"))
    site.live(facts())
    assert await site.reason("wh/orders/metadata/v1.metadata.json") is Reason.METADATA_PROTECTED
    assert await site.reason("wh/orders/metadata/v1.metadata.json", who="owner") is Reason.ALLOWED


@pytest.mark.parametrize("authorizer", ("catalog", "both"))
async def test_a_declared_table_beside_needs_the_upstreams_word_as_well(authorizer: str) -> None:
    """Writing down where a table lies says nothing of who may read it."""
    for uuid, told in (("", Reason.ALLOWED), (", uuid: uuid-orders", Reason.ALLOWED)):
        more = f'tables: [{{namespace: sales, name: orders, location: "s3://lake/wh/orders"{uuid}}}]'
        site = Site(policy(f"authorizer: {authorizer}", more=more))
        assert await site.reason(KEY) is Reason.TABLE_UNKNOWN
        site.clock.forward(60.0)
        site.upstream.put(facts())
        assert await site.reason(KEY) is told
        assert await site.reason(KEY, None) is told
        assert len(site.upstream.asked) == 2


async def test_a_declared_table_of_another_uuid_is_not_vouched_for() -> None:
    """The upstream speaks of its own table, and not of the one that the policy means."""
    more = 'tables: [{namespace: sales, name: orders, location: "s3://lake/wh/orders", uuid: mine}]'
    site = Site(policy("authorizer: catalog", more=more))
    site.upstream.put(facts())
    for _ in range(2):
        assert await site.reason(KEY) is Reason.TABLE_UNKNOWN
    assert len(site.upstream.asked) == 1


async def test_copies_need_the_upstreams_word_on_their_source() -> None:
    """The caller reads it."""
    site = Site(policy("authorizer: catalog, binding: by-location"))
    site.live(facts(), facts("other"))
    site.upstream.hidden.add(("writer-token", "other"))
    copied = await site.reason(KEY, None, "writer", method="PUT", source="/lake/wh/other/f")
    assert copied is Reason.TABLE_UNKNOWN
    site.upstream.hidden.clear()
    site.clock.forward(60.0)
    assert await site.reason(KEY, None, "writer", method="PUT", source="/lake/wh/other/f") is Reason.ALLOWED


@pytest.mark.parametrize(
    ("authorizer", "told"),
    (("policy", Reason.ALLOWED), ("catalog", Reason.ALLOWED), ("both", Reason.NO_REMOTE_SIGN)),
)
async def test_an_upstream_vouches_for_its_caller_and_not_for_those_it_acts_for(authorizer: str, told: Reason) -> None:
    """A view's owner has rights that the owner's upstream token would have to prove, and it is not here."""
    site = Site(policy(f"authorizer: {authorizer}"))
    site.live(facts())
    site.answered(facts(), "stranger")
    wire = WireRequest(
        method="GET", uri=f"https://lake.s3.us-east-1.amazonaws.com/{KEY}", headers={}, region="us-east-1"
    )
    subject = Subject(principal("stranger"), principal("reader"))
    asked = AskedFor(CatalogAddress("lake"), NamedTable("sales", "orders"), wire, bearer="stranger-token")
    said = verdict_of(finished(judged(site.gate, subject, asked)))
    assert (Reason.ALLOWED if isinstance(said, Allow) else said.reason) is told
    if isinstance(said, Allow):
        assert said.authority.rule_id == "reader@catalog:lake"
    assert site.upstream.asked == []


async def test_without_an_upstream_the_policy_says_what_it_can() -> None:
    """`explain` runs without one."""
    with pytest.raises(Refused) as caught:
        await NoUpstream().load("lake", "sales", "orders", Subject.of(principal("reader", expires_at=FAR)), "")
    assert caught.value.reason is Reason.UPSTREAM_UNAVAILABLE
    assert "lake.sales.orders" in caught.value.detail
