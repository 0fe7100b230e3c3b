"""The gate of the S3 listener where an upstream tells of the tables: found by place, and asked for by name alone."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from signproxy.errors import Reason, Refused
from signproxy.gate import order
from signproxy.gate.explain import explain
from signproxy.gate.forwarded import BucketsShown, Passed
from signproxy.gate.request import AskedFor
from signproxy.model import KeyScope, Principal, Subject, TableId
from signproxy.s3.forward_wire import ForwardWire
from tests.gate.forward_cases import delete, wire
from tests.inventory.learned_rig import Site, facts, policy, principal

KEY = "wh/orders/data/f"
LISTED = 'tables: [{namespace: sales, name: orders, locations: ["s3://cold/data/orders"]}]'


async def ask(
    site: Site, asked: ForwardWire, who: str = "reader", caller: Principal | None = None
) -> Passed | BucketsShown | Reason:
    subject = Subject.of(caller or principal(who))
    judgement = await site.judge(subject, AskedFor(forward=asked, bearer=f"{subject.caller.subject}-token"))
    if judgement.refused is not None:
        return judgement.refused.reason
    assert judgement.passed is not None
    return judgement.passed


async def listed(site: Site, who: str = "reader") -> tuple[str, ...]:
    shown = await ask(site, wire(bucket=""), who)
    assert isinstance(shown, BucketsShown)
    return shown.names


def lake(method: str = "GET", key: str = KEY, **headers: str) -> ForwardWire:
    return wire(method, "lake", key, None, None, **headers)


async def test_a_learned_table_is_found_by_its_place() -> None:
    """Readers that cannot sign do not name the table either."""
    site = Site()
    assert await ask(site, lake()) is Reason.LOCATION_UNOWNED
    site.live(facts())
    passed = await ask(site, lake())
    assert isinstance(passed, Passed)
    assert passed.allow.table == TableId("lake", "sales", "orders")
    assert site.judgement.table_uuid == "uuid-orders"
    # By name an upstream is asked, never by key.
    assert site.upstream.asked == []
    assert await ask(site, lake("PUT")) is Reason.NO_WRITE_DATA
    assert await ask(site, lake(key="wh/other/f")) is Reason.LOCATION_UNOWNED


async def test_a_place_that_the_policy_lists_is_asked_for() -> None:
    """The listing says whose the place is; whether that table still stands, the upstream knows."""
    site = Site(policy(more=LISTED))
    site.upstream.put(facts())
    asked = wire(bucket="cold", key="data/orders/f")
    passed = await ask(site, asked)
    assert isinstance(passed, Passed)
    assert passed.allow.table == TableId("lake", "sales", "orders")
    assert [name for name, _ in site.upstream.asked] == ["orders"]
    assert isinstance(await ask(site, asked), Passed)
    assert len(site.upstream.asked) == 1


async def test_a_fault_of_the_upstream_is_no_refusal_of_the_policy() -> None:
    """It must not be observed away, nor become one key's AccessDenied."""
    watched = policy(more=LISTED).replace("corp/reader: {", "corp/reader: {mode: observe, ")
    for asked in (wire(bucket="cold", key="data/orders/f"), delete("data/orders/f", "data/x", bucket="cold")):
        site = Site(watched.replace("[TABLE_REMOTE_SIGN, TABLE_READ_DATA]", "[TABLE_REMOTE_SIGN, TABLE_WRITE_DATA]"))
        site.upstream.fault = Refused(Reason.UPSTREAM_UNAVAILABLE, "down")
        assert await ask(site, asked) is Reason.UPSTREAM_UNAVAILABLE


async def test_questions_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """An upstream whose every answer leads to another question must not keep a connection for good."""
    monkeypatch.setattr(order, "_ROUNDS", range(1))
    site = Site(policy(more=LISTED))
    site.upstream.put(facts())
    asked = AskedFor(forward=wire(bucket="cold", key="data/orders/f"), bearer="reader-token")
    told = await explain(site.gate, Subject.of(principal("reader")), asked)
    assert (told.reason, told.detail) == (Reason.UPSTREAM_UNAVAILABLE, "every answer leads to another question")


async def test_a_reload_bites_callers_that_wait_for_an_upstream() -> None:
    """A slow upstream would be a way to be judged by yesterday's policy."""
    site = Site(policy(more=LISTED))
    site.upstream.put(facts())
    site.upstream.held = asyncio.Event()
    waiting = asyncio.create_task(ask(site, wire(bucket="cold", key="data/orders/f")))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    site.reload(policy(more=LISTED).replace("corp/reader: {roles: [readers]}", "corp/other: {}"))
    site.upstream.held.set()
    assert await waiting is Reason.PRINCIPAL_UNKNOWN


async def test_a_copy_reads_a_learned_table() -> None:
    """Two tables of one storage, each judged for its own side."""
    site = Site()
    site.live(facts(), facts("items"))
    copy = lake("PUT", x_amz_copy_source="/lake/wh/items/data/f")
    assert isinstance(await ask(site, copy, "writer"), Passed)
    assert await ask(site, lake("PUT", x_amz_copy_source="/lake/wh/gone/f"), "writer") is Reason.COPY_SOURCE_OUTSIDE


async def test_keys_of_several_learned_tables_are_deleted() -> None:
    """Each of them has an owner."""
    site = Site()
    site.live(facts(), facts("items"))
    passed = await ask(site, delete("wh/orders/a", "wh/items/b", "wh/gone/c", bucket="lake"), "writer")
    assert isinstance(passed, Passed)
    assert passed.forwardable.request.delete_keys == ("wh/orders/a", "wh/items/b")
    assert [refused.key for refused in passed.refused] == ["wh/gone/c"]


async def test_buckets_below_the_roots_are_shown_to_readers() -> None:
    """Which table lies in which bucket only shows once it is seen."""
    site = Site(policy(more="- {role: lender, namespace: other, privileges: [TABLE_READ_DATA]}"))
    assert await listed(site) == ("cold", "lake")
    assert await listed(site, "lender") == ("cold", "lake")
    narrow = Site(policy().replace('"s3://cold/data"', '"s3://lake/more"'))
    assert await listed(narrow) == ("lake",)


async def test_where_the_upstream_alone_authorizes_its_word_is_needed() -> None:
    """A caller that the policy does not know reads what the upstream allows, and nothing of a volume."""
    site = Site(policy("authorizer: catalog"))
    site.live(facts())
    passed = await ask(site, lake(), "stranger")
    assert isinstance(passed, Passed)
    assert passed.allow.authority.rule_id == "upstream@table:lake.sales.orders"
    site.upstream.hidden.add(("nobody-token", "orders"))
    assert await ask(site, lake(), "nobody") is Reason.TABLE_UNKNOWN
    assert await ask(site, lake("PUT"), "stranger") is Reason.NO_WRITE_DATA
    assert await listed(site, "stranger") == ()


async def test_a_key_for_a_learned_table_is_good_for_that_table() -> None:
    """Another one that takes the name is not what the key was issued for."""
    site = Site()
    site.live(facts(), facts("items"))

    def holder(uuid: str) -> Principal:
        return msgspec.structs.replace(principal("reader"), key_scope=KeyScope("lake", "sales", "orders", uuid))

    assert isinstance(await ask(site, lake(), caller=holder("uuid-orders")), Passed)
    assert await ask(site, lake(), caller=holder("uuid-before")) is Reason.NOT_IN_SCOPE
    assert await ask(site, lake(key="wh/items/f"), caller=holder("")) is Reason.NOT_IN_SCOPE
