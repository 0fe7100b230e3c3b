"""Make credential providers from the classes that the settings name, one instance per use."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import re
from collections.abc import Iterable
from types import ModuleType

from signproxy.credentials.provider import CredentialProvider, ProviderSpec
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

Key = tuple[str, str, tuple[tuple[str, str], ...]]


class ProviderRegistry:
    """The instances in use, by class, storage and properties.

    The storage is part of the key so that no two of them share a provider's state; the properties are, so that a
    reload with other properties gets a new instance instead of the old one's credentials.
    """

    __slots__ = ("_allowed", "_instances")

    def __init__(self, allowed: Iterable[str] = (BUILT_IN,)) -> None:
        self._allowed = tuple(allowed)
        self._instances: dict[Key, asyncio.Task[CredentialProvider]] = {}

    async def get(self, spec: ProviderSpec, storage: str) -> CredentialProvider:
        """Return the instance for a storage, initialised once however many ask at the same time.

        Raise ProviderInvalid if it cannot be made. Nothing else takes its place, and the next call tries again.
        """
        key = key_of(spec, storage)
        task = self._instances.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._make(spec))
            self._instances[key] = task
            # By the task itself: whoever waits may be cancelled before it ends.
            task.add_done_callback(lambda done: self._forget_failure(key, done))
        return await asyncio.shield(task)

    def _forget_failure(self, key: Key, done: asyncio.Task[CredentialProvider]) -> None:
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

    async def _make(self, spec: ProviderSpec) -> CredentialProvider:
        chosen = load_class(spec, self._allowed)
        try:
            provider = chosen()
            await provider.initialize(dict(spec.properties))
        except ProviderInvalid as invalid:
            raise ProviderInvalid(
                Finding(found.file, _path(spec, "properties", found.path), found.problem) for found in invalid.findings
            ) from None
        except Exception as error:
            # A plug-in may raise anything; whoever reads the settings wants to know which provider it was.
            raise ProviderInvalid([Finding("", _path(spec), f"initialising failed: {error!r}")]) from error
        return provider


def key_of(spec: ProviderSpec, storage: str) -> Key:
    """Return what an instance is known by."""
    return spec.class_path, storage, tuple(sorted(spec.properties.items()))


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
        raise _invalid(spec, f"{spec.class_path!r} is no credential provider: a class with async {methods} is")
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
    import pkgutil  # noqa: PLC0415 - only for whoever mistyped something

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
    )


async def _close(made: asyncio.Task[CredentialProvider]) -> None:
    if not made.done():
        made.cancel()
        await asyncio.wait([made], timeout=CLOSE_SECONDS)
    if made.cancelled() or not made.done() or made.exception() is not None:
        return
    provider = made.result()
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await provider.aclose()
    except Exception as error:  # noqa: BLE001 - a plug-in may raise anything, and the others must still be closed
        _log.warning("closing a credential provider failed", provider=repr(provider), error=type(error).__name__)


def _path(spec: ProviderSpec, *parts: str) -> str:
    return ".".join(part for part in (PROVIDERS, spec.name, *parts) if part)


def _invalid(spec: ProviderSpec, problem: str) -> ProviderInvalid:
    return ProviderInvalid([Finding("", _path(spec, "class"), problem)])
