"""Read everything that a reload may change, at one moment and as one value: settings, policy, who is believed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import TypeVar

import msgspec

from signproxy.catalog.upstream_spec import UpstreamSpec
from signproxy.config.difference import in_force
from signproxy.config.load import SettingsSource
from signproxy.config.load import digest_of as digest_of_settings
from signproxy.config.settings import Settings
from signproxy.credentials.provider import Binding
from signproxy.errors import Finding, Invalid, SettingsInvalid
from signproxy.identity.issuer import Issuer
from signproxy.identity.opaque import StaticTokens
from signproxy.policy.state import PolicyState
from signproxy.s3.storage import Storage
from signproxy.sealing import SealingSecret
from signproxy.server.process import build
from signproxy.server.process.issuers import issuers_of, keys_in, static_tokens_of
from signproxy.server.process.named_files import digest_of
from signproxy.server.process.seals import Seals, seals_of, secrets_of
from signproxy.server.process.upstreams import contents_in, missing_upstreams, upstreams_of
from signproxy.server.process.vendors import unusable_services

T = TypeVar("T")

_LOADING_SWITCH_INTERVAL = 0.0005
"""Seconds after which the loading thread yields: with CPython's 5 ms each request would wait that long."""


class Scope(Enum):
    """How much of it is read anew."""

    ALL = "all"
    KEEP_POLICY = "keep_policy"
    """A rotated key must not cost what a policy of a million tables costs."""


class Generation(msgspec.Struct, frozen=True):
    """A configuration that was read and checked whole."""

    settings: Settings
    asked: Settings
    """The settings as they were read; those in force differ where only a start takes them over."""
    config_digest: str
    state: PolicyState
    bindings: tuple[Binding, ...]
    issuers: tuple[Issuer, ...]
    static_tokens: StaticTokens
    secrets: tuple[SealingSecret, ...] = ()
    """The operator's, for what clients carry."""
    upstreams: tuple[UpstreamSpec, ...] = ()

    @property
    def revision(self) -> str:
        """What tells this configuration from others, in logs."""
        return f"{self.config_digest}/{self.state.rev}"

    @property
    def fingerprint(self) -> str:
        """What several workers compare, to know that they read the same: keys and secrets included. Not for logs."""
        read = (keys_in(self.issuers), (secret.reveal() for secret in self.secrets), contents_in(self.upstreams))
        return "/".join((self.revision, *map(digest_of, read)))

    def seals(self, own: SealingSecret) -> Seals:
        """Return what seals what clients carry; with the server's own secret where the operator has none."""
        return seals_of(self.settings.context, self.secrets, own)

    @property
    def storages(self) -> list[Storage]:
        """Every storage of every catalog, once."""
        storages: dict[str, Storage] = {}
        for catalog in self.state.catalogs.values():
            storages |= catalog.storages
        return list(storages.values())


def load_generation(
    source: SettingsSource, epoch: int, former: Generation | None = None, scope: Scope = Scope.ALL
) -> Generation:
    """Read and check everything; beside a serving loop, in a thread. Raise Invalid with every fault found."""
    asked = settings = source.load()
    if former is not None:
        settings = in_force(former.settings, asked)
    findings: list[Finding] = []
    issuers: tuple[Issuer, ...] = _tried(lambda: issuers_of(settings.identity), (), findings)
    static_tokens = _tried(lambda: static_tokens_of(settings.identity), StaticTokens({}), findings)
    secrets: tuple[SealingSecret, ...] = _tried(lambda: secrets_of(settings.context), (), findings)
    upstreams: tuple[UpstreamSpec, ...] = _tried(lambda: upstreams_of(settings.upstreams), (), findings)
    try:
        state = _state(settings, epoch, former, scope)
    except Invalid as invalid:
        raise Invalid([*findings, *invalid.findings]) from None
    findings += missing_upstreams(state, settings.upstreams)
    findings += build.missing_target(state, settings)
    findings += unusable_services(state, settings)
    if findings:
        raise SettingsInvalid(findings)
    bindings = build.bindings(settings)
    digest = digest_of_settings(settings)
    return Generation(settings, asked, digest, state, bindings, issuers, static_tokens, secrets, upstreams)


def _tried(make: Callable[[], T], otherwise: T, findings: list[Finding]) -> T:
    try:
        return make()
    except SettingsInvalid as invalid:
        findings += invalid.findings
        return otherwise


def _state(settings: Settings, epoch: int, former: Generation | None, scope: Scope) -> PolicyState:
    if former is not None and scope is Scope.KEEP_POLICY and _judged_alike(former.settings, settings):
        return former.state
    with yielding():
        return build.policy_source(settings).load(epoch)


def _judged_alike(old: Settings, new: Settings) -> bool:
    """Whether a policy that was accepted under the old settings is the same under the new."""
    return (
        old.policy == new.policy
        and build.bindings(old) == build.bindings(new)
        and build.single_issuer(old) == build.single_issuer(new)
    )


@contextmanager
def yielding() -> Iterator[None]:
    """Let the serving loop in between, whatever the block computes in another thread."""
    switch_interval = sys.getswitchinterval()
    sys.setswitchinterval(_LOADING_SWITCH_INTERVAL)
    try:
        yield
    finally:
        sys.setswitchinterval(switch_interval)
