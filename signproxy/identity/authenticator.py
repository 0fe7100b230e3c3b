"""Tell who a caller is from the token that it presents, remembering what was verified."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any

import msgspec

from signproxy.errors import Reason, Refused
from signproxy.identity.believed import Believed, believe, beyond, key_source
from signproxy.identity.issuer import Issuer
from signproxy.identity.key_source import KeyHealth, KeySource
from signproxy.identity.opaque import StaticTokens
from signproxy.identity.table_token import TableTokens, is_table_token, scoped
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
from signproxy.model import Principal, Subject, TableScope

REMEMBERED = 10_000
"""Tokens; about 500 bytes each. An engine's executors share one, so that this serves thousands of jobs."""

WARM_SECONDS = 5.0
"""How long a change waits for the keys of new issuers: as long as one fetch may take, and no longer."""

Later = Coroutine[Any, Any, Principal]
"""A principal for whom something has to be asked first. Nothing happens before it is awaited; it may be closed."""

_sha256 = hashlib.sha256


class Refreshes(msgspec.Struct, frozen=True, gc=False):
    """How many fetches of keys ended well or not, since the start; never less, whichever issuers come and go."""

    succeeded: int = 0
    failed: int = 0


class Known(msgspec.Struct, frozen=True, gc=False):
    """That a token was found to be a principal's: `Authenticator.again` says whether it still is."""

    subject: Subject
    generation: object

    @property
    def principal(self) -> Principal:
        """The principal of the token."""
        return self.subject.caller


