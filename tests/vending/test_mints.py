"""One session for all that ask alike, none for longer than it should be kept, and never a wider one instead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from hashlib import sha256

import pytest
from msgspec.structs import replace

from signproxy.errors import Reason, Refused
from signproxy.gate import turns
from signproxy.policy.table import MetadataLevel, Overwrite
from signproxy.vending import mints
from signproxy.vending import session_policy as writer
from signproxy.vending.mints import SessionVendor
from signproxy.vending.policy_language import language_of
from signproxy.vending.sts import SessionService, SessionSource, SessionWanted
from signproxy.vending.vended import VendedKeys, VendScope
from tests.vending.scopes import AMAZON, COMPATIBLE, PLAIN, READ_WRITE, Alone, scope
from tests.vending.services import ROLE, Own
from tests.waiting import until

LIFE = 3600.0
BUSY = Refused(Reason.SESSIONS_THROTTLED, "Throttling")


class Answers(SessionService):
    """A session service in memory: it notes what it was asked, and waits where a test wants it to."""

    def __init__(self, clock: Callable[[], float], source: SessionSource | None = None) -> None:
        super().__init__(source or SessionSource(storage=AMAZON, role=ROLE), Own(), clock=clock)
        self.asked: list[SessionWanted] = []
        self.open = asyncio.Event()
        self.open.set()
        self.fault: Exception | None = None
        self.life = LIFE
        self.closed = False

    async def ask(self, question: SessionWanted) -> VendedKeys:
        """Return keys that tell how many were made before."""
        self.asked.append(question)
        number = len(self.asked)
        await self.open.wait()
        if self.fault is not None:
            raise self.fault
        return VendedKeys(
            access_key_id=f"ASIA{number:016d}",
            secret_access_key="secret",
            session_token="token",
            expires_at=self._clock() + self.life,
            session_name=f"sp-{question.principal}-{question.event_id}",
            policy_digest=sha256(question.policy.encode()).hexdigest(),
        )

    def aclose(self) -> None:
        """Note it."""
        self.closed = True


class Rig:
    """A vendor, its service and both clocks, which stand still unless a test moves them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, limit: int = 100) -> None:
        self.now = 1_000_000.0
        self.service = Answers(lambda: self.now)
        self.vendor = SessionVendor({"lake": self.service}, clock=lambda: self.now, limit=limit)
        self.steady = 0.0
        monkeypatch.setattr(mints, "_monotonic", lambda: self.steady)
        monkeypatch.setattr(mints, "JITTER", 0.0)

    def passes(self, seconds: float) -> None:
        """Let time pass by both clocks."""
        self.now += seconds
        self.steady += seconds

    async def number(self, asked: VendScope) -> int:
        """Return which of the sessions a caller gets."""
        return int((await self.vendor.vend(asked)).access_key_id[-6:])

    async def refusal(self, asked: VendScope) -> Refused:
        with pytest.raises(Refused) as caught:
            await self.vendor.vend(asked)
        return caught.value


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(monkeypatch)


# -- one for all that ask alike ----------------------------------------------------------------------------------------


async def test_a_thousand_callers_cost_one_question_per_policy(rig: Rig) -> None:
    """Executors start together, and session services throttle an account at a few dozen questions per second."""
    rig.service.open.clear()
    tables = [scope(f"lake/wh/t{number}") for number in range(4)]
    asking = [asyncio.create_task(rig.vendor.vend(tables[number % 4])) for number in range(4000)]
    await until(lambda: len(rig.service.asked) == 4)
    rig.service.open.set()
    keys = await asyncio.gather(*asking)
    assert len(rig.service.asked) == 4
    assert len({each.access_key_id for each in keys}) == 4
    assert rig.vendor.counts == {"allowed": 4}


async def test_the_name_leads_to_the_event_of_the_mint(rig: Rig) -> None:
    """All that share a session share its name; each has an event of its own that holds it."""
    first = await rig.vendor.vend(scope(event_id="one"))
    assert (await rig.vendor.vend(scope(event_id="two"))) == first
    assert first.session_name.endswith("-one")


@pytest.mark.parametrize(
    "other",
    (
        scope("lake/wh/t2"),
        scope("cold/wh/t1"),
        scope("lake/wh/t1", "lake/wh/t2"),
        scope(access=READ_WRITE),
        scope(metadata=MetadataLevel.OPEN),
        scope(metadata=MetadataLevel.SEALED),
        scope(metadata_places=("lake/wh/t1/meta",)),
        scope(principal="corp/bob"),
        scope(policy_epoch=2),
        scope(latest=1_000_000.0 + 7200),
        scope(overwrite=Overwrite.FORBID),
    ),
)
async def test_what_differs_shares_nothing(rig: Rig, other: VendScope) -> None:
    """A session that is found under too little is another caller's, another table's, or one from before a revoke."""
    assert await rig.number(scope()) == 1
    assert await rig.number(other) == 2
    assert await rig.number(scope()) == 1
    assert await rig.number(other) == 2


