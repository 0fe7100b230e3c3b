"""Assemble the product in-process, from its real rooms: for tests of what a caller gets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol, Self, TypeVar

import msgspec

from signproxy.audit.event import AuditEvent
from signproxy.audit.sink import AuditSink
from signproxy.audit.trail import QUEUE_LIMIT, AuditTrail
from signproxy.audit.trail_state import OnError
from signproxy.config.settings import Settings, SigningSettings
from signproxy.gate.limits import Limits
from signproxy.identity.authenticator import Authenticator
from signproxy.identity.opaque import OpaqueToken, hash_token
from signproxy.policy.resolver import TableResolver
from signproxy.policy.state import PolicyState
from signproxy.server.api.app import Api
from tests import rooms
from tests.audit.sinks import MemorySink
from tests.listening import Client, ClientOf, ListenerServer, started_client
from tests.policies import MemoryPolicySource
from tests.waiting import blocked_until

POLICY = """
remote_signing: true
default_catalog: lake
storages:
  main:
    kind: aws
    region: us-west-2
    buckets: [my-bucket, my-other]
  minio:
    kind: s3-compatible
    region: us-east-1
    buckets: [small]
    endpoints: [{url: "http://minio.local:9000", styles: [path]}]
    checks_unsigned_headers: false
  elsewhere:
    kind: s3-compatible
    region: us-east-1
    buckets: [far]
    endpoints: [{url: "http://far.local", styles: [path]}]
    checks_unsigned_headers: true
catalogs:
  lake:
    storages: [main, minio]
    roots: ["s3://my-bucket/wh", "s3://small/wh"]
    remote_signing: true
    prefixes: [opaque-1]
  located:
    storages: [main]
    roots: ["s3://my-other/wh"]
    remote_signing: true
    binding: by-location
  dark:
    storages: [elsewhere]
    roots: ["s3://far/dark"]
  foreign:
    storages: [elsewhere]
    roots: ["s3://far/foreign"]
    remote_signing: true
    kind: external
  hidden:
    storages: [elsewhere]
    roots: ["s3://far/hidden"]
    remote_signing: true
tables:
  - {name: t1, namespace: ns, location: "s3://my-bucket/wh/t1", uuid: 6f1a3c5e-0000-4000-8000-000000000001}
  - {name: t2, namespace: ns, location: "s3://my-bucket/wh/t2"}
  - {name: once, namespace: ns, location: "s3://my-bucket/wh/once", overwrite: forbid}
  - {name: deep, namespace: [a, b c, "d+e"], location: "s3://my-bucket/wh/deep"}
  - {name: small, namespace: ns, location: "s3://small/wh/small"}
  - {name: l1, namespace: ns, location: "s3://my-other/wh/l1", catalog: located}
  - {name: l2, namespace: ns, location: "s3://my-other/wh/l2", catalog: located}
  - {name: d1, namespace: ns, location: "s3://far/dark/d1", catalog: dark}
  - {name: f1, namespace: ns, location: "s3://far/foreign/f1", catalog: foreign}
  - {name: h1, namespace: ns, location: "s3://far/hidden/h1", catalog: hidden}
catalog_roles:
  lake: [reader, writer, data_only, sign_only]
  located: [reader, half]
  dark: [reader]
  foreign: [reader]
  hidden: [reader]
principal_roles:
  readers: {lake: [reader], located: [reader], dark: [reader], foreign: [reader]}
  writers: {lake: [writer]}
  data_only: {lake: [data_only]}
  sign_only: {lake: [sign_only]}
  half: {located: [half]}
principals:
  reader: {roles: [readers]}
  writer: {roles: [writers]}
  data-only: {roles: [data_only]}
  sign-only: {roles: [sign_only]}
  half: {roles: [half]}
  nobody: {roles: []}
grants:
  - {role: reader, privileges: [TABLE_REMOTE_SIGN, TABLE_READ_DATA]}
  - {role: reader, catalog: located, privileges: [TABLE_REMOTE_SIGN, TABLE_READ_DATA]}
  - {role: half, catalog: located, namespace: ns, table: l1, privileges: [TABLE_REMOTE_SIGN, TABLE_READ_DATA]}
  - {role: reader, catalog: dark, privileges: [TABLE_REMOTE_SIGN, TABLE_READ_DATA]}
  - {role: reader, catalog: foreign, privileges: [TABLE_REMOTE_SIGN, TABLE_READ_DATA]}
  - {role: writer, privileges: [TABLE_REMOTE_SIGN, TABLE_WRITE_DATA]}
  - {role: data_only, privileges: [TABLE_WRITE_DATA]}
  - {role: sign_only, privileges: [TABLE_REMOTE_SIGN]}
