"""Put the product in front of a scripted upstream, and call it as Iceberg clients do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Protocol

import msgspec

from signproxy.audit.event import AuditEvent
from signproxy.audit.sink import AuditSink
from signproxy.audit.trail_state import OnError
from signproxy.catalog.upstream_spec import CallTimeouts, UpstreamSpec
from signproxy.config.s3 import S3Identity, S3Settings
from signproxy.config.settings import ContextSettings, Settings
from signproxy.config.storage import StorageBinding, Vend
from signproxy.facade.facade import Facade
from tests.catalog.scripted import Asked, Line, Scripted, answer, error, scripted
from tests.listening import ClientOf, started_client
from tests.policies import MemoryPolicySource
from tests.product import Product, token_of

POLICY = """
remote_signing: true
default_catalog: lake
storages:
  main:
    kind: s3-compatible
    region: us-east-1
    buckets: [lakehouse]
    endpoints: [{url: "http://s3.local:9000", styles: [path]}]
    checks_unsigned_headers: true
catalogs:
  lake:
    storages: [main]
    roots: ["s3://lakehouse"]
    remote_signing: true
    tables: upstream
    authorizer: AUTHORIZER
    prefixes: [opaque]
  declared:
    storages: [main]
    remote_signing: true
  other:
    storages: [main]
    roots: ["s3://lakehouse/other"]
    tables: upstream
tables:
  - {name: d1, namespace: ns, location: "s3://lakehouse/declared/d1", catalog: declared}
catalog_roles: {lake: [reader, writer, signer, half], declared: [reader], other: [reader]}
principal_roles:
  readers: {lake: [reader], declared: [reader]}
  writers: {lake: [writer]}
  signers: {lake: [signer]}
  halves: {lake: [half]}
principals:
  reader: {roles: [readers]}
  writer: {roles: [writers]}
  sign-only: {roles: [signers]}
  half: {roles: [halves]}
  nobody: {roles: []}
grants:
  - {role: reader, catalog: lake, privileges: [TABLE_REMOTE_SIGN, TABLE_READ_DATA, NAMESPACE_LIST, TABLE_LIST,
     VIEW_LIST, NAMESPACE_READ_PROPERTIES, VIEW_READ_PROPERTIES]}
  - {role: reader, catalog: declared, privileges: [TABLE_REMOTE_SIGN, TABLE_READ_DATA]}
  - {role: writer, catalog: lake, privileges: [CATALOG_MANAGE_CONTENT]}
  - {role: signer, catalog: lake, privileges: [TABLE_REMOTE_SIGN]}
  - {role: half, catalog: lake, namespace: ns, table: t1, privileges: [TABLE_REMOTE_SIGN, TABLE_READ_DATA]}
"""

UUID = "6f1a3c5e-0000-4000-8000-000000000001"
HOST = "http://s3.local:9000"
MOUNT = "/catalogs/lake"
T1 = "/v1/lake/namespaces/ns/tables/t1"
LISTENER = "http://s3.sign.example:8182"
SIGN = {"X-Iceberg-Access-Delegation": "remote-signing"}
VEND = {"X-Iceberg-Access-Delegation": "vended-credentials"}
TIMES = CallTimeouts(connect=1.0, answer=0.5, read=0.5, load=0.5)


def metadata(name: str = "t1", uuid: str = UUID, location: str = "", **more: object) -> dict[str, object]:
    """Return a table's metadata."""
    return {
        "format-version": 2,
        "table-uuid": uuid,
        "location": location or f"s3://lakehouse/{name}",
        "properties": {},
        "snapshots": [],
        **more,
    }


def table(name: str = "t1", **more: Any) -> dict[str, object]:
    """Return a load-table answer of an upstream that hands out keys."""
    described = metadata(name, **more)
    return {
        "metadata-location": f"{described['location']}/metadata/00001.metadata.json",
        "metadata": described,
        "config": {"s3.access-key-id": "AKIAUPSTREAM", "s3.secret-access-key": "geheim", "io-impl": "evil.FileIO"},
        "storage-credentials": [{"prefix": "s3://", "config": {"s3.session-token": "geheim"}}],
    }


def loaded(name: str = "t1", headers: dict[str, str] | None = None, **more: Any) -> bytes:
    return answer(200, table(name, **more), headers)


