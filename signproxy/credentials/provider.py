"""State what a source of credentials has to do; everything else about them is signproxy's."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

import msgspec

from signproxy.credentials.credentials import Credentials
from signproxy.credentials.threads import Threads
from signproxy.errors import Finding, nearest
from signproxy.model import SessionScope
from signproxy.s3.storage import Storage


class CredentialProvider(Protocol):
    """A source of credentials. It caches nothing: expiry, refresh and sharing are signproxy's business.

    Its class is named in the settings and is made without arguments. Its `repr` shows no secret.
    """

    async def initialize(self, properties: Mapping[str, str]) -> None:
        """Take the properties of the settings, or raise ProviderInvalid. Cheap, and without network."""

    async def get(self, storage: Storage, scope: SessionScope) -> Credentials:
        """Return credentials that are good for the scope, or raise. Called again for each refresh, concurrently too.

        `scope.bucket` is empty where one session serves all buckets of the storage.
        """

    def files(self) -> tuple[Path, ...]:
        """Return the files that `get` reads, so that a change of one of them leads to a refresh. Cheap."""

    async def aclose(self) -> None:
        """Let go of everything. May be called twice."""


@runtime_checkable
class LayeredProvider(CredentialProvider, Protocol):
    """A provider that turns another one's credentials into its own."""

    def on_top_of(self, source: CredentialProvider) -> None:
        """Take the provider below; called once, before `initialize`. It is closed by the code that made it."""


class OwnProvider:
    """What signproxy's own providers have in common: threads for what blocks, and properties that are all known."""

    def __init__(self) -> None:
        self._threads = Threads()

    def files(self) -> tuple[Path, ...]:
        """Return nothing: no file is read, or which ones is not known here."""
        return ()

    async def aclose(self) -> None:
        """Do nothing: there is nothing to let go of."""


def unknown_properties(properties: Mapping[str, str], known: Collection[str]) -> list[Finding]:
    """Return a finding for each property that a provider does not have."""
    return [Finding("", name, f"unknown property{nearest(name, known)}") for name in properties if name not in known]


class ProviderSpec(msgspec.Struct, frozen=True):
    """Which provider the settings ask for."""

    class_path: str
    """`package.module:Class`."""
    properties: dict[str, str] = {}
    name: str = ""
    """The provider's name in the settings, for messages."""
    source: ProviderSpec | None = None
    """The provider whose credentials this one starts from."""


class Binding(msgspec.Struct, frozen=True):
    """The operator's word on which credentials sign for a storage of the policy, and towards which hosts."""

    storage: str
    provider: ProviderSpec
    hosts: tuple[str, ...]
    """`host[:port]` exactly, `.suffix[:port]` for any host below it, or `aws`. Without a port: HTTPS on its own."""
    buckets: dict[str, ProviderSpec] = {}
    """Buckets with a provider of their own."""
