"""A reload in two steps: all is made beside what serves, then taken over at once, or dropped without a trace."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from signproxy.credentials.registry import BUILT_IN, ProviderRegistry
from signproxy.credentials.slot import RefreshResult
from signproxy.credentials.store import CredentialStore
from signproxy.errors import ProviderInvalid
from tests.credentials.memory import MemoryProvider
from tests.credentials.stores import LAKE, Clock, key_id, reason_of, session
from tests.credentials.values import binding, memory, storage
from tests.waiting import until


def alive() -> list[str]:
    """Return the background tasks of slots."""
    return [repr(task) for task in asyncio.all_tasks() if "_keep_fresh" in repr(task) or "_ask" in repr(task)]


async def test_preparing_changes_nothing_that_serves(store: CredentialStore, made: list[MemoryProvider]) -> None:
    """Another worker may still refuse, and then nothing may have happened."""
    await store.start([LAKE], [binding(provider=memory(id="OLD"))])
    before = store.states
    prepared = await store.prepare([LAKE, storage("new")], [binding(provider=memory(id="NEW")), binding("new")])
    assert key_id(store) == "OLD"
    assert store.states == before
    assert [(each.properties.get("id"), len(each.scopes), each.closed) for each in made] == [
        ("OLD", 1, 0),
        ("NEW", 1, 0),
        (None, 1, 0),
    ]
    await store.discard(prepared)


async def test_a_commit_serves_from_the_call_on(store: CredentialStore, made: list[MemoryProvider]) -> None:
    """The policy, the keys and the credentials change between the same two requests: nothing may run in between."""
    await store.start([LAKE], [binding(provider=memory(id="OLD"))])
    prepared = await store.prepare([LAKE], [binding(provider=memory(id="NEW"))])
    replaced = store.commit(prepared)
    assert key_id(store) == "NEW"
    assert [each.closed for each in made] == [0, 0]
    await replaced
    assert [each.closed for each in made] == [1, 0]
    assert [state.problem for state in store.states] == [""]


async def test_what_is_discarded_leaves_nothing_behind(store: CredentialStore, made: list[MemoryProvider]) -> None:
    """A reload that fails every two seconds must not pile up connections."""
    await store.start([LAKE], [binding(provider=memory(id="OLD"))])
    tasks = len(alive())
    prepared = await store.prepare([LAKE], [binding(provider=memory(id="NEW"))])
    await store.discard(prepared)
    await store.discard(prepared)
    assert key_id(store) == "OLD"
    assert [each.closed for each in made] == [0, 1]
    assert len(alive()) == tasks
    with pytest.raises(RuntimeError, match="not open"):
        store.commit(prepared)
    assert key_id(store) == "OLD"


async def test_a_discard_that_comes_too_late_takes_nothing_away(
    store: CredentialStore, made: list[MemoryProvider]
) -> None:
    """Commit and abort may cross on their way from the supervisor."""
    prepared = await store.prepare([LAKE], [binding(provider=memory(id="NEW"))])
    await store.commit(prepared)
    await store.discard(prepared)
    assert key_id(store) == "NEW"
    assert made[0].closed == 0
    with pytest.raises(RuntimeError, match="not open"):
        store.commit(prepared)


async def test_a_new_preparation_takes_the_place_of_one_that_was_forgotten(
    store: CredentialStore, made: list[MemoryProvider]
) -> None:
    """A supervisor that died in the middle never says what became of it."""
    forgotten = await store.prepare([LAKE], [binding(provider=memory(id="FIRST"))])
    prepared = await store.prepare([LAKE], [binding(provider=memory(id="SECOND"))])
    assert [each.closed for each in made] == [1, 0]
    with pytest.raises(RuntimeError):
        store.commit(forgotten)
    await store.commit(prepared)
    assert key_id(store) == "SECOND"


async def test_what_does_not_change_is_neither_made_nor_asked(
    store: CredentialStore, made: list[MemoryProvider]
) -> None:
    """Thousands of policy reloads must not ask a session service thousands of times."""
    await store.start([LAKE], [binding()])
    held = store.current(LAKE, "sales")
    for _ in range(3):
        await store.commit(await store.prepare([LAKE], [binding()]))
        await store.discard(await store.prepare([LAKE], [binding()]))
    assert store.current(LAKE, "sales") is held
    assert [(len(each.scopes), each.closed) for each in made] == [(1, 0)]


async def test_a_reload_does_not_take_away_credentials_that_are_there(
    store: CredentialStore, made: list[MemoryProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new role cannot be assumed: the old one goes on serving, and the reload says why it did not happen."""
    await store.start([LAKE], [binding(provider=memory(id="OLD"))])
    monkeypatch.setattr(MemoryProvider, "get", failing)
    with pytest.raises(ProviderInvalid) as caught:
        await store.prepare([LAKE, storage("new")], [binding(provider=memory(id="NEW")), binding("new")])
    (finding,) = caught.value.findings
    assert finding.path == "credentials.providers.fake"
    assert "storage 'lake' would lose the credentials that it has: OSError: no route" in finding.problem
    assert key_id(store) == "OLD"
    assert [each.closed for each in made] == [0, 1, 1]


