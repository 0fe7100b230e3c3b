"""Turn settings into the rooms' own values; whatever is wrong with them is found here, before anything listens."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from signproxy.audit.sink import AuditSink, FileSink, StdoutSink
from signproxy.config.settings import AuditSinkKind, Settings
from signproxy.config.storage import StorageBinding, source_faults
from signproxy.credentials.bindings import check_bindings
from signproxy.credentials.provider import Binding, ProviderSpec
from signproxy.credentials.registry import BUILT_IN, ProviderRegistry
from signproxy.errors import Finding, SettingsInvalid
from signproxy.identity.authenticator import Authenticator
from signproxy.inventory.source import FilePolicySource
from signproxy.s3.storage import Storage
from signproxy.server.issuers import issuers_of, static_tokens_of

_BUILT_IN_CLASSES = {
    "static": f"{BUILT_IN}.static:StaticProvider",
    "chain": f"{BUILT_IN}.chain:ChainProvider",
    "assume-role": f"{BUILT_IN}.assume_role:AssumeRoleProvider",
}


def authenticator(settings: Settings) -> Authenticator:
    """Return the authenticator of the issuers and static tokens."""
    return Authenticator(issuers_of(settings.identity), static_tokens_of(settings.identity))


def single_issuer(settings: Settings) -> bool:
    """Whether a principal of the policy may leave the issuer's name out."""
    return len(settings.identity.issuers) + bool(settings.identity.static_tokens) == 1


def bindings(settings: Settings) -> tuple[Binding, ...]:
    """Return which credentials sign for which storage, and towards which hosts."""
    return tuple(_binding(name, binding, settings) for name, binding in settings.storages.items())


def registry(settings: Settings) -> ProviderRegistry:
    """Return the registry that may load the provider classes of the allowed modules."""
    return ProviderRegistry((BUILT_IN, *settings.credentials.modules))


def policy_source(settings: Settings) -> FilePolicySource:
    """Return the source of the policy, which refuses storages that the operator has not bound."""
    bound = bindings(settings)

    def unbound(storages: Mapping[str, Storage]) -> list[Finding]:
        return check_bindings(storages.values(), bound, path="storages")

    return FilePolicySource(Path(settings.policy.path), unbound, single_issuer=single_issuer(settings))


def audit_sink(settings: Settings) -> AuditSink:
    """Return where audit events go."""
    if settings.audit.sink is AuditSinkKind.STDOUT:
        return StdoutSink()
    try:
        return FileSink(Path(settings.audit.path))
    except OSError as error:
        problem = f"{settings.audit.path!r} cannot be written: {error.strerror}"
        raise SettingsInvalid([Finding("", "audit.path", problem)]) from None


def _binding(name: str, binding: StorageBinding, settings: Settings) -> Binding:
    return Binding(
        name,
        _spec(binding.credentials, settings),
        binding.hosts,
        {bucket: _spec(provider, settings) for bucket, provider in binding.buckets.items()},
    )


def _spec(name: str, settings: Settings) -> ProviderSpec:
    """Return a provider with those that it starts from. Raise SettingsInvalid if they make no chain with an end."""
    providers = settings.credentials.providers
    if faults := tuple(source_faults(providers)):
        raise SettingsInvalid(Finding("", path, problem) for path, problem in faults)
    provider = providers[name]
    return ProviderSpec(
        _BUILT_IN_CLASSES.get(provider.class_, provider.class_),
        provider.properties,
        name,
        _spec(provider.source, settings) if provider.source else None,
    )
