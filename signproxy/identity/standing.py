"""Say what a principal who was found before is today: by the issuers and static tokens that are believed now."""

from __future__ import annotations

import hashlib

import msgspec

from signproxy.errors import Reason, Refused
from signproxy.identity.believed import Believed
from signproxy.identity.issuer import Issuer
from signproxy.identity.opaque import StaticTokens
from signproxy.model import Principal

MARK_CHARACTERS = 16
"""Enough to tell the issuers and tokens of one installation apart; a caller gains nothing by finding another."""


def mark_of(believed: Believed, principal: Principal) -> str:
    """Return what tells the issuer or token that vouches for the principal from others; empty where none does any more.

    An issuer that names its principals by another claim, or a token that takes the place of one that leaked, is
    another: what was made on the word of the former ends.
    """
    if principal.issuer == believed.static.issuer:
        return believed.static.digest_of(principal)[:MARK_CHARACTERS]
    issuer = _issuer(believed, principal.issuer)
    return "" if issuer is None else _mark(issuer)


def standing(believed: Believed, principal: Principal, mark: str) -> Principal:
    """Return the principal with what is left of its roles, its catalogs and its life; never more than it had.

    Raise Refused (TOKEN_ISSUER_UNKNOWN) where nothing vouches for it any more.
    """
    if principal.issuer == believed.static.issuer:
        found = _static(believed.static, principal, mark)
        if found is not None:
            roles, catalogs, ends = found.roles, found.catalogs, found.expires_at
            return _cut(principal, roles, catalogs, min(principal.expires_at, ends))
    else:
        issuer = _issuer(believed, principal.issuer)
        if issuer is not None and _mark(issuer) == mark:
            return _cut(principal, issuer.roles, issuer.catalogs, principal.expires_at)
    raise Refused(Reason.TOKEN_ISSUER_UNKNOWN, f"nothing vouches for {principal.name!r} any more")


def _static(static: StaticTokens, principal: Principal, mark: str) -> Principal | None:
    """Return whom the static token of the mark names, if it is the same as before."""
    found = static.beginning_with(mark)
    return found if found is not None and found.name == principal.name else None


def _issuer(believed: Believed, name: str) -> Issuer | None:
    return next((issuer for issuer in believed.issuers.values() if issuer.name == name), None)


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