async def test_tokens_that_end_together_share_what_ends_with_the_first(rig: Rig) -> None:
    """Each executor may have a token of its own; none gets keys that outlive it."""
    assert [await rig.number(scope(latest=1_003_621.0 + late)) for late in (0, 20, 37)] == [1, 1, 1]
    assert rig.service.asked[0].latest is not None
    assert rig.service.asked[0].latest <= 1_003_621.0


async def test_one_caller_that_leaves_leaves_the_others_their_keys(rig: Rig) -> None:
    """A client that gives up must not have the others begin anew."""
    rig.service.open.clear()
    first, second = (asyncio.create_task(rig.vendor.vend(scope())) for _ in range(2))
    await until(lambda: bool(rig.service.asked))
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    rig.service.open.set()
    assert (await second).access_key_id.endswith("1")
    assert len(rig.service.asked) == 1


# -- how long it is kept -----------------------------------------------------------------------------------------------


async def test_a_session_is_replaced_before_it_is_needed(rig: Rig) -> None:
    """No caller waits for a session service as long as one caller in half of a life asks."""
    assert await rig.number(scope()) == 1
    rig.passes(LIFE / 2 - 1)
    assert await rig.number(scope()) == 1
    assert len(rig.service.asked) == 1
    rig.passes(1)
    assert await rig.number(scope()) == 1
    await until(lambda: len(rig.service.asked) == 2)
    await until(lambda: rig.vendor.counts["allowed"] == 2)
    assert await rig.number(scope()) == 2


async def test_no_caller_gets_keys_that_are_about_to_end(rig: Rig) -> None:
    """Clients replace keys five minutes before their end; such keys would be asked for again at once."""
    await rig.number(scope())
    rig.passes(LIFE - 360)
    assert await rig.number(scope()) == 2


async def test_a_clock_that_steps_back_does_not_revive_keys(rig: Rig) -> None:
    """By the wall clock alone, they would look alive for as long as it was wrong."""
    await rig.number(scope())
    rig.passes(LIFE)
    rig.now -= LIFE
    assert await rig.number(scope()) == 2


async def test_old_keys_are_better_than_none(rig: Rig) -> None:
    """While a session is good, a service that is down is nothing that a job has to end for; it is asked again soon."""
    await rig.number(scope())
    rig.service.fault = BUSY
    rig.passes(LIFE / 2)
    for asked in (2, 2, 3):
        assert await rig.number(scope()) == 1
        await until(lambda: not rig.vendor._under_way)
        assert len(rig.service.asked) == asked
        rig.passes(mints.RETRY_SECONDS / 2 if asked == 2 else 0)
    rig.passes(LIFE / 2 - 360)
    assert (await rig.refusal(scope())).reason is Reason.SESSIONS_THROTTLED


async def test_a_short_life_is_not_all_spent_on_asking(rig: Rig) -> None:
    """A service may give less than was asked for."""
    rig.service.life = 600.0
    await rig.number(scope())
    rig.passes(239)
    assert await rig.number(scope()) == 1
    rig.passes(2)
    assert await rig.number(scope()) == 2


async def test_what_failed_is_not_kept(rig: Rig) -> None:
    """One answer of a throttled service would otherwise be every caller's."""
    for fault in (BUSY, Refused(Reason.SESSIONS_REFUSED, "AccessDenied")):
        rig.service.fault = fault
        found = await rig.refusal(scope())
        assert (found.reason, found.detail) == (fault.reason, fault.detail)
        assert found is not fault
    rig.service.fault = None
    assert await rig.number(scope()) == 3
    assert rig.vendor.counts == {"allowed": 1, "sessions_throttled": 1, "sessions_refused": 1}


async def test_a_fault_of_ours_is_counted_as_one(rig: Rig) -> None:
    """It has a trace in the log, and nothing is handed out."""
    rig.service.fault = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        await rig.vendor.vend(scope())
    await until(lambda: rig.vendor.counts == {"internal": 1})


