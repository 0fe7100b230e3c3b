"""Declare who is believed: token issuers and static tokens."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import msgspec
from msgspec import Meta

from signproxy.config.fields import FileName, Text


class Algorithm(Enum):
    """Signature algorithms of tokens; `none` is not among them."""

    RS256 = "RS256"
    RS384 = "RS384"
    RS512 = "RS512"
    PS256 = "PS256"
    PS384 = "PS384"
    PS512 = "PS512"
    ES256 = "ES256"
    ES384 = "ES384"
    ES512 = "ES512"
    EDDSA = "EdDSA"
    HS256 = "HS256"
    HS384 = "HS384"
    HS512 = "HS512"


class IssuerSettings(msgspec.Struct, frozen=True):
    """An issuer of JSON Web Tokens: where its keys are, and for whom and what it may speak."""

    issuer: Annotated[str, Meta(min_length=1)]
    """The exact `iss` of its tokens, trailing slash included."""
    audiences: Annotated[tuple[Text, ...], Meta(min_length=1)]
    """A token needs at least one of these in `aud`."""
    algorithms: Annotated[tuple[Algorithm, ...], Meta(min_length=1)] = (Algorithm.RS256,)
    """The algorithms that its tokens may be signed with."""
    discovery: bool = False
    """Find the key set through `<issuer>/.well-known/openid-configuration`."""
    jwks_url: str = ""
    """Address of the key set."""
    key_file: FileName = ""
    """Its public keys (PEM), in a file."""
    secret_file: FileName = ""
    """The shared secret of HS* algorithms, in a file."""
    jwks_hosts: tuple[Text, ...] = ()
    """Hosts beside the issuer's own on which `discovery` may find the key set."""
    ca_file: FileName = ""
    """Certificate authorities (PEM) for fetching the key set."""
    token_file: FileName = ""
    """A bearer token, in a file, for fetching the key set: a Kubernetes API server shows its keys to no anonymous
    caller."""
    principal_claim: Annotated[str, Meta(min_length=1)] = "sub"
    """The claim that names the principal: `<issuer name>/<claim>`."""
    mutable_claims_accepted: bool = False
    """Accept a principal claim that can come to name another person, such as `email`."""
    roles_claim: str = ""
    """The claim that lists principal roles; dots lead into nested claims."""
    roles: tuple[Text, ...] = ()
    """The principal roles that its tokens may bring; others are ignored."""
    catalogs: tuple[Text, ...] | None = None
    """The catalogs that it may speak for; all where left out."""
    kubernetes: bool = False
    """Its tokens are projected service-account tokens; keep pod and node for the audit."""


class StaticToken(msgspec.Struct, frozen=True):
    """An opaque token that never expires, known by its digest alone."""

    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    """SHA-256 of the token, as `signproxy token hash` prints it."""
    principal: Annotated[str, Meta(min_length=1)]
    """Whom it stands for: the principal `static/<principal>`."""
    roles: tuple[Text, ...] = ()
    """Principal roles that it brings."""
    catalogs: tuple[Text, ...] | None = None
    """The catalogs that it may be used for; all where left out."""


class IdentitySettings(msgspec.Struct, frozen=True):
    """Whose tokens are accepted, and which principal each of them names. Without any issuer or token, none is."""

    issuers: dict[Text, IssuerSettings] = {}
    """Token issuers; the name is the first part of a principal's."""
    static_tokens: tuple[StaticToken, ...] = ()
    """Opaque tokens."""
