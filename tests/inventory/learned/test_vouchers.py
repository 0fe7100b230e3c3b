"""What an upstream answered a caller, denials too: kept for that caller and token, for a moment, and in bounds."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from signproxy.errors import Reason
from signproxy.inventory.learned import vouchers as module
from signproxy.inventory.learned.alarms import SightingRefusal
from signproxy.inventory.learned.sighting import Answered, Live
from signproxy.inventory.learned.vouchers import EVERY_CALLER, Denials, Recipient, Vouchers, digest_of, recipient_of
from signproxy.model import TableId
from tests.inventory.learned_rig import FAR, Site, facts, principal

ALICE, BOB = principal("alice"), principal("bob")
OF_ALICE = recipient_of(ALICE, "token-1")


def _answered(
    recipient: Recipient = OF_ALICE,
    name: str = "t",
    uuid: str = "u",
    *,
    restricted: bool = False,
    catalog: str = "lake",
) -> Answered:
    return Answered(catalog, "ns", name, uuid, *recipient, restricted)


def _add(vouchers: Vouchers, answered: Answered, now: float, sent: float | None = None) -> bool:
    return vouchers.add(answered, now, seconds=60.0, sent=now if sent is None else sent)


@pytest.mark.parametrize(
    ("catalog", "key", "uuid", "recipient"),
    (
        ("other", "ns\0t", "u", OF_ALICE),
        ("lake", "ns\0x", "u", OF_ALICE),
        ("lake", "ns\0t", "v", OF_ALICE),
        ("lake", "ns\0t", "u", recipient_of(BOB, "token-1")),
        ("lake", "ns\0t", "u", recipient_of(ALICE, "token-2")),
        ("lake", "ns\0t", "u", EVERY_CALLER),
    ),
)
def test_an_answer_is_for_one_catalog_table_caller_and_token(
    catalog: str, key: str, uuid: str, recipient: Recipient
) -> None:
    """Any of them left out, one caller's answer opens something to another."""
    vouchers = Vouchers()
    _add(vouchers, _answered(), 100.0)
    assert vouchers.find("lake", "ns\0t", "u", OF_ALICE, 100.0) is not None
    assert vouchers.find("lake", "ns\0t", None, OF_ALICE, 100.0) is not None
    assert vouchers.find(catalog, key, uuid, recipient, 100.0) is None


def test_an_answer_ends_with_its_time_or_the_token() -> None:
    """An upstream's word is of the moment, and of the caller that the token is good for."""
    vouchers = Vouchers()
    _add(vouchers, _answered(), 100.0)
    found = vouchers.find("lake", "ns\0t", "u", OF_ALICE, 159.9)
    assert found is not None
    assert (found.until, found.refresh) == (160.0, 130.0)
    assert vouchers.find("lake", "ns\0t", "u", OF_ALICE, 160.0) is None
    assert vouchers.last("lake", "ns\0t", OF_ALICE) is found
    short = recipient_of(principal("carol", expires_at=110.0), "token")
    _add(vouchers, _answered(short), 100.0)
    assert vouchers.find("lake", "ns\0t", "u", short, 109.9) is not None
    assert vouchers.find("lake", "ns\0t", "u", short, 110.0) is None


def test_it_counts_from_when_it_was_asked_for() -> None:
    """An upstream that answers slowly, or another worker that tells late, would make it live longer."""
    vouchers = Vouchers()
    _add(vouchers, _answered(), 100.0, sent=70.0)
    assert vouchers.find("lake", "ns\0t", "u", OF_ALICE, 129.9) is not None
    assert vouchers.find("lake", "ns\0t", "u", OF_ALICE, 130.0) is None


def test_of_two_answers_the_one_that_was_asked_for_later_counts() -> None:
    """A load from before a restriction, answered after it, would lift it."""
    vouchers = Vouchers()
    _add(vouchers, _answered(restricted=True), 100.0, sent=99.0)
    assert _add(vouchers, _answered(), 101.0, sent=98.0) is False
    assert _restricted(vouchers) is True
    _add(vouchers, _answered(), 101.0, sent=99.0)
    assert _restricted(vouchers) is False


def _restricted(vouchers: Vouchers, now: float = 101.0) -> bool:
    found = vouchers.find("lake", "ns\0t", "u", OF_ALICE, now)
    assert found is not None
    return found.restricted


def test_a_denial_of_before_does_not_withdraw_it() -> None:
    """A job that looked for a table, then made it, would be asked for it again for nothing."""
    vouchers = Vouchers()
    _add(vouchers, _answered(), 100.0)
    vouchers.withdraw("lake", "ns\0t", OF_ALICE, 99.9)
    assert vouchers.last("lake", "ns\0t", OF_ALICE) is not None
    vouchers.withdraw("lake", "ns\0t", OF_ALICE, 100.0)
    assert vouchers.last("lake", "ns\0t", OF_ALICE) is None
    vouchers.withdraw("lake", "ns\0t", OF_ALICE, 100.0)


