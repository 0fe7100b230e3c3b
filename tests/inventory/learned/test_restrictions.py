"""Prove that no caller gets whole files of a table of which a part is kept from it, however it was learned."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from signproxy.errors import Reason, Refused
from signproxy.gate.explain import explain
from signproxy.gate.forwarded import Passed
from signproxy.gate.request import AskedFor, CatalogAddress
from signproxy.inventory.learned.enquiries import Allowance
from signproxy.inventory.learned.learned_table import Freshness
from signproxy.inventory.learned.sighting import Answered, Changed, Live, Renamed
from signproxy.inventory.learned.vouchers import EVERY_CALLER, AsksAs
from signproxy.model import Allow, KeyScope, NamedTable, Principal, Subject, TableScope
from signproxy.s3.forward_wire import ForwardWire
from signproxy.s3.request import WireRequest
from tests.coroutines import finished
from tests.gate.cases import judged
from tests.gate.forward_cases import delete, wire
from tests.inventory.learned_rig import Site, facts, policy, principal

KEY = "wh/orders/data/f"
LIST = "?list-type=2&prefix=wh/orders/data/"
AUTHORIZERS = ("policy", "catalog", "both")
LIFE = Freshness().restrictions
DOWN = Refused(Reason.UPSTREAM_UNAVAILABLE, "down")

OPERATIONS = (
    ("GET", KEY, ""),
    ("HEAD", KEY, ""),
    ("GET", "", LIST),
    ("PUT", KEY, ""),
    ("DELETE", KEY, ""),
    ("POST", KEY, "?uploads"),
    ("GET", KEY, "?uploadId=u"),
)


def restricting(*names: str, who: str = "reader", text: str = "") -> Site:
    """Return a site whose upstream keeps a part of these tables from a principal."""
    site = Site(text or policy())
    site.upstream.put(*(facts(name) for name in names))
    site.upstream.restricted.update((f"{who}-token", name) for name in names)
    return site


@pytest.mark.parametrize("authorizer", AUTHORIZERS)
@pytest.mark.parametrize(("method", "key", "query"), OPERATIONS)
@pytest.mark.parametrize("route", ("orders", None))
async def test_nothing_of_a_restricted_table_is_signed(
    route: str | None, method: str, key: str, query: str, authorizer: str
) -> None:
    """A row filter or a column mask would be got round by a caller that asks for the file."""
    options = f"authorizer: {authorizer}" + ("" if route else ", binding: by-location")
    site = restricting("orders", who="owner", text=policy(options))
    site.take(Live("lake", facts()))
    assert await site.reason(key, route, "owner", method=method, query=query) is Reason.READ_RESTRICTED
    assert site.judgement.deny is not None
    assert str(site.judgement.deny.table) == "lake.sales.orders"
    # It is the caller who is restricted, and the table is there for others.
    site.upstream.restricted.clear()
    site.clock.forward(LIFE)
    assert await site.reason(key, route, "owner", method=method, query=query) is Reason.ALLOWED


@pytest.mark.parametrize("authorizer", AUTHORIZERS)
async def test_what_another_caller_may_read_says_nothing_of_this_one(authorizer: str) -> None:
    """The table is known by another's load: signed by that, the restricted one would read all of it."""
    site = restricting("orders", text=policy(f"authorizer: {authorizer}"))
    assert await site.reason(KEY, who="owner") is Reason.ALLOWED
    assert await site.reason(KEY, who="owner") is Reason.ALLOWED
    assert await site.reason(KEY) is Reason.READ_RESTRICTED
    assert await site.reason(KEY, who="owner") is Reason.ALLOWED
    assert site.upstream.asked == [("orders", "owner-token"), ("orders", "reader-token")]


async def test_another_token_of_the_same_principal_is_asked_for_by_itself() -> None:
    """Tokens bring roles: one that brings few must not be judged by one that brings many, nor the other way round."""
    site = restricting("orders")
    assert await site.reason(KEY, bearer="reader-token-of-all-roles") is Reason.ALLOWED
    assert await site.reason(KEY) is Reason.READ_RESTRICTED
    assert await site.reason(KEY, bearer="reader-token-of-all-roles") is Reason.ALLOWED


