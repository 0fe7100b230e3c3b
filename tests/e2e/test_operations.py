"""Carry out every operation that signproxy signs, on every store, as each client family sends it."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.e2e.client import Addressing, Merge, RemoteSigningClient, client_of
from tests.e2e.conftest import Shelf
from tests.e2e.containment.draft import bulk_body, crc32, encode_key, frame
from tests.e2e.matrix import Matrix, Row
from tests.e2e.server import Grant, SignServer, policy_of, run_server
from tests.e2e.stores import STORES, RunningStore
from tests.e2e.stores.contents import objects_of, parse, uploads_of
from tests.e2e.stores.direct import Owner, code_of
from tests.e2e.wire import Answer

pytestmark = pytest.mark.ci

BUCKET = "operations"
ROUTE = "/s3-sign/v1/main/namespaces/db/tables/{table}"

# Names that Iceberg writers really produce, and those on which encoders disagree.
KEYS = (
    "data/plain.parquet",
    "data/region=eu/day=2026-01-01/a.parquet",
    # A partition value that the writer encoded before the SDK encodes it again: %252F on the wire.
    "data/city=a%2Fb/a.parquet",
    "data/city=S%C3%A3o%2BPaulo/a.parquet",
    "data/plus+sign and space",
    "data/ünïcode-\U0001f9ca-e\u0301",
    "data/~!*'()@:,;$&=",
    "data/50%",
)


@pytest.fixture(scope="module", params=STORES, ids=str)
def place(
    request: pytest.FixtureRequest, shelf: Shelf, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RunningStore, SignServer, Owner]]:
    """Run signproxy in front of one store, with two tables: an ordinary one, and one whose files are written once."""
    store = shelf.get(request.param)
    owner = Owner(store)
    bucket = f"{BUCKET}-{store.name}"
    owner.must("PUT", bucket)
    owner.must("PUT", f"{bucket}/wh/other/secret", body=b"secret")
    grants = (
        Grant("main", "db", "t", f"s3://{bucket}/wh/db/t"),
        Grant("main", "db", "once", f"s3://{bucket}/wh/db/once", settings={"overwrite": "forbid"}),
        Grant("main", "db", "other", f"s3://{bucket}/wh/other", privileges=()),
    )
    policy = policy_of(store, [bucket], {"main": {}}, grants)
    with run_server(tmp_path_factory.mktemp("signproxy"), store, policy) as server:
        yield store, server, owner
    owner.close()


@pytest.fixture(params=Merge, ids=lambda merge: str(merge.value))
def merge(request: pytest.FixtureRequest) -> Merge:
    chosen: Merge = request.param
    return chosen


@pytest.fixture
def client(place: tuple[RunningStore, SignServer, Owner], merge: Merge) -> Iterator[RemoteSigningClient]:
    store, server, _owner = place
    with client_of(server, store, ROUTE.format(table="t"), merge, f"{BUCKET}-{store.name}") as made:
        yield made


@pytest.fixture
def owner(place: tuple[RunningStore, SignServer, Owner]) -> Owner:
    return place[2]


def _ok(answer: Answer) -> Answer:
    assert answer.ok, (answer.status, answer.body)
    return answer


def _md5(content: bytes) -> str:
    return base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()


def _delete(client: RemoteSigningClient, *keys: str) -> Answer:
    """Delete as Iceberg Java does: the body in the sign request, and Content-MD5."""
    body = bulk_body(list(keys))
    headers = {"Content-MD5": _md5(body.encode()), "Content-Type": "application/xml"}
    return client.send("POST", query="delete", headers=headers, body=body)


@pytest.mark.parametrize("addressing", Addressing, ids=lambda style: str(style.value))
def test_every_operation_is_carried_out(
    place: tuple[RunningStore, SignServer, Owner], merge: Merge, addressing: Addressing, matrix: Matrix
) -> None:
    """An operation whose signature a strict store refuses breaks the first Spark job that needs it."""
    store, server, owner = place
    bucket = f"{BUCKET}-{store.name}"
    root = f"wh/db/t/{merge.value}-{addressing.value}"

    def row(operation: str) -> Row:
        return Row(f"{merge.value} merge, {addressing.value}", merge.version, store.name, store.version, operation)

    with client_of(server, store, ROUTE.format(table="t"), merge, bucket, addressing) as client:
        key = f"{root}/data/a=1/file 1.parquet"
        content = b"0123456789"
        with matrix.row(row("PutObject")):
            _ok(
                client.send("PUT", key, headers={"Content-MD5": _md5(content), "Content-Length": "10"}, content=content)
            )
        with matrix.row(row("GetObject")):
            ranged = client.send("GET", key, headers={"Range": "bytes=2-5", "x-amz-te": "append-md5"})
            assert (ranged.status, ranged.body) == (206, b"2345")
            assert client.send("GET", key).body == content
        with matrix.row(row("HeadObject")):
            assert _ok(client.send("HEAD", key)).headers["content-length"] == "10"
        with matrix.row(row("ListObjectsV2")):
            listed = client.send("GET", query=f"list-type=2&prefix={root}/&delimiter=/&max-keys=10&encoding-type=url")
            assert [item.text for item in parse(_ok(listed).body).iterfind("CommonPrefixes/Prefix")] == [
                f"{root}/data/"
            ]
        with matrix.row(row("CopyObject")):
            source = f"/{bucket}/{encode_key(key)}"
            _ok(client.send("PUT", f"{root}/data/copy", headers={"x-amz-copy-source": source}))
            assert owner.must("GET", f"{bucket}/{root}/data/copy").body == content
        _multipart(client, owner, bucket, root, source, matrix, row)
        with matrix.row(row("DeleteObject")):
            _ok(client.send("DELETE", f"{root}/data/copy"))
            assert owner.ask("HEAD", f"{bucket}/{root}/data/copy").status == 404
        with matrix.row(row("DeleteObjects")):
            _ok(_delete(client, key, f"{root}/data/big"))
            assert objects_of(owner, bucket, f"{root}/") == []


def _multipart(
    client: RemoteSigningClient,
    owner: Owner,
    bucket: str,
    root: str,
    source: str,
    matrix: Matrix,
    row: Callable[[str], Row],
) -> None:
    """Go through an upload of two parts, the second one copied, and through one that is given up."""
    key = f"{root}/data/big"
    with matrix.row(row("CreateMultipartUpload")):
        begun = _ok(client.send("POST", key, "uploads", headers={"Content-Type": "binary/octet-stream"}))
        upload_id = parse(begun.body).findtext("UploadId")
        assert upload_id
    large = b"x" * (5 * 1024 * 1024)
    with matrix.row(row("UploadPart")):
        part = client.send("PUT", key, f"partNumber=1&uploadId={upload_id}", content=large)
        first = _ok(part).headers["etag"]
    with matrix.row(row("UploadPartCopy")):
        copied = client.send("PUT", key, f"partNumber=2&uploadId={upload_id}", headers={"x-amz-copy-source": source})
        second = parse(_ok(copied).body).findtext("ETag") or ""
    with matrix.row(row("ListParts")):
        parts = parse(_ok(client.send("GET", key, f"uploadId={upload_id}")).body)
        assert [item.text for item in parts.iterfind("Part/PartNumber")] == ["1", "2"]
    with matrix.row(row("CompleteMultipartUpload")):
        numbered = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>"
            for number, etag in ((1, first), (2, second))
        )
        body = f"<CompleteMultipartUpload>{numbered}</CompleteMultipartUpload>".encode()
        _ok(
            client.send("POST", key, f"uploadId={upload_id}", headers={"Content-Type": "application/xml"}, content=body)
        )
        assert owner.must("GET", f"{bucket}/{key}").body == large + b"0123456789"
    with matrix.row(row("AbortMultipartUpload")):
        begun = _ok(client.send("POST", key, "uploads"))
        abandoned = parse(begun.body).findtext("UploadId")
        _ok(client.send("DELETE", key, f"uploadId={abandoned}"))
        assert [upload for upload in uploads_of(owner, bucket) if upload.key == key] == []


@pytest.mark.parametrize("name", KEYS)
def test_any_name_of_an_iceberg_writer_can_be_used(
    client: RemoteSigningClient, owner: Owner, merge: Merge, name: str
) -> None:
    """A partition value with a slash, a plus or an umlaut must not make its files unreachable."""
    key = f"wh/db/t/{merge.value}-names/{name}"
    _ok(client.send("PUT", key, content=b"content"))
    assert _ok(client.send("GET", key)).body == b"content"
    assert key in {listed.key for listed in objects_of(owner, client.bucket, f"wh/db/t/{merge.value}-names/")}
    _ok(_delete(client, key))
    assert client.send("HEAD", key).status == 404


@pytest.mark.parametrize("transfer", ("Content-Length", "chunked"))
def test_an_aws_chunked_upload_is_stored_without_its_framing(
    client: RemoteSigningClient, owner: Owner, merge: Merge, matrix: Matrix, transfer: str
) -> None:
    """PyIceberg on https frames its uploads; a wrong payload mode stores the framing as the object."""
    key = f"wh/db/t/{merge.value}-chunked-{transfer}"
    content = b"parquet " * 20_000
    framed = frame(content)
    headers = {
        "Content-Encoding": "aws-chunked",
        "X-Amz-Trailer": "x-amz-checksum-crc32",
        "X-Amz-Decoded-Content-Length": str(len(content)),
        "X-Amz-Content-SHA256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        "Expect": "100-continue",
        **({"Transfer-Encoding": "chunked"} if transfer == "chunked" else {"Content-Length": str(len(framed))}),
    }
    sent = client.prepare("PUT", key, headers=headers, content=framed)
    wire = sent.wire
    if transfer == "chunked":
        # aiohttp writes this header anew, after the signer.
        kept = tuple((name, value) for name, value in wire.headers if name.lower() != "transfer-encoding")
        wire = replace(wire, headers=(*kept, ("Transfer-Encoding", "chunked")))
    store = client.store
    operation = f"PutObject, aws-chunked, {transfer}"
    with matrix.row(Row(f"{merge.value} merge, path", merge.version, store.name, store.version, operation)):
        _ok(client.transmit(wire))
        assert owner.must("GET", f"{client.bucket}/{key}").body == content


def test_a_damaged_aws_chunked_upload_is_refused(client: RemoteSigningClient, merge: Merge) -> None:
    """The checksum in the trailer is all that protects an upload whose payload is not signed."""
    content = b"parquet"
    headers = {
        "Content-Encoding": "aws-chunked",
        "X-Amz-Trailer": "x-amz-checksum-crc32",
        "X-Amz-Decoded-Content-Length": str(len(content)),
        "X-Amz-Content-SHA256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
    }
    damaged = frame(content).replace(crc32(content).encode(), crc32(b"other").encode())
    answer = client.send("PUT", f"wh/db/t/{merge.value}-damaged", headers=headers, content=damaged)
    assert answer.status == 400, code_of(answer)


def test_the_stamp_names_the_audit_event(
    place: tuple[RunningStore, SignServer, Owner], client: RemoteSigningClient
) -> None:
    """Who did what is told by joining the store's log with the audit trail on this id."""
    _store, server, _owner = place
    sent = client.prepare("PUT", "wh/db/t/stamped", content=b"content")
    stamp = re.search(r"[?&]x-signproxy-id=([0-9A-Z]+)", sent.wire.target)
    assert stamp is not None
    _ok(client.transmit(sent.wire))
    event = server.event(stamp[1])
    assert (event["key"], event["s3_op"], event["stamped"]) == ("wh/db/t/stamped", "PutObject", True)