async def failing(*_arguments: object) -> None:
    raise OSError("no route")


async def test_a_new_storage_without_credentials_does_not_hold_up_the_others(
    store: CredentialStore, made: list[MemoryProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A revocation must not wait for a session service that is down."""
    await store.start([LAKE], [binding(provider=memory(id="OLD"))])
    with monkeypatch.context() as patched:
        patched.setattr(MemoryProvider, "get", failing)
        await store.commit(
            await store.prepare([LAKE, storage("new")], [binding(provider=memory(id="OLD")), binding("new")])
        )
        assert key_id(store) == "OLD"
        assert "no route" in {state.storage: state.problem for state in store.states}["new"]
    await until(lambda: store.expiries["new",] > 0)


async def test_a_preparation_that_is_given_up_leaves_nothing_behind(
    store: CredentialStore, made: list[MemoryProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shutdown in the middle of a reload, while a provider hangs."""
    await store.start([LAKE], [binding(provider=memory(id="OLD"))])
    tasks = len(alive())
    gate = asyncio.Event()

    async def hanging(*_arguments: object) -> None:
        await gate.wait()

    monkeypatch.setattr(MemoryProvider, "get", hanging)
    preparing = asyncio.create_task(store.prepare([LAKE], [binding(provider=memory(id="NEW"))]))
    await until(lambda: len(made) == 2 and len(alive()) > tasks)
    preparing.cancel()
    await asyncio.gather(preparing, return_exceptions=True)
    assert [each.closed for each in made] == [0, 1]
    assert len(alive()) == tasks
    assert key_id(store) == "OLD"


async def test_closing_what_was_replaced_spares_what_is_being_prepared(
    store: CredentialStore, made: list[MemoryProvider]
) -> None:
    """An operator who changes a provider and at once changes it back gets one that is alive."""
    await store.start([LAKE], [binding(provider=memory(id="A"))])
    replaced = store.commit(await store.prepare([LAKE], [binding(provider=memory(id="B"))]))
    back = asyncio.create_task(store.prepare([LAKE], [binding(provider=memory(id="A"))]))
    await asyncio.sleep(0)
    await replaced
    await store.commit(await back)
    assert key_id(store) == "A"
    in_use = next(iter(store._slots.values())).provider
    assert isinstance(in_use, MemoryProvider)
    assert in_use.closed == 0


async def test_modules_are_those_of_the_settings_that_are_loaded(clock: Clock, made: list[MemoryProvider]) -> None:
    """Taking a module off the list takes its classes out of use, and putting one on needs no restart."""
    store = CredentialStore(ProviderRegistry(), clock=clock)
    with pytest.raises(ProviderInvalid, match="not below an allowed one"):
        await store.prepare([LAKE], [binding()])
    prepared = await store.prepare([LAKE], [binding()], modules=["tests.credentials"])
    assert prepared.modules == (BUILT_IN, "tests.credentials")
    await store.commit(prepared)
    await store.commit(await store.prepare([LAKE], [binding()]))
    with pytest.raises(ProviderInvalid, match="not below an allowed one"):
        await store.prepare([LAKE], [binding()], modules=())
    assert key_id(store) == "AKID-lake"
    await store.aclose()


async def test_closing_discards_what_is_prepared(store: CredentialStore, made: list[MemoryProvider]) -> None:
    """SIGTERM between the two steps."""
    await store.start([LAKE], [binding(provider=memory(id="OLD"))])
    prepared = await store.prepare([LAKE], [binding(provider=memory(id="NEW"))])
    await store.aclose()
    assert [each.closed for each in made] == [1, 1]
    assert alive() == []
    with pytest.raises(RuntimeError):
        store.commit(prepared)
    assert "not bound" in reason_of(store)


async def test_the_files_of_all_places_are_told_once(store: CredentialStore) -> None:
    """The watcher looks at each every two seconds."""
    own = {"hr": memory(files="/run/a /run/b")}
    await store.start([LAKE, storage("other")], [binding(buckets=own), binding("other", memory(files="/run/b /run/c"))])
    assert sorted(store.files) == [Path("/run/a"), Path("/run/b"), Path("/run/c")]


async def test_refreshes_are_counted_by_result_over_reloads(store: CredentialStore, made: list[MemoryProvider]) -> None:
    """A counter that falls is taken for a restart."""
    assert store.refreshes == {"renewed": 0, "unchanged": 0, "failed": 0}
    await store.start([LAKE], [binding()])
    await store.refresh()
    made[0].answers = [session("NEXT", 3600), OSError("no route")]
    await store.refresh()
    await store.refresh()
    counted = store.refreshes
    assert (counted["renewed"], counted["unchanged"]) == (2, 1)
    assert counted["failed"] >= 1
    await store.start([storage("other")], [binding("other")])
    assert store.refreshes["renewed"] == 3
    assert set(counted) == {result.value for result in RefreshResult}
