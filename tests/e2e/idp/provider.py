"""Run the identity provider as a process, get tokens of it, and do to it what happens to such servers."""

from __future__ import annotations

import http.client
import json
import secrets
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from tests.e2e.idp import install
from tests.e2e.stores.process import Server, free_ports, status_of

CLIENT = "engineer"
"""The client that the policies of the tests know; its name is the `sub` of its tokens."""

AUDIENCE = "signproxy"

_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class Fetches:
    """How often each document was asked for."""

    discovery: int
    jwks: int

    def plus(self, count: int) -> Fetches:
        """Return what it is after so many times more, each of both documents."""
        return Fetches(self.discovery + count, self.jwks + count)


class Address:
    """Where a provider is, or will be: the issuer is known before it runs, and again after it was down."""

    def __init__(self) -> None:
        self.port, self.control_port = free_ports(2)
        self.secret = secrets.token_hex(16)

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class IdentityProvider:
    """A running provider."""

    def __init__(self, address: Address, process: Server) -> None:
        self.address = address
        self.process = process

    @property
    def issuer(self) -> str:
        return self.address.issuer

    def token(self, *, client: str = CLIENT, algorithm: str = "RS256", seconds: int = 600) -> str:
        """Return an access token that the provider signs with its newest key."""
        form = urlencode({"grant_type": "client_credentials", "resource": f"urn:signproxy:{algorithm}:{seconds}"})
        basic = b64encode(f"{client}:{self.address.secret}".encode()).decode()
        headers = {"Authorization": f"Basic {basic}", "Content-Type": "application/x-www-form-urlencoded"}
        token = _post(self.address.port, "/token", form, headers)["access_token"]
        assert isinstance(token, str)
        return token

    def rotate(self) -> None:
        """Sign with new keys from now on; the old ones stay published."""
        self._control("rotate")

    def withdraw(self) -> None:
        """Publish the signing keys alone."""
        self._control("withdraw")

    def answer_late(self, seconds: float) -> None:
        """Let every key document take so long."""
        self._control("fault", delay_ms=round(seconds * 1000))

    def answer_instead(self, status: int, body: str) -> None:
        """Answer this wherever a key document is asked for."""
        self._control("fault", status=status, body=body)

    def mend(self) -> None:
        """Answer as a provider does."""
        self._control("fault")

    def fetches(self) -> Fetches:
        """Return how often the documents were asked for so far."""
        counters = self._control("counters")
        return Fetches(counters["discovery"], counters["jwks"])

    def _control(self, what: str, **values: int | str) -> dict[str, Any]:
        return _post(self.address.control_port, f"/{what}", json.dumps(values), {"Content-Type": "application/json"})


@contextmanager
def run_identity_provider(directory: Path, address: Address | None = None) -> Iterator[IdentityProvider]:
    """Run a provider, with keys of its own, until the block ends."""
    directory.mkdir(parents=True, exist_ok=True)
    where = address or Address()
    script = Path(__file__).with_name("server.mjs")
    command = (str(install.node()), str(script), str(where.port), str(where.control_port), where.secret)
    server = Server("idp", command, directory, env={"IDP_MODULES": str(install.oidc_provider())})
    try:
        server.wait_until(lambda: status_of(where.control_port, "/counters") == 200)
        yield IdentityProvider(where, server)
    finally:
        server.stop()


def made_up_tokens(issuer: str, count: int) -> list[str]:
    """Return tokens in the name of a provider, signed by a stranger, each with a key id that there is not."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = int(time.time())
    claims = {"iss": issuer, "aud": AUDIENCE, "sub": CLIENT, "iat": now, "exp": now + 600}
    kids = (secrets.token_hex(8) for _ in range(count))
    return [jwt.encode(claims, key, "ES256", headers={"kid": kid, "typ": "at+jwt"}) for kid in kids]


def _post(port: int, path: str, body: str, headers: dict[str, str]) -> dict[str, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT)
    try:
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
    finally:
        connection.close()
    assert answer.status == 200, f"{path}: {answer.status} {text}"
    value: dict[str, Any] = json.loads(text)
    return value
