"""Make the caller of a run: an RSA key that stands for the identity provider, and a token of Alice's signed with it."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterable

import jwt
import msgspec
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

ISSUER = "https://idp.example.org"
AUDIENCE = "signproxy"
SUBJECT = "alice"
ROLE = "engineer"

_LIFETIME = 24 * 3600
"""Longer than any run, so that no token ends inside a measurement."""


class Caller(msgspec.Struct, frozen=True):
    """What the signers of a run need to believe Alice: the public key in both spellings, and her token."""

    token: str
    public_pem: bytes
    public_der_base64: str


def make_caller() -> Caller:
    """Return a new key's caller; the private key is forgotten once the token is signed."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = key.public_key()
    der = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return Caller(_token(key, SUBJECT), _pem(key), base64.b64encode(der).decode())


def make_tokens(subjects: Iterable[str]) -> tuple[bytes, dict[str, str]]:
    """Return a new public key, and a token of each of these; as many callers of one issuer."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return _pem(key), {subject: _token(key, subject) for subject in subjects}


def _pem(key: rsa.RSAPrivateKey) -> bytes:
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def _token(key: rsa.RSAPrivateKey, subject: str) -> str:
    now = int(time.time())
    claims = {
        "iss": ISSUER,
        "sub": subject,
        "aud": AUDIENCE,
        "iat": now,
        "nbf": now,
        "exp": now + _LIFETIME,
        "jti": "5d1f4c1e-8a0b-4a58-9f3c-2f0a9b1c7d11",
        "upn": subject,
        "roles": [ROLE],
        "scope": "openid catalog sign",
    }
    return jwt.encode(claims, key, "RS256", headers={"kid": "bench-1"})
