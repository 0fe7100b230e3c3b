"""Turn settings into the values of the rooms that they configure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from signproxy.config.identity import IdentitySettings, IssuerSettings
from signproxy.documents import path_of
from signproxy.documents.files import read_together
from signproxy.errors import Finding, SettingsInvalid
from signproxy.identity.issuer import Discovery, Issuer, JwksUrl, KeySource, PemKey, PublicKeys, SharedSecret
from signproxy.identity.opaque import OpaqueToken, StaticTokens

MAX_KEY_BYTES = 64 * 1024
"""Larger than any key or secret; a wrong path must not read a disk image into memory."""
_PEM = re.compile(rb"-----BEGIN [A-Z0-9 ]+-----.*?-----END [A-Z0-9 ]+-----", re.DOTALL)


def issuers_of(settings: IdentitySettings) -> tuple[Issuer, ...]:
    """Return the issuers; raise SettingsInvalid with every fault of each of them."""
    issuers: list[Issuer] = []
    findings: list[Finding] = []
    for name, declared in settings.issuers.items():
        try:
            issuers.append(_issuer(name, declared))
        except SettingsInvalid as invalid:
            findings += invalid.findings
    if findings:
        raise SettingsInvalid(findings)
    return tuple(issuers)


def static_tokens_of(settings: IdentitySettings) -> StaticTokens:
    """Return the opaque tokens by their digests; raise SettingsInvalid."""
    tokens = {
        token.sha256: OpaqueToken(principal=token.principal, roles=token.roles, catalogs=token.catalogs)
        for token in settings.static_tokens
    }
    return StaticTokens(tokens)


def keys_digest(issuers: Iterable[Issuer]) -> str:
    """Return what tells the keys and secrets of files from others, so that workers know that they read the same.

    Not for logs or a status page: a secret that a person made up could be guessed and compared with it.
    """
    digest = hashlib.sha256()
    for issuer in issuers:
        match issuer.keys:
            case SharedSecret():
                contents: tuple[bytes, ...] = (issuer.keys.reveal(),)
            case PublicKeys():
                contents = tuple(key.pem for key in issuer.keys.keys)
            case _:
                contents = ()
        for content in (issuer.name.encode(), b"%d" % len(contents), *contents):
            digest.update(b"%d:" % len(content) + content)
    return digest.hexdigest()


def files_of(settings: IdentitySettings) -> tuple[Path, ...]:
    """Return the files that say who is believed: keys, secrets, and what it takes to fetch keys."""
    named = (
        file
        for issuer in settings.issuers.values()
        for file in (issuer.key_file, issuer.secret_file, issuer.ca_file, issuer.token_file)
    )
    return tuple(dict.fromkeys(Path(file) for file in named if file))


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
        return PublicKeys(tuple(map(PemKey, _PEM.findall(_content(f"{path}.key_file", declared.key_file)))))
    # A newline that an editor added is not part of a secret.
    return SharedSecret(_content(f"{path}.secret_file", declared.secret_file).rstrip(b"\r\n"))


def _content(path: str, file: str) -> bytes:
    try:
        return read_together((Path(file),), limit=MAX_KEY_BYTES)[0]
    except OSError as error:
        raise SettingsInvalid([Finding("", path, f"{file!r} cannot be read: {error.strerror}")]) from None