class Answer(NamedTuple):
    """What a client got."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.content)

    @property
    def error(self) -> dict[str, Any]:
        found = self.body["error"]
        assert found["code"] == self.status
        return dict(found)


class Front(Product):
    """The rooms of a server whose catalog `lake` has an upstream."""

    def __init__(
        self,
        upstream: Scripted,
        *,
        policy: str = POLICY,
        authorizer: str = "policy",
        table_tokens: bool = False,
        sink: AuditSink | None = None,
        on_error: OnError = OnError.DENY,
        bound: tuple[str, ...] = ("lake",),
        listener: str = "",
        vends: str = "",
        vend_seconds: int = 3600,
        **changes: object,
    ) -> None:
        """`vends` is what the catalog offers its callers, as its `delegation` has it; its storage's keys are issued."""
        settings = Settings(
            context=ContextSettings(table_tokens=table_tokens, table_token_seconds=3600, staged_seconds=3600),
            s3=S3Settings(
                enabled=bool(listener or vends),
                identities=(S3Identity.EMULATED,) if vends else (),
                public_url=listener or LISTENER,
            ),
            storages={"main": StorageBinding("store", (), vend=Vend.ISSUED, vend_seconds=vend_seconds)},
        )
        if vends:
            policy = policy.replace("    prefixes: [opaque]\n", f"    prefixes: [opaque]\n    delegation: [{vends}]\n")
        super().__init__(policy.replace("AUTHORIZER", authorizer), sink=sink, on_error=on_error, settings=settings)
        self.upstream = upstream
        self.learned = self.catalogs.learned
        self.sightings = self.catalogs.sightings
        self.upstreams = self.catalogs.upstreams
        self.loader = self.catalogs.loader
        self.resolver = self.catalogs.resolver
        spec = UpstreamSpec("lake", upstream.url, prefix="up", times=TIMES)
        self.specs = [msgspec.structs.replace(spec, catalog=catalog, **changes) for catalog in bound]

    async def connect(self) -> None:
        """Put the upstreams in force."""
        self.catalogs.commit(await self.catalogs.upstreams.prepare(self.specs))
        self.assemble()

    @property
    def facade(self) -> Facade:
        """What answers catalog calls."""
        found = self.house.rooms.api.config.facade
        assert found is not None
        return found

    def policy(self, text: str) -> None:
        """Put another policy in force."""
        self.state = MemoryPolicySource(text.replace("AUTHORIZER", "policy"), single_issuer=True).load(
            self.state.epoch + 1
        )

    async def ask(
        self,
        method: str,
        path: str,
        *,
        who: str | None = "writer",
        token: str = "",
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Call the catalog below its mount; a path that begins with `//` stands for itself, without the first slash."""
        sent = dict(headers or {})
        if who is not None or token:
            sent.setdefault("Authorization", f"Bearer {token or token_of(str(who))}")
        raw = path[1:] if path.startswith("//") else MOUNT + path
        content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        async with self.client.request(method, raw, headers=sent, data=content, allow_redirects=False) as found:
            return Answer(found.status, found.headers, await found.read())

    async def load(self, name: str = "t1", *, who: str = "writer", **more: Any) -> Answer:
        """Load a table as a client that wants its requests signed."""
        headers = {**SIGN, **more.pop("headers", {})}
        return await self.ask("GET", f"/v1/lake/namespaces/ns/tables/{name}", who=who, headers=headers, **more)

    async def signs(
        self,
        uri: str = "t1/data/f.parquet",
        *,
        method: str = "GET",
        name: str = "t1",
        who: str = "writer",
        token: str = "",
        path: str = "",
        properties: dict[str, str] | None = None,
    ) -> int:
        """Ask the specification's route for a signature; return the status."""
        message = {"region": "us-east-1", "method": method, "uri": f"{HOST}/lakehouse/{uri}", "headers": {}}
        if properties is not None:
            message["properties"] = properties
        where = path or f"/v1/lake/namespaces/ns/tables/{name}/sign"
        found = await self.ask("POST", where, who=who, token=token, body=message)
        return found.status


@asynccontextmanager
async def front(client_of: ClientOf = started_client, **changes: Any) -> AsyncIterator[Front]:
    """Serve in front of an upstream of a test's own; a test takes the fixture `serve_front` instead."""
    async with scripted() as upstream:
        made = Front(upstream, **changes)
        await made.connect()
        async with made.running(client_of):
            try:
                yield made
            finally:
                await made.catalogs.aclose()


class ServeFront(Protocol):
    """Serves in front of an upstream until the test ends. The fixture `serve_front` does."""

    async def __call__(self, **changes: Any) -> Front:
        """Serve."""
        ...


def by_path(**answers: bytes) -> Any:
    """Return a script that answers by the last segment of the path; with 404 what is not named."""

    async def script(asked: Asked, line: Line) -> bytes:
        await asyncio.sleep(0)
        return answers.get(asked.path.rpartition("/")[2], error(404, "NoSuchTableException"))

    return script


def only(events: list[AuditEvent]) -> AuditEvent:
    """Return the one event that there is."""
    (event,) = events
    return event