def test_the_oldest_answer_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors come with many tokens."""
    monkeypatch.setattr(module, "AT_MOST", 2)
    vouchers = Vouchers()
    for name in ("a", "b", "a", "c"):
        _add(vouchers, _answered(name=name), 100.0)
    assert [name for name in "abc" if vouchers.last("lake", f"ns\0{name}", OF_ALICE)] == ["a", "c"]


def test_others_hear_what_is_new_and_from_time_to_time_what_is_not() -> None:
    """Each load of a table would be told to every worker; told never, they would ask by themselves."""
    vouchers = Vouchers()
    told = [_add(vouchers, _answered(), now) for now in (100.0, 101.0, 114.9, 115.0, 116.0)]
    assert told == [True, False, False, True, False]
    assert _add(vouchers, _answered(restricted=True), 117.0)
    assert not _add(vouchers, _answered(restricted=True), 118.0)
    assert _add(vouchers, _answered(uuid="v"), 119.0)


def test_a_caller_is_clear_at_once_only_as_the_same_value() -> None:
    """Another principal, or a table that took the name, would pass on what was said of this one."""
    site = Site()
    site.take(Live("lake", facts()))
    site.take(Live("lake", facts("other")))
    table, other = site.tables.ground.of("lake").by_name.values()
    vouchers = Vouchers()
    vouchers.clear(ALICE, table, 200.0)
    assert vouchers.is_clear(ALICE, table, 199.9)
    assert not vouchers.is_clear(ALICE, table, 200.0)
    assert not vouchers.is_clear(principal("alice"), table, 100.0)
    assert not vouchers.is_clear(ALICE, other, 100.0)
    table.table = replace(table.table)
    assert not vouchers.is_clear(ALICE, table, 199.9)


def test_what_is_clear_at_once_ends_with_what_it_stands_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restriction would bite only once a moment is over that has no bound."""
    site = Site()
    site.take(Live("lake", facts()))
    (table,) = site.tables.ground.of("lake").by_name.values()

    def cleared() -> Vouchers:
        vouchers = Vouchers()
        _add(vouchers, _answered(), 100.0)
        vouchers.clear(ALICE, table, FAR)
        return vouchers

    restricted, withdrawn, forgotten, full, another = [cleared() for _ in range(5)]
    _add(restricted, _answered(restricted=True), 101.0)
    _add(another, _answered(uuid="v"), 101.0)
    withdrawn.withdraw("lake", "ns\0t", OF_ALICE, 101.0)
    forgotten.forget("lake")
    monkeypatch.setattr(module, "AT_MOST", 1)
    _add(full, _answered(name="x"), 101.0)
    assert not any(each.is_clear(ALICE, table, 102.0) for each in (restricted, withdrawn, forgotten, full, another))
    assert forgotten.last("lake", "ns\0t", OF_ALICE) is None


def test_a_restricted_caller_does_not_slow_the_others_down() -> None:
    """A caller that loads a restricted table again and again would send every request the long way."""
    site = Site()
    site.take(Live("lake", facts()))
    (table,) = site.tables.ground.of("lake").by_name.values()
    vouchers = Vouchers()
    _add(vouchers, _answered(restricted=True), 100.0)
    vouchers.clear(BOB, table, FAR)
    _add(vouchers, _answered(restricted=True), 101.0)
    assert vouchers.is_clear(BOB, table, 102.0)


def test_callers_at_once_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens that come and go would stay in memory."""
    monkeypatch.setattr(module, "AT_ONCE_AT_MOST", 2)
    site = Site()
    site.take(Live("lake", facts()))
    (table,) = site.tables.ground.of("lake").by_name.values()
    vouchers = Vouchers()
    callers = [principal(str(number)) for number in range(3)]
    for caller in callers:
        vouchers.clear(caller, table, FAR)
    assert [vouchers.is_clear(caller, table, 0.0) for caller in callers] == [False, False, True]


# -- denials ---------------------------------------------------------------------------------------------------------

REFUSAL = SightingRefusal(Reason.LOCATION_DISPUTED, "detail", TableId("lake", "sales", "t"))


def test_a_denial_is_one_callers_and_a_refusal_is_for_all() -> None:
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
    monkeypatch.setattr(module, "DENIALS_AT_MOST", 2)
    monkeypatch.setattr(module, "_EACH_AT_MOST", 2)
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
