"""Turn settings into the values of the rooms that they configure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from signproxy.config.identity import IdentitySettings, IssuerSettings
from signproxy.documents import path_of
from signproxy.identity.issuer import Discovery, Issuer, JwksUrl, KeySource, PemKey, PublicKeys, SharedSecret
from signproxy.identity.opaque import OpaqueToken, StaticTokens
from signproxy.server.process.named_files import content_of, each_of, secret_of

_PEM = re.compile(rb"-----BEGIN [A-Z0-9 ]+-----.*?-----END [A-Z0-9 ]+-----", re.DOTALL)


def issuers_of(settings: IdentitySettings) -> tuple[Issuer, ...]:
    """Return the issuers; raise SettingsInvalid with every fault of each of them."""
    return each_of(_issuer, settings.issuers.items())


def static_tokens_of(settings: IdentitySettings) -> StaticTokens:
    """Return the opaque tokens by their digests; raise SettingsInvalid."""
    tokens = {
        token.sha256: OpaqueToken(principal=token.principal, roles=token.roles, catalogs=token.catalogs)
        for token in settings.static_tokens
    }
    return StaticTokens(tokens)


def keys_in(issuers: Iterable[Issuer]) -> Iterator[bytes]:
    """Yield the keys and secrets of files, and what keeps those of one issuer from another's; see `digest_of`."""
    for issuer in issuers:
        match issuer.keys:
            case SharedSecret():
                contents: tuple[bytes, ...] = (issuer.keys.reveal(),)
            case PublicKeys():
                contents = tuple(key.pem for key in issuer.keys.keys)
            case _:
                contents = ()
        yield from (issuer.name.encode(), b"%d" % len(contents), *contents)


def _issuer(name: str, declared: IssuerSettings) -> Issuer:
    path = path_of("identity", "issuers", name)
    return Issuer(
        name=name,
        issuer=declared.issuer,
        audiences=declared.audiences,
        algorithms=tuple(algorithm.value for algorithm in declared.algorithms),
        keys=_keys(path, declared),
        principal_claim=declared.principal_claim,
        mutable_claims_accepted=declared.mutable_claims_accepted,
        roles_claim=declared.roles_claim,
        roles=declared.roles,
        catalogs=declared.catalogs,
        kubernetes=declared.kubernetes,
    )


def _keys(path: str, declared: IssuerSettings) -> KeySource:
    ca_file, token_file = declared.ca_file, declared.token_file
    if declared.discovery:
        return Discovery(declared.jwks_hosts, ca_file, token_file)
    if declared.jwks_url:
        return JwksUrl(declared.jwks_url, ca_file, token_file)
    if declared.key_file:
        return PublicKeys(tuple(map(PemKey, _PEM.findall(content_of(f"{path}.key_file", declared.key_file)))))
    return SharedSecret(secret_of(f"{path}.secret_file", declared.secret_file))
