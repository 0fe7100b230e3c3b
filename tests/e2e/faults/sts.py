"""Be a session service that believes only what is signed, and fails in each way in which such services fail."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.message import Message
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.e2e.faults.deployment import REGION, Keys

ROLE = "arn:aws:iam::123456789012:role/signer"


class Mode(Enum):
    """How the service is doing."""

    WELL = "well"
    DOWN = "answers with a fault of its own"
    DENYING = "denies"
    THROTTLING = "throttles"
    HANGING = "does not answer"
    GARBLED = "answers nonsense"


_ERRORS = {
    Mode.DOWN: (500, "InternalFailure"),
    Mode.DENYING: (403, "AccessDenied"),
    Mode.THROTTLING: (400, "Throttling"),
}


class SessionService:
    """A running service. The sessions that it gave are in `keys`, with which their signatures are verified."""

    def __init__(self, keys: Keys) -> None:
        self.mode = Mode.WELL
        self.seconds = 3600.0
        """How long a session lasts."""
        self.asked = 0
        self.given: list[str] = []
        """The access key ids of the sessions, the newest last."""
        self.refused: list[str] = []
        """Why requests were not believed; a good client leaves none."""
        self.clock_offset = 0.0
        self._keys = keys
        self._released = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def provider(self, source: str) -> dict[str, Any]:
        """Return the provider of the settings that asks here."""
        properties = {"role_arn": ROLE, "endpoint": self.endpoint, "region": REGION, "session_name": "e2e"}
        return {"class": "assume-role", "source": source, "properties": properties}

    @contextmanager
    def running(self) -> Iterator[SessionService]:
        """Serve until the block ends."""
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield self
        finally:
            self._released.set()
            self._server.shutdown()
            thread.join()
            self._server.server_close()

    def _answer(self, headers: Message[str, str], body: bytes) -> tuple[int, str] | None:
        """Return status and body, or None where none is given."""
        self.asked += 1
        mode = self.mode
        if mode is Mode.HANGING:
            self._released.wait(60)
            return None
        if mode is Mode.GARBLED:
            return 200, "<html>maintenance</html>"
        if mode in _ERRORS:
            status, code = _ERRORS[mode]
            return status, _error(code)
        problem = self._problem(headers, body)
        if problem:
            self.refused.append(problem)
            return 403, _error("SignatureDoesNotMatch")
        return 200, self._session()

    def _problem(self, headers: Message[str, str], body: bytes) -> str:
        """Return why the request is not believed, or nothing."""
        form = dict(parse_qsl(body.decode()))
        if (form.get("Action"), form.get("RoleArn")) != ("AssumeRole", ROLE):
            return f"not what it should ask for: {form}"
        authorization = headers.get("Authorization", "")
        key = authorization.partition("Credential=")[2].partition("/")[0]
        if key not in self._keys.secrets or self._keys.tokens.get(key) is not None:
            return f"unknown key {key!r}"
        signed = authorization.partition("SignedHeaders=")[2].partition(",")[0].split(";")
        # Written by the library that AWS' own clients sign with.
        request = AWSRequest(
            "POST", f"{self.endpoint}/", {name: headers[name] for name in signed if name != "host"}, body
        )
        request.context["timestamp"] = headers["X-Amz-Date"]
        signer = SigV4Auth(Credentials(key, self._keys.secrets[key]), "sts", REGION)
        text = signer.string_to_sign(request, signer.canonical_request(request))
        if signer.signature(text, request) != authorization.partition("Signature=")[2]:
            return f"wrong signature of {text!r}"
        return ""

    def _session(self) -> str:
        token = secrets.token_urlsafe(64)
        key, secret = self._keys.new(token)
        self.given.append(key)
        ends = datetime.fromtimestamp(time.time() + self.clock_offset + self.seconds, UTC).strftime(
            "%Y-%m-%dT%H:%M:%SZ"
        )
        return (
            '<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>'
            f"<AccessKeyId>{key}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey>"
            f"<SessionToken>{token}</SessionToken><Expiration>{ends}</Expiration>"
            "</Credentials></AssumeRoleResult></AssumeRoleResponse>"
        )

    def _handler(service) -> type[BaseHTTPRequestHandler]:  # noqa: N805  # `self` is the handler's
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                answer = service._answer(self.headers, body)
                if answer is None:
                    self.close_connection = True
                    return
                status, text = answer
                self.send_response(status)
                self.send_header("Content-Type", "text/xml")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
                """Say nothing."""

        return Handler


def _error(code: str) -> str:
    return (
        f'<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type><Code>{code}</Code>'
        "<Message>as the test asked for</Message></Error></ErrorResponse>"
    )