@pytest.mark.parametrize("authorizer", AUTHORIZERS)
async def test_where_no_upstream_can_be_asked_nothing_is_signed(authorizer: str) -> None:
    """A table that others loaded would be open to every caller for as long as the upstream is down."""
    for fault in (Reason.UPSTREAM_UNAVAILABLE, Reason.UPSTREAM_UNAUTHORIZED, Reason.UPSTREAM_BUSY):
        site = Site(policy(f"authorizer: {authorizer}"))
        site.take(Live("lake", facts()))
        site.upstream.fault = Refused(fault, "why")
        assert await site.reason(KEY) is fault
    hidden = Site(policy(f"authorizer: {authorizer}"))
    hidden.take(Live("lake", facts()))
    assert await hidden.reason(KEY) is Reason.TABLE_UNKNOWN


async def test_a_caller_that_is_denied_a_table_does_not_put_it_in_doubt_for_others() -> None:
    """One caller without rights in the upstream would have every other one's requests ask it."""
    site = Site()
    site.live(facts())
    site.upstream.hidden.add(("reader-token-2", "orders"))
    assert await site.reason(KEY, bearer="reader-token-2") is Reason.TABLE_UNKNOWN
    asked = len(site.upstream.asked)
    assert await site.reason(KEY, who="writer") is Reason.ALLOWED
    assert len(site.upstream.asked) == asked


async def test_a_load_without_restrictions_lifts_them() -> None:
    """A caller that was given the right to read all of it would wait for as long as the refusal is remembered."""
    site = restricting("orders")
    assert await site.reason(KEY) is Reason.READ_RESTRICTED
    site.upstream.restricted.clear()
    assert await site.reason(KEY) is Reason.READ_RESTRICTED
    site.clock.forward(1.0)
    site.answered(facts())
    assert await site.reason(KEY) is Reason.ALLOWED


async def test_a_load_with_restrictions_bites_at_once() -> None:
    """The caller's own load has just said so."""
    site = Site()
    site.live(facts())
    caller = principal("reader")
    for _ in range(2):
        assert await site.reason(KEY, caller=caller) is Reason.ALLOWED
    site.answered(facts(), restricted=True)
    assert await site.reason(KEY, caller=caller) is Reason.READ_RESTRICTED


async def test_a_restriction_that_is_not_heard_of_bites_within_bounds() -> None:
    """An upstream tells no client when it begins to restrict: it is asked again beside requests, and then before."""
    site = Site()
    site.live(facts())
    site.upstream.restricted.add(("reader-token", "orders"))
    caller = principal("reader")
    site.clock.forward(LIFE / 2 - 0.1)
    # The table itself is asked for by a caller who may read all of it.
    assert await site.reason(KEY, who="writer") is Reason.ALLOWED
    await site.settle()
    assert await site.reason(KEY, caller=caller) is Reason.ALLOWED
    site.clock.forward(0.2)
    assert await site.reason(KEY, caller=caller) is Reason.ALLOWED
    await site.settle()
    assert await site.reason(KEY, caller=caller) is Reason.READ_RESTRICTED
    # One that comes back later is not served by what was said before.
    idle = Site()
    idle.live(facts())
    idle.upstream.restricted.add(("reader-token", "orders"))
    idle.clock.forward(LIFE)
    assert await idle.reason(KEY) is Reason.READ_RESTRICTED


async def test_an_upstream_that_never_restricts_is_not_asked_for_each_request() -> None:
    """Each file of each job would load its table."""
    site = Site()
    site.upstream.put(facts())
    for _ in range(3):
        for who in ("reader", "writer", "owner"):
            caller = principal(who)
            for _ in range(5):
                assert await site.reason(KEY, caller=caller) is Reason.ALLOWED
    assert len(site.upstream.asked) == 3


