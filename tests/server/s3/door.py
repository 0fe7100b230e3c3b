"""The transparent mode in-process, from its real rooms, in front of a store that does as it is told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from time import time
from typing import Any, cast

import msgspec

from signproxy.audit.event import AuditEvent
from signproxy.audit.trail_state import OnError
from signproxy.config.s3 import S3Identity, S3Settings
from signproxy.config.settings import LimitSettings, Settings
from signproxy.config.storage import StorageBinding
from signproxy.credentials.credentials import Credentials
from signproxy.credentials.store import CredentialStore
from signproxy.forward.pool import Pool
from signproxy.identity.emulated import IssuedKey
from signproxy.s3.sigv4 import SigningKey, amz_date
from signproxy.s3.storage import Storage
from signproxy.server.process.build import emulated_keys
from signproxy.server.process.seals import seals_of
from signproxy.server.process.sockets import bind_tcp
from signproxy.server.s3.service import S3Service
from tests.forward.upstream import Script, Upstream, serve
from tests.product import Product, token_of
from tests.server.s3.rig import Client

REGION = "us-east-1"
POLICY = """
remote_signing: true
default_catalog: lake
storages:
  main:
    kind: s3-compatible
    region: us-east-1
    buckets: [data, other]
    endpoints: [{url: "http://127.0.0.1:%d", styles: [path]}]
    checks_unsigned_headers: true
    checks_payload_hash: true
    checks_trailers: true
    accepts_chunked_transfer: true
catalogs:
  lake: {storages: [main], remote_signing: true}
tables:
  - {name: t1, namespace: ns, location: "s3://data/wh/t1"}
  - {name: t2, namespace: ns, location: "s3://data/wh/t2"}
volumes:
  - {name: raw, storage: main, bucket: other, operations: object, keys: s3}
  - {name: made, storage: main, bucket: "made-*", operations: all, keys: s3}
catalog_roles: {lake: [reader, writer, raw, maker]}
principal_roles:
  readers: {lake: [reader]}
  writers: {lake: [writer, raw]}
  makers: {lake: [maker]}
principals:
  reader: {roles: [readers]}
  writer: {roles: [writers]}
  maker: {roles: [makers]}
  nobody: {roles: []}
grants:
  - {role: reader, namespace: ns, table: t1, privileges: [TABLE_REMOTE_SIGN, TABLE_READ_DATA]}
  - {role: writer, namespace: ns, table: t1, privileges: [TABLE_REMOTE_SIGN, TABLE_WRITE_DATA]}
  - {role: raw, volume: raw, privileges: [VOLUME_WRITE_DATA]}
  - {role: maker, volume: made, privileges: [VOLUME_READ_DATA]}
"""


class _Credentials:
    """The store's own keys: the same ones for every request, as long as nothing renews them."""

    def __init__(self) -> None:
        self._credentials = Credentials("AKIAEXAMPLE0000STORE", "store+secret")

    def current_of_any(self, _storage: Storage, _bucket: str) -> Credentials:
        return self._credentials


class Answer(msgspec.Struct):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        """The code of S3's error document."""
        return self.body.partition(b"<Code>")[2].partition(b"</Code>")[0].decode()


class Door:
    """A listener, its store, and the audit trail."""

    def __init__(self, product: Product, service: S3Service, upstream: Upstream, settings: Settings) -> None:
        self.product = product
        self.service = service
        self.upstream = upstream
        self.settings = settings
        self.seals = seals_of(settings.context, (), product.secret)
        self.address = ""

    def reload(self, settings: S3Settings) -> Pool | None:
        """Answer by other settings; return the connections to stores that are not used any more."""
        product = self.product
        unused = self.service.commit(self.service.prepare(settings))
        changed = msgspec.structs.replace(product.settings, s3=settings)
        product.generation = msgspec.structs.replace(product.generation, settings=changed)
        product.assemble()
        return unused

    def events(self) -> list[AuditEvent]:
        return self.product.events()

    @property
    def event(self) -> AuditEvent:
        """The only one."""
        (event,) = self.events()
        return event

    def key(self, who: str = "writer", seconds: float = 600.0) -> IssuedKey:
        """Issue a key, as the endpoint does."""
        keys = emulated_keys(self.settings.s3, self.seals, self.product.authenticator)
        principal = self.product.authenticator.authenticate(token_of(who))
        assert keys is not None
        return keys.issue(cast("Any", principal), None, seconds, time())

    async def connect(self) -> Client:
        return await Client.connect(self.address)

    async def ask(
        self,
        method: str,
        target: str,
        *,
        who: str | None = "writer",
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        client: Client | None = None,
    ) -> Answer:
        """Send a request; return its answer."""
        own = client or await self.connect()
        await own.send(request(method, target, who=who, headers=headers, body=body))
        try:
            return await answer_of(own, method)
        finally:
            if client is None:
                await own.close()


def request(
    method: str,
    target: str,
    *,
    who: str | None = "writer",
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> bytes:
    """Return a request as it goes onto the wire."""
    lines = {"Host": "127.0.0.1", **(headers or {})}
    if who is not None:
        lines.setdefault("Authorization", f"Bearer {token_of(who)}")
    if body is not None:
        lines.setdefault("Content-Length", str(len(body)))
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode() + (body or b"")


async def answer_of(client: Client, method: str = "GET") -> Answer:
    """Read the next answer; what is not HEAD has a length."""
    head = (await client.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")[:-2]
    headers = dict(line.split(": ", 1) for line in lines)
    length = next((value for name, value in headers.items() if name.lower() == "content-length"), "0")
    body = b"" if method == "HEAD" else await client.reader.readexactly(int(length))
    return Answer(int(first.split()[1]), headers, body)


def signed(door: Door, key: IssuedKey, method: str, path: str, *, payload: str = "UNSIGNED-PAYLOAD") -> dict[str, str]:
    """Return the headers that a client with a key adds."""
    date = amz_date(int(time()))
    host = door.address
    authorization = SigningKey(key.access_key_id, key.secret_access_key, REGION).authorization(
        method, host, path, "", (), payload, date, key.session_token
    )
    return {
        "Host": host,
        "Authorization": authorization,
        "x-amz-date": date,
        "x-amz-content-sha256": payload,
        "x-amz-security-token": key.session_token,
    }


@asynccontextmanager
async def opened(
    *scripts: Script,
    callers: LimitSettings | None = None,
    on_error: OnError = OnError.DENY,
    sink: Any = None,
    policy: str = POLICY,
    storages: Mapping[str, StorageBinding] | None = None,
    **s3: Any,
) -> AsyncIterator[Door]:
    """Open a door before a store with these scripts."""
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(Upstream(*(scripts or (serve,))))
        identities = (S3Identity.EMULATED, S3Identity.BEARER)
        settings = Settings(
            s3=S3Settings(**{"enabled": True, "identities": identities, "steer": False, **s3}),
            storages=dict(storages or {}),
        )
        product = Product(policy % upstream.port, on_error=on_error, sink=sink, settings=settings)
        await stack.enter_async_context(product.running())
        if callers is not None:
            product.handler.limits.replace(callers)
        service = S3Service(
            settings.s3,
            product.house,
            authenticator=product.authenticator,
            credentials=cast("CredentialStore", _Credentials()),
            recorder=product.recorder,
            limits=product.handler.limits,
        )
        product.process = product.process._replace(s3=service)
        product.assemble()
        stack.push_async_callback(service.aclose)
        door = Door(product, service, upstream, settings)
        (door.address,) = await service.listen(bind_tcp("127.0.0.1", 0))
        stack.push_async_callback(service.finish, 0)
        yield door
