"""Prove that denials are kept apart, for a moment, and in bounds."""

from __future__ import annotations

import pytest

from signproxy.errors import Reason
from signproxy.inventory.learned import vouchers
from signproxy.inventory.learned.alarms import SightingRefusal
from signproxy.inventory.learned.vouchers import Denials, digest_of
from signproxy.model import TableId

REFUSAL = SightingRefusal(Reason.LOCATION_DISPUTED, "detail", TableId("lake", "sales", "t"))


def test_a_denial_is_one_callers_and_a_refusal_everybodys() -> None:
    """What one caller may not see is there for others; what is not believed is believed for no caller."""
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
    monkeypatch.setattr(vouchers, "DENIALS_AT_MOST", 2)
    monkeypatch.setattr(vouchers, "_EACH_AT_MOST", 2)
    denials = Denials(5.0)
    for name in ("a", "b", "a", "c"):
        denials.absent("lake", name, "alice", 100.0)
    assert [name for name in "abc" if denials.found("lake", name, "alice", 100.0)] == ["a", "c"]
    for who in ("bob", "carol"):
        denials.absent("lake", "a", who, 100.0)
    assert [who for who in ("alice", "bob", "carol") if denials.found("lake", "a", who, 100.0)] == ["carol"]


def test_a_digest_stands_for_the_whole_token() -> None:
    """Half of a token would be half of the key."""
    assert digest_of("a" * 2000 + "b") != digest_of("a" * 2000 + "c")
    assert len(digest_of("\udcff")) == 32
    assert b"token-1" not in digest_of("token-1")
