"""Tell who a caller is from the token that he presents, remembering what was verified."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial

from signproxy.errors import Finding, Reason, Refused, SettingsInvalid
from signproxy.identity.issuer import Issuer, SharedSecret
from signproxy.identity.key_source import KeyHealth, KeySource, StaticKeys, static_keys
from signproxy.identity.opaque import StaticTokens
from signproxy.identity.tokens import (
    MAX_TOKEN,
    UnverifiedToken,
    candidates,
    check_header,
    issuer_of,
    parse_token,
    unknown_key,
    verify,
)
from signproxy.model import Principal

REMEMBERED = 10_000
"""Tokens; about 500 bytes each. An engine's executors share one, so that this serves thousands of jobs."""

_sha256 = hashlib.sha256


class Authenticator:
    """Verify bearer tokens against the issuers and static tokens of the settings.

    Raise SettingsInvalid for issuers that could be taken for one another.
    """

    def __init__(
        self,
        issuers: Iterable[Issuer],
        static_tokens: StaticTokens | None = None,
        *,
        clock: Callable[[], float] = time.time,
        remembered: int = REMEMBERED,
        make_source: Callable[[Issuer, Callable[[], None]], KeySource] | None = None,
    ) -> None:
        listed = tuple(issuers)
        self._static = StaticTokens({}) if static_tokens is None else static_tokens
        findings = tuple(_collisions(listed, self._static))
        if findings:
            raise SettingsInvalid(findings)
        make = key_source if make_source is None else make_source
        self._clock = clock
        self._remembered = remembered
        self._issuers = {issuer.issuer: issuer for issuer in listed}
        self._sources = {issuer.name: make(issuer, partial(self._forget_issuer, issuer.name)) for issuer in listed}
        # By the SHA-256 of the whole token: a dump of the memory holds no token, and no two tokens share an entry.
        self._verified: OrderedDict[bytes, Principal] = OrderedDict()

    def authenticate(self, token: str) -> Principal | Awaitable[Principal]:
        """Return the principal of a token; an awaitable only where its issuer's keys must be asked for first.

        Raise Refused (TOKEN_* or KEYS_UNAVAILABLE), or have the awaitable raise it, for any other token. A principal
        accepted within the leeway has an `expires_at` that is already past: nothing may be derived from it.
        """
        # Both costless, and before anything that grows with the token.
        if len(token) > MAX_TOKEN or not token.isascii():
            raise Refused(Reason.TOKEN_MALFORMED, f"over {MAX_TOKEN} characters, or not ASCII")
        digest = _sha256(token.encode()).digest()
        principal = self._verified.get(digest)
        if principal is not None and self._clock() < principal.expires_at:
            return principal
        return self._identify(token, digest)

    def forget(self) -> None:
        """Verify every token anew, as after a change of the policy."""
        self._verified.clear()

    async def start(self) -> None:
        """Begin to fetch the keys that are published; readiness is `health`'s to tell."""
        for source in self._sources.values():
            source.start()

    async def aclose(self) -> None:
        """End every task and fetch."""
        for source in self._sources.values():
            await source.aclose()

    def health(self) -> tuple[KeyHealth, ...]:
        """Return how each issuer's keys are."""
        return tuple(source.health() for source in self._sources.values())

    def _identify(self, token: str, digest: bytes) -> Principal | Awaitable[Principal]:
        static = self._static.find(digest)
        if static is not None:
            if self._clock() >= static.expires_at:
                raise Refused(Reason.TOKEN_EXPIRED, f"the static token of {static.name}")
            return static
        if not token:
            raise Refused(Reason.TOKEN_MISSING)
        unverified = parse_token(token)
        issuer = issuer_of(unverified, self._issuers)
        check_header(unverified, issuer)
        source = self._sources[issuer.name]
        keys = source.current()
        fitting = candidates(unverified, keys) if keys is not None else ()
        if fitting:
            return self._remember(digest, verify(token, unverified, issuer, fitting, self._clock()))
        if source.may_change():
            return self._identify_later(token, digest, unverified, issuer)
        raise _no_key(unverified, source)

    async def _identify_later(
        self, token: str, digest: bytes, unverified: UnverifiedToken, issuer: Issuer
    ) -> Principal:
        source = self._sources[issuer.name]
        # Twice: a fetch that was under way may have been answered before the issuer published the key.
        for _ in range(2):
            await source.renew()
            keys = source.current()
            fitting = candidates(unverified, keys) if keys is not None else ()
            if fitting:
                return self._remember(digest, verify(token, unverified, issuer, fitting, self._clock()))
        raise _no_key(unverified, source)

    def _remember(self, digest: bytes, principal: Principal) -> Principal:
        self._verified.pop(digest, None)
        if len(self._verified) >= self._remembered:
            self._verified.popitem(last=False)
        self._verified[digest] = principal
        return principal

    def _forget_issuer(self, issuer: str) -> None:
        for digest in [digest for digest, principal in self._verified.items() if principal.issuer == issuer]:
            del self._verified[digest]


def key_source(issuer: Issuer, on_change: Callable[[], None]) -> KeySource:
    """Return where the issuer's keys come from, as its settings say."""
    keys = static_keys(issuer)
    if keys is not None:
        return StaticKeys(issuer.name, keys)
    # Only for issuers that publish their keys: it brings the whole of fetching.
    from signproxy.identity.jwks import RemoteKeys  # noqa: PLC0415

    return RemoteKeys(issuer, on_change)


def _no_key(unverified: UnverifiedToken, source: KeySource) -> Refused:
    if source.current() is None:
        health = source.health()
        return Refused(Reason.KEYS_UNAVAILABLE, f"issuer {health.issuer}: {health.last_error or 'never fetched'}")
    return unknown_key(unverified)


def _collisions(issuers: tuple[Issuer, ...], static: StaticTokens) -> Iterator[Finding]:
    """Yield each way in which one issuer could speak in the name of another."""
    names = [issuer.name for issuer in issuers] + ([static.issuer] if len(static) else [])
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Finding(
            "", f"identity.issuers.{name}.name", "is used twice; principals of two issuers could not be told apart"
        )
    urls = [issuer.issuer for issuer in issuers]
    secrets = [issuer.keys for issuer in issuers if isinstance(issuer.keys, SharedSecret)]
    for issuer in issuers:
        if urls.count(issuer.issuer) > 1:
            yield Finding(
                "", f"identity.issuers.{issuer.name}.issuer", "is used twice; tokens are told apart by `iss` alone"
            )
        if isinstance(issuer.keys, SharedSecret) and secrets.count(issuer.keys) > 1:
            yield Finding(
                "", f"identity.issuers.{issuer.name}.secret_file", "is used twice; each issuer could sign as the other"
            )