async def test_a_restricted_caller_does_not_load_the_upstream() -> None:
    """Its client tries again and again."""
    site = restricting("orders")
    for _ in range(5):
        assert await site.reason(KEY) is Reason.READ_RESTRICTED
    assert len(site.upstream.asked) == 1


async def test_the_last_word_stands_while_the_upstream_is_down_but_not_for_ever() -> None:
    """An hour without the catalog must not stop running jobs; a restriction must not be kept off by its absence."""
    freshness = Freshness()
    site = Site()
    site.live(facts())
    site.answered(facts(), "writer", restricted=True)
    site.upstream.fault = DOWN
    end = site.clock.now + freshness.unreachable
    while site.clock.forward(freshness.restrictions) < end:
        assert await site.reason(KEY) is Reason.ALLOWED
        assert await site.reason(KEY, who="writer") is Reason.READ_RESTRICTED
    assert await site.reason(KEY) is Reason.UPSTREAM_UNAVAILABLE
    site.upstream.fault = None
    assert await site.reason(KEY) is Reason.ALLOWED


@pytest.mark.parametrize("fault", (Reason.UPSTREAM_UNAUTHORIZED, Reason.UPSTREAM_BUSY))
async def test_a_caller_cannot_keep_an_old_answer_by_failing_to_ask(fault: Reason) -> None:
    """A token that the upstream no longer takes, or too many questions, would hold a restriction off."""
    site = Site()
    site.live(facts())
    site.upstream.restricted.add(("reader-token", "orders"))
    site.upstream.fault = Refused(fault, "why")
    site.clock.forward(LIFE - 1.0)
    assert await site.reason(KEY) is Reason.ALLOWED
    await site.settle()
    site.clock.forward(1.0)
    assert await site.reason(KEY) is fault


async def test_it_ends_with_the_token() -> None:
    """What was said to a token says nothing once that has ended."""
    site = Site()
    caller = principal("reader", expires_at=site.clock.now + 30.0)
    site.take(Live("lake", facts()))
    site.answered(facts(), caller)
    assert await site.reason(KEY, caller=caller) is Reason.ALLOWED
    site.upstream.fault = DOWN
    site.clock.forward(29.0)
    assert await site.reason(KEY, caller=caller) is Reason.ALLOWED
    site.clock.forward(1.0)
    assert await site.reason(KEY, caller=caller) is Reason.UPSTREAM_UNAVAILABLE


# -- however the table was learned


async def test_a_table_that_took_the_name_is_asked_for() -> None:
    """What may be read of a dropped table says nothing of its successor."""
    site = Site()
    site.live(facts())
    site.upstream.put(facts(uuid="two", location="s3://lake/wh/orders-2"))
    site.upstream.restricted.add(("reader-token", "orders"))
    site.take(Live("lake", facts(uuid="two", location="s3://lake/wh/orders-2")))
    assert await site.reason("wh/orders-2/f") is Reason.READ_RESTRICTED


async def test_a_renamed_table_is_asked_for() -> None:
    """Under another name the upstream may restrict it otherwise."""
    site = Site()
    site.live(facts("a"))
    site.upstream.put(facts("b", "s3://lake/wh/a", "uuid-a"))
    site.upstream.restricted.add(("reader-token", "b"))
    site.take(Renamed("lake", "sales", "a", "sales", "b"))
    assert await site.reason("wh/a/f", "b") is Reason.READ_RESTRICTED


async def test_a_table_that_the_policy_declares_is_asked_for_as_well() -> None:
    """Where the operator wrote its location down, the upstream's restrictions would be lost."""
    declared = 'tables: [{namespace: sales, name: orders, location: "s3://lake/wh/orders"}]'
    site = restricting("orders", text=policy(more=declared))
    assert await site.reason(KEY) is Reason.READ_RESTRICTED
    assert await site.reason(KEY, None) is Reason.READ_RESTRICTED
    assert await site.reason(KEY, who="owner") is Reason.ALLOWED


