"""The gate where an upstream tells of the tables: one order, the policy of the moment, and what can be explained."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from signproxy.errors import Check, Reason
from signproxy.gate.explain import Explanation, explain
from signproxy.gate.gate import Gate
from signproxy.gate.request import AskedFor, CatalogAddress
from signproxy.inventory.learned.asked import Found
from signproxy.model import BY_LOCATION, Allow, Deny, NamedTable, Subject, Target
from signproxy.policy.resolver import PolicyResolver, TableResolver
from signproxy.s3.request import WireRequest
from tests.gate.cases import Slow
from tests.inventory.learned_rig import Site, facts, policy, principal

KEY = "wh/orders/data/f"
ORDERS = NamedTable("sales", "orders")
DECLARED = 'tables: [{namespace: sales, name: orders, location: "s3://lake/wh/orders"}]'


def _wire(method: str = "GET", key: str = KEY) -> WireRequest:
    return WireRequest(
        method=method, uri=f"https://lake.s3.us-east-1.amazonaws.com/{key}", headers={}, region="us-east-1"
    )


async def _waiting(site: Site) -> asyncio.Task[Reason]:
    site.upstream.held = asyncio.Event()
    asked = asyncio.create_task(site.reason(KEY))
    await site.settle()
    assert not asked.done()
    return asked


def _answer(site: Site) -> None:
    assert site.upstream.held is not None
    site.upstream.held.set()


@pytest.mark.parametrize(
    ("before", "after", "told"),
    (
        ("[TABLE_REMOTE_SIGN, TABLE_READ_DATA]}", "[TABLE_REMOTE_SIGN]}", Reason.NO_READ_DATA),
        ("remote_signing: true, tables", "remote_signing: false, tables", Reason.REMOTE_SIGNING_OFF),
        ("corp/reader: {roles: [readers]}", "corp/other: {}", Reason.PRINCIPAL_UNKNOWN),
        ('roots: ["s3://lake/wh", ', 'roots: ["s3://lake/x", ', Reason.LOCATION_OUTSIDE_ROOTS),
        ("buckets: [lake, cold]", "buckets: [pond, cold]", Reason.ENDPOINT_UNKNOWN),
    ),
)
async def test_a_reload_bites_callers_that_wait_for_an_upstream(before: str, after: str, told: Reason) -> None:
    """A slow upstream would be a way to be judged by yesterday's policy."""
    site = Site()
    site.upstream.put(facts())
    asked = await _waiting(site)
    text = policy().replace(before, after)
    site.reload(text.replace("s3://lake", "s3://pond") if "pond" in after else text)
    _answer(site)
    assert await asked is told


async def test_a_sign_request_that_waited_for_an_upstream_names_the_policy_that_judged_it() -> None:
    """It came under one policy and is signed by another; the event must name the one that allowed it."""
    site = Site()
    site.upstream.put(facts())
    asked = await _waiting(site)
    arrived = site.judgement.decided_ns
    assert site.judgement.policy_epoch == 1
    site.reload(policy(more="# the same again"))
    _answer(site)
    assert await asked is Reason.ALLOWED
    assert (site.judgement.policy_rev, site.judgement.policy_epoch) == (site.state.rev, 2)
    assert site.judgement.decided_ns > arrived


async def test_a_table_that_is_declared_while_it_is_asked_for_is_the_declared_one() -> None:
    """Whichever of them comes first, the request has one answer."""
    site = Site()
    site.upstream.put(facts(location="s3://lake/wh/elsewhere"))
    asked = await _waiting(site)
    site.reload(policy(more=DECLARED))
    _answer(site)
    assert await asked is Reason.ALLOWED
    assert site.judgement.table_uuid == ""


@pytest.mark.parametrize("resolver", (PolicyResolver(), Slow()))
async def test_a_catalog_that_stops_learning_while_it_is_asked_is_judged_as_one_that_declares(
    resolver: TableResolver,
) -> None:
    """A reload may change anything."""
    site = Site()
    site.rooms.judge_by(resolver=resolver)
    site.upstream.put(facts())
    asked = await _waiting(site)
    text = policy(more=DECLARED).replace(", tables: upstream", "")
    site.reload(
        text.replace(
            "- {role: lender, namespace: sales, table: lent", "- {role: lender, namespace: sales, table: orders"
        )
    )
    _answer(site)
    assert await asked is Reason.ALLOWED


class _Endless:
    """Learned tables whose every answer leads to another question."""

    def __init__(self) -> None:
        self.asked = 0

    def resolve(self, *_: object) -> Awaitable[None]:
        self.asked += 1
        return asyncio.sleep(0)


