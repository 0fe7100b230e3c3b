"""How the settings name providers, put one on top of another, and say what is wrong with that."""

from __future__ import annotations

import pytest

from signproxy.config.settings import Settings
from signproxy.config.storage import CredentialsSettings, ProviderSettings, StorageBinding, source_faults
from signproxy.credentials.registry import ProviderRegistry, key_of
from signproxy.errors import ProviderInvalid, SettingsInvalid
from signproxy.server.process import build

ROLE = {"role_arn": "arn:aws:iam::123456789012:role/lake"}
STATIC = ProviderSettings("static", {"file": "keys.json"})


def settings_of(**providers: ProviderSettings) -> Settings:
    """Return settings with one storage, bound to the provider `lake`."""
    return Settings(
        credentials=CredentialsSettings(providers),
        storages={"lake": StorageBinding("lake", ("s3.example.com",))},
    )


def role(source: str, properties: dict[str, str] | None = None) -> ProviderSettings:
    return ProviderSettings("assume-role", ROLE if properties is None else properties, source)


async def made(settings: Settings) -> str:
    """Return the text of the provider that the settings lead to."""
    registry = build.registry(settings)
    (binding,) = build.bindings(settings)
    try:
        return repr(await registry.get(binding.provider, binding.storage))
    finally:
        await registry.aclose()


@pytest.mark.parametrize(
    ("providers", "text"),
    (
        ({"lake": STATIC}, "StaticProvider("),
        ({"lake": ProviderSettings("chain")}, "ChainProvider("),
        ({"lake": role("keys"), "keys": STATIC}, "source=StaticProvider("),
        (
            {"lake": role("pod"), "pod": ProviderSettings("chain", {"methods": "container-role"})},
            "source=ChainProvider(",
        ),
        ({"lake": role("middle"), "middle": role("keys"), "keys": STATIC}, "source=AssumeRoleProvider("),
    ),
)
async def test_the_names_of_the_settings_lead_to_the_providers(
    providers: dict[str, ProviderSettings], text: str
) -> None:
    """These names are in every deployed file."""
    assert text in await made(settings_of(**providers))


@pytest.mark.parametrize(
    ("sources", "faults"),
    (
        ({"a": "b", "b": ""}, {}),
        ({"a": "c", "b": "c", "c": ""}, {}),
        ({"a": "keyz", "keys": ""}, {"a": "credentials.providers has no 'keyz' (did you mean 'keys'?)"}),
        ({"a": "zzz"}, {"a": "credentials.providers has no 'zzz'"}),
        ({"a": "a"}, {"a": "goes round in a circle: a -> a"}),
        ({"a": "b", "b": "a"}, {"a": "goes round in a circle: a -> b -> a"}),
        # A provider that leads into a circle is not at fault, and one that leads nowhere does not hide the circle.
        ({"x": "a", "a": "b", "b": "a", "y": "no"}, {"a": "a -> b -> a", "y": "has no 'no'"}),
        ({"a": "b", "b": "c", "c": "b"}, {"b": "b -> c -> b"}),
        ({"a": "b", "b": "a", "c": "d", "d": "c"}, {"a": "a -> b -> a", "c": "c -> d -> c"}),
    ),
)
def test_a_source_that_leads_nowhere_is_named(sources: dict[str, str], faults: dict[str, str]) -> None:
    """A circle would otherwise be found by a process that never starts."""
    providers = {name: ProviderSettings("assume-role", {}, source) for name, source in sources.items()}
    found = dict(source_faults(providers))
    assert found.keys() == {f"credentials.providers.{name}.source" for name in faults}
    assert [name for name, part in faults.items() if part not in found[f"credentials.providers.{name}.source"]] == []
    if faults:
        settings = settings_of(lake=STATIC, **providers)
        with pytest.raises(SettingsInvalid) as caught:
            build.bindings(settings)
        assert {finding.path for finding in caught.value.findings} == found.keys()


@pytest.mark.parametrize(
    ("lake", "path", "problem"),
    (
        (role(""), "lake.source", "this key is missing"),
        (
            ProviderSettings("static", {"file": "keys.json"}, "keys"),
            "lake.source",
            "StaticProvider starts from no other",
        ),
        (ProviderSettings("chain", {}, "keys"), "lake.source", "ChainProvider starts from no other"),
        (role("keys", {"role_arn": "x"}), "lake.properties.role_arn", "is no ARN"),
        # The fault of the provider below has the path of that one.
        (role("wrong"), "wrong.properties.fil", "did you mean 'file'?"),
    ),
)
async def test_a_class_that_takes_no_source_gets_none(lake: ProviderSettings, path: str, problem: str) -> None:
    """A key without effect is a slip, and here one that signs with other keys than were meant."""
    wrong = ProviderSettings("static", {"fil": "keys.json"})
    with pytest.raises(ProviderInvalid) as caught:
        await made(settings_of(lake=lake, keys=STATIC, wrong=wrong))
    found = {finding.path: finding.problem for finding in caught.value.findings}
    assert problem in found[f"credentials.providers.{path}"]


def test_the_same_place_with_another_source_is_another_use() -> None:
    """A reload that only replaces what lies below must not go on with the old keys."""
    first, second = (
        build.bindings(settings_of(lake=role("keys"), keys=ProviderSettings("static", {"file": file})))[0].provider
        for file in ("a.json", "b.json")
    )
    assert key_of(first, "lake") != key_of(second, "lake")
    assert key_of(first, "lake") == key_of(first, "lake")


async def test_what_lies_below_is_closed_with_what_stands_on_it() -> None:
    """A provider below has connections too, and nothing else knows of it."""
    registry = ProviderRegistry(("tests.credentials", "signproxy.credentials"))
    from tests.credentials.memory import MemoryProvider
    from tests.credentials.values import memory

    MemoryProvider.made.clear()
    spec = build.bindings(settings_of(lake=role("keys"), keys=STATIC))[0].provider
    spec = type(spec)(spec.class_path, spec.properties, spec.name, memory(id="below"))
    await registry.get(spec, "lake")
    assert [each.closed for each in MemoryProvider.made] == [0]
    await registry.aclose()
    assert [each.closed for each in MemoryProvider.made] == [1]
    # And if what stands on it could not be made.
    broken = type(spec)(spec.class_path, {}, spec.name, memory(id="below"))
    with pytest.raises(ProviderInvalid, match="role_arn"):
        await registry.get(broken, "lake")
    assert [each.closed for each in MemoryProvider.made] == [1, 1]
    MemoryProvider.made.clear()
