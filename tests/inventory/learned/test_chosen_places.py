"""Places that callers chose without a voucher: what is remembered of them, and what is not."""

from __future__ import annotations

import pytest

from signproxy.errors import Reason
from signproxy.inventory.learned import claims
from signproxy.inventory.learned.alarms import AlarmKind
from signproxy.inventory.learned.chosen_places import follows_layout
from signproxy.inventory.learned.registry import Change
from signproxy.inventory.learned.sighting import Live, Renamed, Staged
from signproxy.policy.location import parse_location
from tests.inventory.learned_rig import NOW, Site, facts, policy

KEY = "wh/orders/data/f"


async def test_a_place_that_is_not_vouched_for_is_not_believed_later_either() -> None:
    """The next load of the table would make the caller's choice the upstream's word."""
    site = Site()
    site.upstream.put(facts())
    refusal = site.take(Live("lake", facts(), vouched=False))
    assert refusal is not None
    assert refusal.reason is Reason.LOCATION_UNVOUCHED
    assert site.live(facts())[0] == refusal
    assert await site.reason(KEY) is Reason.LOCATION_UNVOUCHED
    assert site.tables.alarms.counts[AlarmKind.UNVOUCHED] == 2


def test_a_restart_makes_it_no_more_credible() -> None:
    """A caller registers a file that names its neighbour's place, waits for a restart, and is the first to load it."""
    site, told = Site(), list[Change]()
    site.tables.registry.on_change = told.append
    site.take(Live("lake", facts(), vouched=False))
    again = Site()
    again.tables.registry.replay(told)
    refusal = again.live(facts())[0]
    assert refusal is not None
    assert refusal.reason is Reason.LOCATION_UNVOUCHED


async def test_it_is_believed_once_the_operator_lists_it() -> None:
    """The way out that the refusal names would lead nowhere."""
    site = Site()
    site.upstream.put(facts())
    site.take(Live("lake", facts(), vouched=False))
    site.reload(policy('caller_locations: ["s3://lake/wh"]'))
    site.clock.forward(60)
    assert await site.reason(KEY) is Reason.ALLOWED


async def test_another_uuid_makes_it_no_more_credible() -> None:
    """A caller registers a file that names its neighbour's place, and has a commit assign the table another UUID."""
    site = Site()
    site.take(Live("lake", facts(), vouched=False))
    for location in ("s3://lake/wh/orders", "s3a://lake/wh/orders/"):
        refusal = site.live(facts(location=location, uuid="assigned"))[0]
        assert refusal is not None
        assert refusal.reason is Reason.LOCATION_UNVOUCHED
    assert await site.reason(KEY) is Reason.LOCATION_UNVOUCHED


async def test_it_is_believed_once_the_policy_lists_it_for_the_table() -> None:
    """The other way out that the refusal names would lead nowhere."""
    site = Site()
    site.upstream.put(facts())
    site.take(Live("lake", facts(), vouched=False))
    site.reload(policy(more='\ntables: [{namespace: sales, name: orders, locations: ["s3://lake/wh/orders"]}]'))
    site.clock.forward(60)
    assert await site.reason(KEY) is Reason.ALLOWED


async def test_another_place_of_the_name_is_not_to_blame() -> None:
    """One refused registration would close a name for good."""
    site = Site()
    site.take(Live("lake", facts(location="s3://lake/wh/elsewhere"), vouched=False))
    assert site.live(facts()) == [None]
    assert await site.reason(KEY) is Reason.ALLOWED


async def test_a_known_table_keeps_what_it_has() -> None:
    """A commit that moves a table nowhere new would close it."""
    site = Site()
    assert site.live(facts()) == [None]
    assert site.take(Live("lake", facts(), vouched=False)) is None
    assert await site.reason(KEY) is Reason.ALLOWED


async def test_a_rename_takes_the_doubt_along() -> None:
    """Two calls would make a place credible that one call does not."""
    site = Site()
    site.take(Live("lake", facts(), vouched=False))
    site.take(Renamed("lake", "sales", "orders", "sales", "now"))
    assert site.live(facts("now", "s3://lake/wh/orders", "uuid-orders"))[0] is not None
    # The name is free for the table that has it next.
    assert site.live(facts()) == [None]


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that registers tables without end would fill the memory."""
    monkeypatch.setattr(claims, "UNVOUCHED_AT_MOST", 3)
    monkeypatch.setattr(claims, "UNVOUCHED_EACH", 2)
    site = Site()
    for number in range(5):
        site.take(Live("lake", facts(f"t{number}"), vouched=False))
        site.take(Live("lake", facts(location=f"s3://lake/wh/p{number}"), vouched=False))
    assert len(site.tables.registry.unvouched._held) == 3
    assert all(len(places) <= 2 for places in site.tables.registry.unvouched._held.values())
    assert site.take(Live("lake", facts(location="s3://lake/wh/p4"))) is not None


def test_a_stage_is_no_voucher_for_a_place() -> None:
    """What was handed out before the doubt would lift it."""
    site = Site()
    site.take(Live("lake", facts(), vouched=False))
    site.take(Staged("lake", facts(), "corp/owner", NOW + 60))
    assert site.live(facts())[0] is not None


@pytest.mark.parametrize(
    ("reported", "place", "follows"),
    (
        ("s3://lake/wh/ns", "s3://lake/wh/ns/t", True),
        ("s3a://lake/wh/ns/", "s3://lake/wh/ns/t/deep/er", True),
        ("s3://lake/wh/ns", "s3://lake/wh/ns/t-0123456789abcdef0123456789abcdef", True),
        ("s3://lake/wh/ns", "s3://lake/wh/ns/t_6f1a3c5e-0000-4000-8000-000000000001/x", True),
        ("s3://lake/wh/ns", "s3://lake/wh/ns/t.0123456789abcdef0123456789abcdef", True),
        ("s3://lake/wh/ns", "s3://lake/wh/ns/t0123456789abcdef0123456789abcdef", False),
        ("s3://lake/wh/ns", "s3://lake/wh/ns/t-0123456789abcdef0123456789abcdef0", False),
        ("s3://lake/wh/ns", "s3://lake/wh/ns/t-1", False),
        ("s3://lake/wh/ns", "s3://lake/wh/ns/T", False),
        ("s3://lake/wh/ns", "s3://lake/wh/ns", False),
        ("s3://lake/wh/ns", "s3://lake/wh/ns2/t", False),
        ("s3://lake/wh/ns", "s3://cold/wh/ns/t", False),
        # The root itself: a table that is called like a namespace would contain it.
        ("s3://lake/wh", "s3://lake/wh/t", False),
        ("s3://lake", "s3://lake/t", False),
        ("s3://cold/ns", "s3://cold/ns/t", False),
        ("", "s3://lake/wh/ns/t", False),
        ("file:/x", "s3://lake/wh/ns/t", False),
    ),
)
def test_the_layout_is_one_folder_below_the_namespace(reported: str, place: str, follows: bool) -> None:
    """Anything looser holds other tables."""
    learning = Site().state.catalogs["lake"].learning
    assert learning is not None
    assert follows_layout(learning, reported, parse_location(place), "t") is follows
