"""What the signer gets: credentials at once, fresh ahead of time, and never others than were bound."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from signproxy.credentials import slot as slot_module
from signproxy.credentials.credentials import Credentials
from signproxy.credentials.provider import CredentialProvider
from signproxy.credentials.slot import MIN_REMAINING_SECONDS
from signproxy.credentials.store import CredentialStore
from signproxy.errors import ProviderInvalid, Refused
from tests.credentials.contract import ProviderContract
from tests.credentials.memory import SECRET, MemoryProvider
from tests.credentials.stores import LAKE, NOW, Clock, key_id, reason_of, session
from tests.credentials.values import binding, memory, storage
from tests.waiting import turns, until


class TestFakeKeepsTheContract(ProviderContract):
    """The fake proves nothing unless it behaves like the real ones."""

    @pytest.fixture
    def properties(self) -> Mapping[str, str]:
        return {"id": "AKIAIOSFODNN7EXAMPLE"}

    @pytest.fixture
    def secrets(self) -> tuple[str, ...]:
        return SECRET, SECRET + "2"

    def make(self) -> CredentialProvider:
        """Return a fake."""
        self.provider = MemoryProvider()
        return self.provider

    def rotate_source(self) -> None:
        """Give another key pair from now on."""
        self.provider.answers = [Credentials("AKIAIOSFODNN7EXAMPLE", SECRET + "2")]

    def break_source(self) -> None:
        """Fail from now on."""
        self.provider.answers = [OSError("out of order")]


# -- which -------------------------------------------------------------------------------------------------------------


async def test_a_bound_storage_has_its_providers_credentials(store: CredentialStore) -> None:
    """The first request after the start is signed without waiting."""
    await store.start([LAKE], [binding(provider=memory(id="BOUND"))])
    assert key_id(store, "sales") == key_id(store, "hr") == "BOUND"


async def test_a_bucket_may_have_a_provider_of_its_own(store: CredentialStore, made: list[MemoryProvider]) -> None:
    """Personnel data lies under other keys than sales, in the same store."""
    own = {"hr": memory(id="HR")}
    await store.start([LAKE], [binding(provider=memory(id="REST"), buckets=own)])
    assert (key_id(store, "sales"), key_id(store, "hr")) == ("REST", "HR")
    scopes = {each.properties["id"]: each.scopes[0] for each in made}
    assert (scopes["HR"].storage, scopes["HR"].bucket) == ("lake", "hr")
    assert (scopes["REST"].storage, scopes["REST"].bucket) == ("lake", "")


async def test_a_bucket_that_is_not_listed_has_those_of_its_storage_where_that_was_judged(
    store: CredentialStore,
) -> None:
    """A volume of buckets that clients make could not be served; and no other way may fall back to anything."""
    await store.start([LAKE], [binding(provider=memory(id="REST"), buckets={"hr": memory(id="HR")})])
    assert store.current_of_any(LAKE, "made-by-a-client").access_key_id == "REST"
    assert store.current_of_any(LAKE, "hr").access_key_id == "HR"
    await store.start([LAKE], [binding(buckets={"hr": memory(id="HR"), "sales": memory(id="SALES")})])
    with pytest.raises(Refused):
        # No provider was asked for keys that no listed bucket needs.
        store.current_of_any(LAKE, "made-by-a-client")


async def test_storages_never_share_an_instance(store: CredentialStore, made: list[MemoryProvider]) -> None:
    """With one instance for two, a provider that keeps anything keeps it for both."""
    other = storage("archive")
    await store.start([LAKE, other], [binding(), binding("archive")])
    assert len(made) == 2
    assert store.current(other, "sales").access_key_id == "AKID-archive"


async def test_what_is_not_bound_is_refused(store: CredentialStore) -> None:
    """There is no default to fall back to."""
    await store.start([LAKE], [binding()])
    assert "not bound" in reason_of(store, "marketing")
    with pytest.raises(Refused):
        store.current(storage("other"), "sales")


async def test_before_the_start_everything_is_refused(store: CredentialStore) -> None:
    """A request that comes too early gets 503, not a crash."""
    assert "not bound" in reason_of(store)


async def test_a_storage_outside_its_hosts_does_not_start(store: CredentialStore) -> None:
    """The store is the last one that could send a signature to a new host."""
    with pytest.raises(ProviderInvalid, match="not among these hosts"):
        await store.start([storage("lake", "https://evil.net")], [binding()])
    assert "not bound" in reason_of(store)


# -- contract ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "problem"),
    (
        (None, "returned NoneType, not Credentials"),
        (("AKID", "secret"), "returned tuple, not Credentials"),
        (session("AKID", -1), "-1 s left"),
        (session("AKID", MIN_REMAINING_SECONDS - 1), "59 s left"),
        (OSError("no route"), "OSError: no route"),
        (LookupError("odd"), "LookupError: odd"),
    ),
)
async def test_a_provider_that_breaks_its_contract_serves_nothing(
    store: CredentialStore, made: list[MemoryProvider], answer: object, problem: str
) -> None:
    """Signing with nothing, or with what is about to end, fails at the store without a reason."""
    await store.start([LAKE], [binding()])
    await store.aclose()
    broken = memory(id="X")
    MemoryProvider.made.clear()
    original = MemoryProvider.__init__

    def with_answer(self: MemoryProvider) -> None:
        original(self)
        self.answers = [answer]

    MemoryProvider.__init__ = with_answer  # type: ignore[method-assign]  # the first answer is asked for at the start
    try:
        await store.start([LAKE], [binding(provider=broken)])
    finally:
        MemoryProvider.__init__ = original  # type: ignore[method-assign]  # see above
    assert problem in reason_of(store)
    (state,) = store.states
    assert (state.expires_at, problem in state.problem) == (0.0, True)
    # It is asked again, and what it then has is served.
    made[0].answers = []
    await until(lambda: not store.states[0].problem)
    assert key_id(store) == "X"


async def test_the_shortest_life_that_is_served(store: CredentialStore, made: list[MemoryProvider]) -> None:
    """A minute is what the shortest signature takes."""
    await store.start([LAKE], [binding()])
    made[0].answers = [session("AKID", MIN_REMAINING_SECONDS)]
    await store.refresh()
    assert key_id(store) == "AKID"


# -- fresh -------------------------------------------------------------------------------------------------------------


async def test_a_session_is_replaced_before_it_ends(
    store: CredentialStore, made: list[MemoryProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting for the end would refuse every request until the provider has answered."""
    monkeypatch.setattr(slot_module, "MIN_REMAINING_SECONDS", 0.01)
    # No bound on a life makes it look shorter than it is: half of ten seconds is waited for only if asked so.
    monkeypatch.setattr(slot_module, "LONGEST_REFRESH_SECONDS", 0.05)
    await store.start([LAKE], [binding()])
    made[0].answers = [session("FIRST", 100), session("SECOND", 100), session("THIRD", 3600)]
    await store.refresh()
    # The clock of the store stands still: nothing has expired when the next one is there.
    await until(lambda: key_id(store) == "THIRD")
    assert made[0].answers == [session("THIRD", 3600)]


