"""Read a JWT without believing it, then verify it with a key of its issuer."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

import msgspec

from signproxy.errors import Reason, Refused
from signproxy.identity.claims import accept
from signproxy.identity.issuer import Issuer
from signproxy.identity.key_url import KeysUnusable
from signproxy.identity.keys import MAX_KID, MAX_TRIES, KeySet, VerificationKey
from signproxy.identity.show import shown
from signproxy.model import Principal

MAX_TOKEN = 16 * 1024
"""Characters. The largest tokens in use (Entra ID with groups) stay below 8 KiB; servers' header limits are near."""

# Three parts of base64url without padding. The signature may be empty, so that `alg: none` is refused as what it is.
_FORM = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]*)")

# RFC 8725, section 3.11: a token made for another purpose (`logout+jwt`, `dpop+jwt` ...) is not an access token.
_TYPES = frozenset({"jwt", "at+jwt", "application/jwt", "application/at+jwt"})

_OF_KEY = frozenset({Reason.TOKEN_SIGNATURE, Reason.TOKEN_KEY_UNKNOWN})


class UnverifiedToken(msgspec.Struct, frozen=True):
    """What a token says of itself. It only ever chooses which issuer and key to verify it with."""

    header: dict[str, Any]
    claims: dict[str, Any]
    issuer: str
    algorithm: str
    kid: str | None


def parse_token(token: str) -> UnverifiedToken:
    """Return what the token says of itself; raise Refused if it is no signed JWT in its one canonical spelling."""
    if len(token) > MAX_TOKEN:
        raise _malformed(f"{len(token)} characters, over {MAX_TOKEN}")
    form = _FORM.fullmatch(token)
    if form is None:
        raise _malformed("neither three parts of base64url nor a known opaque token")
    header = _json_object(_octets(form[1], "header"), "header")
    claims = _json_object(_octets(form[2], "payload"), "payload")
    _octets(form[3], "signature")
    # RFC 7515, section 4.1.11: what is critical must be understood, and nothing is.
    if "crit" in header:
        raise _malformed("the header has critical extensions")
    typ = header.get("typ", "JWT")
    if not isinstance(typ, str) or typ.lower() not in _TYPES:
        raise _malformed(f"typ is {shown(typ)}")
    algorithm, kid, issuer = header.get("alg"), header.get("kid"), claims.get("iss")
    if not isinstance(algorithm, str):
        raise Refused(Reason.TOKEN_ALGORITHM, f"alg is {shown(algorithm)}")
    if kid is not None and not isinstance(kid, str):
        raise _malformed("kid is no text")
    if issuer is None:
        raise Refused(Reason.TOKEN_CLAIM, "iss is missing")
    if not isinstance(issuer, str):
        raise Refused(Reason.TOKEN_CLAIM, "iss is no text")
    return UnverifiedToken(header, claims, issuer, algorithm, kid)


def issuer_of(unverified: UnverifiedToken, issuers: Mapping[str, Issuer]) -> Issuer:
    """Return the issuer whose `iss` is the token's, byte by byte; raise Refused if there is none."""
    issuer = issuers.get(unverified.issuer)
    if issuer is None:
        raise Refused(Reason.TOKEN_ISSUER_UNKNOWN, f"iss is {shown(unverified.issuer)}")
    return issuer


def check_header(unverified: UnverifiedToken, issuer: Issuer) -> None:
    """Raise Refused if no key of the issuer, present or future, could verify a token with this header."""
    if unverified.algorithm not in issuer.algorithms:
        raise Refused(Reason.TOKEN_ALGORITHM, f"alg is {shown(unverified.algorithm)}")
    if unverified.kid is not None and len(unverified.kid) > MAX_KID:
        raise Refused(Reason.TOKEN_KEY_UNKNOWN, f"kid is longer than {MAX_KID} characters")


