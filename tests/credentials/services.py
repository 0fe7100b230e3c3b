"""Serve what AWS' services answer, on this machine: session service, container endpoint, instance metadata."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotocoreCredentials

REGION = "eu-west-1"


class Seen(NamedTuple):
    """A request as it arrived, its header names in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def form(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(self.body.decode()).items()}


class Answer(NamedTuple):
    """What is answered, and after how long."""

    status: int
    body: bytes
    after: float = 0.0
    content_type: str = "text/xml"


class Key(NamedTuple):
    """A key pair, with the life that it has left."""

    key_id: str
    secret: str
    token: str
    seconds: float = 3600.0

    @property
    def expiration(self) -> str:
        return (datetime.now(UTC) + timedelta(seconds=self.seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def key(name: str, seconds: float = 3600.0) -> Key:
    """Return a key pair whose parts are recognised wherever they turn up."""
    return Key(
        f"ASIA{name.upper():0<16}", f"{name}/Secret+Access{name}/KEY{name}0", f"IQoJ{name}TokenOf{name}==", seconds
    )


class Service:
    """A server whose answer can be replaced while it runs."""

    def __init__(self, answer: Callable[[Seen], Answer]) -> None:
        self.answer = answer
        self.seen: list[Seen] = []
        self.released = threading.Event()
        """Set at the end, so that no slow answer outlives its test."""
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base class names it
                """Be quiet."""

            def handle_one(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                headers = {name.lower(): value for name, value in self.headers.items()}
                seen = Seen(self.command, self.path, headers, body)
                service.seen.append(seen)
                answer = service.answer(seen)
                if answer.after:
                    service.released.wait(answer.after)
                self.close_connection = True
                try:
                    self.send_response(answer.status)
                    self.send_header("Content-Type", answer.content_type)
                    self.send_header("Connection", "close")
                    self.send_header("Content-Length", str(len(answer.body)))
                    self.end_headers()
                    self.wfile.write(answer.body)
                except OSError:
                    """The client did not wait."""

            do_GET = do_POST = do_PUT = handle_one  # noqa: N815 - the names that the base class looks for

        class Server(ThreadingHTTPServer):
            daemon_threads = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        """Stop listening: from now on connections are refused."""
        if self._thread.is_alive():
            self.released.set()
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()


@contextmanager
def serving(answer: Callable[[Seen], Answer]) -> Iterator[Service]:
    """Serve until the block ends."""
    service = Service(answer)
    try:
        yield service
    finally:
        service.close()


def container(given: Callable[[], Key], authorization: Callable[[], str]) -> Callable[[Seen], Answer]:
    """Answer as the agents of ECS and EKS Pod Identity do."""

    def answer(seen: Seen) -> Answer:
        if seen.headers.get("authorization") != authorization():
            return Answer(403, b'{"code": "AccessDenied"}', content_type="application/json")
        return _json(given())

    return answer


def metadata(given: Callable[[], Key], role: str = "node-role") -> Callable[[Seen], Answer]:
    """Answer as an instance does: by the second version of its protocol alone."""
    path = "/latest/meta-data/iam/security-credentials/"

    def answer(seen: Seen) -> Answer:
        if (seen.method, seen.path) == ("PUT", "/latest/api/token"):
            return Answer(200, b"imds-token", content_type="text/plain")
        if seen.headers.get("x-aws-ec2-metadata-token") != "imds-token":
            return Answer(401, b"")
        if seen.path == path:
            return Answer(200, role.encode(), content_type="text/plain")
        return _json(given()) if seen.path == path + role else Answer(404, b"")

    return answer


def sso(given: Callable[[], Key], access_token: str) -> Callable[[Seen], Answer]:
    """Answer as IAM Identity Center does to whoever has logged in."""

    def answer(seen: Seen) -> Answer:
        if seen.headers.get("x-amz-sso_bearer_token") != access_token:
            return Answer(401, b'{"message": "Session token not found or invalid"}', content_type="application/json")
        found = given()
        expires = int((datetime.now(UTC) + timedelta(seconds=found.seconds)).timestamp() * 1000)
        body = {
            "roleCredentials": {
                "accessKeyId": found.key_id,
                "secretAccessKey": found.secret,
                "sessionToken": found.token,
                "expiration": expires,
            }
        }
        return Answer(200, json.dumps(body).encode(), content_type="application/json")

    return answer


def sts(
    given: Callable[[], Key], callers: Callable[[], tuple[Key, ...]] = tuple, token: str = ""
) -> Callable[[Seen], Answer]:
    """Answer as STS does: AssumeRole to whoever signs with one of `callers`, web identity to whoever has the token."""

    def answer(seen: Seen) -> Answer:
        action = seen.form.get("Action", "")
        if action == "AssumeRole" and not any(is_signed(seen, caller) for caller in callers()):
            return refusal("SignatureDoesNotMatch", "The request signature does not match", 403)
        if action == "AssumeRoleWithWebIdentity" and seen.form["WebIdentityToken"] != token:
            return refusal("InvalidIdentityToken", "Incorrect token", 400)
        return granted(action, given())

    return answer


def granted(action: str, found: Key) -> Answer:
    """Return a session in the words of STS."""
    return Answer(
        200,
        f"""<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{action}Result>
<AssumedRoleUser><AssumedRoleId>AROA:x</AssumedRoleId><Arn>arn:aws:sts::123456789012:assumed-role/r/x</Arn>
</AssumedRoleUser><Credentials><AccessKeyId>{found.key_id}</AccessKeyId>
<SecretAccessKey>{found.secret}</SecretAccessKey><SessionToken>{found.token}</SessionToken>
<Expiration>{found.expiration}</Expiration></Credentials><PackedPolicySize>6</PackedPolicySize></{action}Result>
<ResponseMetadata><RequestId>c6104cbe-af31-11e0-8154-cbc7ccf896c7</RequestId></ResponseMetadata></{action}Response>
""".encode(),
    )


def refusal(code: str, message: str, status: int, *, after: float = 0.0) -> Answer:
    """Return an error in the words of STS."""
    return Answer(
        status,
        f"""<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>
<Code>{escape(code)}</Code><Message>{escape(message)}</Message></Error>
<RequestId>c6104cbe-af31-11e0-8154-cbc7ccf896c7</RequestId></ErrorResponse>""".encode(),
        after,
    )


def is_signed(seen: Seen, caller: Key) -> bool:
    """Whether a request of STS carries the signature that this key pair makes: computed by botocore again."""
    headers = seen.headers
    given = headers.get("authorization", "")
    if f"Credential={caller.key_id}/" not in given or headers.get("x-amz-security-token", "") != caller.token:
        return False
    signed = given.partition("SignedHeaders=")[2].partition(",")[0].split(";")
    region = given.partition("Credential=")[2].split("/")[2]
    request = AWSRequest(
        "POST",
        f"http://{headers['host']}{seen.path}",
        headers={name: headers[name] for name in signed if name != "host"},
        data=seen.body,
    )
    request.context["timestamp"] = headers["x-amz-date"]
    auth = SigV4Auth(BotocoreCredentials(caller.key_id, caller.secret, caller.token or None), "sts", region)
    text = auth.string_to_sign(request, auth.canonical_request(request))
    return given.endswith(f"Signature={auth.signature(text, request)}")


def _json(found: Key) -> Answer:
    body = {
        "Code": "Success",
        "AccessKeyId": found.key_id,
        "SecretAccessKey": found.secret,
        "Token": found.token,
        "Expiration": found.expiration,
    }
    return Answer(200, json.dumps(body).encode(), content_type="application/json")