class PreparedIssuers:
    """Issuers, static tokens and secrets that are ready to be put in force, while the former ones still judge.

    It is handed to `commit` or to `discard`, once.
    """

    def __init__(self, believed: Believed, former: Believed) -> None:
        self.believed = believed
        self.former = former
        self.fresh = beyond(believed, former)
        """The sources that did not exist before."""
        self.open = True

    async def warm(self, seconds: float = WARM_SECONDS) -> tuple[str, ...]:
        """Begin to fetch the keys of new issuers, and wait for the first answers, but not longer than that.

        Return which of them have no keys yet, and why: their tokens are refused until they have, as those of an
        issuer that is down at the start. That holds up no change, for it may be the one that mends it.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(source.warm() for source in self.fresh))
        missing = [health for health in (source.health() for source in self.fresh) if not health.usable]
        return tuple(f"issuer {health.issuer}: {health.last_error or 'no answer yet'}" for health in missing)


class Authenticator:
    """Verify bearer tokens against the issuers and static tokens of the settings.

    Raise SettingsInvalid for issuers that could be taken for one another.
    """

    def __init__(
        self,
        issuers: Iterable[Issuer],
        static_tokens: StaticTokens | None = None,
        table_tokens: TableTokens | None = None,
        *,
        clock: Callable[[], float] = time.time,
        remembered: int = REMEMBERED,
        make_source: Callable[[Issuer, Callable[[], None]], KeySource] | None = None,
    ) -> None:
        self._make_source = key_source if make_source is None else make_source
        self._clock = clock
        self._remembered = remembered
        self._believed = believe(tuple(issuers), static_tokens or StaticTokens({}), table_tokens, self._source)
        self._started = False
        self._retired: list[KeySource] = []
        self._past = Refreshes()
        """What sources that are gone have counted."""
        # By the SHA-256 of the whole token: a dump of the memory holds no token, and no two tokens share an entry.
        self._verified: OrderedDict[bytes, Principal] = OrderedDict()
        # Replaced whenever one of them is forgotten: what others remember of a token ends with it.
        self._generation = object()

    def authenticate(self, token: str) -> Principal | Later:
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

    async def roles_of(self, token: str) -> tuple[str, ...]:
        """Return the roles that a token brings beyond data; a token for one table brings none. Raise Refused."""
        found = self.authenticate(token)
        principal = found if isinstance(found, Principal) else await found
        return () if principal.scopes else principal.roles

    def known(self, principal: Principal) -> Known:
        """Return on whose rights the principal acts, and what to remember of the token that it was found by.

        The one place where a caller becomes a subject.
        """
        # The call is for the few that are narrowed: this is run for each token that is shown.
        whole = principal.key_scope is None
        return Known(Subject(principal, principal) if whole else Subject.of(principal), self._generation)

    def again(self, known: Known | None) -> Subject | None:
        """Return who a token that came before is of, if nothing has changed since; else it is to be judged."""
        if known is None or known.generation is not self._generation:
            return None
        return known.subject if self._clock() < known.subject.caller.expires_at else None

    def mark(self, principal: Principal) -> str:
        """Return what `standing` will know by that it is still the same who vouches for the principal."""
        return self._believed.mark_of(principal)

    def standing(self, principal: Principal, mark: str) -> Principal:
        """Return a principal who was found before, with what is left to it by issuers and tokens as they are now.

        Raise Refused (TOKEN_ISSUER_UNKNOWN) where nothing vouches for it any more.
        """
        return self._believed.standing(principal, mark)

    def forget(self) -> None:
        """Verify every token anew, as after a change of the policy."""
        self._verified.clear()
        self._generation = object()

    def table_token(self, principal: Principal, bearer: str, scope: TableScope) -> str | None:
        """Return a token that is good for one table, for a caller who showed the bearer token.

        None where table tokens are switched off, or where it would be of no use. Raise Refused for a bearer token
        that ended meanwhile.
        """
        tokens = self._believed.table_tokens
        return None if tokens is None else tokens.make(principal, self.upstream_bearer(bearer), scope, self._clock())

    def upstream_bearer(self, token: str) -> str:
        """Return the caller's own token, for its catalog: what a table token was made of, or the token itself.

        Raise Refused for a table token that ended meanwhile.
        """
        tokens = self._believed.table_tokens
        if tokens is None or not is_table_token(token):
            return token
        return tokens.read(token, self._clock()).bearer

    def prepare(
        self,
        issuers: Iterable[Issuer],
        static_tokens: StaticTokens | None = None,
        table_tokens: TableTokens | None = None,
    ) -> PreparedIssuers:
        """Return what would take the place of the issuers and tokens in force; until `commit` nothing changes.

        Raise SettingsInvalid for issuers that could be taken for one another.
        """
        former = self._believed
        static = static_tokens or StaticTokens({})
        return PreparedIssuers(believe(tuple(issuers), static, table_tokens, self._source, former), former)

    def commit(self, prepared: PreparedIssuers) -> None:
        """Put the prepared issuers and tokens in force, between two requests.

        Every token is judged anew by them, also of callers who are waiting for keys. What is no longer used stops
        here; `aclose_retired` waits for its end.
        """
        if not prepared.open or prepared.former is not self._believed:
            raise RuntimeError("what was prepared is settled already, or others were put in force meanwhile")
        prepared.open = False
        self._believed = prepared.believed
        self.forget()
        self._retire(beyond(prepared.former, prepared.believed))
        if self._started:
            for source in prepared.fresh:
                source.start()

    async def discard(self, prepared: PreparedIssuers) -> None:
        """Give up what was prepared; what is in force stays as it is. Nothing happens if it is settled already."""
        if prepared.open:
            prepared.open = False
            self._retire(prepared.fresh)
        await self.aclose_retired()

    async def start(self, seconds: float = 0.0) -> None:
        """Begin to fetch the keys that are published, and wait for the first answers, but not longer than that.

        Readiness is `health`'s to tell: an issuer that is down does not keep the tokens of others from being served.
        """
        self._started = True
        for source in self._believed.sources.values():
            source.start()
        if seconds:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await asyncio.gather(*(source.warm() for source in self._believed.sources.values()))

    async def aclose_retired(self) -> None:
        """Wait for the end of what former issuers were still doing."""
        while self._retired:
            await self._retired.pop().aclose()

    async def aclose(self) -> None:
        """End every task and fetch."""
        for source in self._believed.sources.values():
            await source.aclose()
        await self.aclose_retired()

    def health(self) -> tuple[KeyHealth, ...]:
        """Return how each issuer's keys are."""
        return tuple(source.health() for source in self._believed.sources.values())

    def refreshes(self) -> Refreshes:
        """Return how the fetches of all issuers went, those that are gone included."""
        return _added_up(self._past, self.health())

    def _identify(self, token: str, digest: bytes) -> Principal | Later:
        believed = self._believed
        if believed.table_tokens is not None and is_table_token(token):
            held = believed.table_tokens.read(token, self._clock())
            # Judged as if it had been shown itself, so that whatever ends it ends what was made of it.
            caller = self.authenticate(held.bearer)
            if isinstance(caller, Principal):
                return self._remember(digest, scoped(caller, held))
            caller.close()
            return self._scope_later(token, digest, held.bearer)
        static = believed.static.find(digest)
        if static is not None:
            if self._clock() >= static.expires_at:
                raise Refused(Reason.TOKEN_EXPIRED, f"the static token of {static.name}")
            return self._remember(digest, static)
        if not token:
            raise Refused(Reason.TOKEN_MISSING)
        unverified = parse_token(token)
        issuer = issuer_of(unverified, believed.issuers)
        check_header(unverified, issuer)
        source = believed.sources[issuer.name]
        keys = source.current()
        fitting = candidates(unverified, keys) if keys is not None else ()
        if fitting:
            return self._remember(digest, verify(token, unverified, issuer, fitting, self._clock()))
        if source.may_change():
            return self._identify_later(token, digest, unverified, issuer, believed)
        raise _no_key(unverified, source)

    async def _scope_later(self, token: str, digest: bytes, bearer: str) -> Principal:
        """Wait for the caller whose own token is inside, who is then remembered, and begin anew."""
        caller = self.authenticate(bearer)
        if not isinstance(caller, Principal):
            await caller
        found = self._identify(token, digest)
        return found if isinstance(found, Principal) else await found

    async def _identify_later(
        self, token: str, digest: bytes, unverified: UnverifiedToken, issuer: Issuer, believed: Believed
    ) -> Principal:
        source = believed.sources[issuer.name]
        # Twice: a fetch that was under way may have been answered before the issuer published the key.
        for _ in range(2):
            await source.renew()
            if self._believed is not believed:
                # The issuer may be gone by now, or speak for less: the issuers that are believed now have to say.
                found = self._identify(token, digest)
                return found if isinstance(found, Principal) else await found
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
        self._generation = object()
        for digest in [digest for digest, principal in self._verified.items() if principal.issuer == issuer]:
            del self._verified[digest]

    def _source(self, issuer: Issuer) -> KeySource:
        return self._make_source(issuer, partial(self._forget_issuer, issuer.name))

    def _retire(self, sources: tuple[KeySource, ...]) -> None:
        for source in sources:
            source.stop()
        self._past = _added_up(self._past, tuple(source.health() for source in sources))
        self._retired += sources


def _added_up(past: Refreshes, healths: tuple[KeyHealth, ...]) -> Refreshes:
    return Refreshes(
        past.succeeded + sum(health.successes for health in healths),
        past.failed + sum(health.failures for health in healths),
    )


def _no_key(unverified: UnverifiedToken, source: KeySource) -> Refused:
    if source.current() is None:
        health = source.health()
        return Refused(Reason.KEYS_UNAVAILABLE, f"issuer {health.issuer}: {health.last_error or 'never fetched'}")
    return unknown_key(unverified)
