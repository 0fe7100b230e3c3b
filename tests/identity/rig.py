"""Make what issuers make: keys, key sets, tokens (good ones and forged ones) and a server that publishes them."""

from __future__ import annotations

import base64
import functools
import json
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Self, cast

import jwt
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from signproxy.errors import Reason, Refused
from signproxy.identity.authenticator import Authenticator
from signproxy.identity.fetch import Fetch, fetch
from signproxy.identity.issuer import Issuer, JwksUrl, KeySource, PemKey, PublicKeys, SharedSecret
from signproxy.identity.jwks import RemoteKeys
from signproxy.identity.key_source import KeySource as Source
from signproxy.identity.key_source import StaticKeys, static_keys
from signproxy.model import Principal

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey

ISS = "https://idp.example/realms/lake"
SECRET = b"0123456789abcdef0123456789abcdef" * 2
NOW = 1_800_000_000.0
"""The time of every test with a clock of its own."""


class Clock:
    """A clock that stands still until a test moves it."""

    def __init__(self, now: float = NOW) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def rsa_key(name: str = "first", bits: int = 2_048) -> rsa.RSAPrivateKey:
    """Return the RSA key of this name; making one takes a while, so there is one per test session."""
    return _made_rsa_key(name, bits)


@functools.cache
def _made_rsa_key(name: str, bits: int) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65_537, bits)


@functools.cache
def ec_key(curve: str) -> ec.EllipticCurvePrivateKey:
    curves = {"P-256": ec.SECP256R1(), "P-384": ec.SECP384R1(), "P-521": ec.SECP521R1(), "K-256": ec.SECP256K1()}
    return ec.generate_private_key(curves[curve])


@functools.cache
def ed_key() -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.generate()


def key_for(algorithm: str) -> PrivateKey:
    match algorithm[:2]:
        case "RS" | "PS":
            return rsa_key()
        case "ES":
            return ec_key({"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}[algorithm])
        case _:
            return ed_key()


def pem(key: PrivateKey) -> bytes:
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def private_pem(key: PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def jwk(key: PrivateKey, **members: object) -> dict[str, Any]:
    match key:
        case rsa.RSAPrivateKey():
            public = jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
        case ec.EllipticCurvePrivateKey():
            public = jwt.algorithms.ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
        case _:
            public = jwt.algorithms.OKPAlgorithm.to_jwk(key.public_key(), as_dict=True)
    public.pop("key_ops", None)
    return {**public, **members}


def jwks(*keys: Mapping[str, object]) -> bytes:
    return json.dumps({"keys": keys}).encode()


def b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def claims(**changes: object) -> dict[str, object]:
    """Return the claims of a good token; a change to `...` takes the claim out."""
    good: dict[str, object] = {"iss": ISS, "aud": "signproxy", "sub": "alice", "exp": NOW + 3_600, "iat": NOW}
    return {name: value for name, value in {**good, **changes}.items() if value is not ...}


def token(
    payload: Mapping[str, object] | bytes | None = None,
    key: PrivateKey | bytes = SECRET,
    algorithm: str = "HS256",
    header: Mapping[str, object] | bytes | None = None,
) -> str:
    """Return a token that is really signed, whatever its header and payload hold."""
    body = payload if isinstance(payload, bytes) else json.dumps(claims() if payload is None else payload).encode()
    head = header if isinstance(header, bytes) else json.dumps({"alg": algorithm, **(header or {})}).encode()
    signing_input = f"{b64(head)}.{b64(body)}"
    signer = jwt.get_algorithm_by_name(algorithm)
    return f"{signing_input}.{b64(signer.sign(signing_input.encode(), key))}"


def issuer(keys: KeySource | None = None, **changes: Any) -> Issuer:
    """Return an issuer that shares a secret, unless told otherwise."""
    good: dict[str, Any] = {
        "name": "corp",
        "issuer": ISS,
        "audiences": ("signproxy",),
        "algorithms": ("HS256",),
        "keys": SharedSecret(SECRET) if keys is None else keys,
    }
    return Issuer(**{**good, **changes})


def public_issuer(*algorithms: str, kid: str | None = None, **changes: Any) -> Issuer:
    """Return an issuer with one public key for each algorithm."""
    keys = {pem(key_for(algorithm)): None for algorithm in algorithms}
    return issuer(PublicKeys(tuple(PemKey(text, kid) for text in keys)), algorithms=algorithms, **changes)


def remote_issuer(url: str, *algorithms: str, **changes: Any) -> Issuer:
    return issuer(JwksUrl(url), algorithms=algorithms or ("RS256",), **changes)


def authenticator(
    *issuers: Issuer,
    clock: Callable[[], float] | None = None,
    key_clock: Callable[[], float] = time.monotonic,
    get: Fetch = fetch,
    sleep: Callable[[float], Awaitable[object]] | None = None,
    **more: Any,
) -> Authenticator:
    """Return an authenticator whose clocks stand still, and whose keys are fetched as the test says."""

    def make(each: Issuer, on_change: Callable[[], None]) -> Source:
        keys = static_keys(each)
        if keys is not None:
            return StaticKeys(each.name, keys)
        if sleep is None:
            return RemoteKeys(each, on_change, get=get, clock=key_clock)
        return RemoteKeys(each, on_change, get=get, clock=key_clock, sleep=sleep)

    return Authenticator(issuers or (issuer(),), clock=clock or Clock(), make_source=make, **more)


def principal(who: Authenticator, text: str) -> Principal:
    """Authenticate where no key has to be fetched."""
    found = who.authenticate(text)
    assert isinstance(found, Principal)
    return found


async def principal_later(who: Authenticator, text: str) -> Principal:
    """Authenticate, waiting for keys where they have to be fetched."""
    found = who.authenticate(text)
    return found if isinstance(found, Principal) else await found


def refusal(who: Authenticator, text: str) -> Reason:
    """Return why a token is refused at once."""
    try:
        found = who.authenticate(text)
    except Refused as refused:
        return refused.reason
    raise AssertionError(f"accepted: {found}")


async def refusal_later(who: Authenticator, text: str) -> Reason:
    """Return why a token is refused, at once or after keys were asked for."""
    try:
        found = await principal_later(who, text)
    except Refused as refused:
        return refused.reason
    raise AssertionError(f"accepted: {found}")


Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class KeyServer:
    """A real server on loopback that answers every path as a test says, and counts."""

    def __init__(
        self, body: bytes = b"", headers: Mapping[str, str] | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._tls = tls
        self.body = body
        self.headers = dict(headers or {})
        self.status = 200
        self.answers: dict[str, Answer] = {}
        """Paths that are answered by a function of their own."""
        self.requests: list[web.BaseRequest] = []

    @property
    def count(self) -> int:
        return len(self.requests)

    async def __aenter__(self) -> Self:
        self._server = web.Server(self._answer)
        self._runner = web.ServerRunner(self._server, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls)
        await site.start()
        self.port = int(self._runner.addresses[0][1])
        self.url = f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self.port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(request)
        answer = self.answers.get(request.path)
        if answer is not None:
            return await answer(cast("web.Request", request))
        return web.Response(body=self.body, status=self.status, headers=self.headers)
