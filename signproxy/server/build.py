"""Turn settings into the rooms' own values; whatever is wrong with them is found here, before anything listens."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from signproxy.audit.sink import AuditSink, FileSink, StdoutSink
from signproxy.config.identity import IssuerSettings
from signproxy.config.settings import AuditSinkKind, Settings
from signproxy.config.storage import StorageBinding
from signproxy.credentials.bindings import check_bindings
from signproxy.credentials.provider import Binding, ProviderSpec
from signproxy.credentials.registry import BUILT_IN, ProviderRegistry
from signproxy.errors import Finding, SettingsInvalid
from signproxy.identity.authenticator import Authenticator
from signproxy.identity.issuer import Discovery, Issuer, JwksUrl, KeySource, PemKey, PublicKeys, SharedSecret
from signproxy.identity.opaque import StaticToken, StaticTokens
from signproxy.inventory.source import FilePolicySource
from signproxy.s3.storage import Storage

MAX_KEY_FILE = 256 * 1024
"""A key file holds a few kilobytes; a wrong path must not read a disk image into memory."""

AMAZON_HOSTS = (".amazonaws.com", ".amazonaws.com.cn")
_BUILT_IN_CLASSES = {"static": f"{BUILT_IN}.static:StaticProvider"}
_PEM = re.compile(rb"-----BEGIN [A-Z0-9 ]+-----.*?-----END [A-Z0-9 ]+-----", re.DOTALL)


def authenticator(settings: Settings) -> Authenticator:
    """Return the authenticator of the issuers and static tokens."""
    identity = settings.identity
    issuers = [_issuer(name, issuer) for name, issuer in identity.issuers.items()]
    tokens = {
        token.sha256: StaticToken(token.principal, token.roles, token.catalogs) for token in identity.static_tokens
    }
    return Authenticator(issuers, StaticTokens(tokens))


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


def _issuer(name: str, issuer: IssuerSettings) -> Issuer:
    return Issuer(
        name=name,
        issuer=issuer.issuer,
        audiences=issuer.audiences,
        algorithms=tuple(algorithm.value for algorithm in issuer.algorithms),
        keys=_keys(f"identity.issuers.{name}", issuer),
        principal_claim=issuer.principal_claim,
        mutable_claims_accepted=issuer.mutable_claims_accepted,
        roles_claim=issuer.roles_claim,
        roles=issuer.roles,
        catalogs=issuer.catalogs,
        kubernetes=issuer.kubernetes,
    )


def _keys(path: str, issuer: IssuerSettings) -> KeySource:
    if issuer.secret_file:
        return SharedSecret(_read(issuer.secret_file, f"{path}.secret_file").rstrip(b"\r\n"))
    if issuer.key_file:
        return PublicKeys(tuple(map(PemKey, _PEM.findall(_read(issuer.key_file, f"{path}.key_file")))))
    if issuer.jwks_url:
        return JwksUrl(issuer.jwks_url, issuer.ca_file)
    return Discovery(issuer.jwks_hosts, issuer.ca_file)


def _binding(name: str, binding: StorageBinding, settings: Settings) -> Binding:
    hosts = tuple(host for named in binding.hosts for host in (AMAZON_HOSTS if named == "aws" else (named,)))
    return Binding(
        name,
        _spec(binding.credentials, settings),
        hosts,
        {bucket: _spec(provider, settings) for bucket, provider in binding.buckets.items()},
    )


def _spec(name: str, settings: Settings) -> ProviderSpec:
    provider = settings.credentials.providers[name]
    return ProviderSpec(_BUILT_IN_CLASSES.get(provider.class_, provider.class_), provider.properties, name)


def _read(file: str, path: str) -> bytes:
    try:
        with Path(file).open("rb") as stream:
            content = stream.read(MAX_KEY_FILE + 1)
    except OSError as error:
        raise SettingsInvalid([Finding("", path, f"{file!r} cannot be read: {error.strerror}")]) from None
    if len(content) > MAX_KEY_FILE:
        raise SettingsInvalid([Finding("", path, f"{file!r} is larger than {MAX_KEY_FILE} bytes")])
    return content
