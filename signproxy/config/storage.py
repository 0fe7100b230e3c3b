"""Declare the server's own credentials, and which storage and which hosts they may be used for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Annotated, NoReturn

import msgspec
from msgspec import Meta

from signproxy.config.fields import Text
from signproxy.config.sts import StsSettings
from signproxy.documents import path_of
from signproxy.errors import nearest


class ProviderSettings(msgspec.Struct, frozen=True, rename={"class_": "class"}):
    """A source of credentials."""

    class_: Annotated[str, Meta(min_length=1)]
    """`static` (keys from files or variables), `chain` (wherever AWS' own tools find them), `assume-role` (a role, by
    the credentials of `source`), or `package.module:Class` of one of `modules`."""
    properties: Annotated[dict[str, str], Meta(extra={"file_properties": True})] = {}
    """What the provider is made of; each provider names its own, and none of its own takes a secret: secrets stay in
    files or variables that a property names. `file` and `*_file` are file names."""
    source: str = ""
    """The provider whose credentials this one starts from; for `assume-role` and its like."""

    def __repr__(self) -> str:
        hidden = ", ".join(f"{name}: ***" for name in self.properties)
        source = f", source={self.source!r}" if self.source else ""
        return f"ProviderSettings(class_={self.class_!r}, properties={{{hidden}}}{source})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("settings that may hold secrets are not pickled")


class CredentialsSettings(msgspec.Struct, frozen=True):
    """The server's own S3 credentials."""

    providers: dict[Text, ProviderSettings] = {}
    """Credential providers by name."""
    modules: tuple[Text, ...] = ()
    """Python modules beside signproxy's own from which provider classes may be loaded."""


def source_faults(providers: Mapping[str, ProviderSettings]) -> Iterator[tuple[str, str]]:
    """Yield the path and the problem of each `source` that is no provider, or leads back to where it began."""
    told: set[str] = set()
    for name, provider in providers.items():
        path = path_of("credentials", "providers", name, "source")
        if provider.source and provider.source not in providers:
            yield path, f"credentials.providers has no {provider.source!r}{nearest(provider.source, providers)}"
            continue
        way = [name]
        while (below := providers[way[-1]].source) in providers and below not in way:
            way.append(below)
        # Told once, and where it begins: whatever leads into a circle is not part of it.
        if below == name and name not in told:
            told.update(way)
            yield path, f"goes round in a circle: {' -> '.join((*way, name))}"


MIN_VENDED_SECONDS = 360
"""Iceberg Java renews keys five minutes before their end: those that live for less it renews without any pause."""


class Vend(Enum):
    """How keys for the tables of a storage are made."""

    STS = "sts"
    ISSUED = "issued"


class StorageBinding(msgspec.Struct, frozen=True):
    """What a storage of the policy is signed with, and where those signatures may go."""

    credentials: Annotated[str, Meta(min_length=1)]
    """The provider whose keys sign for this storage."""
    hosts: Annotated[tuple[Text, ...], Meta(min_length=1)]
    """Hosts that may get a signature: `host[:port]`, `.suffix[:port]` for every host below it, or `aws` for Amazon's;
    without a port, https on 443. An endpoint of the policy elsewhere is refused."""
    buckets: dict[Text, Text] = {}
    """Buckets that are signed with another provider."""
    vend: Vend | None = None
    """How callers get keys for a table, where the policy's `delegation` offers them: `issued` by signproxy, which are
    good at its S3 listener alone, for stores without STS; or sessions of the store's `sts`. Left out: no keys."""
    vend_seconds: Annotated[int, Meta(ge=MIN_VENDED_SECONDS, le=12 * 3_600)] = 3_600
    """The longest life of issued keys. They never outlive the caller's token, and end with `s3.keys.max_seconds`."""
    sts: StsSettings = StsSettings()
    accept_unchecked_headers: bool = False
    """Sign writes although the store takes unsigned `x-amz-*` headers, with which a client can turn a signed write into
    a copy of any object that the keys can read."""
    accept_unchecked_payload: bool = False
    """Sign bulk deletes although the store does not compare a body with its signed hash, so that a client can send
    other keys than those that were checked."""
