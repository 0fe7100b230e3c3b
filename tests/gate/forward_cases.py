"""A policy with volumes, and what comes to the S3 listener."""

from __future__ import annotations

import msgspec

from signproxy.errors import Reason
from signproxy.gate.events import application_in
from signproxy.gate.forwarded import BucketsShown, Passed
from signproxy.gate.judgement import Judgement
from signproxy.gate.request import AskedFor
from signproxy.model import KeyScope, Principal, Subject, TableScope
from signproxy.policy.resolver import TableResolver
from signproxy.s3.forward_wire import ForwardWire
from tests.gate.cases import judged
from tests.policies import MemoryPolicySource
from tests.rooms import Assembled

POLICY = """
remote_signing: true
default_catalog: lake
storages:
  main: {kind: aws, region: us-west-2, buckets: [my-bucket, my-other, raw]}
  backup:
    kind: s3-compatible
    region: us-east-1
    buckets: [vault, far]
    endpoints: [{url: "http://vault.local"}]
catalogs:
  lake: {storages: [main, backup], roots: ["s3://my-bucket/wh", "s3://my-other/wh"], remote_signing: true}
  beside: {storages: [main], roots: ["s3://my-other/b"], remote_signing: true}
  dark: {storages: [backup], roots: ["s3://far/dark"]}
  foreign: {storages: [backup], roots: ["s3://far/foreign"], remote_signing: true, kind: external}
tables:
  - {name: t1, namespace: ns, location: "s3://my-bucket/wh/t1", uuid: u1}
  - {name: t2, namespace: ns, location: "s3://my-bucket/wh/t2"}
  - {name: deep, namespace: ns.deep, location: "s3://my-bucket/wh/deep"}
  - {name: once, namespace: ns, location: "s3://my-bucket/wh/once", overwrite: forbid}
  - {name: hidden, namespace: hr, location: "s3://my-bucket/wh/hidden"}
  - {name: sealed, namespace: ns, location: "s3://my-bucket/wh/sealed", metadata: sealed}
  - {name: b1, namespace: ns, location: "s3://my-other/b/b1", catalog: beside}
volumes:
  - {name: stage, storage: main, bucket: my-bucket, prefix: stage}
  - {name: folders, storage: main, bucket: my-bucket, prefix: folders, keys: s3}
  - {name: raw, storage: main, bucket: raw, operations: all, keys: s3}
  - {name: made, storage: backup, bucket: "tmp-*", operations: all, keys: s3}
  - {name: vault, storage: backup, bucket: vault, overwrite: forbid}
  - {name: secret, storage: main, bucket: my-bucket, prefix: secret}
catalog_roles:
  lake: [reader, writer, owner, copier]
  beside: [reader]
  dark: [reader]
  foreign: [reader]
principal_roles:
  readers: {lake: [reader], beside: [reader]}
  writers: {lake: [writer]}
  owners: {lake: [owner]}
  copiers: {lake: [copier]}
  far: {dark: [reader]}
  foreign: {foreign: [reader]}
principals:
  reader: {roles: [readers]}
  writer: {roles: [writers]}
  owner: {roles: [owners]}
  copier: {roles: [copiers]}
  watched: {roles: [readers], mode: observe}
  far: {roles: [far]}
  foreign: {roles: [foreign]}
grants:
  - {role: reader, namespace: ns, privileges: [TABLE_REMOTE_SIGN, TABLE_READ_DATA]}
  - {role: reader, volume: stage, privileges: [VOLUME_READ_DATA]}
  - {role: reader, catalog: beside, privileges: [TABLE_REMOTE_SIGN, TABLE_READ_DATA]}
  - {role: writer, namespace: ns, privileges: [TABLE_REMOTE_SIGN, TABLE_WRITE_DATA]}
  - {role: writer, volume: stage, privileges: [VOLUME_WRITE_DATA]}
  - {role: writer, volume: folders, privileges: [VOLUME_WRITE_DATA]}
  - {role: writer, volume: raw, privileges: [VOLUME_WRITE_DATA]}
  - {role: writer, volume: vault, privileges: [VOLUME_WRITE_DATA]}
  - {role: owner, privileges: [CATALOG_MANAGE_CONTENT]}
  - {role: copier, namespace: ns, table: t1, privileges: [TABLE_REMOTE_SIGN, TABLE_WRITE_DATA]}
  - {role: copier, volume: secret, privileges: [VOLUME_READ_DATA]}
"""


