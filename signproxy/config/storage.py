"""Declare the server's own credentials, and which storage and which hosts they may be used for."""

from __future__ import annotations

from typing import Annotated, NoReturn

import msgspec
from msgspec import Meta

Text = Annotated[str, Meta(min_length=1)]


class ProviderSettings(msgspec.Struct, frozen=True, rename={"class_": "class"}):
    """A source of credentials."""

    class_: Annotated[
        str,
        Meta(
            min_length=1,
            description="`static` (keys from files or variables), or `package.module:Class` of one of `modules`.",
        ),
    ]
    properties: Annotated[
        dict[str, str],
        Meta(
            description="What the provider is made of; each provider names its own, and none of its own takes a "
            "secret: secrets stay in files or variables that a property names. `file` and `*_file` are file names.",
            extra={"file_properties": True},
        ),
    ] = {}

    def __repr__(self) -> str:
        hidden = ", ".join(f"{name}: ***" for name in self.properties)
        return f"ProviderSettings(class_={self.class_!r}, properties={{{hidden}}})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("settings that may hold secrets are not pickled")


class CredentialsSettings(msgspec.Struct, frozen=True):
    """The server's own S3 credentials."""

    providers: Annotated[dict[Text, ProviderSettings], Meta(description="Credential providers by name.")] = {}
    modules: Annotated[
        tuple[Text, ...],
        Meta(description="Python modules beside signproxy's own from which provider classes may be loaded."),
    ] = ()


class StorageBinding(msgspec.Struct, frozen=True):
    """What a storage of the policy is signed with, and where those signatures may go."""

    credentials: Annotated[str, Meta(min_length=1, description="The provider whose keys sign for this storage.")]
    hosts: Annotated[
        tuple[Text, ...],
        Meta(
            min_length=1,
            description="Hosts that may get a signature: `host[:port]`, `.suffix[:port]` for every host below it, or "
            "`aws` for Amazon's; without a port, https on 443. An endpoint of the policy elsewhere is refused.",
        ),
    ]
    buckets: Annotated[dict[Text, Text], Meta(description="Buckets that are signed with another provider.")] = {}
    accept_unchecked_headers: Annotated[
        bool,
        Meta(
            description="Sign writes although the store takes unsigned `x-amz-*` headers, with which a client can turn "
            "a signed write into a copy of any object that the keys can read."
        ),
    ] = False
    accept_unchecked_payload: Annotated[
        bool,
        Meta(
            description="Sign bulk deletes although the store does not compare a body with its signed hash, so that a "
            "client can send other keys than those that were checked."
        ),
    ] = False