async def test_a_commit_that_tells_nothing_changes_nothing() -> None:
    """A writer's commit would lift what is kept from it."""
    site = restricting("orders")
    assert await site.reason(KEY) is Reason.READ_RESTRICTED
    site.take(Changed("lake", "sales", "orders"))
    assert await site.reason(KEY) is Reason.READ_RESTRICTED
    site.take(Live("lake", facts(metadata_location="s3://lake/wh/orders/metadata/2.metadata.json")))
    assert await site.reason(KEY) is Reason.READ_RESTRICTED


@pytest.mark.parametrize("carried", (False, True))
async def test_a_staged_table_that_is_restricted_is_not_signed(carried: bool) -> None:
    """A client could stage over what it may not read, and carry that to another replica."""
    site = Site()
    staged = site.stage(facts("new"), "owner")
    restricted = type(staged)(staged.catalog, staged.facts, staged.principal, staged.until, restricted=True)
    for each, told in ((restricted, Reason.READ_RESTRICTED), (staged, Reason.ALLOWED)):
        if carried:
            site = Site()
            assert await site.reason("wh/new/f", "new", "owner", method="PUT", carried=each) is told
        else:
            site.take(each)
            assert await site.reason("wh/new/f", "new", "owner", method="PUT") is told


async def test_a_staged_table_that_was_committed_is_asked_for() -> None:
    """Its own stage would outlive what the upstream says of the table."""
    site = Site()
    site.take(site.stage(facts("new"), "owner"))
    assert await site.reason("wh/new/f", "new", "owner", method="PUT") is Reason.ALLOWED
    site.upstream.put(facts("new"))
    site.upstream.restricted.add(("owner-token", "new"))
    site.take(Live("lake", facts("new")))
    assert await site.reason("wh/new/f", "new", "owner", method="PUT") is Reason.READ_RESTRICTED


# -- ways round it


async def test_nothing_is_copied_out_of_a_restricted_table() -> None:
    """The copy would be read in a table of one's own."""
    site = Site(policy("binding: by-location"))
    site.live(facts(), facts("items"))
    site.answered(facts("items"), "writer", restricted=True)
    copied = await site.reason(KEY, None, "writer", method="PUT", source="/lake/wh/items/data/f")
    assert copied is Reason.READ_RESTRICTED
    assert await site.reason(KEY, None, "owner", method="PUT", source="/lake/wh/items/data/f") is Reason.ALLOWED


async def test_a_table_in_whose_place_another_lies_is_not_a_way_in() -> None:
    """With overlapping locations every owner counts."""
    site = Site(policy("overlap: allowed"))
    site.live(facts(), facts("inner", "s3://lake/wh/orders/inner"))
    site.answered(facts("inner", "s3://lake/wh/orders/inner"), restricted=True)
    for route in ("orders", "inner", None):
        assert await site.reason("wh/orders/inner/f", route) is Reason.READ_RESTRICTED
    assert await site.reason(KEY) is Reason.ALLOWED


async def test_a_table_token_opens_no_more_than_its_owner_may_read() -> None:
    """It was made before the table was restricted."""
    site = Site()
    site.live(facts())
    held = principal("reader", scope=TableScope("lake", "sales", "orders", "uuid-orders"))
    assert await site.reason(KEY, caller=held) is Reason.ALLOWED
    site.answered(facts(), restricted=True)
    assert await site.reason(KEY, caller=held) is Reason.READ_RESTRICTED


async def test_a_caller_that_acts_for_another_is_restricted_itself() -> None:
    """Restrictions are those of the caller that shows the token."""
    site = Site()
    site.live(facts())
    site.answered(facts(), "stranger", restricted=True)
    sent = WireRequest(
        method="GET", uri=f"https://lake.s3.us-east-1.amazonaws.com/{KEY}", headers={}, region="us-east-1"
    )
    subject = Subject(principal("stranger"), principal("reader"))
    asked = AskedFor(CatalogAddress("lake"), NamedTable("sales", "orders"), sent, bearer="stranger-token")
    refused = finished(judged(site.gate, subject, asked)).refused
    assert refused is not None
    assert refused.reason is Reason.READ_RESTRICTED