"""

AT_ARRIVAL = PolicyState(rev="at-arrival", epoch=1, catalogs={})
"""The policy that is in force when a request arrives, which is judged by none."""

# Of the server itself.
ACCESS_KEY, SECRET = rooms.ACCESS_KEY, rooms.SECRET
HOST = "https://my-bucket.s3.us-west-2.amazonaws.com"
KEY = "wh/t1/data/f.parquet"
SIGN_T1 = "/s3-sign/v1/lake/namespaces/ns/tables/t1"

NAMES = ("reader", "writer", "data-only", "sign-only", "half", "nobody", "maker", "stranger")


def token_of(name: str) -> str:
    """Return a caller's opaque token."""
    return f"{name}-{'0' * 32}"


class Product(rooms.Assembled):
    """The rooms of a server without sockets; `call` goes through HTTP all the same."""

    def __init__(
        self,
        policy: str = POLICY,
        *,
        sink: AuditSink | None = None,
        on_error: OnError = OnError.DENY,
        accepted_unsafe: frozenset[str] = frozenset(),
        accepted_unhashed: frozenset[str] = frozenset(),
        signature_ttl: int = 900,
        client_cache: bool = False,
        session_token: str = "",
        resolver: TableResolver | None = None,
        authenticator: Authenticator | None = None,
        catalogs: tuple[str, ...] | None = None,
        queue: int = QUEUE_LIMIT,
        settings: Settings | None = None,
    ) -> None:
        self.source = MemoryPolicySource(policy, single_issuer=True)
        self.sink = sink or MemorySink()
        given = msgspec.structs.replace(
            settings or Settings(),
            public_url="https://sign.example/base/",
            signing=SigningSettings(signature_ttl, client_cache=client_cache),
        )
        super().__init__(
            self.source.load(1),
            rooms.accepting(given, accepted_unsafe, accepted_unhashed),
            trail=AuditTrail(self.sink, on_error=on_error, limit=queue),
            tokens={hash_token(token_of(name)): OpaqueToken(name, (), catalogs) for name in NAMES},
            authenticator=authenticator,
            resolver=resolver,
            session_token=session_token,
        )
        limits = Limits(self.settings.limits)
        limits.backpressure.follow(self.trail)
        self.handler = Api(self.house, self.recorder, limits)
        self._client: Client | None = None
        self.url = ""
        """Where the running server is."""

    def events(self) -> list[AuditEvent]:
        """Wait until the trail has written all that it accepted, and return it."""
        blocked_until(lambda: not self.trail.state.queued)
        assert isinstance(self.sink, MemorySink)
        decode = msgspec.json.Decoder(AuditEvent).decode
        return [decode(line) for line in self.sink.lines]

    @property
    def client(self) -> Client:
        """pytest-aiohttp's client of the running server."""
        assert self._client is not None
        return self._client

    async def serve(self, client_of: ClientOf) -> None:
        """Serve on a free loopback port until `aclose`, to the client that is returned for the server."""
        self.trail.start()
        server = ListenerServer(self.handler)
        self._client = await client_of(server)
        self.url = server.url

    async def aclose(self) -> None:
        """End the client, the server and the trail."""
        await self.client.close()
        await asyncio.to_thread(self.trail.close, 5.0)

    @asynccontextmanager
    async def running(self, client_of: ClientOf = started_client) -> AsyncIterator[Self]:
        """Serve until the block ends; a test takes the fixture `serve_product` instead."""
        await self.serve(client_of)
        try:
            yield self
        finally:
            await self.aclose()

    async def opened(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection to the server, for what no client sends."""
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        return await asyncio.open_connection(host, int(port))

    async def call(
        self,
        method: str,
        path: str,
        *,
        who: str | None = "reader",
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> tuple[int, Mapping[str, str], Any]:
        """Send a request; return status, headers and the decoded body."""
        sent = dict(headers or {})
        if who is not None:
            sent.setdefault("Authorization", f"Bearer {token_of(who)}")
        async with self.client.request(method, path, headers=sent, data=body) as answer:
            raw = await answer.read()
            return answer.status, answer.headers, msgspec.json.decode(raw) if raw else None

    async def sign(
        self,
        method: str = "GET",
        uri: str = f"{HOST}/{KEY}",
        *,
        who: str = "reader",
        path: str = SIGN_T1,
        headers: Mapping[str, str] | None = None,
        region: str = "us-west-2",
        **fields: object,
    ) -> tuple[int, Any]:
        """Send a sign request; return status and answer."""
        message = sign_message(method, uri, headers or {}, region=region, **fields)
        status, _, answer = await self.call("POST", path, who=who, body=msgspec.json.encode(message))
        return status, answer


P = TypeVar("P", bound=Product)


class ServeProduct(Protocol):
    """Serves a product until the test ends, and returns it. The fixture of that name does."""

    async def __call__(self, product: P) -> P:
        """Serve."""
        ...


def sign_message(
    method: str = "GET",
    uri: str = f"{HOST}/{KEY}",
    headers: Mapping[str, str] | None = None,
    *,
    region: str = "us-west-2",
    **fields: object,
) -> dict[str, object]:
    """Return a sign request as clients write it."""
    many = {name: [value] for name, value in (headers or {}).items()}
    return {"region": region, "uri": uri, "method": method, "headers": many, **fields}
