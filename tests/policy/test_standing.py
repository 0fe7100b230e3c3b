"""Prove what another party's word adds to a decision, and what it does not."""

from __future__ import annotations

import pytest

from signproxy.errors import Reason
from signproxy.model import Allow, Ceiling, Deny, Principal, Subject
from signproxy.policy.catalog import Overlap, TableBinding
from signproxy.policy.decide import decide
from signproxy.policy.privileges import mask_of
from signproxy.policy.rights import SIGN_S3_READ_REQUEST, Standing
from signproxy.policy.table import Table
from signproxy.s3.operation import Operation
from signproxy.s3.request import S3Request
from tests.policy.world import ALICE, BOB, READ, SIGN, WRITE, World, grants, request

KEY = "wh/orders/data/f"
WORD = Standing("upstream@table:lake.sales.orders", SIGN_S3_READ_REQUEST)
MARK = Standing("upstream@table:lake.sales.orders")

GET = request(key=KEY)
PUT = request(Operation.PUT_OBJECT, KEY)
DELETE = request(Operation.DELETE_OBJECT, KEY)


def _decide(
    world: World, asked: S3Request, *owners: Table, standing: Standing | None, who: Principal = ALICE, **how: object
) -> Allow | Deny:
    subject = Subject(who, how.get("effective", who), (), how.get("ceiling", Ceiling.NONE))  # type: ignore[arg-type]  # by name
    return decide(world.state, world.catalog, subject, owners, asked, standing)


def _told(*args: object, **kwargs: object) -> tuple[Reason, str]:
    decision = _decide(*args, **kwargs)  # type: ignore[arg-type]  # as given
    if isinstance(decision, Deny):
        return decision.reason, ""
    return Reason.ALLOWED, decision.authority.rule_id


@pytest.mark.parametrize(
    ("given", "standing", "asked", "told"),
    (
        ((), None, GET, (Reason.NO_REMOTE_SIGN, "")),
        ((), WORD, GET, (Reason.ALLOWED, "upstream@table:lake.sales.orders")),
        ((), MARK, GET, (Reason.NO_REMOTE_SIGN, "")),
        ((), WORD, PUT, (Reason.NO_WRITE_DATA, "")),
        ((), WORD, DELETE, (Reason.NO_WRITE_DATA, "")),
        ((WRITE,), WORD, PUT, (Reason.ALLOWED, "upstream@table:lake.sales.orders+analyst@table:lake.sales.orders")),
        ((WRITE,), WORD, GET, (Reason.ALLOWED, "upstream@table:lake.sales.orders")),
        ((WRITE,), MARK, GET, (Reason.NO_REMOTE_SIGN, "")),
        ((SIGN, READ), MARK, GET, (Reason.ALLOWED, "upstream@table:lake.sales.orders+analyst@table:lake.sales.orders")),
        ((SIGN, READ), Standing(sources=()), GET, (Reason.ALLOWED, "analyst@table:lake.sales.orders")),
    ),
)
def test_a_word_stands_for_what_it_says_and_the_policy_for_the_rest(
    given: tuple[str, ...], standing: Standing | None, asked: S3Request, told: tuple[Reason, str]
) -> None:
    """The upstream would let its readers write, or the audit trail name a grant that does not exist."""
    world = World()
    table = world.table(given=grants(*given))
    assert _told(world, asked, table, standing=standing) == told


def test_a_word_is_enough_for_a_caller_that_the_policy_does_not_know() -> None:
    """Where the upstream authorizes, its users are nowhere else."""
    world = World()
    table = world.table()
    assert _told(world, GET, table, standing=WORD, who=BOB) == (Reason.ALLOWED, WORD.voucher)
    assert _told(world, PUT, table, standing=WORD, who=BOB) == (Reason.NO_WRITE_DATA, "")
    # A caller that the policy does not know has no rights at all.
    half = Standing("half", mask_of([READ]))
    assert _told(world, GET, table, standing=half, who=BOB) == (Reason.NO_REMOTE_SIGN, "")
    for nothing in (MARK, None, Standing(sources=())):
        assert _told(world, GET, table, standing=nothing, who=BOB) == (Reason.PRINCIPAL_UNKNOWN, "")


@pytest.mark.parametrize(
    ("asked", "reason"),
    (
        (request(key="wh/other/f"), Reason.OUTSIDE_TABLE),
        (request(key="wh/orders/metadata/v1.metadata.json"), Reason.METADATA_PROTECTED),
        (request(Operation.LIST_OBJECTS_V2, prefix="wh/"), Reason.OUTSIDE_TABLE),
    ),
)
def test_a_word_moves_no_wall(asked: S3Request, reason: Reason) -> None:
    """Locations and metadata are guarded against every caller."""
    world = World()
    table = world.table(given={})
    assert _told(world, asked, table, standing=WORD) == (reason, "")


def test_a_word_lifts_no_ceiling() -> None:
    """A caller that was clamped to reading only reads, whichever party vouches for it."""
    world = World()
    table = world.table(given=grants(WRITE))
    word = Standing("dropped@table:lake.sales.orders", mask_of([SIGN, WRITE]))
    assert _told(world, DELETE, table, standing=word) == (Reason.ALLOWED, word.voucher)
    clamped = _told(world, DELETE, table, standing=word, ceiling=Ceiling.READ_ONLY)
    assert clamped == (Reason.CEILING, "")
    assert _told(world, GET, table, standing=word, ceiling=Ceiling.READ_ONLY)[0] is Reason.ALLOWED


