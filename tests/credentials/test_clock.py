"""When credentials are asked for, and that neither a step of the clock nor a failing service changes what is served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from signproxy.credentials import slot as slot_module
from signproxy.credentials.credentials import Credentials
from signproxy.credentials.provider import ProviderSpec
from signproxy.credentials.slot import JITTER, _spread
from signproxy.credentials.store import CredentialStore
from tests.credentials.memory import SECRET, MemoryProvider
from tests.credentials.services import Answer, Service, container, key
from tests.credentials.stores import LAKE, NOW, Clock, key_id, reason_of, session
from tests.credentials.values import binding, storage
from tests.waiting import LoopClock, turns, until

CHAIN = "signproxy.credentials.chain:ChainProvider"


@pytest.fixture(autouse=True)
def attentive(monkeypatch: pytest.MonkeyPatch, made: list[MemoryProvider]) -> None:
    """Notice a step of the clock at once."""
    monkeypatch.setattr(slot_module, "LOOK_SECONDS", 0.005)


# -- steps -------------------------------------------------------------------------------------------------------------


async def test_a_step_forward_leads_to_a_refresh_at_once(
    store: CredentialStore, made: list[MemoryProvider], clock: Clock
) -> None:
    """A machine that slept wakes up with dead credentials, and its timers know nothing of the night."""
    await store.start([LAKE], [binding()])
    made[0].answers = [session("EVENING", 3600)]
    await store.refresh()
    made[0].answers = [session("MORNING", 10 * 3600)]
    clock.now += 8 * 3600
    assert "expired" in reason_of(store)
    await until(lambda: not store.states[0].problem and store.states[0].expires_at)
    assert key_id(store) == "MORNING"
    assert len(made[0].scopes) == 3


async def test_a_clock_that_runs_ahead_does_not_hammer_the_service(
    store: CredentialStore, made: list[MemoryProvider], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the service gives looks expired then: asking faster does not help, and is throttled."""
    await store.start([LAKE], [binding()])
    made[0].answers = [session("HELD", 3600)]
    await store.refresh()
    monkeypatch.setattr(slot_module, "FIRST_RETRY_SECONDS", 0.05)
    monkeypatch.setattr(slot_module, "LAST_RETRY_SECONDS", 60.0)
    asked = len(made[0].scopes)
    clock.now += 2 * 3600
    passing = LoopClock()
    for _ in range(50):
        await passing.move(0.01)
    # After 0, 0.05, 0.15, 0.35 s; and each pause may be a fifth shorter.
    assert 1 <= len(made[0].scopes) - asked <= 6
    assert "compare this machine's clock" in store.states[0].problem
    assert store.states[0].failures >= 1
    # Set right again, what it has is good at once.
    clock.now -= 2 * 3600
    assert key_id(store) == "HELD"


