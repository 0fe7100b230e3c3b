"""Be the authority whose tokens clients, catalogs and signproxy go by: short-lived ones, renewed on demand."""

from __future__ import annotations

import base64
import json
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

ISSUER = "https://idp.e2e.test"
AUDIENCE = "lake"
"""Of the catalog and of signproxy at once: engines have one token for both."""
IDP = "idp"
"""signproxy's name for the authority: its principals are `idp/<user>`."""

LONG = 3600
"""Seconds that a token lives where nothing else is said."""

TOKEN_TYPE = "urn:ietf:params:oauth:token-type:access_token"
_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
_ALGORITHM = "RS256"

Rule = Callable[[str, str, str], bool]
"""Whether a user may make a call, which is its method and its path."""


class Authority:
    """Signs tokens, and says of each whether it is good."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._secrets: dict[str, str] = {}
        self.life = LONG
        """Seconds that the tokens of the token endpoint live."""
        self.permits: Rule = lambda _user, _method, _path: True
        self.grants: Counter[tuple[str, str]] = Counter()
        """How many tokens the endpoint gave, by user and kind of grant."""
        self.port = 0

    # -- who there is ----------------------------------------------------------------------------------------------

    def credential(self, user: str) -> str:
        """Return what a user shows the token endpoint, as Iceberg's property `credential` has it."""
        return f"{user}:{self._secrets.setdefault(user, secrets.token_hex(16))}"

    def token(self, user: str, *, seconds: int = LONG) -> str:
        """Return a token of a user."""
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": user, "iat": now, "exp": now + seconds}
        # Two tokens of one second are two tokens.
        return jwt.encode({**claims, "jti": secrets.token_hex(8)}, self._key, _ALGORITHM)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def public_key(self) -> bytes:
        """Return the public key (PEM)."""
        return self._key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    def public_key_base64(self) -> str:
        """Return the public key as Quarkus has it."""
        der = self._key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return base64.b64encode(der).decode()

    def issuer_settings(self, directory: Path) -> dict[str, Any]:
        """Return how signproxy is told to believe these tokens."""
        file = directory / "authority.pem"
        file.write_bytes(self.public_key())
        return {"issuer": ISSUER, "audiences": [AUDIENCE], "algorithms": [_ALGORITHM], "key_file": str(file)}

    # -- what it answers -------------------------------------------------------------------------------------------

    def grant(self, form: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        """Answer the token endpoint, as RFC 6749 and RFC 8693 have it."""
        kind = form.get("grant_type", "")
        if kind == "client_credentials":
            user = form.get("client_id", "")
            good = bool(user) and self._secrets.get(user) == form.get("client_secret")
        elif kind == _EXCHANGE:
            user = self._user(form.get("subject_token", ""))
            good = bool(user)
        else:
            return 400, {"error": "unsupported_grant_type", "error_description": kind}
        if not good:
            return 401, {"error": "invalid_client", "error_description": "Credentials given were invalid"}
        self.grants[user, kind.rpartition(":")[2]] += 1
        token = self.token(user, seconds=self.life)
        life = {"expires_in": self.life, "issued_token_type": TOKEN_TYPE}
        return 200, {"access_token": token, "token_type": "bearer", **life}

    def check(self, authorization: str, call: str) -> tuple[int, dict[str, Any]]:
        """Say whether a call may be made."""
        user = self._user(authorization.removeprefix("Bearer "))
        if not user:
            return 401, _error("The token is not good", "NotAuthorizedException", 401)
        if not self.permits(user, *call.split(" ", 1)):
            return 403, _error("The catalog does not permit it", "ForbiddenException", 403)
        return 200, {}

    def _user(self, token: str) -> str:
        try:
            claims = jwt.decode(token, self._key.public_key(), [_ALGORITHM], audience=AUDIENCE, issuer=ISSUER)
        except jwt.InvalidTokenError:
            return ""
        return str(claims["sub"])


@contextmanager
def run_authority() -> Iterator[Authority]:
    """Serve an authority, with a key of its own, until the block ends."""
    authority = Authority()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            if self.path == "/token":
                form = {name: values[0] for name, values in parse_qs(body).items()}
                status, answer = authority.grant(form)
            elif self.path == "/check":
                status, answer = authority.check(self.headers.get("Authorization", ""), self.headers.get("X-Call", " "))
            else:
                status, answer = 404, {}
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class names it so
            """Keep quiet: what matters is counted."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    authority.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield authority
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _error(message: str, kind: str, code: int) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "code": code}}