def candidates(unverified: UnverifiedToken, keys: KeySet) -> tuple[VerificationKey, ...]:
    """Return the keys that the token may be signed with; none if its `kid` is unknown.

    Raise Refused if its `kid` is known, but not with this algorithm, or if it has none and too many keys fit.
    """
    named = keys.named(unverified.kid)
    fitting = tuple(key for key in named if unverified.algorithm in key.algorithms)
    if named and not fitting and unverified.kid is not None:
        raise Refused(Reason.TOKEN_ALGORITHM, f"the key is not for alg {shown(unverified.algorithm)}")
    if len(fitting) > MAX_TRIES:
        raise unknown_key(unverified)
    return fitting


def unknown_key(unverified: UnverifiedToken) -> Refused:
    """Return the refusal of a token for which the issuer has no key."""
    what = "no kid, and not one key fits" if unverified.kid is None else f"kid is {shown(unverified.kid)}"
    return Refused(Reason.TOKEN_KEY_UNKNOWN, what)


def verify(
    token: str, unverified: UnverifiedToken, issuer: Issuer, keys: tuple[VerificationKey, ...], now: float
) -> Principal:
    """Return the principal of a token that one of the keys verifies; raise Refused for any other."""
    fault: tuple[Reason, str] | None = None
    for key in keys:
        fault = _signature_fault(token, issuer, key)
        if fault is None:
            return accept(unverified.claims, issuer, now)
        # Only another key could help; whatever else is wrong with the token stays wrong.
        if fault[0] not in _OF_KEY:
            break
    raise unknown_key(unverified) if fault is None else Refused(*fault)


def _signature_fault(token: str, issuer: Issuer, key: VerificationKey) -> tuple[Reason, str] | None:
    """Return why the key does not verify the token, or None if it does. Claims are judged by `accept` alone."""
    import jwt  # noqa: PLC0415 (loads cryptography: not before a token needs it)

    try:
        # `jku`, `x5u`, `jwk` and `x5c` are never read: the key is the one that was configured or fetched.
        jwt.PyJWS(options={"verify_signature": True, "enforce_minimum_key_length": True}).decode(
            token, key.material(), sorted(key.algorithms.intersection(issuer.algorithms))
        )
    except KeysUnusable as problem:
        return Reason.TOKEN_KEY_UNKNOWN, str(problem)
    except jwt.InvalidSignatureError as error:
        return Reason.TOKEN_SIGNATURE, type(error).__name__
    except jwt.InvalidAlgorithmError as error:
        return Reason.TOKEN_ALGORITHM, type(error).__name__
    except jwt.InvalidKeyError as error:
        return Reason.TOKEN_KEY_UNKNOWN, type(error).__name__
    # Besides its own errors PyJWT lets ValueError and TypeError of cryptography through for odd keys and signatures.
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        return Reason.TOKEN_MALFORMED, type(error).__name__
    return None


def _octets(part: str, name: str) -> bytes:
    """Decode base64url. Bits past the last byte must be zero: else one token has many spellings, and cache entries."""
    try:
        decoded = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except (binascii.Error, ValueError):
        raise _malformed(f"the {name} is not base64url") from None
    if base64.urlsafe_b64encode(decoded).rstrip(b"=").decode("ascii") != part:
        raise _malformed(f"the {name} is not canonical base64url")
    return decoded


def _json_object(raw: bytes, name: str) -> dict[str, Any]:
    try:
        value = json.loads(raw.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_number)
    # RecursionError: 12 KiB of opening brackets.
    except (ValueError, RecursionError):
        raise _malformed(f"the {name} is no JSON with unique names") from None
    if not isinstance(value, dict):
        raise _malformed(f"the {name} is no JSON object")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse repeated names, as RFC 7519, section 4, allows.

    They are what is left of an injection into an issuer that builds its JSON by joining text (a user name of
    `x","sub":"admin`), and parsers differ on which one counts.
    """
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("repeated name")
    return members


def _no_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _malformed(detail: str) -> Refused:
    return Refused(Reason.TOKEN_MALFORMED, detail)
