"""Which classes may become providers, and that each use has exactly one instance."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from signproxy.credentials import registry as registry_module
from signproxy.credentials.provider import ProviderSpec
from signproxy.credentials.registry import BUILT_IN, ProviderRegistry, load_class
from signproxy.credentials.static import StaticProvider
from signproxy.errors import ProviderInvalid
from tests.credentials.memory import MemoryProvider
from tests.credentials.values import MEMORY, memory

ALLOWED = (BUILT_IN, "tests.credentials")


@pytest.fixture(autouse=True)
def made() -> Iterator[list[MemoryProvider]]:
    """Every fake that a test leads to."""
    MemoryProvider.made.clear()
    yield MemoryProvider.made
    MemoryProvider.made.clear()


def problem_of(class_path: str, allowed: tuple[str, ...] = ALLOWED) -> str:
    with pytest.raises(ProviderInvalid) as caught:
        load_class(ProviderSpec(class_path, {}, "keys"), allowed)
    (finding,) = caught.value.findings
    assert finding.path == "credentials.providers.keys.class"
    return finding.problem


# -- which class -------------------------------------------------------------------------------------------------------


def test_the_built_in_provider_needs_no_permission() -> None:
    """The simplest set-up must work without a list."""
    assert load_class(ProviderSpec("signproxy.credentials.static:StaticProvider")) is StaticProvider


def test_a_listed_module_may_bring_a_provider() -> None:
    """An operator with another source of keys brings a class for it."""
    found = load_class(memory(), ALLOWED)
    assert (found.__module__, found.__name__) == (MemoryProvider.__module__, "MemoryProvider")
    assert load_class(memory(), ("tests.credentials.memory",)) is found


@pytest.mark.parametrize(
    "allowed",
    (
        (),
        (BUILT_IN,),
        ("tests.credentials.other",),
        # A prefix of the name is no prefix of the path.
        ("tests.cred",),
        ("tests.credentials.mem",),
        ("",),
    ),
)
def test_a_module_that_is_not_listed_is_not_even_imported(allowed: tuple[str, ...], tmp_path: Path) -> None:
    """Importing runs code: a package that merely lies on the path must not decide how signproxy signs."""
    (tmp_path / "lying_around.py").write_text("raise SystemExit('imported')\n")
    sys.path.insert(0, str(tmp_path))
    try:
        assert "not below an allowed one" in problem_of("lying_around:Provider", allowed)
    finally:
        sys.path.remove(str(tmp_path))
    assert "not below an allowed one" in problem_of(MEMORY, allowed)


@pytest.mark.parametrize(
    ("class_path", "problem"),
    (
        ("tests.credentials.memory.MemoryProvider", "is not of the form"),
        ("tests.credentials.memory:", "is not of the form"),
        (":MemoryProvider", "is not of the form"),
        ("tests.credentials.memory:MemoryProvider.made", "is not of the form"),
        ("tests..credentials:X", "is not of the form"),
        ("../tests:X", "is not of the form"),
        ("tests.credentials.memory:MemoryProvider\n", "is not of the form"),
        ("tests.credentials.memory:MemoryProvder", "no class 'MemoryProvder' (did you mean 'MemoryProvider'?)"),
        ("tests.credentials.memry:MemoryProvider", "(did you mean 'tests.credentials.memory'?)"),
        ("tests.credentials.nowhere.at.all:X", "there is no module"),
        ("tests.credentials.memory:NotAProvider", "is no credential provider"),
        ("tests.credentials.memory:BlockingProvider", "is no credential provider"),
        ("tests.credentials.memory:SECRET", "is no credential provider"),
        # A name that the module merely imported.
        ("tests.credentials.memory:Storage", "is no credential provider"),
        # The protocol itself does nothing.
        ("signproxy.credentials.provider:CredentialProvider", "is no credential provider"),
    ),
)
def test_a_class_that_cannot_be_used_is_named_with_the_nearest(class_path: str, problem: str) -> None:
    """The operator who configures it reads this message, and nothing else."""
    assert problem in problem_of(class_path)


def test_a_class_from_a_module_that_is_not_listed_cannot_be_borrowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listed module imports others; its names must not become a way around the list."""
    monkeypatch.setattr(StaticProvider, "__module__", "elsewhere")
    assert "is no credential provider" in problem_of("signproxy.credentials.static:StaticProvider")


@pytest.mark.parametrize(
    ("body", "problem"),
    (
        ("import surely_not_installed", "needs 'surely_not_installed', which is not installed"),
        ("from os import surely_not_there", "cannot be imported"),
    ),
)
def test_a_module_that_does_not_import_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, problem: str
) -> None:
    """`No module named ...` for the plug-in itself would send the operator looking in the wrong place."""
    (tmp_path / "broken_plugin.py").write_text(body)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert problem in problem_of("broken_plugin:Provider", ("broken_plugin",))


# -- one instance ------------------------------------------------------------------------------------------------------