@pytest.mark.parametrize(
    ("expires_in", "due_in"),
    (
        (None, 300.0),
        (3600.0, 1800.0),
        # A clock that is behind makes them look longer-lived than any session is.
        (43_200.0, 3600.0),
        (60.0, 30.0),
        # Already over: not in a busy loop.
        (0.0, 0.005),
    ),
)
async def test_a_refresh_is_due_in_half_the_life_that_is_left(
    store: CredentialStore, expires_in: float | None, due_in: float
) -> None:
    """Later leaves no room for retries; earlier asks a rate-limited service for nothing."""
    await store.start([LAKE], [binding()])
    slot = next(iter(store._slots.values()))
    slot.good_until = float("inf") if expires_in is None else NOW + expires_in
    assert slot._until_refresh() == due_in


async def test_at_their_expiry_credentials_are_refused(
    store: CredentialStore, made: list[MemoryProvider], clock: Clock
) -> None:
    """The store would answer ExpiredToken, and the client would not know whom to ask."""
    await store.start([LAKE], [binding()])
    made[0].answers = [session("AKID", 100), OSError("no route")]
    await store.refresh()
    clock.now += 99.9
    assert key_id(store) == "AKID"
    clock.now += 0.1
    assert "expired" in reason_of(store)
    assert store.states[0].expires_at == 0.0