async def _forwarded(site: Site, asked: ForwardWire, who: str = "reader", caller: Principal | None = None) -> object:
    subject = Subject.of(caller or principal(who))
    judgement = await judged(site.gate, subject, AskedFor(forward=asked, bearer=f"{subject.caller.subject}-token"))
    return judgement.passed if judgement.refused is None else judgement.refused.reason


async def test_nothing_of_a_restricted_table_is_forwarded() -> None:
    """The S3 listener finds the table by its place, for callers who never named it."""
    site = restricting("orders", who="owner")
    site.take(Live("lake", facts()))
    site.live(facts("mine"))
    for asked in (
        wire("GET", "lake", KEY),
        wire("HEAD", "lake", KEY),
        wire("PUT", "lake", KEY),
        wire("DELETE", "lake", KEY),
        wire("GET", "lake", "", "list-type=2&prefix=wh/orders/"),
        wire("GET", "lake", "", "prefix=wh/orders/data/"),
        delete("wh/orders/a", bucket="lake"),
        wire("PUT", "lake", "wh/mine/data/f", None, None, x_amz_copy_source=f"/lake/{KEY}"),
    ):
        assert await _forwarded(site, asked, "owner") is Reason.READ_RESTRICTED, asked
    both = await _forwarded(site, delete("wh/mine/a", "wh/orders/a", bucket="lake"), "owner")
    assert isinstance(both, Passed)
    assert both.forwardable.request.delete_keys == ("wh/mine/a",)
    assert [(kept.key, kept.reason) for kept in both.refused] == [("wh/orders/a", Reason.READ_RESTRICTED)]
    assert isinstance(await _forwarded(site, wire("GET", "lake", KEY), "writer"), Passed)


@pytest.mark.parametrize("scope", (None, KeyScope("lake"), KeyScope("lake", "sales", "orders")))
async def test_a_key_that_was_issued_before_opens_nothing_after(scope: KeyScope | None) -> None:
    """A key lives for an hour and holds the token that it was issued for: what is said to that counts for the key."""
    site = Site()
    site.live(facts())
    holder = replace(principal("reader"), key_scope=scope)
    assert isinstance(await _forwarded(site, wire("GET", "lake", KEY), caller=holder), Passed)
    site.answered(facts(), restricted=True)
    assert await _forwarded(site, wire("GET", "lake", KEY), caller=holder) is Reason.READ_RESTRICTED


async def test_observing_lets_nothing_restricted_through() -> None:
    """A principal that is only watched would read what the catalog keeps from it."""
    watched = policy().replace("corp/reader: {", "corp/reader: {mode: observe, ")
    site = restricting("orders", text=watched)
    site.take(Live("lake", facts()))
    assert await _forwarded(site, wire("GET", "lake", KEY)) is Reason.READ_RESTRICTED


# -- whom the upstream answers


async def test_where_signproxy_asks_as_itself_all_callers_are_restricted_alike() -> None:
    """The upstream does not learn who asks; what it keeps from signproxy it keeps from all of its callers."""
    site = Site()
    site.upstream.as_ = AsksAs.SERVICE
    site.upstream.put(facts())
    for who in ("reader", "writer", "owner"):
        assert await site.reason(KEY, who=who) is Reason.ALLOWED
    assert site.upstream.asked == [("orders", "reader-token")]
    site.clock.forward(1.0)
    site.tables.answered(_to_every_caller(), site.clock.now, site.clock.now)
    for who in ("reader", "writer", "owner"):
        assert await site.reason(KEY, who=who) is Reason.READ_RESTRICTED
    assert len(site.upstream.asked) == 1


def _to_every_caller() -> Answered:
    return Answered("lake", "sales", "orders", "uuid-orders", *EVERY_CALLER, restricted=True)


@pytest.mark.parametrize("authorizer", ("catalog", "both"))
async def test_where_the_upstream_authorizes_its_answer_stays_the_callers(authorizer: str) -> None:
    """A caller that loads a table by signproxy's own rights has shown nothing of its own."""
    site = Site(policy(f"authorizer: {authorizer}"))
    site.upstream.as_ = AsksAs.SERVICE
    site.upstream.put(facts())
    for who in ("reader", "owner"):
        assert await site.reason(KEY, who=who) is Reason.ALLOWED
    assert len(site.upstream.asked) == 2