async def test_a_step_back_does_not_bring_the_dead_to_life(
    store: CredentialStore, made: list[MemoryProvider], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the wall clock they would be good for another hour; the store's clock took no step."""
    monkeypatch.setattr(slot_module, "MIN_REMAINING_SECONDS", 0.01)
    await store.start([LAKE], [binding()])
    made[0].answers = [session("SHORT", 0.3), OSError("no route")]
    await store.refresh()
    clock.now -= 3600
    assert key_id(store) == "SHORT"
    await until(lambda: store.states[0].expires_at == 0.0)
    assert "no route" in reason_of(store)
    assert store.expiries == {("lake",): 0.0}


async def test_a_step_back_does_not_put_off_the_refresh(
    store: CredentialStore, made: list[MemoryProvider], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the next one is an hour late."""
    monkeypatch.setattr(slot_module, "LONGEST_REFRESH_SECONDS", 0.1)
    await store.start([LAKE], [binding()])
    made[0].answers = [session("FIRST", 3600), session("SECOND", 7200)]
    await store.refresh()
    clock.now -= 3600
    await until(lambda: key_id(store) == "SECOND")


async def test_a_clock_that_stands_far_behind_does_not_put_off_the_refresh(
    store: CredentialStore, made: list[MemoryProvider], clock: Clock
) -> None:
    """Before the network has set it, a session of an hour looks as if it lasted for decades."""
    clock.now = 0.0
    await store.start([LAKE], [binding()])
    made[0].answers = [session("BOOT", 3600)]
    await store.refresh()
    assert next(iter(store._slots.values()))._until_refresh() == slot_module.LONGEST_REFRESH_SECONDS
    # Set at last: they are good for as long as they really are.
    clock.now = NOW + 3600
    assert "expired" in reason_of(store)


# -- pauses ------------------------------------------------------------------------------------------------------------


def test_workers_that_started_together_do_not_ask_together() -> None:
    """A hundred workers of a gateway would be a hundred calls in the same millisecond, for ever."""
    pauses = [_spread(100.0) for _ in range(1000)]
    assert min(pauses) >= 100 * (1 - JITTER)
    assert max(pauses) <= 100 * (1 + JITTER)
    assert max(pauses) - min(pauses) > 100 * JITTER


def test_a_pause_never_reaches_the_end_of_a_life() -> None:
    """The latest refresh of half a life must leave room for retries."""
    assert (1 + JITTER) / 2 < 0.75


async def test_failures_are_visible_while_everything_still_works(
    store: CredentialStore, made: list[MemoryProvider], clock: Clock
) -> None:
    """An alert on the expiry alone comes when it is too late."""
    await store.start([LAKE], [binding()])
    made[0].answers = [session("HELD", 3600)]
    clock.now += 5
    await store.refresh()
    (state,) = store.states
    assert (state.provider, state.refreshed_at, state.failures, state.problem) == ("fake", NOW + 5, 0, "")
    made[0].answers = [OSError("no route")]
    clock.now += 7
    await store.refresh()
    (state,) = store.states
    assert state.refreshed_at == NOW + 5
    assert state.failures >= 1
    assert state.problem == "OSError: no route"
    assert state.expires_at == NOW + 3600
    assert key_id(store) == "HELD"
    made[0].answers = [session("NEXT", 3600)]
    await until(lambda: not store.states[0].problem)
    (state,) = store.states
    assert (state.refreshed_at, state.failures) == (NOW + 12, 0)


async def test_a_refresh_sees_what_changed_before_it_was_asked_for(
    store: CredentialStore, made: list[MemoryProvider]
) -> None:
    """An answer that is under way may come from the file that was just replaced."""
    await store.start([LAKE], [binding()])
    made[0].gate.clear()
    first = asyncio.create_task(store.refresh())
    await until(lambda: len(made[0].scopes) == 2)
    # The file changes now; two that notice share one more question.
    later = [asyncio.create_task(store.refresh()) for _ in range(2)]
    await turns()
    made[0].gate.set()
    await asyncio.gather(first, *later)
    assert len(made[0].scopes) == 3


# -- with botocore -----------------------------------------------------------------------------------------------------


@pytest.fixture
async def chained(service: Service, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[CredentialStore]:
    """A store over the chain, which finds the container endpoint."""
    monkeypatch.setattr("botocore.utils.ContainerMetadataFetcher.SLEEP_TIME", 0)
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{service.url}/v1/credentials")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "pod-token")
    opened = CredentialStore()
    yield opened
    await opened.aclose()


async def test_a_hundred_who_ask_at_once_are_one_call(chained: CredentialStore, service: Service) -> None:
    """The agent of a node serves every pod on it."""
    given = [key("first")]
    service.answer = container(lambda: given[0], lambda: "pod-token")
    await chained.start([LAKE], [binding(provider=ProviderSpec(CHAIN, {}, "pod"))])
    assert key_id(chained) == key("first").key_id
    asked = len(service.seen)
    given[0] = key("second")
    await asyncio.gather(*(chained.refresh() for _ in range(100)))
    assert len(service.seen) == asked + 1
    assert key_id(chained) == key("second").key_id


async def test_an_outage_of_the_service_is_lived_through(chained: CredentialStore, service: Service) -> None:
    """Garbage, errors and silence come and go; what was given before serves on."""
    service.answer = container(lambda: key("held"), lambda: "pod-token")
    await chained.start([LAKE], [binding(provider=ProviderSpec(CHAIN, {}, "pod"))])
    for answer in (Answer(500, b""), Answer(200, b"garbage"), Answer(200, b"{}"), Answer(429, b"slow down")):
        service.answer = lambda _seen, answer=answer: answer  # type: ignore[misc]  # bound now, not later
        await chained.refresh()
        assert key_id(chained) == key("held").key_id
        (state,) = chained.states
        assert state.problem.startswith("NotObtained: ")
        assert state.provider == "pod"
    service.answer = container(lambda: key("expired", -10.0), lambda: "pod-token")
    await chained.refresh()
    assert "expired" in chained.states[0].problem
    service.close()
    await chained.refresh()
    assert key_id(chained) == key("held").key_id
    assert chained.refreshes["failed"] >= 6


async def test_with_short_lived_credentials_a_service_is_asked_as_often_as_needed(
    store: CredentialStore, made: list[MemoryProvider]
) -> None:
    """A quarter of an hour is the shortest session: once in half of it, not once in each request."""
    await store.start([LAKE], [binding()])
    made[0].answers = [session("QUARTER", 900)]
    await store.refresh()
    asked = len(made[0].scopes)
    for _ in range(10_000):
        store.current(LAKE, "sales")
    await turns()
    assert len(made[0].scopes) == asked


async def test_storages_refresh_on_their_own(store: CredentialStore, made: list[MemoryProvider]) -> None:
    """One service that is down must not keep the others from being asked."""
    await store.start([LAKE, storage("other")], [binding(), binding("other")])
    made[0].answers = [OSError("no route")]
    made[1].answers = [Credentials("FRESH", SECRET)]
    await store.refresh()
    problems = {state.storage: state.problem for state in store.states}
    assert problems == {"lake": "OSError: no route", "other": ""}
