"""Serve what AWS' services answer, on this machine: moto's session service and instance metadata, and their faults."""

from __future__ import annotations

import io
import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotocoreCredentials
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.sts.models import AssumedRole, sts_backends
from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.wrappers import Request, Response

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

_HEADERS = "tests.headers"


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


Alter = Callable[[bytes], bytes]
"""What becomes of the body that moto answers with: rotated keys, another expiry, a torn answer."""

Fault = Callable[[Seen], Answer | Alter]


def unaltered(body: bytes) -> bytes:
    """Let moto's answer be."""
    return body


class Service:
    """AWS' services as moto has them: session service and instance metadata. `answer` makes what moto cannot.

    moto accepts any signature and any token, so it proves none: `sts` and `metadata` verify them before it answers.
    """

    def __init__(self, answer: Fault = lambda _seen: unaltered) -> None:
        self.answer = answer
        self.seen: list[Seen] = []
        self.released = threading.Event()
        """Set at the end, so that no slow answer outlives its test."""
        self._server = make_server("127.0.0.1", 0, self._serve, threaded=True, request_handler=_Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.port}"

    def close(self) -> None:
        """Stop listening: from now on connections are refused."""
        if self._thread.is_alive():
            self.released.set()
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()

    def _serve(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        request = Request(environ)
        seen = Seen(request.method, request.full_path.removesuffix("?"), environ[_HEADERS], request.get_data())
        self.seen.append(seen)
        answer = self.answer(seen)
        if isinstance(answer, Answer):
            if answer.after:
                self.released.wait(answer.after)
            return Response(answer.body, answer.status, content_type=answer.content_type)(environ, start)
        environ["wsgi.input"] = io.BytesIO(seen.body)
        response = Response.from_app(_moto(), environ, buffered=True)
        response.set_data(answer(response.get_data()))
        return response(environ, start)


class _Handler(WSGIRequestHandler):
    def make_environ(self) -> WSGIEnvironment:
        """Keep the headers as they arrived: WSGI has no name for those with an underscore, as AWS' sign-on has one."""
        return super().make_environ() | {_HEADERS: {name.lower(): value for name, value in self.headers.items()}}

    def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002 - the base class names it
        """Be quiet."""


@cache
def _moto() -> DomainDispatcherApplication:
    return DomainDispatcherApplication(create_backend_app)


def last_session() -> AssumedRole:
    """Return the session that moto's service gave last: its keys, and what it understood of the request."""
    return sts_backends["123456789012"]["aws"].assumed_roles[-1]


@contextmanager
def serving(answer: Fault) -> Iterator[Service]:
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


def metadata(alter: Alter = unaltered) -> Fault:
    """Answer as an instance does: by the second version of its protocol alone, which moto does not insist on."""

    def answer(seen: Seen) -> Answer | Alter:
        if (seen.method, seen.path) == ("PUT", "/latest/api/token"):
            return unaltered
        return alter if seen.headers.get("x-aws-ec2-metadata-token") == "fake-imdsv2-token" else Answer(401, b"")

    return answer


def sso(given: Callable[[], Key], access_token: str) -> Callable[[Seen], Answer]:
    """Answer as IAM Identity Center does to a user who has logged in."""

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


def sts(alter: Alter = unaltered, callers: Callable[[], tuple[Key, ...]] = tuple, token: str = "") -> Fault:
    """Answer as STS does: AssumeRole to a signer among `callers`, web identity to a holder of the token."""

    def answer(seen: Seen) -> Answer | Alter:
        action = seen.form.get("Action", "")
        if action == "AssumeRole" and not any(is_signed(seen, caller) for caller in callers()):
            return refusal("SignatureDoesNotMatch", "The request signature does not match", 403)
        if action == "AssumeRoleWithWebIdentity" and seen.form["WebIdentityToken"] != token:
            return refusal("InvalidIdentityToken", "Incorrect token", 400)
        return alter

    return answer


def giving(given: Callable[[], Key]) -> Alter:
    """Put keys that a test recognises, and the expiry that it wants, into what moto answers."""

    def alter(body: bytes) -> bytes:
        found = given()
        values = {
            "AccessKeyId": found.key_id,
            "SecretAccessKey": found.secret,
            "SessionToken": found.token,
            "Token": found.token,
            "Expiration": found.expiration,
        }
        text = body.decode()
        for name, value in values.items():
            text = re.sub(rf"(?<=<{name}>)[^<]+", value, text)
            text = re.sub(rf'(?<="{name}": ")[^"]+', value, text)
        return text.encode()

    return alter


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