async def test_it_is_explained() -> None:
    """An operator would look for the missing grant."""
    site = restricting("orders")
    sent = WireRequest(
        method="GET", uri=f"https://lake.s3.us-east-1.amazonaws.com/{KEY}", headers={}, region="us-east-1"
    )
    asked = AskedFor(CatalogAddress("lake"), NamedTable("sales", "orders"), sent, bearer="reader-token")
    told = await explain(site.gate, Subject.of(principal("reader")), asked)
    assert (told.decision, told.reason) == ("deny", Reason.READ_RESTRICTED)
    assert told.detail == "the upstream restricts what the caller may read of lake.sales.orders (read-restrictions)"
    assert told.fix == Reason.READ_RESTRICTED.value.remedy
    assert [(check.name, outcome) for check, outcome, _ in told.checks if outcome == "failed"] == [
        ("PRIVILEGE", "failed")
    ]


async def test_what_was_answered_before_is_asked_again_without_counting() -> None:
    """A job that uses more tables than may be asked for in a moment would end ten minutes after its start."""
    site = Site(allowance=Allowance(per_second=0.0, burst=1.0))
    site.upstream.put(facts())
    assert await site.reason(KEY) is Reason.ALLOWED
    for _ in range(3):
        site.clock.forward(LIFE)
        assert await site.reason(KEY) is Reason.ALLOWED
    assert len(site.upstream.asked) == 4


async def test_the_same_caller_value_is_found_at_once() -> None:
    """A look at the token's digest for each request would cost more than the decision."""
    site = Site()
    site.live(facts())
    caller = principal("reader")
    assert await site.reason(KEY, caller=caller) is Reason.ALLOWED
    # Whatever bearer comes with the very same value: a table token is opened for those alone that need it.
    assert await site.reason(KEY, caller=caller, bearer="") is Reason.ALLOWED
    assert isinstance(await site.sign(KEY, caller=caller), Allow)
    assert site.upstream.asked == []


@pytest.mark.parametrize("authorizer", ("policy", "catalog", "both"))
async def test_who_may_not_load_a_table_by_its_new_name_reads_it_no_more(authorizer: str) -> None:
    """A table that is renamed into a closed namespace would stay open to all that read it a moment before."""
    site, caller = Site(policy(f"authorizer: {authorizer}")), principal("reader")
    site.live(facts())
    for _ in range(3):
        assert await site.reason(KEY, None, caller=caller) is Reason.ALLOWED
    site.upstream.put(facts("closed", "s3://lake/wh/orders", "uuid-orders"))
    site.upstream.hidden.add(("reader-token", "closed"))
    site.take(Renamed("lake", "sales", "orders", "sales", "closed"))
    for _ in range(3):
        assert await site.reason(KEY, None, caller=caller) is Reason.TABLE_UNKNOWN


@pytest.mark.parametrize("asks_as", (AsksAs.SERVICE, AsksAs.CALLER))
async def test_a_policy_that_has_the_upstream_decide_counts_no_older_word(asks_as: AsksAs) -> None:
    """What signproxy itself may load, or what a caller could ten minutes ago, would be each caller's right."""
    site, caller = Site(policy("authorizer: policy")), principal("reader")
    site.upstream.as_ = asks_as
    site.upstream.put(facts())
    site.take(Live("lake", facts()))
    for _ in range(3):
        assert await site.reason(KEY, None, caller=caller) is Reason.ALLOWED
    site.upstream.hidden.add(("reader-token", "orders"))
    site.reload(policy("authorizer: catalog"))
    if asks_as is AsksAs.CALLER:
        # A caller's own word is kept for as long as any that it is given under this policy.
        assert await site.reason(KEY, None, caller=caller) is Reason.ALLOWED
        site.clock.forward(site.freshness.answer)
    for _ in range(3):
        assert await site.reason(KEY, None, caller=caller) is Reason.TABLE_UNKNOWN