async def test_two_hundred_tasks_share_one_initialisation(made: list[MemoryProvider]) -> None:
    """A provider that logs in at the start must not do so once per request of a cold pod."""
    registry = ProviderRegistry(ALLOWED)
    got = await asyncio.gather(*(registry.get(memory(id="A"), "lake") for _ in range(200)))
    assert len(made) == 1
    assert {id(each) for each in got} == {id(made[0])}
    assert made[0].initialized == 1
    await registry.aclose()


async def test_instances_are_kept_apart_by_class_storage_and_properties(made: list[MemoryProvider]) -> None:
    """Shared between two storages or two sets of properties, one would sign with the other's keys."""
    registry = ProviderRegistry(ALLOWED)
    uses = [(memory(id="A"), "lake"), (memory(id="B"), "lake"), (memory(id="A"), "archive"), (memory(), "lake")]
    got = [await registry.get(spec, name) for spec, name in uses]
    assert len({id(each) for each in got}) == len(made) == 4
    assert await registry.get(memory(id="A"), "lake") is got[0]
    await registry.aclose()


async def test_the_order_of_properties_does_not_matter(made: list[MemoryProvider]) -> None:
    """A settings file that was sorted anew is the same settings."""
    registry = ProviderRegistry(ALLOWED)
    await registry.get(memory(id="A", region="B"), "lake")
    await registry.get(memory(region="B", id="A"), "lake")
    assert len(made) == 1
    await registry.aclose()


@pytest.mark.parametrize(
    ("properties", "path", "problem"),
    (
        ({"fail": "wrong"}, "credentials.providers.fake.properties.fail", "wrong"),
        ({"crash": "boom"}, "credentials.providers.fake", "initialising failed: RuntimeError('boom')"),
    ),
)
async def test_a_failed_initialisation_is_raised_to_all_and_tried_again(
    made: list[MemoryProvider], properties: dict[str, str], path: str, problem: str
) -> None:
    """A failure that is kept outlives its cause; one that is replaced signs with another storage's keys."""
    registry = ProviderRegistry(ALLOWED)
    tries = [registry.get(memory(**properties), "lake") for _ in range(50)]
    results = await asyncio.gather(*tries, return_exceptions=True)
    assert len(made) == 1
    for result in results:
        assert isinstance(result, ProviderInvalid)
        assert [(found.path, found.problem) for found in result.findings] == [(path, problem)]
    with pytest.raises(ProviderInvalid):
        await registry.get(memory(**properties), "lake")
    assert len(made) == 2
    await registry.aclose()


async def test_a_provider_that_cannot_be_made_is_a_finding() -> None:
    """A plug-in with a constructor of its own is a fault in the settings, not a crash."""
    registry = ProviderRegistry(ALLOWED)
    with pytest.raises(ProviderInvalid, match="initialising failed: TypeError"):
        await registry.get(ProviderSpec("tests.credentials.memory:NeedsArguments"), "lake")


async def test_who_gives_up_waiting_does_not_stop_the_others(made: list[MemoryProvider]) -> None:
    """One caller that disconnects must not fail the start for all."""
    registry = ProviderRegistry(ALLOWED)
    first = asyncio.create_task(registry.get(memory(), "lake"))
    second = asyncio.create_task(registry.get(memory(), "lake"))
    await asyncio.sleep(0)
    first.cancel()
    assert await second is made[0]
    assert first.cancelled()
    await registry.aclose()


# -- the end -----------------------------------------------------------------------------------------------------------


async def test_closing_closes_every_provider_whatever_one_of_them_does(
    made: list[MemoryProvider], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A plug-in that hangs or raises must neither delay the shutdown nor leave the others open."""
    monkeypatch.setattr(registry_module, "CLOSE_SECONDS", 0.05)
    registry = ProviderRegistry(ALLOWED)
    for spec in (memory(), memory(hang="x"), memory(crash_on_close="x"), memory(id="B")):
        await registry.get(spec, "lake")
    await registry.aclose()
    assert [each.closed for each in made] == [1, 1, 1, 1]
    assert capsys.readouterr().err.count("closing a credential provider failed") == 2


async def test_only_what_is_no_longer_used_is_closed(made: list[MemoryProvider]) -> None:
    """A reload must not interrupt the storages that it does not touch."""
    registry = ProviderRegistry(ALLOWED)
    kept = await registry.get(memory(id="A"), "lake")
    await registry.get(memory(id="B"), "lake")
    await registry.retain([registry_module.key_of(memory(id="A"), "lake")])
    assert [each.closed for each in made] == [0, 1]
    assert await registry.get(memory(id="A"), "lake") is kept
    await registry.aclose()


async def test_closing_stops_an_initialisation_that_is_under_way() -> None:
    """A shutdown during the start must not leave a task behind."""
    registry = ProviderRegistry(ALLOWED)
    waiting = asyncio.create_task(registry.get(memory(), "lake"))
    await asyncio.sleep(0)
    await registry.aclose()
    with pytest.raises(asyncio.CancelledError):
        await waiting
