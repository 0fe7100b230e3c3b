"""Say what a token holds and which check it would fail, without its key and without showing the token."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from enum import Enum
from functools import partial
from typing import NamedTuple

import msgspec

from signproxy.errors import Reason, Refused, nearest
from signproxy.identity.claims import CLAIM_CHECKS, MAX_TIME, principal_of
from signproxy.identity.issuer import Issuer
from signproxy.identity.key_source import static_keys
from signproxy.identity.keys import KeySet
from signproxy.identity.opaque import StaticTokens
from signproxy.identity.show import shown
from signproxy.identity.table_token import is_table_token
from signproxy.identity.tokens import UnverifiedToken, candidates, check_header, issuer_of, parse_token, unknown_key
from signproxy.telemetry.neutralise import neutralise

MAX_TEXT = 200
"""Characters shown of one claim: a whole URL or name, but no token that travels inside a token."""
MAX_FACTS = 100
"""Members shown of header or payload; more fill the screen without telling more."""
MAX_DEPTH = 3
"""`kubernetes.io.pod.name` and `realm_access.roles` are as deep as claims in use go."""

_TIMES = frozenset({"exp", "nbf", "iat", "auth_time"})


class CheckOutcome(Enum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_CHECKED = "not checked"


class Fact(NamedTuple):
    """A member of the header or the payload; name and text are safe to print."""

    name: str
    text: str


class CheckFact(NamedTuple):
    """One check of the token; the text is safe to print."""

    check: str
    outcome: CheckOutcome
    text: str = ""


class Inspection(msgspec.Struct, frozen=True):
    """What can be said of a token without verifying its signature."""

    header: tuple[Fact, ...] = ()
    claims: tuple[Fact, ...] = ()
    issuer: str = ""
    """The configured issuer whose `iss` it has; empty if there is none."""
    principal: str = ""
    """Whom it names if its signature verifies; empty if a check fails."""
    checks: tuple[CheckFact, ...] = ()
    """In the order of the server, which stops at the first failure; the others may matter next."""
    reason: Reason | None = None
    """With what the server refuses it; None if only signature or fetched keys could still fail."""


def inspect_token(token: str, issuers: Iterable[Issuer], static_tokens: StaticTokens | None, now: float) -> Inspection:
    """Return the facts about a token. Its signature is neither shown nor verified."""
    digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
    static = static_tokens.find(digest) if static_tokens is not None else None
    if static is not None:
        if now >= static.expires_at:
            facts = (CheckFact("static token", CheckOutcome.FAILED, "its digest is listed, but has expired"),)
            return Inspection(issuer=static.issuer, checks=facts, reason=Reason.TOKEN_EXPIRED)
        facts = (CheckFact("static token", CheckOutcome.PASSED, "its digest is listed"),)
        return Inspection(issuer=static.issuer, principal=static.name, checks=facts)
    if is_table_token(token):
        facts = (CheckFact("table token", CheckOutcome.NOT_CHECKED, "it is sealed, and opened when serving"),)
        return Inspection(checks=facts)
    try:
        unverified = parse_token(token)
    except Refused as refused:
        return Inspection(checks=(_failed("form", refused),), reason=refused.reason)
    return _inspect_jwt(unverified, {issuer.issuer: issuer for issuer in issuers}, now)


def _inspect_jwt(unverified: UnverifiedToken, issuers: Mapping[str, Issuer], now: float) -> Inspection:
    header, claims = tuple(_facts(unverified.header)), tuple(_facts(unverified.claims))
    try:
        issuer = issuer_of(unverified, issuers)
    except Refused as refused:
        checks = (_failed("issuer", refused, nearest(unverified.issuer, issuers)),)
        return Inspection(header=header, claims=claims, checks=checks, reason=refused.reason)
    facts: list[CheckFact] = []
    reason: Reason | None = None
    for name, check in _checks(unverified, issuer, now):
        try:
            check()
        except Refused as refused:
            facts.append(_failed(name, refused))
            reason = reason or refused.reason
        else:
            facts.append(CheckFact(name, CheckOutcome.PASSED))
    if static_keys(issuer) is None:
        facts.append(
            CheckFact("key", CheckOutcome.NOT_CHECKED, f"kid {shown(unverified.kid)} is looked up when serving")
        )
    facts.append(CheckFact("signature", CheckOutcome.NOT_CHECKED, "verified when serving"))
    principal = principal_of(unverified.claims, issuer).name if reason is None else ""
    return Inspection(header, claims, issuer.name, principal, tuple(facts), reason)


def _checks(unverified: UnverifiedToken, issuer: Issuer, now: float) -> Iterator[tuple[str, Callable[[], object]]]:
    yield "algorithm", partial(check_header, unverified, issuer)
    keys = static_keys(issuer)
    if keys is not None:
        yield "key", partial(_check_key, unverified, keys)
    for name, check in CLAIM_CHECKS:
        yield name, partial(check, unverified.claims, issuer, now)
    yield "principal", partial(principal_of, unverified.claims, issuer)


def _check_key(unverified: UnverifiedToken, keys: KeySet) -> None:
    if not candidates(unverified, keys):
        raise unknown_key(unverified)


def _failed(check: str, refused: Refused, hint: str = "") -> CheckFact:
    return CheckFact(check, CheckOutcome.FAILED, neutralise(f"{refused.detail}{hint}", MAX_TEXT))


def _facts(members: Mapping[str, object]) -> list[Fact]:
    facts: list[Fact] = []
    _collect(facts, members, "", MAX_DEPTH)
    return facts


def _collect(facts: list[Fact], members: Mapping[str, object], path: str, depth: int) -> None:
    for name, value in members.items():
        if len(facts) == MAX_FACTS:
            return
        here = f"{path}{neutralise(name, MAX_TEXT)}"
        if isinstance(value, dict) and depth > 1:
            _collect(facts, value, f"{here}.", depth - 1)
        else:
            facts.append(Fact(here, _time_text(value) if name in _TIMES else shown(value, MAX_TEXT)))


def _time_text(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < MAX_TIME:
        return shown(value, MAX_TEXT)
    return f"{shown(value)} ({datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:%M:%S} UTC)"
