"""One request for each reason that the gate can refuse with, and one that it allows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field, replace

import msgspec

from signproxy.audit.event import Kind
from signproxy.errors import Check, Reason, Refused
from signproxy.gate.gate import Gate
from signproxy.gate.judgement import Judgement, OpenQuestion
from signproxy.gate.request import AskedFor, CatalogAddress, Request, arrived
from signproxy.model import BY_LOCATION, Allow, ByLocation, Ceiling, NamedTable, Principal, Subject, Target
from signproxy.policy.catalog import Catalog
from signproxy.policy.resolver import PolicyResolver
from signproxy.policy.table import Table
from signproxy.s3.request import S3Request, WireRequest
from tests.product import AT_ARRIVAL, HOST, KEY, POLICY, Product, token_of

SEALED = POLICY.replace(
    "tables:\n",
    "tables:\n"
    '  - {name: sealed, namespace: ns, location: "s3://my-bucket/wh/sealed", metadata: sealed}\n'
    '  - {name: small-once, namespace: ns, location: "s3://small/wh/once", overwrite: forbid}\n',
)
LAKE = CatalogAddress(prefix="lake")
T1 = NamedTable("ns", "t1")
SMALL = "http://minio.local:9000/small"
# The checks that the gate runs; the others are the server's.
GATE_CHECKS = tuple(check for check in Check if Check.CATALOG <= check <= Check.STORAGE)


@dataclass(frozen=True, kw_only=True)
class Ask:
    """Everything that the gate is told."""

    method: str = "GET"
    uri: str = f"{HOST}/{KEY}"
    headers: dict[str, list[str]] = field(default_factory=dict)
    region: str = "us-west-2"
    body: str | None = None
    who: str = "writer"
    address: CatalogAddress = LAKE
    target: Target = T1
    ceiling: Ceiling = Ceiling.NONE
    catalogs: tuple[str, ...] | None = None

    @property
    def asked(self) -> AskedFor:
        return AskedFor(self.address, self.target, self.wire)

    @property
    def wire(self) -> WireRequest:
        return WireRequest(method=self.method, uri=self.uri, headers=self.headers, region=self.region, body=self.body)


def _far(catalog: str, table: str) -> Ask:
    return Ask(
        uri=f"http://far.local/far/{catalog}/{table}/f",
        region="us-east-1",
        who="reader",
        address=CatalogAddress(prefix=catalog),
        target=NamedTable("ns", table),
    )


def _uri(rest: str, **more: object) -> Ask:
    return replace(Ask(uri=f"{HOST}/{rest}"), **more)  # type: ignore[arg-type]  # fields by name


def _header(name: str, *values: str, method: str = "GET") -> Ask:
    return Ask(method=method, headers={name: list(values)})


def _write(uri: str = f"{HOST}/{KEY}", **headers: str) -> Ask:
    return Ask(method="PUT", uri=uri, headers={name.replace("_", "-"): [value] for name, value in headers.items()})


_DELETE = f"{HOST}?delete"
_ONE_KEY = "<Delete><Object><Key>wh/t1/a</Key></Object></Delete>"

CASES: dict[Reason, Ask] = {
    Reason.ALLOWED: Ask(),
    Reason.CATALOG_UNKNOWN: Ask(address=CatalogAddress(prefix="nosuch")),
    Reason.CATALOG_NOT_FOR_ISSUER: Ask(catalogs=("other",)),
    Reason.PRINCIPAL_UNKNOWN: Ask(who="stranger"),
    Reason.REMOTE_SIGNING_OFF: _far("dark", "d1"),
    Reason.CATALOG_FEDERATED: _far("foreign", "f1"),
    Reason.URI_MALFORMED: Ask(uri="ftp://my-bucket/x"),
    Reason.URI_USERINFO: Ask(uri="https://a@my-bucket.s3.us-west-2.amazonaws.com/wh/t1/f"),
    Reason.URI_FRAGMENT: _uri("wh/t1/f#g"),
    Reason.ENDPOINT_UNKNOWN: Ask(uri="https://elsewhere.local/wh/t1/f"),
    Reason.REGION_MISMATCH: Ask(region="eu-west-1"),
    Reason.KEY_DOT_SEGMENT: _uri("wh/t1/../t2/f"),
    Reason.KEY_EMPTY_SEGMENT: _uri("wh/t1//f"),
    Reason.KEY_PATH_PARAMETER: _uri("wh/t1/;a=b/f"),
    Reason.KEY_CHARACTER: _uri("wh/t1/%00"),
    Reason.KEY_ENCODING: _uri("wh/t1/%FF"),
    Reason.KEY_TOO_LONG: _uri("wh/t1/" + "a" * 1024),
    Reason.QUERY_MALFORMED: _uri("wh/t1/f?a=1&&b=2"),
    Reason.QUERY_REPEATED: _uri("wh/t1/f?a=1&a=2"),
    Reason.QUERY_RESERVED: _uri("wh/t1/f?X-Amz-Expires=60"),
    Reason.METHOD_UNKNOWN: Ask(method="PATCH"),
    Reason.OPERATION_REFUSED: _uri("wh/t1/f?acl"),
    Reason.OPERATION_UNKNOWN: _uri("wh/t1/f?nosuch"),
    Reason.LIST_PREFIX: Ask(uri=f"{HOST}?list-type=2&prefix="),
    Reason.HEADER_MALFORMED: _header("a b", "x"),
    Reason.HEADER_REPEATED: _header("x-amz-te", "append-md5", "append-md5"),
    Reason.HEADER_HOST: _header("Host", "elsewhere.local"),
    Reason.HEADER_CREDENTIALS: _header("Authorization", "AWS a:b"),
    Reason.HEADER_REFUSED: _header("x-minio-force-delete", "true"),
    Reason.HEADER_VALUE: _header("x-amz-acl", "public-read", method="PUT"),
    Reason.PAYLOAD_MODE: _header("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", method="PUT"),
    Reason.COPY_SOURCE: _write(x_amz_copy_source="arn:aws:s3:::my-bucket/wh/t1/a"),
    Reason.WRITE_ONCE: replace(_write(f"{HOST}/wh/once/f", If_Match='"e"'), target=NamedTable("ns", "once")),
    Reason.DELETE_WITHOUT_BODY: Ask(method="POST", uri=_DELETE),
    Reason.DELETE_BODY: Ask(method="POST", uri=_DELETE, body="<Delete>"),
    Reason.DELETE_MARKUP: Ask(method="POST", uri=_DELETE, body=f"<!DOCTYPE Delete>{_ONE_KEY}"),
    Reason.DELETE_SIZE: Ask(method="POST", uri=_DELETE, body="<Delete/>"),
    Reason.DELETE_WHITE_SPACE: Ask(method="POST", uri=_DELETE, body=_ONE_KEY.replace("</Key>", " </Key>")),
    Reason.DELETE_REPEATED: Ask(method="POST", uri=_DELETE, body=_ONE_KEY.replace("</Delete>", _ONE_KEY[8:])),
    Reason.DELETE_UNBOUND: Ask(
        method="POST", uri=_DELETE, body=_ONE_KEY, headers={"x-amz-content-sha256": ["UNSIGNED-PAYLOAD"]}
    ),
    Reason.BODY_UNEXPECTED: Ask(body="x"),
    Reason.TABLE_UNKNOWN: Ask(target=NamedTable("ns", "nosuch")),
    Reason.LOCATION_UNOWNED: _uri("elsewhere/f", target=BY_LOCATION),
    Reason.NO_REMOTE_SIGN: Ask(who="data-only"),
    Reason.NO_READ_DATA: Ask(who="sign-only"),
    Reason.NO_WRITE_DATA: Ask(method="PUT", who="reader"),
    Reason.CEILING: Ask(method="PUT", ceiling=Ceiling.READ_ONLY),
    Reason.OUTSIDE_TABLE: _uri("wh/t10/f"),
    Reason.COPY_SOURCE_OUTSIDE: _write(x_amz_copy_source="/my-bucket/wh/t2/a"),
    Reason.METADATA_PROTECTED: _uri("wh/t1/metadata/v1.metadata.json"),
    Reason.METADATA_SEALED: _uri("wh/sealed/metadata/snap.avro", target=NamedTable("ns", "sealed")),
    Reason.UNSAFE_STORAGE: Ask(
        method="PUT", uri=f"{SMALL}/wh/small/f", region="us-east-1", target=NamedTable("ns", "small")
    ),
}

# More of what is allowed: one per way of finding the table and per kind of key.
ALLOWED: tuple[Ask, ...] = (
    Ask(),
    Ask(target=BY_LOCATION),
    Ask(address=CatalogAddress()),
    Ask(address=CatalogAddress(name="lake")),
    Ask(address=CatalogAddress(name="lake", prefix="opaque-1")),
    Ask(method="POST", uri=_DELETE, body=_ONE_KEY),
    Ask(uri=f"{HOST}?list-type=2&prefix=wh/t1/"),
    _write(x_amz_copy_source="/my-bucket/wh/t1/a"),
    Ask(uri=f"{HOST}?list-type=2&prefix=wh/t1/", who="reader", ceiling=Ceiling.READ_ONLY),
)


class Slow:
    """A resolver that has to ask an upstream first, and then finds what the policy says."""

    def __init__(self) -> None:
        self.asked = 0

    def resolve(
        self, catalog: Catalog, target: NamedTable | ByLocation, request: S3Request
    ) -> tuple[Table, ...] | Awaitable[tuple[Table, ...]]:
        return PolicyResolver().resolve(catalog, target, request) if self.asked else self._ask()

    async def _ask(self) -> tuple[Table, ...]:
        await asyncio.sleep(0)
        self.asked += 1
        return ()


def subject_of(product: Product, ask: Ask) -> Subject:
    principal = product.authenticator.authenticate(token_of(ask.who))
    assert isinstance(principal, Principal)
    if ask.catalogs is not None:
        principal = msgspec.structs.replace(principal, catalogs=ask.catalogs)
    return Subject(principal, principal, (), ask.ceiling)


def new_request(kind: Kind = Kind.SIGN, event_id: str = "event-1", **more: str) -> Request:
    """Return a request that nothing is known of yet."""
    return arrived(kind, event_id, AT_ARRIVAL, "request-1", "192.0.2.7", "test/1", **more)


async def judged(gate: Gate, subject: Subject, asked: AskedFor, said: list[Judgement] | None = None) -> Judgement:
    """Return what the gate says in the end, with everything asked for that it wants to know.

    What it says on the way is put into `said`, the last of it at the end.
    """
    steps = [] if said is None else said
    judge = gate.judge if asked.forward is None else gate.forward.judge
    for _ in range(9):
        judging = judge(subject, asked)
        found = judging if isinstance(judging, Judgement | OpenQuestion) else await judging
        if isinstance(found, Judgement):
            steps.append(found)
            return found
        steps.append(found.so_far)
        asked = found.so_far.asked
        try:
            await found.answer
        except Refused as refused:
            steps.append(msgspec.structs.replace(found.so_far, refused=refused))
            return steps[-1]
    endless = Refused(Reason.UPSTREAM_UNAVAILABLE, "every answer leads to another question")
    steps.append(msgspec.structs.replace(steps[-1], refused=endless))
    return steps[-1]


async def judge(product: Product, ask: Ask) -> Judgement:
    """Return what the gate of a product says."""
    return await judged(product.gate, subject_of(product, ask), ask.asked)


def verdict_of(judgement: Judgement) -> Allow | Refused:
    """Return what a request to be signed was allowed by, or why it was refused; it is never both."""
    assert (judgement.allow is None) is not (judgement.refused is None)
    verdict = judgement.allow or judgement.refused
    assert verdict is not None
    return verdict


async def verdict(product: Product, ask: Ask) -> Allow | Refused:
    """Return what the gate of a product allows by, or refuses for."""
    return verdict_of(await judge(product, ask))
