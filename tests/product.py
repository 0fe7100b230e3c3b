"""Assemble the product in-process, from its real rooms: for tests of what a caller gets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol, Self, TypeVar

import msgspec

from signproxy.audit.event import AuditEvent
from signproxy.audit.sink import AuditSink, MemorySink
from signproxy.audit.trail import QUEUE_LIMIT, AuditTrail
from signproxy.audit.trail_state import OnError
from signproxy.config.settings import Settings, SigningSettings
from signproxy.config.storage import StorageBinding
from signproxy.credentials.credentials import Credentials
from signproxy.errors import Refused
from signproxy.gate.limits import Limits
from signproxy.gate.recorder import Recorder
from signproxy.identity.authenticator import Authenticator
from signproxy.identity.opaque import OpaqueToken, StaticTokens, hash_token
from signproxy.inventory.declared.source import MemoryPolicySource
from signproxy.inventory.resolver import PolicyResolver, TableResolver
from signproxy.policy.state import PolicyState
from signproxy.s3.storage import Storage
from signproxy.sealing import SealingSecret
from signproxy.server.api.app import Handler
from signproxy.server.process.catalogs import Catalogs, learned_tables
from signproxy.server.process.generation import Generation
from signproxy.server.process.rooms import House, ServingProcess, assemble
from signproxy.server.process.seals import seals_of
from signproxy.telemetry.metrics import Metrics
from tests.listening import Client, ClientOf, ListenerServer, started_client

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

AT_ARRIVAL = PolicyState(rev="at-arrival", epoch=1, catalogs=[])
"""The policy that is in force when a request arrives, which is judged by none."""

ACCESS_KEY = "AKIAIOSFODNN7EXAMPLE"
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
HOST = "https://my-bucket.s3.us-west-2.amazonaws.com"
KEY = "wh/t1/data/f.parquet"
SIGN_T1 = "/s3-sign/v1/lake/namespaces/ns/tables/t1"

NAMES = ("reader", "writer", "data-only", "sign-only", "half", "nobody", "maker", "stranger")


def token_of(name: str) -> str:
    """Return a caller's opaque token."""
    return f"{name}-{'0' * 32}"


class FixedCredentials:
    """Credentials that are always there; what a real store offers at `current`."""

    def __init__(self, session_token: str = "") -> None:
        self.credentials = Credentials(ACCESS_KEY, SECRET, session_token)
        self.refusal: Refused | None = None

    def current(self, _storage: Storage, _bucket: str) -> Credentials:
        if self.refusal is not None:
            raise self.refusal
        return self.credentials


class Product:
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
        state = self.source.load(1)
        self.sink = sink or MemorySink()
        self.trail = AuditTrail(self.sink, on_error=on_error, limit=queue)
        self.metrics = Metrics("test")
        self.credentials = FixedCredentials(session_token)
        self.settings = settings or Settings()
        self.settings = msgspec.structs.replace(
            self.settings,
            public_url="https://sign.example/base/",
            signing=SigningSettings(signature_ttl, client_cache=client_cache),
            storages={
                name: StorageBinding(
                    "store",
                    (),
                    accept_unchecked_headers=name in accepted_unsafe,
                    accept_unchecked_payload=name in accepted_unhashed,
                )
                for name in accepted_unsafe | accepted_unhashed
            },
        )
        self.secret = SealingSecret(b"x" * 32)
        seals = seals_of(self.settings.context, (), self.secret)
        digests = {hash_token(token_of(name)): OpaqueToken(name, (), catalogs) for name in NAMES}
        self.authenticator = authenticator or Authenticator((), StaticTokens(digests), seals.table_tokens)
        self.recorder = Recorder(self.trail, self.metrics)
        self.house = House(state)
        learned = learned_tables(self.house.current, self.settings.sightings, seals.sightings)
        self.catalogs = Catalogs(learned, self.authenticator, self.recorder, self.metrics, None)
        self.process = ServingProcess(
            self.house.current,
            self.authenticator,
            self.credentials,  # type: ignore[arg-type]  # the one method that is called
            self.recorder,
            self.catalogs,
            self.secret,
            resolver=resolver or PolicyResolver(),
        )
        limits = Limits(self.settings.limits)
        limits.backpressure.follow(self.trail)
        self.handler = Handler(self.house, self.recorder, limits)
        self.generation = Generation(self.settings, self.settings, "test", state, (), (), StaticTokens({}))
        self.assemble()
        self.gate = self.house.rooms.api.gate
        self._client: Client | None = None
        self.url = ""
        """Where the running server is."""

    def assemble(self) -> None:
        """Answer by rooms that are put together as a server does it."""
        self.house.swap(assemble(self.generation, self.process))

    def answer_by(self, **rooms: Any) -> None:
        """Answer the API's requests by other rooms than those that the settings ask for."""
        served = self.house.rooms
        self.house.swap(served._replace(api=served.api._replace(**rooms)))

    @property
    def state(self) -> PolicyState:
        """The policy in force."""
        return self.house.current()

    @state.setter
    def state(self, state: PolicyState) -> None:
        self.generation = msgspec.structs.replace(self.generation, state=state)
        self.house.swap(self.house.rooms._replace(generation=self.generation))

    def events(self) -> list[AuditEvent]:
        """Wait until the trail has written all that it accepted, and return it."""
        deadline = time.monotonic() + 10
        while self.trail.state.queued and time.monotonic() < deadline:
            time.sleep(0.005)
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