async def test_what_no_caller_asks_for_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand tables that were each read once would be kept for as long as the process lives."""
    rig = Rig(monkeypatch, limit=10)
    for number in range(25):
        await rig.number(scope(f"lake/wh/t{number}"))
    assert len(rig.vendor) == 10
    assert await rig.number(scope("lake/wh/t15")) == 16
    await rig.number(scope("lake/wh/t99"))
    assert await rig.number(scope("lake/wh/t15")) == 16
    rig.passes(LIFE)
    await rig.number(scope())
    assert len(rig.vendor) == 1


async def test_too_many_different_questions_are_refused(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them holds memory, and the service is asked eight at a time."""
    monkeypatch.setattr(mints, "MAX_UNDER_WAY", 2)
    rig.service.open.clear()
    asking = [asyncio.create_task(rig.vendor.vend(scope(f"lake/wh/t{number}"))) for number in range(2)]
    await until(lambda: len(rig.service.asked) == 2)
    assert (await rig.refusal(scope("lake/wh/t3"))).reason is Reason.SESSIONS_THROTTLED
    rig.service.open.set()
    await asyncio.gather(*asking)


async def test_replacing_old_sessions_keeps_no_new_caller_out(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """One caller that goes through its tables has them all replaced, and holds no place in any limit meanwhile."""
    monkeypatch.setattr(mints, "MAX_UNDER_WAY", 20)
    tables = [scope(f"lake/wh/t{number}") for number in range(30)]
    for table in tables:
        await rig.number(table)
    rig.passes(LIFE / 2 + 1)
    rig.service.open.clear()
    for number, table in enumerate(tables, 1):
        assert await rig.number(table) == number
    await until(lambda: len(rig.service.asked) == 30 + mints.MAX_AHEAD)
    asking = asyncio.create_task(rig.vendor.vend(scope("lake/wh/new")))
    await until(lambda: len(rig.service.asked) == 31 + mints.MAX_AHEAD)
    rig.service.open.set()
    await asking
    assert await rig.number(tables[-1]) == 30
    await until(lambda: len(rig.service.asked) == 32 + mints.MAX_AHEAD)


async def test_a_service_that_hangs_holds_up_no_other_storage(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two storages are two operators' as a rule."""
    monkeypatch.setattr(mints, "MAX_UNDER_WAY", 2)
    other = Answers(lambda: rig.now)
    vendor = SessionVendor({"lake": rig.service, "cold": other}, clock=lambda: rig.now)
    rig.service.open.clear()
    hanging = [asyncio.create_task(vendor.vend(scope(f"lake/wh/t{number}"))) for number in range(2)]
    await until(lambda: len(rig.service.asked) == 2)
    await vendor.vend(scope(storage="cold"))
    rig.service.open.set()
    await asyncio.gather(*hanging)


async def test_the_end_forgets_everything(rig: Rig) -> None:
    """Keys in memory after it are keys that a core dump shows."""
    await rig.number(scope())
    rig.service.open.clear()
    waiting = asyncio.create_task(rig.vendor.vend(scope("lake/wh/t2")))
    await until(lambda: len(rig.service.asked) == 2)
    await rig.vendor.aclose()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert len(rig.vendor) == 0
    assert rig.service.closed


async def test_what_one_caller_leaves_under_way_does_not_keep_others_from_keys(rig: Rig) -> None:
    """It would ask for its tables one by one and hang up each time, and every place was taken."""
    rig.service.open.clear()
    left = [
        asyncio.create_task(rig.vendor.vend(scope(f"lake/wh/t{number}", principal="corp/eve"))) for number in range(128)
    ]
    await until(lambda: len(rig.service.asked) == 128)
    for each in left:
        each.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    found = await rig.refusal(scope("lake/wh/next", principal="corp/eve"))
    assert found.reason is Reason.SESSIONS_THROTTLED
    asking = asyncio.create_task(rig.vendor.vend(scope()))
    await until(lambda: len(rig.service.asked) == 129)
    rig.service.open.set()
    assert (await asking).session_name.startswith("sp-corp/alice")


async def test_only_a_session_that_has_to_be_asked_for_is_charged(rig: Rig) -> None:
    """A thousand executors share one; a caller that owes too much has none made."""
    charged: list[int] = []
    first = replace(scope(), charge=lambda: charged.append(1))
    await asyncio.gather(*[rig.vendor.vend(first) for _ in range(10)])
    await rig.vendor.vend(first)
    assert len(charged) == 1

    def owes() -> None:
        raise Refused(Reason.RATE_LIMITED, "")

    assert (await rig.refusal(replace(scope("lake/wh/t2"), charge=owes))).reason is Reason.RATE_LIMITED
    assert len(rig.service.asked) == 1


# -- nothing wider -----------------------------------------------------------------------------------------------------


async def test_a_policy_that_says_more_is_never_asked_for(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A slip in what writes policies shows as a refusal and a line in the log, not as a leak."""
    monkeypatch.setattr(writer, "_escaped", lambda text: text)
    found = await rig.refusal(scope("lake/wh/t*"))
    assert found.reason is Reason.SESSION_UNPROVED
    assert rig.service.asked == []
    assert "says more than was decided" in capfd.readouterr().err


async def test_a_metadata_path_of_its_own_may_be_sealed(rig: Rig) -> None:
    """That it is closed is what was asked for."""
    sealed = scope("lake/wh/t1", "cold/m/t1", metadata=MetadataLevel.SEALED, metadata_places=("cold/m/t1",))
    assert await rig.number(sealed) == 1


async def test_a_place_that_is_shared_gets_no_keys_even_if_some_are_kept(rig: Rig) -> None:
    """A table that came since is asked for its consent by a signature, and cannot be by keys."""
    others = Alone()
    await rig.number(scope(others=others))
    others.found = "table lake.sales.t2"
    found = await rig.refusal(scope(others=others))
    assert found.reason is Reason.SCOPE_NOT_VENDABLE
    assert "table lake.sales.t2" in found.detail


@pytest.mark.parametrize(("tells_case", "asked"), ((False, 0), (True, 1)))
async def test_a_neighbour_by_case_alone_keeps_keys_from_a_store_that_ignores_case(
    rig: Rig,
    tells_case: bool,
    asked: int,
) -> None:
    """Amazon's store is never asked about it; of another one the operator can say that it tells them apart."""
    others = OtherCase()
    service = Answers(
        lambda: rig.now,
        SessionSource(storage=COMPATIBLE, role=ROLE, language=language_of(COMPATIBLE, tells_case=tells_case)),
    )
    vendor = SessionVendor({"lake": service}, clock=lambda: rig.now)
    if tells_case:
        await vendor.vend(scope(others=others))
    else:
        with pytest.raises(Refused) as caught:
            await vendor.vend(scope(others=others))
        assert caught.value.reason is Reason.SCOPE_NOT_VENDABLE
        assert "case" in caught.value.detail
    assert len(service.asked) == asked
    assert await rig.number(scope(others=others)) == 1


class OtherCase(Alone):
    """An inventory with a table whose location differs by case alone."""

    def resembles(self, _location: object) -> Generator[None, None, str]:
        """Return its name."""
        yield
        return "table lake.sales.T1"


class ManyPlaces(Alone):
    """An inventory that takes long to look through."""

    def resembles(self, _location: object) -> Generator[None, None, str]:
        """Return nothing, in a thousand pieces."""
        for _ in range(1000):
            yield
        return ""


async def test_looking_for_neighbours_by_case_leaves_the_others_their_turn(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many mints wait for it: a turn of the loop is one piece of one of them."""
    monkeypatch.setattr(turns, "LONGEST", 0.0)
    service = Answers(lambda: rig.now, SessionSource(storage=COMPATIBLE, role=ROLE, language=PLAIN))
    vendor = SessionVendor({"lake": service}, clock=lambda: rig.now)
    asked = [scope(f"lake/wh/t{number}", others=ManyPlaces()) for number in range(3)]
    minting = [asyncio.create_task(vendor.vend(each)) for each in asked]
    rounds = 0
    while not all(each.done() for each in minting):
        await asyncio.sleep(0)
        rounds += 1
    assert rounds >= 3000
    assert len(service.asked) == 3


async def test_a_storage_without_a_service_has_no_keys(rig: Rig) -> None:
    """The storage's own keys are never handed out in place of a session."""
    assert (await rig.refusal(scope(storage="other"))).reason is Reason.SCOPE_NOT_VENDABLE


@pytest.mark.parametrize(
    ("asked", "reason"),
    (
        (scope("weed/"), Reason.SCOPE_NOT_VENDABLE),
        (scope("lake/wh/t*"), Reason.SCOPE_NOT_VENDABLE),
        (scope("lake/wh/..t"), Reason.SCOPE_NOT_VENDABLE),
        (scope("lake/wh/v1.metadata.json"), Reason.SCOPE_NOT_VENDABLE),
        (scope("lake/wh/t1", "lake/wh/.metadata.json/t1"), Reason.SCOPE_NOT_VENDABLE),
        (scope(*[f"lake/{'x' * 90}/{number}" for number in range(20)]), Reason.SCOPE_TOO_LARGE),
    ),
)
async def test_what_no_policy_says_costs_no_question(rig: Rig, asked: VendScope, reason: Reason) -> None:
    """And is no fault that an operator is woken for."""
    service = Answers(lambda: rig.now, SessionSource(storage=COMPATIBLE, role=ROLE, language=PLAIN))
    vendor = SessionVendor({"lake": service}, clock=lambda: rig.now)
    with pytest.raises(Refused) as caught:
        await vendor.vend(asked)
    assert caught.value.reason is reason
    assert service.asked == []