async def test_an_error_keeps_what_is_still_good(
    store: CredentialStore, made: list[MemoryProvider], clock: Clock
) -> None:
    """An outage of the provider must not become one of the lake before it has to."""
    await store.start([LAKE], [binding()])
    made[0].answers = [session("AKID", 100), OSError("no route")]
    await store.refresh()
    await store.refresh()
    assert key_id(store) == "AKID"
    assert store.states[0].problem == "OSError: no route"
    clock.now += 100
    assert "OSError: no route" in reason_of(store)
    made[0].answers = [session("NEXT", 1000)]
    await until(lambda: not store.states[0].problem)
    assert key_id(store) == "NEXT"


async def test_keys_without_an_expiry_outlive_an_unreadable_file(
    store: CredentialStore, made: list[MemoryProvider], clock: Clock
) -> None:
    """A volume that is remounted is no reason to refuse: such keys are good until the store says otherwise."""
    await store.start([LAKE], [binding(provider=memory(id="STATIC"))])
    made[0].answers = [OSError("gone")]
    await store.refresh()
    clock.now += 10 * 365 * 86_400
    assert key_id(store) == "STATIC"
    assert store.states[0].problem == "OSError: gone"
    assert store.states[0].expires_at is None


async def test_unchanged_credentials_stay_the_same_object(store: CredentialStore, made: list[MemoryProvider]) -> None:
    """Derived signing keys hang on it; new ones for nothing would cost every refresh a burst."""
    await store.start([LAKE], [binding()])
    first = store.current(LAKE, "sales")
    made[0].answers = [Credentials(first.access_key_id, SECRET)]
    await store.refresh()
    assert store.current(LAKE, "sales") is first
    made[0].answers = [Credentials(first.access_key_id, SECRET + "2")]
    await store.refresh()
    assert store.current(LAKE, "sales") is not first


async def test_two_hundred_refreshes_at_once_ask_once(store: CredentialStore, made: list[MemoryProvider]) -> None:
    """A session service is rate-limited, and an impatient operator is not."""
    await store.start([LAKE], [binding()])
    asked = len(made[0].scopes)
    made[0].gate.clear()
    refreshes = [asyncio.create_task(store.refresh()) for _ in range(200)]
    await turns()
    # Meanwhile the old ones are served.
    assert key_id(store) == "AKID-lake"
    made[0].gate.set()
    await asyncio.gather(*refreshes)
    assert len(made[0].scopes) == asked + 1


