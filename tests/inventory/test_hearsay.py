"""Prove that denials and vouchers are kept apart, for a moment, and in bounds."""

from __future__ import annotations

import pytest

from signproxy.errors import Reason
from signproxy.inventory import hearsay
from signproxy.inventory.alarms import Refusal
from signproxy.inventory.hearsay import Denials, Vouchers, digest_of
from signproxy.model import Principal, TableId
from tests.inventory.learned_rig import principal

REFUSAL = Refusal(Reason.LOCATION_DISPUTED, "detail", TableId("lake", "sales", "t"))


def test_a_denial_is_one_callers_and_a_refusal_everybodys() -> None:
    """What somebody may not see is there for others; what is not believed is believed for nobody."""
    denials = Denials(5.0)
    denials.absent("lake", "t", "alice", 100.0)
    assert denials.found("lake", "t", "alice", 104.9) == (105.0, None)
    assert denials.found("lake", "t", "alice", 105.0) is None
    assert denials.found("lake", "t", "bob", 100.0) is None
    assert denials.found("other", "t", "alice", 100.0) is None
    assert denials.found("lake", "u", "alice", 100.0) is None
    denials.refused("lake", "t", REFUSAL, 100.0)
    assert denials.found("lake", "t", "bob", 100.0) == (105.0, REFUSAL)
    denials.clear("lake", "t")
    denials.clear("lake", "never")
    assert denials.found("lake", "t", "bob", 100.0) is None


def test_made_up_names_push_out_made_up_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guessing must not take memory without end."""
    monkeypatch.setattr(hearsay, "AT_MOST", 2)
    monkeypatch.setattr(hearsay, "_EACH_AT_MOST", 2)
    denials = Denials(5.0)
    for name in ("a", "b", "a", "c"):
        denials.absent("lake", name, "alice", 100.0)
    assert [name for name in "abc" if denials.found("lake", name, "alice", 100.0)] == ["a", "c"]
    for who in ("bob", "carol"):
        denials.absent("lake", "a", who, 100.0)
    assert [who for who in ("alice", "bob", "carol") if denials.found("lake", "a", who, 100.0)] == ["carol"]


ALICE, BOB = principal("alice"), principal("bob")
T1, T2 = digest_of("token-1"), digest_of("token-2")


@pytest.mark.parametrize(
    ("catalog", "key", "uuid", "who", "token"),
    (
        ("other", "t", "u", ALICE, T1),
        ("lake", "x", "u", ALICE, T1),
        ("lake", "t", "v", ALICE, T1),
        ("lake", "t", "u", BOB, T1),
        ("lake", "t", "u", ALICE, T2),
    ),
)
def test_a_voucher_is_for_one_catalog_table_caller_and_token(
    catalog: str, key: str, uuid: str, who: Principal, token: bytes
) -> None:
    """Any of them left out, one caller's answer opens something to another."""
    vouchers = Vouchers(60.0)
    vouchers.add("lake", "t", "u", ALICE, T1, 100.0)
    assert vouchers.find("lake", "t", "u", ALICE, T1, 100.0) is not None
    assert vouchers.find("lake", "t", None, ALICE, T1, 100.0) is not None
    assert vouchers.find(catalog, key, uuid, who, token, 100.0) is None


def test_a_voucher_ends_with_its_time_or_the_token() -> None:
    """An upstream's word is of the moment, and of whoever the token is good for."""
    vouchers = Vouchers(60.0)
    vouchers.add("lake", "t", "u", ALICE, T1, 100.0)
    found = vouchers.find("lake", "t", "u", ALICE, T1, 159.9)
    assert found is not None
    assert (found.until, found.refresh) == (160.0, 130.0)
    assert vouchers.find("lake", "t", "u", ALICE, T1, 160.0) is None
    short = principal("carol", expires_at=110.0)
    vouchers.add("lake", "t", "u", short, T1, 100.0)
    assert vouchers.find("lake", "t", "u", short, T1, 109.9) is not None
    assert vouchers.find("lake", "t", "u", short, T1, 110.0) is None
    vouchers.add("lake", "t", "u", ALICE, T1, 200.0)
    vouchers.withdraw("lake", "t", ALICE, T1)
    vouchers.withdraw("lake", "t", ALICE, T1)
    assert vouchers.find("lake", "t", "u", ALICE, T1, 200.0) is None


def test_the_oldest_voucher_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors come with many tokens."""
    monkeypatch.setattr(hearsay, "AT_MOST", 2)
    vouchers = Vouchers(60.0)
    for key in ("a", "b", "a", "c"):
        vouchers.add("lake", key, "u", ALICE, T1, 100.0)
    assert [key for key in "abc" if vouchers.find("lake", key, "u", ALICE, T1, 100.0)] == ["a", "c"]


def test_a_digest_stands_for_the_whole_token() -> None:
    """Half of a token would be half of the key."""
    assert digest_of("a" * 2000 + "b") != digest_of("a" * 2000 + "c")
    assert len(digest_of("\udcff")) == 32
    assert b"token-1" not in T1
