"""A store that verifies every signature and digest, keeps objects in memory, and fails where it is told to."""

from __future__ import annotations

import hashlib
import ssl
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from signproxy.credentials.credentials import Credentials
from signproxy.s3.storage import S3Endpoint, Storage, StorageKind, Style
from tests.verifier import VerificationError, WireHttp, verify

REGION = "eu-central-1"
BUCKET = "trail"
KEY, SECRET, TOKEN = "AKIDEXAMPLE0001", "secret/of+the/store", "session-token"

Fault = Callable[[web.Request], web.StreamResponse | None]


class StrictStore:
    """What S3 promises, as far as shipping relies on it."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.asked: list[tuple[str, str]] = []
        self.faults: list[Fault] = []
        """Asked in turn, one for each request; the first that answers, answers."""
        self.etag = True
        self.checksums = True
        self.after_put: Callable[[], None] = lambda: None
        self.port = 0
        self.tls: ssl.SSLContext | None = None
        self._known = Credentials(KEY, SECRET, TOKEN)

    @property
    def storage(self) -> Storage:
        endpoint = S3Endpoint("https" if self.tls else "http", f"127.0.0.1:{self.port}", (Style.PATH,))
        return Storage("lake", StorageKind.S3_COMPATIBLE, REGION, (BUCKET,), (endpoint,), bucket_owner="123456789012")

    def accepts(self, access_key_id: str, secret_access_key: str, session_token: str) -> None:
        """Take these keys from now on, and no others."""
        self._known = Credentials(access_key_id, secret_access_key, session_token)

    def credentials(self, storage: Storage, bucket: str) -> Credentials:
        assert (storage.name, bucket) == ("lake", BUCKET)
        return Credentials(KEY, SECRET, TOKEN)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.asked.append((request.method, request.raw_path))
        wire = WireHttp(request.method, request.raw_path, tuple(request.headers.items()), body)
        try:
            key, secret, token = self._known.access_key_id, self._known.secret_access_key, self._known.session_token
            verify(wire, {key: secret}, now=time.time(), tokens={key: token}, region=REGION)
        except VerificationError as error:
            return _error(403, error.code)
        if self.faults and (answer := self.faults.pop(0)(request)) is not None:
            return answer
        key = request.path.removeprefix(f"/{BUCKET}/")
        match request.method:
            case "PUT":
                return self._put(request, key, body)
            case "HEAD" | "GET" if key in self.objects:
                return self._get(request, key)
            case _:
                return _error(404, "NoSuchKey")

    def _put(self, request: web.Request, key: str, body: bytes) -> web.Response:
        digest = hashlib.sha256(body)
        if request.headers["x-amz-content-sha256"] != digest.hexdigest():
            return _error(400, "XAmzContentSHA256Mismatch")
        if request.headers["x-amz-checksum-sha256"] != b64encode(digest.digest()).decode():
            return _error(400, "BadDigest")
        if request.headers.get("If-None-Match") == "*" and key in self.objects:
            return _error(412, "PreconditionFailed")
        self.objects[key] = body
        self.after_put()
        return web.Response(headers=self._proof(body))

    def _get(self, request: web.Request, key: str) -> web.Response:
        body = self.objects[key]
        asked = request.headers.get("x-amz-checksum-mode") == "ENABLED"
        headers = self._proof(body) if asked else {}
        return web.Response(body=body, headers=headers)

    def _proof(self, body: bytes) -> dict[str, str]:
        md5 = hashlib.md5(body if self.etag else b"encrypted", usedforsecurity=False).hexdigest()
        proof = {"ETag": f'"{md5}"'}
        if self.checksums:
            proof["x-amz-checksum-sha256"] = b64encode(hashlib.sha256(body).digest()).decode()
        return proof


@asynccontextmanager
async def strict_store(tls: ssl.SSLContext | None = None) -> AsyncIterator[StrictStore]:
    """Serve a store on loopback until the block ends."""
    store = StrictStore()
    store.tls = tls
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", store.handle)
    runner = web.AppRunner(app, handle_signals=False, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    store.port = int(runner.addresses[0][1])
    try:
        yield store
    finally:
        await runner.cleanup()


def answers(status: int, code: str = "InternalError") -> Fault:
    """Return a fault that is an error of S3's."""
    return lambda _: _error(status, code)


def works(_: web.Request) -> None:
    """Let a request through."""


def hangs_up(request: web.Request) -> None:
    """Close the connection without an answer."""
    assert request.transport is not None
    request.transport.abort()


def _error(status: int, code: str) -> web.Response:
    return web.Response(status=status, text=f"<Error><Code>{code}</Code><Message>\x1b[2J</Message></Error>")