async def test_a_provider_that_never_answers_is_asked_again(
    store: CredentialStore, made: list[MemoryProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that hangs must not hold the refresh until the keys end."""
    monkeypatch.setattr(slot_module, "GET_SECONDS", 0.02)
    await store.start([LAKE], [binding()])
    made[0].gate.clear()
    await store.refresh()
    assert store.states[0].problem.startswith("TimeoutError")
    made[0].gate.set()
    await until(lambda: not store.states[0].problem)


async def test_a_storage_expires_with_the_first_of_its_credentials(
    store: CredentialStore, made: list[MemoryProvider]
) -> None:
    """An alert on the later one would come when half of the lake is refused already."""
    other = storage("archive")
    own = {"hr": memory(id="HR")}
    await store.start([LAKE, other], [binding(provider=memory(id="REST"), buckets=own), binding("archive")])
    by_id = {each.properties.get("id"): each for each in made}
    by_id["HR"].answers = [session("HR", 1000)]
    by_id["REST"].answers = [session("REST", 2000)]
    await store.refresh()
    assert store.expiries == {("lake",): NOW + 1000, ("archive",): float("inf")}


async def test_a_storage_with_missing_credentials_has_expired(
    store: CredentialStore, made: list[MemoryProvider], clock: Clock
) -> None:
    """Zero is what the alert rule looks for."""
    await store.start([LAKE], [binding()])
    made[0].answers = [session("AKID", 100)]
    await store.refresh()
    clock.now += 100
    assert store.expiries == {("lake",): 0.0}


# -- reload ------------------------------------------------------------------------------------------------------------


async def test_a_reload_swaps_and_closes_what_it_replaces(store: CredentialStore, made: list[MemoryProvider]) -> None:
    """Operators change providers without a restart; the old one's connections must not pile up."""
    await store.start([LAKE], [binding(provider=memory(id="OLD"))])
    await store.start([LAKE], [binding(provider=memory(id="NEW"))])
    assert key_id(store) == "NEW"
    assert [(each.properties["id"], each.closed) for each in made] == [("OLD", 1), ("NEW", 0)]


async def test_a_reload_leaves_alone_what_it_does_not_change(
    store: CredentialStore, made: list[MemoryProvider]
) -> None:
    """Thousands of policy reloads must not ask a session service thousands of times."""
    await store.start([LAKE], [binding()])
    held = store.current(LAKE, "sales")
    await store.start([LAKE, storage("archive")], [binding(), binding("archive")])
    assert store.current(LAKE, "sales") is held
    assert [(len(each.scopes), each.closed) for each in made] == [(1, 0), (1, 0)]
    await store.start([LAKE], [binding()])
    assert [each.closed for each in made] == [0, 1]


@pytest.mark.parametrize("fault", ("binding", "provider", "class"))
async def test_a_reload_that_fails_changes_nothing(
    store: CredentialStore, made: list[MemoryProvider], fault: str
) -> None:
    """A slip in the settings must not stop what works."""
    await store.start([LAKE], [binding(provider=memory(id="OLD"))])
    wrong = {
        "binding": [binding("other")],
        "provider": [binding(provider=memory(fail="no"))],
        "class": [binding(provider=memory(id="NEW"), buckets={"hr": memory(crash="no")})],
    }[fault]
    with pytest.raises(ProviderInvalid):
        await store.start([LAKE], wrong)
    assert key_id(store) == "OLD"
    assert made[0].closed == 0
    # What was made on the way is not left behind.
    assert all(each.closed == 1 for each in made[1:] if each.properties.get("id") == "NEW")
    await store.refresh()
    assert len(made[0].scopes) == 2


async def test_a_reload_names_every_provider_that_fails(store: CredentialStore) -> None:
    """One message per run makes a set-up of ten providers a set-up of ten runs."""
    own = {"hr": memory(fail="second")}
    with pytest.raises(ProviderInvalid) as caught:
        await store.start([LAKE], [binding(provider=memory(fail="first"), buckets=own)])
    assert [found.problem for found in caught.value.findings] == ["first", "second"]


async def test_a_storage_with_another_endpoint_keeps_its_credentials(
    store: CredentialStore, made: list[MemoryProvider]
) -> None:
    """A policy change must not take the keys away because the provider has no answer just then."""
    await store.start([LAKE], [binding(provider=memory(id="HELD"))])
    made[0].answers = [OSError("no route")]
    moved = storage("lake", "https://s3.example.com", "https://other.example.com")
    await store.start([moved], [binding(provider=memory(id="HELD"), hosts=(".example.com",))])
    assert store.current(moved, "sales").access_key_id == "HELD"
    assert len(made) == 1


# -- the end -----------------------------------------------------------------------------------------------------------


async def test_closing_forgets_the_credentials_and_ends_every_task(
    store: CredentialStore, made: list[MemoryProvider]
) -> None:
    """A task that outlives the server keeps the process alive."""
    await store.start([LAKE], [binding(buckets={"hr": memory(id="HR")})])
    made[0].gate.clear()
    asking = asyncio.create_task(store.refresh())
    await turns()
    await store.aclose()
    await asyncio.gather(asking, return_exceptions=True)
    assert "not bound" in reason_of(store)
    assert [each.closed for each in made] == [1, 1]
    assert {task for task in asyncio.all_tasks() if "_keep_fresh" in repr(task) or "_ask" in repr(task)} == set()


async def test_the_store_shows_no_secret(store: CredentialStore) -> None:
    """States go to `/status`, and everything else into traces."""
    await store.start([LAKE], [binding()])
    assert SECRET not in f"{store!r}{store.states!r}{store._slots!r}"
