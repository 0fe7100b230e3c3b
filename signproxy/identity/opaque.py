"""Look up static opaque tokens by their SHA-256, for set-ups too small for an issuer."""

from __future__ import annotations

import hashlib
import math
import re
import secrets
from collections.abc import Iterator, Mapping

import msgspec

from signproxy.errors import Finding, Invalid, SettingsInvalid
from signproxy.identity.claims import MAX_CLAIM
from signproxy.identity.issuer import ISSUER_NAME
from signproxy.identity.tokens import MAX_TOKEN
from signproxy.model import Principal

STATIC_ISSUER = "static"
"""Stands before the slash of the principals' names."""

MIN_TOKEN = 32
"""Characters: 128 bits in hexadecimal. The digest is not salted, so that a short or chosen token could be guessed."""

_DIGEST = re.compile(r"[0-9a-f]{64}")
_TOKEN = re.compile(r"[!-~]+")


class OpaqueToken(msgspec.Struct, frozen=True, gc=False):
    """Whom an opaque token names, and what it may speak for."""

    principal: str
    roles: tuple[str, ...] = ()
    catalogs: tuple[str, ...] | None = None
    expires_at: float = math.inf
    """Unix time; without one the token lives until it is taken out."""


class StaticTokens:
    """The opaque tokens of the settings, by digest.

    A look-up takes no time that depends on the token itself: only its digest is ever compared, and no caller can
    choose a token by its digest's beginning.
    """

    def __init__(self, tokens: Mapping[str, OpaqueToken], issuer: str = STATIC_ISSUER) -> None:
        findings = [*_faults(tokens)]
        if not ISSUER_NAME.fullmatch(issuer):
            findings.append(Finding("", "identity.static_issuer", f"{issuer!a} is no name of an issuer"))
        if findings:
            raise SettingsInvalid(findings)
        self.issuer = issuer
        self._principals = {
            bytes.fromhex(digest): Principal(
                name=f"{issuer}/{token.principal}",
                issuer=issuer,
                subject=token.principal,
                expires_at=token.expires_at,
                roles=token.roles,
                catalogs=token.catalogs,
            )
            for digest, token in tokens.items()
        }

    def find(self, digest: bytes) -> Principal | None:
        """Return the principal of the token with this SHA-256, expired or not."""
        return self._principals.get(digest)

    def digest_of(self, principal: Principal) -> str:
        """Return the digest of the token that a principal was found by; empty where there is none any more."""
        said = principal.name, principal.roles, principal.catalogs
        known = self._principals.items()
        # Several tokens may say the same of one principal: the very one that was shown counts, where that is known.
        same = [digest for digest, each in known if each is principal]
        same = same or [digest for digest, each in known if (each.name, each.roles, each.catalogs) == said]
        return same[0].hex() if same else ""

    def beginning_with(self, digest: str) -> Principal | None:
        """Return the principal of the token whose digest begins so, expired or not."""
        if not digest:
            return None
        return next((known for key, known in self._principals.items() if key.hex().startswith(digest)), None)

    def __len__(self) -> int:
        return len(self._principals)


def hash_token(token: str) -> str:
    """Return what the settings hold of a token; raise Invalid for one that could be guessed or not be sent."""
    if not MIN_TOKEN <= len(token) <= MAX_TOKEN or not _TOKEN.fullmatch(token):
        problem = f"a token is {MIN_TOKEN} to {MAX_TOKEN} printable ASCII characters without spaces"
        raise Invalid((Finding("", "token", problem),))
    return hashlib.sha256(token.encode("ascii")).hexdigest()


def new_token() -> str:
    """Return a fresh token of 256 random bits."""
    return secrets.token_urlsafe(32)


def _faults(tokens: Mapping[str, OpaqueToken]) -> Iterator[Finding]:
    for index, (digest, token) in enumerate(tokens.items()):
        path = f"identity.static_tokens[{index}]"
        # Never shown: an operator who pasted the token itself must not find it in a log.
        if not _DIGEST.fullmatch(digest):
            yield Finding("", path, "is no SHA-256 in lower-case hexadecimal; make one with `signproxy token hash`")
        name = token.principal
        if not 0 < len(name) <= MAX_CLAIM or not name.isprintable() or name != name.strip():
            yield Finding("", f"{path}.principal", f"is no name of 1 to {MAX_CLAIM} printable characters")