def test_a_signed_upload_cannot_be_turned_into_a_copy(client: RemoteSigningClient, owner: Owner, merge: Merge) -> None:
    """Signing writes for a store that takes unsigned headers would hand out every object of the bucket."""
    key = f"wh/db/t/{merge.value}-laundered"
    sent = client.prepare("PUT", key)
    added = ("x-amz-copy-source", f"/{client.bucket}/wh/other/secret")
    answer = client.transmit(replace(sent.wire, headers=(*sent.wire.headers, added)))
    assert answer.status == 403, code_of(answer)
    assert owner.ask("HEAD", f"{client.bucket}/{key}").status == 404


def test_a_signature_cannot_be_moved_by_forwarded_headers(
    place: tuple[RunningStore, SignServer, Owner], owner: Owner, merge: Merge
) -> None:
    """A store that believes `X-Forwarded-Prefix` of any client opens every object to the holder of one signature."""
    store, server, _owner = place
    bucket = f"{BUCKET}-{store.name}"
    owner.must("PUT", f"{bucket}/wh/other/moved", body=b"not yours")
    with client_of(server, store, ROUTE.format(table="t"), merge, bucket) as client:
        sent = client.prepare("GET", f"wh/db/t/{bucket}/wh/other/moved")
        query = sent.wire.target.partition("?")[2]
        # The guards stand on a store that needs them, and the attack has to get past them.
        guarded = {name.lower() for name, _ in sent.wire.headers} >= {"x-forwarded-prefix", "x-forwarded-host"}
        assert guarded is store.traits.verifies_as_forwarded
        prefix = ("X-Forwarded-Prefix", f"/{bucket}/wh/db/t")
        plain = tuple(pair for pair in sent.wire.headers if not pair[0].lower().startswith("x-forwarded-"))
        for headers in ((*sent.wire.headers, prefix), (prefix, *sent.wire.headers), (*plain, prefix)):
            moved = replace(sent.wire, target=f"/{bucket}/wh/other/moved?{query}", headers=headers)
            answer = client.transmit(moved)
            assert answer.status == 403, answer
            assert b"not yours" not in answer.body


