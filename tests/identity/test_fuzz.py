"""Whatever is presented as a token, the answer is a principal or a refusal, never a raw fault."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signproxy.errors import Reason, Refused
from signproxy.identity.inspect import inspect_token
from signproxy.identity.keys import parse_jwks
from signproxy.model import Principal
from tests.identity.rig import ISS, NOW, authenticator, b64, claims, issuer, jwk, public_issuer, rsa_key, token

WHO = authenticator(
    issuer(roles_claim="a.b", roles=("etl",), kubernetes=True),
    public_issuer("RS256", "ES256", "EdDSA", name="keys", issuer="https://keys"),
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
HEADER = st.dictionaries(st.sampled_from(("alg", "kid", "typ", "crit", "b64", "jku", "jwk", "x5c", "zip")), JSON)
CLAIM = st.sampled_from(("iss", "aud", "sub", "exp", "nbf", "iat", "jti", "a", "kubernetes.io", "email"))
PAYLOAD = st.dictionaries(CLAIM, JSON)
PART = st.text(string.ascii_letters + string.digits + "-_=+/. \x00ü", max_size=30)


def outcome(text: str) -> Principal | Reason:
    """Return what becomes of a token; anything but a principal or a refusal fails the test."""
    try:
        found = WHO.authenticate(text)
    except Refused as refused:
        reason, detail = refused.reason, refused.detail
    else:
        assert isinstance(found, Principal)
        return found
    assert reason.name.startswith("TOKEN_")
    assert detail.isprintable()
    return reason


def never_accepted(text: str) -> None:
    assert not isinstance(outcome(text), Principal)
    inspect_token(text, (issuer(),), None, NOW)


@given(st.text())
def test_any_text_is_refused(text: str) -> None:
    """A stranger's bytes could end in an error 500, or worse."""
    never_accepted(text)


@given(st.lists(PART, min_size=1, max_size=6).map(".".join))
def test_anything_shaped_like_a_token_is_refused(text: str) -> None:
    """A stranger's bytes could end in an error 500, or worse."""
    never_accepted(text)


@given(st.binary(max_size=60), st.binary(max_size=60), st.binary(max_size=300))
def test_any_bytes_in_a_tokens_parts_are_refused(header: bytes, payload: bytes, signature: bytes) -> None:
    """A stranger's bytes could end in an error 500, or worse."""
    never_accepted(f"{b64(header)}.{b64(payload)}.{b64(signature)}")


@given(HEADER, PAYLOAD, st.binary(max_size=300))
def test_any_unsigned_json_is_refused(header: dict[str, object], payload: dict[str, object], signature: bytes) -> None:
    """A stranger could be let in by the right odd claim."""
    for algorithm in ("HS256", "RS256", "ES256", "EdDSA"):
        iss = ISS if algorithm == "HS256" else "https://keys"
        head = {"alg": algorithm, **header}
        body = {**claims(iss=iss), **payload}
        text = f"{b64(json.dumps(head).encode())}.{b64(json.dumps(body).encode())}.{b64(signature)}"
        never_accepted(text)


@given(PAYLOAD)
def test_signed_claims_of_any_shape_give_a_sound_principal_or_a_refusal(payload: dict[str, object]) -> None:
    """A user who can shape a claim could crash signproxy, or take a name that no policy can tell from another."""
    text = token(claims(**payload))
    found = outcome(text)
    if isinstance(found, Principal):
        assert found.name.isprintable()
        assert found.name.startswith("corp/")
        assert found.expires_at > NOW - 30
        assert set(found.roles) <= {"etl"}
    inspect_token(text, (issuer(),), None, NOW)


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_no_single_changed_character_is_accepted(place: int, code: int) -> None:
    """A token would have more than one spelling."""
    text = token()
    place %= len(text)
    bent = text[:place] + chr(code) + text[place + 1 :]
    if bent != text:
        assert not isinstance(authenticate_corp(bent), Principal)


CORP = authenticator()


def authenticate_corp(text: str) -> object:
    try:
        return CORP.authenticate(text)
    except Refused as refused:
        return refused.reason


@given(
    st.lists(JSON | st.dictionaries(st.sampled_from(sorted(jwk(rsa_key(), alg="", kid="", use=""))), JSON), max_size=5)
)
def test_any_key_set_is_read_or_refused(keys: list[object]) -> None:
    """A published document could end the task that keeps the keys fresh."""
    found = parse_jwks({"keys": keys})
    assert len(found) + len(found.ignored) == len(keys)
    assert all(reason.isprintable() for reason in found.ignored)


@pytest.mark.parametrize("depth", (1, 100, 900, 3_000))
@pytest.mark.parametrize("claim", ("aud", "sub", "exp", "a", "kubernetes.io", "realm"))
def test_nesting_of_any_depth_is_survived(claim: str, depth: int) -> None:
    """A stranger could exhaust the stack."""
    body = json.dumps(claims(**{claim: "@"})).replace('"@"', "[" * depth + "]" * depth).encode()
    text = token(body)
    found = outcome(text)
    inspect_token(text, (issuer(),), None, NOW)
    # Past Python's own limit the payload is not even read.
    assert depth < 3_000 or found is Reason.TOKEN_MALFORMED