class Site(Assembled):
    """A gate and the policy behind it."""

    def __init__(self, policy: str = POLICY, resolver: TableResolver | None = None) -> None:
        super().__init__(MemoryPolicySource(policy, single_issuer=True).load(1), resolver=resolver)
        self.said: list[Judgement] = []
        """What the gate said of the last request: so far, for each of its questions, and in the end."""

    @property
    def judgement(self) -> Judgement:
        """What is said of the last request."""
        return self.said[-1]

    async def judge(self, wire: ForwardWire, who: str | Subject = "reader") -> Judgement:
        """Return all that the gate says, which a refusal is part of."""
        subject = Subject.of(caller(who)) if isinstance(who, str) else who
        self.said = []
        application = application_in(dict(wire.headers).get("user-agent", ""))
        return await judged(self.gate, subject, AskedFor(forward=wire, application=application), self.said)

    async def ask(self, wire: ForwardWire, who: str | Subject = "reader") -> Passed | BucketsShown:
        """Return what may be forwarded, or shown. Raise Refused."""
        judgement = await self.judge(wire, who)
        if judgement.refused is not None:
            raise judgement.refused
        assert judgement.passed is not None
        return judgement.passed

    async def passed(self, wire: ForwardWire, who: str | Subject = "reader") -> Passed:
        """Return what may be forwarded. Raise Refused."""
        passed = await self.ask(wire, who)
        assert isinstance(passed, Passed)
        return passed

    async def reason(self, wire: ForwardWire, who: str | Subject = "reader") -> Reason:
        """Return the reason of a refusal, ALLOWED otherwise."""
        refused = (await self.judge(wire, who)).refused
        return Reason.ALLOWED if refused is None else refused.reason


def caller(
    name: str,
    *,
    catalogs: tuple[str, ...] | None = None,
    key: KeyScope | None = None,
    token: TableScope | None = None,
) -> Principal:
    principal = Principal(f"idp/{name}", "idp", name, 4e9, (), catalogs)
    return msgspec.structs.replace(principal, key_scope=key, scope=token)


def wire(
    method: str = "GET",
    bucket: str = "my-bucket",
    key: str = "",
    query: str | None = None,
    body: bytes | None = None,
    **headers: str,
) -> ForwardWire:
    """Return a request; headers are given with underscores."""
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return ForwardWire(
        method=method,
        bucket=bucket,
        raw_key=key,
        raw_query=query,
        headers=named,
        names=tuple(name for name, _ in named),
        body=body,
    )


def delete(*keys: str, bucket: str = "my-bucket") -> ForwardWire:
    """Return a bulk delete."""
    objects = "".join(f"<Object><Key>{key}</Key></Object>" for key in keys)
    return wire("POST", bucket, query="delete", body=f"<Delete>{objects}</Delete>".encode())


OF_THE_S3_LISTENER = frozenset(
    {
        Reason.HTTP_INVALID,
        Reason.HOST_UNKNOWN,
        Reason.BROWSER_REFUSED,
        Reason.PEER_REFUSED,
        Reason.BODY_STALLED,
        Reason.LENGTH_REQUIRED,
        Reason.ENTITY_TOO_LARGE,
        Reason.ANONYMOUS_REQUEST,
        Reason.AUTHORIZATION_MALFORMED,
        Reason.ACCESS_KEY_UNKNOWN,
        Reason.KEY_EXPIRED,
        Reason.SIGNATURE_MISMATCH,
        Reason.SIGNATURE_EXPIRED,
        Reason.TIME_SKEWED,
        Reason.HEADERS_NOT_SIGNED,
        Reason.SCOPE_MISMATCH,
        Reason.UPLOAD_ID,
        Reason.PAYLOAD_UNSUPPORTED,
        Reason.CHUNK_MALFORMED,
        Reason.CHUNK_SIGNATURE,
        Reason.CHUNK_INCOMPLETE,
        Reason.PAYLOAD_HASH,
        Reason.CHECKSUM_MISMATCH,
        Reason.CONTENT_MD5,
        Reason.STORE_UNAVAILABLE,
        Reason.STORE_TIMEOUT,
        Reason.STORE_INVALID,
    }
)
"""Given for what the connection, the caller's signature, the body or the store is like; their rooms' tests provoke
them."""

OF_VOLUMES = frozenset({Reason.NO_MANAGE})
"""Given by the gate, and only for what is forwarded."""
