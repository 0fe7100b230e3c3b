"""Judge the claims of a token and make its principal of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from signproxy.errors import Reason, Refused
from signproxy.identity.issuer import Issuer
from signproxy.identity.show import shown
from signproxy.model import Pod, Principal

Claims = Mapping[str, object]

LEEWAY = 30.0
"""Seconds that the clocks of issuer and signproxy may differ."""

MAX_CLAIM = 256
"""Characters of a principal claim: OpenID Connect allows 255 for `sub`, mail addresses end at 254."""

MAX_TIME = 253_402_300_800.0
"""The year 10000; a later `exp` is no time but a way to overflow one."""

REQUIRED = ("iss", "aud", "exp", "sub")

_SERVICE_ACCOUNT = "system:serviceaccount:"


def principal_of(claims: Claims, issuer: Issuer) -> Principal:
    """Return the principal that the claims name; raise Refused if they do not name one well."""
    subject = _name_claim(claims, "sub")
    name = subject if issuer.principal_claim == "sub" else _name_claim(claims, issuer.principal_claim)
    # An unverified address is whatever its owner typed (the attack is known as nOAuth).
    if issuer.principal_claim == "email" and claims.get("email_verified", True) is not True:
        raise Refused(Reason.TOKEN_CLAIM, "email is not verified by the issuer")
    return Principal(
        name=f"{issuer.name}/{name}",
        issuer=issuer.name,
        subject=subject,
        expires_at=_time_claim(claims, "exp"),
        roles=_roles(claims, issuer),
        catalogs=issuer.catalogs,
        pod=_pod(claims, subject) if issuer.kubernetes else None,
    )


def accept(claims: Claims, issuer: Issuer, now: float) -> Principal:
    """Return the principal; raise Refused at the first claim that keeps the token from being accepted now."""
    for _, check in CLAIM_CHECKS:
        check(claims, issuer, now)
    return principal_of(claims, issuer)


def _check_required(claims: Claims, _issuer: Issuer, _now: float) -> None:
    for claim in REQUIRED:
        if claims.get(claim) is None:
            raise Refused(Reason.TOKEN_CLAIM, f"{claim} is missing")


def _check_issuer(claims: Claims, issuer: Issuer, _now: float) -> None:
    if claims.get("iss") != issuer.issuer:
        raise Refused(Reason.TOKEN_ISSUER_UNKNOWN, f"iss is {shown(claims.get('iss'))}")


def _check_expiry(claims: Claims, _issuer: Issuer, now: float) -> None:
    expiry = _time_claim(claims, "exp")
    if expiry <= now - LEEWAY:
        raise Refused(Reason.TOKEN_EXPIRED, f"exp was {now - expiry:.0f} s ago")


def _check_begin(claims: Claims, _issuer: Issuer, now: float) -> None:
    for claim in ("nbf", "iat"):
        if claim in claims:
            begin = _time_claim(claims, claim)
            if begin > now + LEEWAY:
                raise Refused(Reason.TOKEN_NOT_YET_VALID, f"{claim} lies {begin - now:.0f} s ahead")


def _check_audience(claims: Claims, issuer: Issuer, _now: float) -> None:
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    if not audiences or not all(isinstance(entry, str) for entry in audiences):
        raise Refused(Reason.TOKEN_CLAIM, "aud is neither text nor a list of texts")
    if not set(issuer.audiences).intersection(audiences):
        raise Refused(Reason.TOKEN_AUDIENCE, f"aud is {shown(audience)}")


CLAIM_CHECKS: tuple[tuple[str, Callable[[Claims, Issuer, float], None]], ...] = (
    ("required claims", _check_required),
    ("issuer", _check_issuer),
    ("expiry", _check_expiry),
    ("begin", _check_begin),
    ("audience", _check_audience),
)
"""Each check with its name, in order; `token inspect` runs the same ones, then asks for the principal."""


def _time_claim(claims: Claims, claim: str) -> float:
    """Return a NumericDate. Texts and booleans, which `int()` would take for numbers, are none."""
    value = claims.get(claim)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refused(Reason.TOKEN_CLAIM, f"{claim} is no number")
    # Compared before it is converted: an integer may be too large for a float.
    if not -MAX_TIME < value < MAX_TIME or math.isnan(value):
        raise Refused(Reason.TOKEN_CLAIM, f"{claim} is no time")
    return float(value)


def _name_claim(claims: Claims, claim: str) -> str:
    """Return a claim that names a caller. What cannot be seen could make two names look alike in a policy or a log."""
    value = claims.get(claim)
    if not isinstance(value, str) or not value:
        raise Refused(Reason.TOKEN_CLAIM, f"{claim} is missing or no text")
    if len(value) > MAX_CLAIM:
        raise Refused(Reason.TOKEN_CLAIM, f"{claim} is longer than {MAX_CLAIM} characters")
    # Not printable: control, format and bidirectional characters, surrogates, every space but U+0020.
    if not value.isprintable() or value != value.strip():
        raise Refused(Reason.TOKEN_CLAIM, f"{claim} holds characters that cannot be seen: {shown(value)}")
    return value


def _roles(claims: Claims, issuer: Issuer) -> tuple[str, ...]:
    """Return the listed roles that the token brings. A claim of the wrong shape brings none."""
    if not issuer.roles_claim:
        return ()
    value = _at_path(claims, issuer.roles_claim)
    # A text is a list joined by spaces, as OAuth's `scope` is.
    brought = value.split(" ") if isinstance(value, str) else value
    if not isinstance(brought, list):
        return ()
    texts = {role for role in brought if isinstance(role, str)}
    return tuple(role for role in issuer.roles if role in texts)


def _at_path(claims: Claims, path: str) -> object:
    # The whole name first: some issuers name claims by URL (`https://example.com/roles`), dots and all.
    if path in claims:
        return claims[path]
    value: object = claims
    for step in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(step)
    return value


def _pod(claims: Claims, subject: str) -> Pod | None:
    """Return the pod that a projected service-account token is bound to, or None for one bound to no pod."""
    about = claims.get("kubernetes.io")
    if not subject.startswith(_SERVICE_ACCOUNT) or not isinstance(about, dict):
        raise Refused(Reason.TOKEN_CLAIM, "no projected service-account token")
    namespace, _, account = subject.removeprefix(_SERVICE_ACCOUNT).partition(":")
    if about.get("namespace") != namespace or _member(about, "serviceaccount", "name") != account:
        raise Refused(Reason.TOKEN_CLAIM, "kubernetes.io names another service account than sub")
    if "pod" not in about:
        return None
    node = _member(about, "node", "name") if "node" in about else ""
    return Pod(namespace, _member(about, "pod", "name"), _member(about, "pod", "uid"), node)


def _member(about: Mapping[str, object], member: str, field: str) -> str:
    value = about.get(member)
    text = value.get(field) if isinstance(value, Mapping) else None
    if not isinstance(text, str) or not 0 < len(text) <= MAX_CLAIM or not text.isprintable():
        raise Refused(Reason.TOKEN_CLAIM, f"kubernetes.io.{member}.{field} is missing or no text")
    return text