COPY = request(Operation.COPY_OBJECT, KEY, source="wh/other/f")


@pytest.mark.parametrize("word", (0, SIGN_S3_READ_REQUEST))
@pytest.mark.parametrize("readable", (True, False))
def test_the_owners_of_a_copys_source_may_be_told(word: int, readable: bool) -> None:
    """Learned tables are in no index of the catalog; a copy would read from a table that was not judged."""
    world = World(binding=TableBinding.BY_LOCATION)
    table = world.table(given=grants(SIGN, WRITE))
    stranger = World()
    other = stranger.table("other", "wh/other/", grants(SIGN, READ) if readable else {})
    for sources, expected in (((), False), ((other,), readable or bool(word)), (None, False)):
        reason, rule = _told(world, COPY, table, standing=Standing("v", word, sources))
        assert (reason is Reason.ALLOWED) is expected
        assert reason in (Reason.ALLOWED, Reason.COPY_SOURCE_OUTSIDE)
        if expected and not word:
            assert rule == "v+analyst@table:lake.sales.orders+analyst@table:lake.sales.other"
        if expected and word:
            assert rule == "v+analyst@table:lake.sales.orders"


def test_a_copy_inside_the_table_needs_no_word_on_its_source() -> None:
    """`binding: strict` copies inside the one table that was named."""
    world = World(overlap=Overlap.FORBIDDEN)
    table = world.table(given=grants(SIGN, WRITE))
    inside = request(Operation.COPY_OBJECT, KEY, source="wh/orders/g")
    for sources in ((), None):
        assert _told(world, inside, table, standing=Standing("v", 0, sources))[0] is Reason.ALLOWED
    assert _told(world, COPY, table, standing=Standing("v", 0, (table,)))[0] is Reason.COPY_SOURCE_OUTSIDE


# -- what the upstream keeps from a caller

LIST = request(Operation.LIST_OBJECTS_V2, prefix="wh/orders/data/")
DELETES = request(Operation.DELETE_OBJECTS, delete_keys=(KEY,))


@pytest.mark.parametrize("asked", (GET, PUT, DELETE, LIST, DELETES), ids=lambda asked: asked.operation.s3_name)
@pytest.mark.parametrize("word", (0, SIGN_S3_READ_REQUEST))
def test_a_restricted_table_is_closed_to_every_operation(asked: S3Request, word: int) -> None:
    """Files hold all rows and columns: a caller that may see some of them would see all."""
    world = World()
    orders = world.table(given=grants(SIGN, READ, WRITE))
    standing = Standing("upstream@table:lake.sales.orders", word, restricted=(orders.id,))
    decision = _decide(world, asked, orders, standing=standing)
    assert isinstance(decision, Deny)
    assert (decision.reason, decision.table) == (Reason.READ_RESTRICTED, orders.id)
    assert decision.detail == f"the upstream restricts what the caller may read of {orders.id} (read-restrictions)"
    free = Standing("upstream@table:lake.sales.orders", word)
    assert isinstance(_decide(world, asked, orders, standing=free), Allow)


def test_a_caller_that_may_not_touch_a_table_is_not_told_of_its_restrictions() -> None:
    """What is kept from others is none of a stranger's business."""
    world = World()
    orders = world.table(given=grants(SIGN))
    told = _told(world, GET, orders, standing=Standing(restricted=(orders.id,)))
    assert told == (Reason.NO_READ_DATA, "")


def test_a_restriction_comes_before_where_a_table_lies() -> None:
    """A caller would find out by refusals where a table is that it may not read."""
    world = World()
    orders = world.table(given=grants(SIGN, READ))
    elsewhere = request(key="wh/elsewhere/f")
    assert _told(world, elsewhere, orders, standing=Standing(restricted=(orders.id,)))[0] is Reason.READ_RESTRICTED
    assert _told(world, elsewhere, orders, standing=None)[0] is Reason.OUTSIDE_TABLE


def test_one_restricted_owner_of_a_shared_place_is_enough() -> None:
    """Where locations overlap, the files of the one lie among those of the other."""
    world = World(overlap=Overlap.ALLOWED)
    orders = world.table(given=grants(SIGN, READ))
    data = world.table("data", "wh/orders/data/", grants(SIGN, READ))
    for restricted in (orders, data):
        told = _decide(world, GET, orders, data, standing=Standing(restricted=(restricted.id,)))
        assert isinstance(told, Deny)
        assert (told.reason, told.table) == (Reason.READ_RESTRICTED, restricted.id)
    assert isinstance(_decide(world, GET, orders, data, standing=Standing()), Allow)


def test_nothing_is_copied_out_of_a_restricted_table() -> None:
    """Copied into a table of one's own, its files would be read there."""
    world = World(binding=TableBinding.BY_LOCATION)
    orders = world.table(given=grants(SIGN, READ, WRITE))
    items = world.table("items", "wh/items/", grants(SIGN, READ, WRITE))
    copy = request(Operation.COPY_OBJECT, KEY, source="wh/items/data/f")
    for standing in (Standing(restricted=(items.id,)), Standing(sources=(items,), restricted=(items.id,))):
        told = _decide(world, copy, orders, standing=standing)
        assert isinstance(told, Deny)
        assert (told.reason, told.table) == (Reason.READ_RESTRICTED, items.id)
    assert isinstance(_decide(world, copy, orders, standing=Standing(sources=(items,))), Allow)
