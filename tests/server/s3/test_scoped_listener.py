"""The S3 listener with every way of showing a credential that is good for one table, and every operation.

Operations and ways are those of the product. One that is new fails here until it is said what it opens.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from signproxy.errors import Reason, Refused
from signproxy.gate.forwarded import BucketsShown
from signproxy.identity.authenticator import Authenticator
from signproxy.identity.emulated import IssuedKey, Parts
from signproxy.identity.opaque import OpaqueToken, StaticTokens, hash_token
from signproxy.identity.pod_caller import Peer, PodIdentity, TokenFile
from signproxy.identity.s3_caller import Caller, How, S3Callers
from signproxy.identity.table_token import TableTokens
from signproxy.model import Ceiling, KeyScope, Principal, Subject, TableScope
from signproxy.s3.forward_wire import ForwardWire
from signproxy.s3.operation import Operation
from signproxy.sealing import Purpose, Sealer
from tests.gate.forward_cases import POLICY, Site, delete, wire
from tests.identity.keyed import HOST, SEALING, Sent, emulated, presigned, signed
from tests.identity.rig import NOW, Clock

OWNER = "the-token-of-the-owner-of-the-tables"
TABLE = TableScope("lake", "ns", "t1", "u1")
LIFE = 900.0
OPEN = POLICY.replace("buckets: [my-bucket, my-other, raw]", "buckets: [my-bucket, my-other, raw], OPT_INS")
LOCAL = Peer(is_loopback=True)


class Handed:
    """An owner of everything, and what was handed out for one of its tables."""

    def __init__(self, directory: Path) -> None:
        self.clock = Clock()
        held = {hash_token(OWNER): OpaqueToken("owner", expires_at=NOW + LIFE)}
        tokens = TableTokens(Sealer([SEALING], Purpose.TABLE_TOKEN), 1e6)
        self.by = Authenticator((), StaticTokens(held), tokens, clock=self.clock)
        self.keys = emulated(self.by)
        owner = self.by.authenticate(OWNER)
        assert isinstance(owner, Principal)
        self.owner = owner
        token = self.by.table_token(owner, OWNER, TABLE)
        assert token is not None
        self.token = token
        limited = self.by.authenticate(token)
        assert isinstance(limited, Principal)
        self.limited = limited
        file = directory / "token"
        file.write_text(token)
        self.callers = S3Callers(
            self.keys,
            self.by,
            bearer=True,
            pod=PodIdentity(TokenFile(file), frozenset(), self.by.authenticate),
        )

    def key(self, of: Principal, scope: KeyScope | None, parts: Parts = Parts.THREE) -> IssuedKey:
        return self.keys.issue(of, scope, 1e6, NOW, parts=parts)

    def caller(self, sent: Sent) -> Caller:
        found = self.callers.identify(sent.method, sent.target, sent.headers, LOCAL, self.clock())
        assert isinstance(found, Caller)
        return found


def _bearer(token: str) -> Sent:
    return Sent("GET", "/acme-lake/a.parquet", (("host", HOST), ("authorization", f"Bearer {token}")))


def _around(handed: Handed) -> Sent:
    """Return a signature around a table token, by a key that was not issued here."""
    return signed(IssuedKey("AKIAIOSFODNN7EXAMPLE", "secret", handed.token, 0.0))


OF_TABLE = KeyScope("lake", "ns", "t1")
WAYS: dict[str, tuple[How, Callable[[Handed], Sent]]] = {
    "key": (How.EMULATED, lambda handed: signed(handed.key(handed.owner, OF_TABLE))),
    "key, presigned": (How.EMULATED, lambda handed: presigned(handed.key(handed.owner, OF_TABLE))),
    "key of two parts": (How.EMULATED, lambda handed: signed(handed.key(handed.owner, OF_TABLE, Parts.TWO))),
    "key of two parts, presigned": (
        How.EMULATED,
        lambda handed: presigned(handed.key(handed.owner, OF_TABLE, Parts.TWO)),
    ),
    "key of a table token": (How.EMULATED, lambda handed: signed(handed.key(handed.limited, None))),
    "key of a table token, presigned": (How.EMULATED, lambda handed: presigned(handed.key(handed.limited, None))),
    "table token": (How.BEARER, lambda handed: _bearer(handed.token)),
    "table token in a signature": (How.BEARER, _around),
    "table token of the pod": (
        How.POD,
        # Its own token, in the file, is the one for the table.
        lambda _: Sent("GET", "/acme-lake/a.parquet", (("host", "localhost:8182"),)),
    ),
}


def _at(method: str, query: str | None = None) -> Callable[[str], ForwardWire]:
    return lambda table: wire(method, key=f"wh/{table}/data/f", query=query)


def _listed(query: str) -> Callable[[str], ForwardWire]:
    return lambda table: wire(query=f"{query}prefix=wh/{table}/data/")


IN_A_TABLE: dict[Operation, Callable[[str], ForwardWire]] = {
    Operation.GET_OBJECT: _at("GET"),
    Operation.HEAD_OBJECT: _at("HEAD"),
    Operation.LIST_OBJECTS_V2: _listed("list-type=2&"),
    Operation.LIST_PARTS: _at("GET", "uploadId=u"),
    Operation.PUT_OBJECT: _at("PUT"),
    Operation.COPY_OBJECT: lambda table: wire(
        "PUT", key="wh/t1/data/g", x_amz_copy_source=f"/my-bucket/wh/{table}/data/f"
    ),
    Operation.CREATE_MULTIPART_UPLOAD: _at("POST", "uploads"),
    Operation.UPLOAD_PART: _at("PUT", "partNumber=1&uploadId=u"),
    Operation.UPLOAD_PART_COPY: lambda table: wire(
        "PUT", key="wh/t1/data/g", query="partNumber=1&uploadId=u", x_amz_copy_source=f"/my-bucket/wh/{table}/data/f"
    ),
    Operation.COMPLETE_MULTIPART_UPLOAD: _at("POST", "uploadId=u"),
    Operation.ABORT_MULTIPART_UPLOAD: _at("DELETE", "uploadId=u"),
    Operation.DELETE_OBJECT: _at("DELETE"),
    Operation.DELETE_OBJECTS: lambda table: delete(f"wh/{table}/data/f"),
    Operation.GET_OBJECT_TAGGING: _at("GET", "tagging"),
    Operation.PUT_OBJECT_TAGGING: _at("PUT", "tagging"),
    Operation.DELETE_OBJECT_TAGGING: _at("DELETE", "tagging"),
    Operation.LIST_OBJECT_VERSIONS: _listed("versions&"),
    Operation.LIST_MULTIPART_UPLOADS: _listed("uploads&"),
    Operation.LIST_OBJECTS: _listed(""),
}
IN_A_VOLUME: dict[Operation, ForwardWire] = {
    Operation.GET_OBJECT_ATTRIBUTES: wire(bucket="raw", key="f", query="attributes"),
    Operation.OTHER_READ: wire(bucket="raw", query="acl"),
    Operation.OTHER_WRITE: wire("PUT", bucket="raw", query="acl"),
}
"""No table has these; an owner of the whole catalog does."""

OF_BUCKETS: dict[Operation, Callable[[str], ForwardWire]] = {
    Operation.HEAD_BUCKET: lambda bucket: wire("HEAD", bucket),
    Operation.GET_BUCKET_LOCATION: lambda bucket: wire(bucket=bucket, query="location"),
    Operation.LIST_BUCKETS: lambda _: wire(bucket=""),
}


def test_each_operation_and_each_way_has_an_expectation() -> None:
    """One that is added later would be the one that was never looked at."""
    assert {*IN_A_TABLE, *IN_A_VOLUME, *OF_BUCKETS} == set(Operation)
    assert {how for how, _ in WAYS.values()} == set(How)


@pytest.mark.parametrize("way", WAYS)
async def test_a_credential_for_one_table_does_there_what_its_owner_may_and_nothing_beside(
    way: str, tmp_path: Path
) -> None:
    """A client that reads a credential out of an executor would get all that its owner may."""
    handed = Handed(tmp_path)
    how, show = WAYS[way]
    caller = handed.caller(show(handed))
    assert caller.how is how
    site = Site(OPEN.replace("OPT_INS", _OPT_INS))
    scoped, owner = Subject.of(caller.subject.caller), Subject.of(handed.owner)
    for operation, asked in IN_A_TABLE.items():
        for table in ("t1", "t2", "deep", "hidden"):
            assert await site.reason(asked(table), owner) is Reason.ALLOWED, (operation, table)
            told = await site.reason(asked(table), scoped)
            assert told is (Reason.ALLOWED if table == "t1" else Reason.NOT_IN_SCOPE), (operation, table)
    for operation, one in IN_A_VOLUME.items():
        assert await site.reason(one, owner) is Reason.ALLOWED, operation
        assert await site.reason(one, scoped) is Reason.NOT_IN_SCOPE, operation
    for operation in (Operation.HEAD_BUCKET, Operation.GET_BUCKET_LOCATION):
        for bucket in ("my-bucket", "raw", "vault"):
            told = await site.reason(OF_BUCKETS[operation](bucket), scoped)
            assert told is (Reason.ALLOWED if bucket == "my-bucket" else Reason.NO_READ_DATA), (operation, bucket)
    shown = await site.ask(OF_BUCKETS[Operation.LIST_BUCKETS](""), scoped)
    assert isinstance(shown, BucketsShown)
    assert (shown.names, shown.unlisted) == (("my-bucket",), ())


_OPT_INS = "opt_ins: {tagging: true, recover: true, multipart_cleanup: true}"


@pytest.mark.parametrize("way", WAYS)
def test_no_way_of_showing_it_lets_a_credential_live_longer(way: str, tmp_path: Path) -> None:
    """What is remembered of a caller, and each key that is made of another credential, ends with the first of them."""
    handed = Handed(tmp_path)
    _, show = WAYS[way]
    sent = show(handed)
    caller = handed.caller(sent)
    assert caller.subject.caller.expires_at == NOW + LIFE
    handed.clock.now = NOW + LIFE - 0.001
    # Signatures are of the moment, and are judged by a clock that lets them be.
    again = handed.callers.identify(sent.method, sent.target, sent.headers, LOCAL, NOW)
    assert isinstance(again, Caller)
    handed.clock.now = NOW + LIFE
    with pytest.raises(Refused) as refused:
        handed.caller(sent)
    assert refused.value.reason in (Reason.TOKEN_EXPIRED, Reason.KEY_EXPIRED, Reason.SIGNATURE_EXPIRED)


@pytest.mark.parametrize("granted", ("CATALOG_MANAGE_CONTENT", "TABLE_REMOTE_SIGN, TABLE_READ_DATA"))
@pytest.mark.parametrize("mode", ("enforce", "observe"))
async def test_a_key_that_only_reads_does_nothing_that_changes_anything(
    mode: str, granted: str, tmp_path: Path
) -> None:
    """A key that was handed out for reading would delete a table, by an operation that was not thought of."""
    handed = Handed(tmp_path)
    key = handed.key(handed.owner, KeyScope("lake", "ns", "t1", ceiling=Ceiling.READ_ONLY))
    by_key = Subject.of(handed.caller(signed(key)).subject.caller)
    policy = OPEN.replace("OPT_INS", _OPT_INS).replace(
        "owner: {roles: [owners]}", f"owner: {{roles: [owners], mode: {mode}}}"
    )
    site = Site(
        policy.replace(
            "{role: owner, privileges: [CATALOG_MANAGE_CONTENT]}", f"{{role: owner, privileges: [{granted}]}}"
        )
    )
    for operation, asked in IN_A_TABLE.items():
        told = await site.reason(asked("t1"), by_key)
        assert (told is Reason.ALLOWED) is not operation.needs_write, operation
        assert await site.reason(asked("t2"), by_key) is not Reason.ALLOWED, operation