async def test_questions_come_to_an_end() -> None:
    """An upstream that says another thing each time must not hold a request for ever."""
    site = Site()
    endless = _Endless()
    site.rooms.judge_by(learned_resolver=endless)  # type: ignore[arg-type]  # as much as is called
    explained = await _asked_of(site)
    assert (explained.reason, explained.detail) == (
        Reason.UPSTREAM_UNAVAILABLE,
        "every answer leads to another question",
    )
    # As often as a copy needs that is in the way of another table on both its sides, and once more.
    assert endless.asked == 9


class _Knows:
    """Learned tables that know the answer."""

    def __init__(self, answer: Found | Deny) -> None:
        self._answer = answer

    def resolve(self, *_: object) -> Found | Deny:
        return self._answer


async def test_a_refusal_before_the_question_is_recorded_like_any_other() -> None:
    """The audit trail names the table, although it is not known yet whether there is one."""
    site = Site()
    deny = Deny(Reason.NO_READ_DATA, "detail")
    site.rooms.judge_by(learned_resolver=_Knows(deny))  # type: ignore[arg-type]  # as much as is called
    assert await site.reason(KEY) is Reason.NO_READ_DATA
    assert site.judgement.deny is deny
    site.rooms.judge_by(learned_resolver=_Knows(Found(())))  # type: ignore[arg-type]  # as much as is called
    assert await site.reason(KEY) is Reason.TABLE_UNKNOWN


async def _explained(site: Site, who: str = "reader", target: Target = ORDERS, method: str = "GET") -> Explanation:
    # As `signproxy explain` has it: the policy, and no upstream to ask.
    gate = Gate(lambda: site.state, PolicyResolver(), frozenset())
    return await explain(gate, Subject.of(principal(who)), AskedFor(CatalogAddress("lake"), target, _wire(method)))


async def _asked_of(site: Site, key: str = KEY) -> Explanation:
    """Explain as a running server does, which may ask."""
    asked = AskedFor(CatalogAddress("lake"), ORDERS, _wire(key=key), bearer="reader-token")
    return await explain(site.gate, Subject.of(principal("reader")), asked)


async def test_what_the_policy_refuses_is_explained_without_the_upstream() -> None:
    """Grants are what operators ask about most, and they are in the policy."""
    site = Site()
    explained = await _explained(site, "lender")
    assert (explained.decision, explained.reason) == ("deny", Reason.NO_REMOTE_SIGN)
    assert explained.fix == (
        "grant TABLE_REMOTE_SIGN, TABLE_READ_DATA (nearest: reader@catalog:lake): "
        'grants: [{role: "lender", catalog: "lake", namespace: ["sales"], table: "orders", '
        "privileges: [TABLE_REMOTE_SIGN, TABLE_READ_DATA]}]"
    )
    written = await _explained(site, "reader", method="PUT")
    assert written.reason is Reason.NO_WRITE_DATA
    assert "grant TABLE_WRITE_DATA (nearest: writer@catalog:lake)" in written.fix


async def test_what_the_upstream_knows_is_said_to_be_the_upstreams() -> None:
    """`no such table` would be a lie."""
    explained = await _explained(Site())
    assert (explained.decision, explained.reason) == ("deny", Reason.UPSTREAM_UNAVAILABLE)
    assert explained.detail == "the upstream tells where 'lake.sales.orders' lies, and is not asked here"
    outcomes = {check: outcome for check, outcome, _ in explained.checks}
    assert outcomes[Check.CATALOG] == outcomes[Check.OPERATION] == "passed"
    assert (outcomes[Check.TABLE], outcomes[Check.PRIVILEGE]) == ("failed", "skipped")
    by_location = await _explained(Site(), target=BY_LOCATION)
    assert by_location.reason is Reason.LOCATION_UNOWNED
    assert "of the tables that are known" in by_location.detail


async def test_a_declared_table_beside_is_explained_as_ever() -> None:
    """Nothing of it is left to the upstream."""
    site = Site(policy(more=DECLARED))
    explained = await _explained(site)
    assert (explained.decision, explained.rule_id) == ("allow", "reader@catalog:lake")
    assert (await _explained(site, target=BY_LOCATION)).decision == "allow"


async def test_a_running_server_explains_what_it_learned() -> None:
    """There the tables are known, with their locations."""
    site = Site()
    site.live(facts())
    passed = await _asked_of(site)
    assert (passed.decision, passed.rule_id) == ("allow", "reader@catalog:lake")
    outside = await _asked_of(site, "wh/other/f")
    assert outside.reason is Reason.OUTSIDE_TABLE
    assert "'s3://lake/wh/orders'" in outside.detail
    assert outside.fix == Reason.OUTSIDE_TABLE.value.remedy
    metadata = await _asked_of(site, "wh/orders/metadata/v1.metadata.json")
    assert "grant TABLE_FULL_METADATA" in metadata.fix
    copied = await site.sign(KEY, "orders", "writer", method="PUT", source="/lake/wh/other/f")
    assert not isinstance(copied, Allow)
