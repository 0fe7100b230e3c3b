"""Hold whom the settings believe, as one value: issuers, where their keys come from, and static tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

import msgspec

from signproxy.errors import Finding, Reason, Refused, SettingsInvalid
from signproxy.identity.issuer import Issuer, SharedSecret
from signproxy.identity.key_source import KeySource, StaticKeys, static_keys
from signproxy.identity.opaque import StaticTokens
from signproxy.identity.table_token import TableTokens
from signproxy.model import Principal

MARK_CHARACTERS = 16
"""Enough to tell the issuers and tokens of one installation apart; a caller gains nothing by finding another."""


class Believed(msgspec.Struct, frozen=True):
    """Everything that a token is judged by. Replaced as a whole, never changed."""

    issuers: dict[str, Issuer]
    """By the exact `iss` of their tokens."""
    sources: dict[str, KeySource]
    """The keys of each issuer, by its name."""
    static: StaticTokens
    table_tokens: TableTokens | None = None
    """None where they are switched off."""

    def mark_of(self, principal: Principal) -> str:
        """Return what tells the issuer or token that vouches for the principal from others; empty where none does.

        An issuer that names its principals by another claim, or a token that takes the place of one that leaked, is
        another: what was made on the word of the former ends.
        """
        if principal.issuer == self.static.issuer:
            return self.static.digest_of(principal)[:MARK_CHARACTERS]
        issuer = self._named(principal.issuer)
        return "" if issuer is None else _mark(issuer)

    def standing(self, principal: Principal, mark: str) -> Principal:
        """Return a principal who was found before, with what is left of its roles, its catalogs and its life.

        Raise Refused (TOKEN_ISSUER_UNKNOWN) where nothing vouches for it any more.
        """
        if principal.issuer == self.static.issuer:
            found = self.static.beginning_with(mark)
            if found is not None and found.name == principal.name:
                return _cut(principal, found.roles, found.catalogs, min(principal.expires_at, found.expires_at))
        else:
            issuer = self._named(principal.issuer)
            if issuer is not None and _mark(issuer) == mark:
                return _cut(principal, issuer.roles, issuer.catalogs, principal.expires_at)
        raise Refused(Reason.TOKEN_ISSUER_UNKNOWN, f"nothing vouches for {principal.name!r} any more")

    def _named(self, name: str) -> Issuer | None:
        return next((issuer for issuer in self.issuers.values() if issuer.name == name), None)


def believe(
    issuers: tuple[Issuer, ...],
    static: StaticTokens,
    table_tokens: TableTokens | None,
    make: Callable[[Issuer], KeySource],
    former: Believed | None = None,
) -> Believed:
    """Return whom to believe; raise SettingsInvalid for issuers that could be taken for one another.

    What was fetched for a former issuer of the same name, `iss` and way to its keys goes on being used: a change of
    its roles or audiences must not depend on an identity provider that happens to be down.
    """
    findings = tuple(_collisions(issuers, static))
    if findings:
        raise SettingsInvalid(findings)
    sources: dict[object, KeySource] = {}
    if former is not None:
        sources = {_way_to_keys(issuer): former.sources[issuer.name] for issuer in former.issuers.values()}
    for issuer in issuers:
        way = _way_to_keys(issuer)
        if way not in sources:
            sources[way] = make(issuer)
    return Believed(
        issuers={issuer.issuer: issuer for issuer in issuers},
        sources={issuer.name: sources[_way_to_keys(issuer)] for issuer in issuers},
        static=static,
        table_tokens=table_tokens,
    )


def beyond(these: Believed, others: Believed) -> tuple[KeySource, ...]:
    """Return the sources of these that the others do not use."""
    used = {id(source) for source in others.sources.values()}
    return tuple(source for source in these.sources.values() if id(source) not in used)


def key_source(issuer: Issuer, on_change: Callable[[], None]) -> KeySource:
    """Return where the issuer's keys come from, as its settings say."""
    keys = static_keys(issuer)
    if keys is not None:
        return StaticKeys(issuer.name, keys)
    # Only for issuers that publish their keys: it brings the whole of fetching.
    from signproxy.identity.jwks import RemoteKeys  # noqa: PLC0415

    return RemoteKeys(issuer, on_change)


def _mark(issuer: Issuer) -> str:
    """Return a digest of all that decides whom a name of this issuer means."""
    meant = "\n".join((issuer.name, issuer.issuer, issuer.principal_claim, str(issuer.kubernetes)))
    return hashlib.sha256(meant.encode()).hexdigest()[:MARK_CHARACTERS]


def _cut(
    principal: Principal, roles: tuple[str, ...], catalogs: tuple[str, ...] | None, expires_at: float
) -> Principal:
    """Return the principal with what both then and now are said to be its; what was added since is not."""
    if catalogs is None:
        catalogs = principal.catalogs
    elif principal.catalogs is not None:
        catalogs = tuple(catalog for catalog in principal.catalogs if catalog in catalogs)
    return msgspec.structs.replace(
        principal,
        roles=tuple(role for role in principal.roles if role in roles),
        catalogs=catalogs,
        expires_at=expires_at,
    )


def _way_to_keys(issuer: Issuer) -> object:
    """Return all that a source knows of its issuer."""
    return issuer.name, issuer.issuer, issuer.keys


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
