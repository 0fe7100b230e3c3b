"""Declare who is believed: token issuers and static tokens."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import msgspec
from msgspec import Meta

Text = Annotated[str, Meta(min_length=1)]


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

    issuer: Annotated[str, Meta(min_length=1, description="The exact `iss` of its tokens, trailing slash included.")]
    audiences: Annotated[
        tuple[Text, ...], Meta(min_length=1, description="A token needs at least one of these in `aud`.")
    ]
    algorithms: Annotated[
        tuple[Algorithm, ...], Meta(min_length=1, description="The algorithms that its tokens may be signed with.")
    ] = (Algorithm.RS256,)
    discovery: Annotated[
        bool, Meta(description="Find the key set through `<issuer>/.well-known/openid-configuration`.")
    ] = False
    jwks_url: Annotated[str, Meta(description="Address of the key set.")] = ""
    key_file: Annotated[str, Meta(description="Its public keys (PEM), in a file.", extra={"path": True})] = ""
    secret_file: Annotated[
        str, Meta(description="The shared secret of HS* algorithms, in a file.", extra={"path": True})
    ] = ""
    jwks_hosts: Annotated[
        tuple[Text, ...],
        Meta(description="Hosts beside the issuer's own on which `discovery` may find the key set."),
    ] = ()
    ca_file: Annotated[
        str, Meta(description="Certificate authorities (PEM) for fetching the key set.", extra={"path": True})
    ] = ""
    token_file: Annotated[
        str,
        Meta(
            description="A bearer token, in a file, for fetching the key set: a Kubernetes API server shows its keys "
            "to no anonymous caller.",
            extra={"path": True},
        ),
    ] = ""
    principal_claim: Annotated[
        str, Meta(min_length=1, description="The claim that names the principal: `<issuer name>/<claim>`.")
    ] = "sub"
    mutable_claims_accepted: Annotated[
        bool,
        Meta(description="Accept a principal claim that can come to name another person, such as `email`."),
    ] = False
    roles_claim: Annotated[
        str, Meta(description="The claim that lists principal roles; dots lead into nested claims.")
    ] = ""
    roles: Annotated[
        tuple[Text, ...], Meta(description="The principal roles that its tokens may bring; others are ignored.")
    ] = ()
    catalogs: Annotated[
        tuple[Text, ...] | None, Meta(description="The catalogs that it may speak for; all where left out.")
    ] = None
    kubernetes: Annotated[
        bool, Meta(description="Its tokens are projected service-account tokens; keep pod and node for the audit.")
    ] = False


class StaticToken(msgspec.Struct, frozen=True):
    """An opaque token that never expires, known by its digest alone."""

    sha256: Annotated[
        str,
        Meta(pattern="^[0-9a-f]{64}$", description="SHA-256 of the token, as `signproxy token hash` prints it."),
    ]
    principal: Annotated[str, Meta(min_length=1, description="Whom it stands for: the principal `static/<principal>`.")]
    roles: Annotated[tuple[Text, ...], Meta(description="Principal roles that it brings.")] = ()
    catalogs: Annotated[
        tuple[Text, ...] | None, Meta(description="The catalogs that it may be used for; all where left out.")
    ] = None


class IdentitySettings(msgspec.Struct, frozen=True):
    """Whose tokens are accepted, and which principal each of them names. Without any issuer or token, none is."""

    issuers: Annotated[
        dict[Text, IssuerSettings], Meta(description="Token issuers; the name is the first part of a principal's.")
    ] = {}
    static_tokens: Annotated[tuple[StaticToken, ...], Meta(description="Opaque tokens.")] = ()