def test_a_bulk_delete_is_bound_to_its_body_where_the_store_hashes_it(
    client: RemoteSigningClient, owner: Owner, merge: Merge
) -> None:
    """The key list is checked once; the payload hash in the signature keeps it from being swapped afterwards."""
    foreign = f"wh/other/{merge.value}"
    owner.must("PUT", f"{client.bucket}/{foreign}", body=b"not yours")
    sent = client.prepare("POST", query="delete", body=bulk_body(["wh/db/t/gone"]))
    swapped = bulk_body([foreign]).encode()
    # Left out of the sign request, so that nothing but the payload hash binds the body.
    added = ("Content-MD5", _md5(swapped))
    answer = client.transmit(replace(sent.wire, headers=(*sent.wire.headers, added), body=swapped))
    refuses = client.store.traits.refuses_wrong_payload_hash
    assert (code_of(answer) == "XAmzContentSHA256Mismatch") is refuses, answer
    assert owner.ask("HEAD", f"{client.bucket}/{foreign}").ok is refuses


def test_a_file_of_a_write_once_table_is_written_once(
    place: tuple[RunningStore, SignServer, Owner], merge: Merge
) -> None:
    """`overwrite: forbid` is the store's to enforce: the guard is signed, so that no client can leave it out."""
    store, server, owner = place
    bucket = f"{BUCKET}-{store.name}"
    key = f"wh/db/once/{merge.value}"
    with client_of(server, store, ROUTE.format(table="once"), merge, bucket) as client:
        _ok(client.send("PUT", key, content=b"first"))
        second = client.send("PUT", key, content=b"second")
        assert second.status == 412, code_of(second)
        bare = client.prepare("PUT", key, content=b"third")
        without = tuple((name, value) for name, value in bare.wire.headers if name.lower() != "if-none-match")
        assert client.transmit(replace(bare.wire, headers=without)).status in (400, 403)
        assert owner.must("GET", f"{bucket}/{key}").body == b"first"
        assert client.ask("PUT", key, headers={"x-amz-copy-source": f"/{bucket}/{key}"}).status == 403
