"""Make credential providers from the classes that the settings name, one instance per use."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import re
from collections.abc import Iterable
from types import ModuleType
from typing import NamedTuple

from signproxy.credentials.provider import CredentialProvider, LayeredProvider, ProviderSpec
from signproxy.errors import Finding, ProviderInvalid, nearest
from signproxy.telemetry.log import get_logger

BUILT_IN = "signproxy.credentials"
"""The modules that may be named without the operator listing them."""

PROVIDERS = "credentials.providers"
"""Where the settings have them."""

CLOSE_SECONDS = 5.0
"""A provider that hangs must not use up what an orchestrator grants for the shutdown."""

_CLASS_PATH = re.compile(r"(?P<module>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):(?P<name>[A-Za-z_]\w*)", re.ASCII)
_METHODS = ("initialize", "get", "aclose")

_log = get_logger("signproxy.credentials")

Key = tuple[object, ...]


class ProviderRegistry:
    """The instances in use, by class, storage and properties.

    The storage is part of the key so that no two of them share a provider's state; the properties are, so that a
    reload with other properties gets a new instance instead of the old one's credentials.
    """

    def __init__(self, allowed: Iterable[str] = (BUILT_IN,)) -> None:
        self.allowed = tuple(allowed)
        """The modules that classes may come from."""
        self._instances: dict[Key, asyncio.Task[_Made]] = {}

    async def get(self, spec: ProviderSpec, storage: str, allowed: tuple[str, ...] | None = None) -> CredentialProvider:
        """Return the instance for a storage, initialised once however many ask at the same time.

        `allowed` takes the place of the registry's own modules for this call.

        Raise ProviderInvalid if it cannot be made. Nothing else takes its place, and the next call tries again.
        """
        key = key_of(spec, storage)
        task = self._instances.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(_make(spec, self.allowed if allowed is None else allowed))
            self._instances[key] = task
            # By the task itself: a caller that waits may be cancelled before it ends.
            task.add_done_callback(lambda done: self._forget_failure(key, done))
        return (await asyncio.shield(task)).provider

    async def check(self, spec: ProviderSpec, allowed: Iterable[str]) -> None:
        """Raise ProviderInvalid if the class of a provider, or of one that it starts from, may not be used."""
        layer: ProviderSpec | None = spec
        while layer is not None:
            load_class(layer, allowed)
            layer = layer.source

    def _forget_failure(self, key: Key, done: asyncio.Task[_Made]) -> None:
        # Asking for the exception also says that it was seen: it was raised to those who waited.
        if (done.cancelled() or done.exception() is not None) and self._instances.get(key) is done:
            del self._instances[key]

    async def retain(self, keys: Iterable[Key]) -> None:
        """Close every instance except these."""
        keep = set(keys)
        closed = [self._instances.pop(key) for key in list(self._instances) if key not in keep]
        await asyncio.gather(*map(_close, closed))

    async def aclose(self) -> None:
        """Close every instance."""
        await self.retain(())


class _Made(NamedTuple):
    """A provider with the one below it, which is its own and is closed with it."""

    provider: CredentialProvider
    below: _Made | None


async def _make(spec: ProviderSpec, allowed: tuple[str, ...]) -> _Made:
    chosen = load_class(spec, allowed)
    layered = issubclass(chosen, LayeredProvider)
    if layered and spec.source is None:
        raise ProviderInvalid([Finding("", _path(spec, "source"), "this key is missing: it names the provider below")])
    if spec.source is not None and not layered:
        raise ProviderInvalid([Finding("", _path(spec, "source"), f"{chosen.__name__} starts from no other provider")])
    below = None if spec.source is None else await _make(spec.source, allowed)
    try:
        provider = chosen()
        if below is not None and isinstance(provider, LayeredProvider):
            provider.on_top_of(below.provider)
        await provider.initialize(dict(spec.properties))
    except BaseException as error:
        if below is not None:
            await _close_made(below)
        if isinstance(error, ProviderInvalid):
            raise ProviderInvalid(
                Finding(found.file, _path(spec, "properties", found.path), found.problem) for found in error.findings
            ) from None
        if not isinstance(error, Exception):
            raise
        # A plug-in may raise anything; the operator wants to know which provider it was.
        raise ProviderInvalid([Finding("", _path(spec), f"initialising failed: {error!r}")]) from error
    return _Made(provider, below)


def key_of(spec: ProviderSpec, storage: str) -> Key:
    """Return what an instance is known by."""
    below = () if spec.source is None else key_of(spec.source, storage)
    return spec.class_path, storage, tuple(sorted(spec.properties.items())), below


def load_class(spec: ProviderSpec, allowed: Iterable[str] = (BUILT_IN,)) -> type[CredentialProvider]:
    """Return the class that the settings name, or raise ProviderInvalid.

    Only modules on the list are imported: importing runs code, and a package that merely lies on the path must not
    decide how signproxy signs.
    """
    allowed = tuple(allowed)
    match = _CLASS_PATH.fullmatch(spec.class_path)
    if match is None:
        raise _invalid(spec, f"{spec.class_path!r} is not of the form 'package.module:Class'")
    module_name, name = match["module"], match["name"]
    if not _is_allowed(module_name, allowed):
        raise _invalid(spec, f"module {module_name!r} is not below an allowed one: {', '.join(allowed) or 'none'}")
    module = _import(spec, module_name)
    found = getattr(module, name, None)
    classes = [each for each, value in vars(module).items() if _is_provider(value, allowed)]
    if found is None:
        raise _invalid(spec, f"module {module_name!r} has no class {name!r}{nearest(name, classes)}")
    if not _is_provider(found, allowed):
        methods = ", ".join(_METHODS)
        raise _invalid(
            spec, f"{spec.class_path!r} is no credential provider: a class with async {methods} and with files is"
        )
    provider: type[CredentialProvider] = found
    return provider


def _import(spec: ProviderSpec, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
            raise _invalid(spec, f"module {name!r} needs {error.name!r}, which is not installed") from error
        raise _invalid(spec, f"there is no module {name!r}{nearest(name, _siblings(name))}") from None
    except ImportError as error:
        raise _invalid(spec, f"module {name!r} cannot be imported: {error}") from error


def _siblings(name: str) -> list[str]:
    import pkgutil  # noqa: PLC0415 - only after a typing error

    parent = name.rpartition(".")[0]
    try:
        package = importlib.import_module(parent) if parent else None
    except ImportError:
        return []
    return [f"{parent}.{found.name}" for found in pkgutil.iter_modules(getattr(package, "__path__", ()))]


def _is_allowed(module: str, allowed: Iterable[str]) -> bool:
    return any(module == each or module.startswith(each + ".") for each in allowed)


def _is_provider(value: object, allowed: Iterable[str]) -> bool:
    # A module's names include what it imports itself; only a class from an allowed module is meant.
    return (
        inspect.isclass(value)
        and _is_allowed(value.__module__, allowed)
        and not getattr(value, "_is_protocol", False)
        and all(inspect.iscoroutinefunction(getattr(value, method, None)) for method in _METHODS)
        and callable(getattr(value, "files", None))
    )


async def _close(making: asyncio.Task[_Made]) -> None:
    if not making.done():
        making.cancel()
        await asyncio.wait([making], timeout=CLOSE_SECONDS)
    if making.cancelled() or not making.done() or making.exception() is not None:
        return
    await _close_made(making.result())


async def _close_made(made: _Made) -> None:
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await made.provider.aclose()
    except Exception as error:  # noqa: BLE001 - a plug-in may raise anything, and the others must still be closed
        _log.warning("closing a credential provider failed", provider=repr(made.provider), error=type(error).__name__)
    if made.below is not None:
        await _close_made(made.below)


def _path(spec: ProviderSpec, *parts: str) -> str:
    return ".".join(part for part in (PROVIDERS, spec.name, *parts) if part)


def _invalid(spec: ProviderSpec, problem: str) -> ProviderInvalid:
    return ProviderInvalid([Finding("", _path(spec, "class"), problem)])
