"""Turn settings into the rooms' own values; whatever is wrong with them is found here, before anything listens."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from signproxy import __version__
from signproxy.audit.segment import instance_name
from signproxy.audit.segments import MIB, SegmentSettings, SegmentSink, Sync
from signproxy.audit.sink import AuditSink, FileSink, StdoutSink
from signproxy.config.s3 import S3Identity, S3Settings
from signproxy.config.settings import AuditSinkKind, Settings
from signproxy.config.storage import StorageBinding, Vend, source_faults
from signproxy.credentials.bindings import check_bindings
from signproxy.credentials.provider import Binding, ProviderSpec
from signproxy.credentials.registry import BUILT_IN, ProviderRegistry
from signproxy.errors import Finding, SettingsInvalid, nearest
from signproxy.identity.authenticator import Authenticator
from signproxy.identity.emulated import EmulatedKeys
from signproxy.identity.pod_caller import PodIdentity, TokenFile
from signproxy.identity.s3_caller import S3Callers
from signproxy.inventory.declared.source import FilePolicySource
from signproxy.policy.state import PolicyState
from signproxy.s3.storage import Storage
from signproxy.server.process.issuers import issuers_of, static_tokens_of
from signproxy.server.process.seals import Seals
from signproxy.vending.vending import Issuing

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


def audit_sink(
    settings: Settings, config_digest: str = "", sealed: Callable[[Path], None] = lambda _path: None
) -> AuditSink:
    """Return where audit events go; `sealed` is told of each segment that is complete. Raise SettingsInvalid."""
    audit = settings.audit
    if audit.sink is AuditSinkKind.STDOUT:
        return StdoutSink()
    segments = audit.sink is AuditSinkKind.SEGMENTS
    try:
        if segments:
            return SegmentSink(segment_settings(settings, config_digest), sealed)
        return FileSink(Path(audit.path))
    except OSError as error:
        key, place = ("directory", audit.directory) if segments else ("path", audit.path)
        problem = f"{place!r} cannot be written: {error.strerror}"
        raise SettingsInvalid([Finding("", f"audit.{key}", problem)]) from None


def segment_settings(settings: Settings, config_digest: str) -> SegmentSettings:
    """Return what segments are made of."""
    audit = settings.audit
    return SegmentSettings(
        directory=Path(audit.directory),
        instance=instance_name(audit.instance or os.environ.get("HOSTNAME") or socket.gethostname()),
        version=__version__,
        config_digest=config_digest,
        max_bytes=audit.segment_mib * MIB,
        max_seconds=float(audit.segment_seconds),
        sync=Sync(audit.fsync.value),
        spool_bytes=audit.spool_mib * MIB,
    )


def missing_target(state: PolicyState, settings: Settings) -> Iterator[Finding]:
    """Yield what is wrong where segments are to be shipped to a storage that the policy does not have."""
    ship = settings.audit.ship
    known = {storage for catalog in state.catalogs.values() for storage in catalog.storages}
    if ship.wanted and ship.storage not in known:
        problem = f"no catalog of the policy has the storage {ship.storage!r}{nearest(ship.storage, known)}"
        yield Finding("", "audit.ship.storage", problem)


def emulated_keys(settings: S3Settings, seals: Seals, authenticator: Authenticator) -> EmulatedKeys | None:
    """Return what issues and opens S3 keys; None where no listener would take one."""
    if not settings.enabled or S3Identity.EMULATED not in settings.identities:
        return None
    return EmulatedKeys(seals.s3_keys, seals.s3_secrets, authenticator, settings.keys.max_seconds)


def issuing_of(settings: Settings, keys: EmulatedKeys | None) -> Issuing | None:
    """Return what issues keys for tables; None where no storage has its keys issued."""
    most = float(settings.s3.keys.max_seconds)
    issued = {
        name: min(float(binding.vend_seconds), most)
        for name, binding in settings.storages.items()
        if binding.vend is Vend.ISSUED
    }
    return None if keys is None or not issued else Issuing(keys, settings.s3.client_url, issued)


def s3_callers(
    settings: S3Settings, keys: EmulatedKeys | None, authenticator: Authenticator, state: PolicyState
) -> S3Callers:
    """Return what tells the callers of the listener; it remembers keys, and is made anew with each generation."""
    bearer = S3Identity.BEARER in settings.identities
    pod = None
    if S3Identity.POD in settings.identities:
        pod = PodIdentity(
            TokenFile(Path(settings.pod.token_file)), frozenset(settings.pod.uids), authenticator.authenticate
        )
    # Some stores take a signature for any region; one for a region that is not here was made for another service.
    regions = frozenset(storage.region for catalog in state.catalogs.values() for storage in catalog.storages.values())
    return S3Callers(keys, authenticator, bearer=bearer, pod=pod, regions=regions)


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
