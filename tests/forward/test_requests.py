"""What a store is sent: the client's own bytes, under a signature of ours."""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from base64 import b64encode
from collections.abc import AsyncIterator
from urllib.parse import unquote_to_bytes
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from signproxy.credentials.credentials import Credentials
from signproxy.errors import Reason, Refused
from signproxy.gate.forwarded import RefusedKey
from signproxy.s3.operation import Operation
from tests.forward.rig import KEYS, NOW, Rig, Story, connected, request, serving_rig, storage
from tests.forward.upstream import Received, Script, Talk, Upstream, serve, serving
from tests.verifier import WireHttp, verify


def verified(received: Received, *, token: str = "") -> Received:
    """Let a strict verifier look at a request."""
    lines = received.head.decode("latin-1").split("\r\n")[1:-2]
    # The verifier takes text; what a client sends beyond ASCII is UTF-8.
    headers = tuple((name, value.encode("latin-1").decode()) for name, _, value in (x.partition(": ") for x in lines))
    method, target = received.head.decode("latin-1").split(" ")[:2]
    body = received.body if received.header("x-amz-content-sha256") != "UNSIGNED-PAYLOAD" else None
    tokens = {key: token for key in KEYS if token}
    verify(WireHttp(method, target, headers, body), KEYS, now=NOW, tokens=tokens, region="us-east-1")
    return received


async def forwarded(rig: Rig, data: bytes) -> bytes:
    async with connected(rig) as client:
        await client.send(data)
        head, _ = await client.answer()
        return head


@pytest.fixture
async def store() -> AsyncIterator[Upstream]:
    async with Upstream(serve) as upstream:
        yield upstream


@pytest.mark.parametrize(
    "target",
    (
        "/data/plain",
        "/data/a%20b/%C3%A4%2F%25/x+y",
        "/data/%e2%82%ac(1)!*'~:@&=,;$",
        "/data/k?versionId=a%2Bb&partNumber=1",
        "/data/k?partNumber=2&versionId=null&x-id=GetObject",
        "/data/%7Etilde/%3D?response-content-type=text%2Fplain",
        "/data?list-type=2&prefix=wh%2Ft1%2F&delimiter=/",
        "/data/k?tagging",
    ),
)
async def test_the_target_goes_byte_for_byte_and_is_what_was_signed(store: Upstream, target: str) -> None:
    """A store would look for another object than the client asked for, or refuse the signature."""
    async with serving_rig(Rig(storage(store.port))) as rig:
        await forwarded(rig, request(target=target))
    received = verified(store.requests[0])
    assert received.target == target
    assert received.header("host") == f"127.0.0.1:{store.port}"


async def test_headers_keep_their_spelling_value_and_order(store: Upstream) -> None:
    """Metadata would be stored with another name or value than the client gave it."""
    headers = 'X-Amz-Meta-Zed: a  b\r\nx-amz-meta-name: n\xc3\xa4\r\nIf-Match: "x"\r\nRange: bytes=0-9\r\n'
    async with serving_rig(Rig(storage(store.port))) as rig:
        await forwarded(rig, request(headers=headers))
    received = verified(store.requests[0])
    assert received.head.split(b"\r\n", 2)[2].startswith(headers.encode("latin-1"))
    signed = received.header("authorization")
    assert signed is not None
    assert "x-amz-meta-name;x-amz-meta-zed" in signed


async def test_nothing_of_the_callers_own_proof_is_sent_on(store: Upstream) -> None:
    """A store, or its log, would hold what lets others act as the caller."""
    headers = "Authorization: Bearer secret\r\nExpect: 100-continue\r\nX-Amz-Date: 20200101T000000Z\r\n"
    headers += "Connection: keep-alive\r\n"
    async with serving_rig(Rig(storage(store.port))) as rig:
        await forwarded(rig, request(headers=headers))
    received = verified(store.requests[0])
    assert b"Bearer" not in received.head
    assert b"Expect" not in received.head
    assert b"onnection" not in received.head
    assert received.head.lower().count(b"x-amz-date:") == 1


async def test_a_session_is_signed_with_its_token_and_new_keys_are_used_at_once(store: Upstream) -> None:
    """Requests would go on being signed with keys that were rotated away."""
    async with serving_rig(Rig(storage(store.port))) as rig:
        await forwarded(rig, request())
        KEYS["ASIASESSION000000000"] = "session+secret"
        rig.keys.now = Credentials("ASIASESSION000000000", "session+secret", "token/==")
        try:
            await forwarded(rig, request())
            verified(store.requests[0])
            assert verified(store.requests[1], token="token/==").header("x-amz-security-token") == "token/=="
        finally:
            del KEYS["ASIASESSION000000000"]


async def test_without_credentials_nothing_is_sent(store: Upstream) -> None:
    """A request would go out unsigned, and a public bucket take it."""
    async with serving_rig(Rig(storage(store.port))) as rig:
        rig.keys.now = Refused(Reason.CREDENTIALS_UNAVAILABLE)
        assert b"599" in await forwarded(rig, request())
        assert rig.refusals[0].reason is Reason.CREDENTIALS_UNAVAILABLE
    assert store.connections == 0


@pytest.mark.parametrize(("method", "framing"), (("PUT", "0"), ("POST", "0"), ("GET", None), ("DELETE", None)))
async def test_a_request_without_a_body_says_so_where_it_could_have_one(
    store: Upstream, method: str, framing: str | None
) -> None:
    """Stores answer 411 to a copy without a length, and to some a length on a GET is an attack."""
    async with serving_rig(Rig(storage(store.port))) as rig:
        rig.story = Story(operation=Operation.COPY_OBJECT if method == "PUT" else None)
        await forwarded(rig, request(method, headers="Content-Length: 0\r\n" if framing else ""))
    assert verified(store.requests[0]).header("content-length") == framing


@pytest.mark.parametrize("operation", (Operation.PUT_OBJECT, Operation.COMPLETE_MULTIPART_UPLOAD))
@pytest.mark.parametrize("own", ("", "if-none-MATCH: *\r\n"))
async def test_a_write_that_must_not_overwrite_is_guarded(store: Upstream, operation: Operation, own: str) -> None:
    """An object of a table that forbids it would be overwritten."""
    async with serving_rig(Rig(storage(store.port))) as rig:
        rig.story = Story(operation=operation, write_once=True)
        await forwarded(rig, request("PUT", headers=own, body=b"x"))
    received = verified(store.requests[0])
    assert received.head.lower().count(b"if-none-match: *\r\n") == 1
    assert "if-none-match" in (received.header("authorization") or "")


async def test_a_read_is_not_guarded(store: Upstream) -> None:
    """Nothing could be read from such a table."""
    async with serving_rig(Rig(storage(store.port))) as rig:
        rig.story = Story(write_once=True)
        await forwarded(rig, request())
    assert store.requests[0].header("if-none-match") is None


_TEXT = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=12)
_SEGMENT = st.text(st.sampled_from("abcXYZ019-._~%20%2F%C3%A4!*'():@&=+$,;"), min_size=1, max_size=8)


def _well_formed(segment: str) -> bool:
    parts = segment.split("%")[1:]
    if not all(len(part) >= 2 and set(part[:2]) <= set("0123456789ABCDEFabcdef") for part in parts):
        return False
    try:
        return bool(unquote_to_bytes(segment).decode().strip("."))
    except UnicodeDecodeError:
        return False


def test_the_store_sees_the_very_bytes_that_the_client_sent() -> None:
    """A character that one of them writes differently would make another object, or no object, of a key."""

    async def once(path: list[str], metadata: dict[str, str], body: bytes) -> None:
        target = "/data/" + "/".join(path)
        headers = "".join(f"x-amz-meta-{name}: {value}\r\n" for name, value in metadata.items())
        digest = hashlib.sha256(body).hexdigest()
        async with Upstream(serve) as upstream, serving_rig(Rig(storage(upstream.port))) as rig:
            sent = request("PUT", target, f"{headers}x-amz-content-sha256: {digest}\r\n", body)
            head = await forwarded(rig, sent)
            assert head.startswith(b"HTTP/1.1 200"), rig.refusals
        received = verified(upstream.requests[0])
        assert received.target == target
        assert received.body == body
        for name, value in metadata.items():
            assert received.header(f"x-amz-meta-{name}") == value.strip()

    @given(
        path=st.lists(_SEGMENT.filter(_well_formed), min_size=1, max_size=3),
        metadata=st.dictionaries(st.sampled_from("abcdef"), _TEXT, max_size=3),
        body=st.binary(max_size=200),
    )
    @settings(max_examples=40)
    def run(path: list[str], metadata: dict[str, str], body: bytes) -> None:
        asyncio.run(once(path, metadata, body))

    run()


# -- multipart uploads -----------------------------------------------------------------------------------------------

CREATED = (
    b"<?xml version='1.0'?><InitiateMultipartUploadResult><UploadId>up+/1</UploadId></InitiateMultipartUploadResult>"
)


async def create(rig: Rig, story: Story) -> str:
    rig.story = story
    async with connected(rig) as client:
        await client.send(request("POST", "/data/key?uploads", "Accept-Encoding: gzip\r\n"))
        _, body = await client.answer()
    return body.decode().partition("<UploadId>")[2].partition("</UploadId>")[0]


async def test_a_multipart_upload_goes_through_under_its_marked_id() -> None:
    """No large object could be written; or an id of one table would be good for another."""
    async with Upstream(serving(CREATED)) as store, serving_rig(Rig(storage(store.port))) as rig:
        upload_id = await create(rig, Story(operation=Operation.CREATE_MULTIPART_UPLOAD))
        assert upload_id.startswith("up+/1.")
        assert verified(store.requests[0]).header("accept-encoding") is None
        raw = upload_id.replace("+", "%2B").replace("/", "%2F")
        rig.story = Story(operation=Operation.UPLOAD_PART)
        target = f"/data/key?partNumber=1&uploadId={raw}&x-id=UploadPart"
        assert b" 200 " in await forwarded(rig, request("PUT", target, body=b"part"))
        assert verified(store.requests[1]).target == "/data/key?partNumber=1&uploadId=up%2B%2F1&x-id=UploadPart"
        for story in (Story(operation=Operation.UPLOAD_PART, table="t2"), Story(operation=Operation.UPLOAD_PART)):
            rig.story = story
            other = target if story.table == "t2" else target.replace("/key", "/key2")
            assert b" 599 " in await forwarded(rig, request("PUT", other, body=b"part"))
            assert rig.refusals[-1].reason is Reason.UPLOAD_ID
        assert len(store.requests) == 2


async def test_uploads_of_a_volume_and_of_a_table_are_told_apart() -> None:
    """A volume that is named as a table is would share its uploads."""
    async with Upstream(serving(CREATED)) as store, serving_rig(Rig(storage(store.port))) as rig:
        volume = Story(operation=Operation.CREATE_MULTIPART_UPLOAD, table="", volume="t1")
        nobody = Story(operation=Operation.CREATE_MULTIPART_UPLOAD, table="")
        ids = [await create(rig, story) for story in (volume, nobody, Story(operation=volume.operation))]
        assert len({*ids}) == 3


async def test_an_error_instead_of_an_upload_comes_untouched() -> None:
    """The client would be told of a broken store where it may not write."""
    document = b"<Error><Code>AccessDenied</Code></Error>"
    async with (
        Upstream(serving(document, status="403 Forbidden")) as store,
        serving_rig(Rig(storage(store.port))) as rig,
        connected(rig) as client,
    ):
        rig.story = Story(operation=Operation.CREATE_MULTIPART_UPLOAD)
        await client.send(request("POST", "/data/key?uploads"))
        assert (await client.answer())[1] == document


def _coded() -> Script:
    return serving(CREATED, "Content-Encoding: gzip\r\n")


def _huge() -> Script:
    return serving(b"<x>" + b"y" * (5 * 1024 * 1024))


async def _cut(talk: Talk) -> None:
    await talk.request()
    await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n<Initiate")


@pytest.mark.parametrize("script", (_coded(), _huge(), _cut, serving(b"<nothing/>")))
async def test_an_answer_that_cannot_be_marked_is_an_error_of_the_store(script: Script) -> None:
    """A client would get an id that is not accepted, or half of an answer."""
    async with Upstream(script) as store, serving_rig(Rig(storage(store.port))) as rig:
        rig.story = Story(operation=Operation.CREATE_MULTIPART_UPLOAD)
        assert b" 599 " in await forwarded(rig, request("POST", "/data/key?uploads"))
        assert rig.refusals[0].reason is Reason.STORE_INVALID
        assert rig.pool.open == 0


# -- bulk deletes ----------------------------------------------------------------------------------------------------

DELETE = (
    b'<?xml version="1.0"?><Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    b"<Object><Key>wh/t1/a&amp;b</Key></Object>\n<Object>\n<Key>wh/t2/x&lt;</Key></Object>"
    b"<Object><Key>wh/t1/c</Key></Object></Delete>"
)
DECLARED = b'<?xml version="1.0" encoding="UTF-8"?>\n'
RESULT = b'<?xml version="1.0"?>\n<DeleteResult xmlns="x"><Deleted><Key>wh/t1/a&amp;b</Key></Deleted></DeleteResult>\n'
_SENT = b'<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">%b</Delete>'
WHOLE = _SENT % (
    b"<Object><Key>wh/t1/a&amp;b</Key></Object><Object><Key>wh/t2/x&lt;</Key></Object>"
    b"<Object><Key>wh/t1/c</Key></Object>"
)
CUT = WHOLE.replace(b"<Object><Key>wh/t2/x&lt;</Key></Object>", b"")
EVERY = ("wh/t1/a&b", "wh/t2/x<", "wh/t1/c")


def bulk(
    *,
    refused: tuple[RefusedKey, ...] = (),
    allowed: tuple[str, ...] = ("wh/t1/a&b", "wh/t1/c"),
    document: bytes = DELETE,
) -> Story:
    return Story(operation=Operation.DELETE_OBJECTS, document=document, refused=refused, delete_keys=allowed)


def declared(body: bytes) -> dict[str, str]:
    """Return what clients declare of a body."""
    return {
        "Content-MD5": b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode(),
        "x-amz-checksum-crc32": b64encode(zlib.crc32(body).to_bytes(4, "big")).decode(),
    }


async def test_a_bulk_delete_is_written_from_what_was_judged_and_all_that_is_said_of_it_is_true() -> None:
    """What another reader finds in the client's own bytes would be deleted, whatever was judged."""
    lines = "".join([f"{name}: {value}\r\n" for name, value in declared(DELETE).items()])
    async with (
        Upstream(serving(RESULT)) as store,
        serving_rig(Rig(storage(store.port))) as rig,
        connected(rig) as client,
    ):
        rig.story = bulk(allowed=EVERY)
        await client.send(request("POST", "/data?delete", f"{lines}x-amz-sdk-checksum-algorithm: CRC32\r\n", DELETE))
        assert (await client.answer())[1] == RESULT
    received = verified(store.requests[0])
    assert received.body == WHOLE
    for name, value in declared(WHOLE).items():
        assert received.header(name.lower()) == value
    assert received.header("x-amz-sdk-checksum-algorithm") == "CRC32"
    assert received.header("x-amz-content-sha256") == hashlib.sha256(WHOLE).hexdigest()
    assert rig.outcomes[0].bytes_in == len(WHOLE)


async def test_conditions_and_repeats_are_sent_as_they_came() -> None:
    """The newest version would be deleted in place of the one that was named."""
    named = b"<Object><Key>k</Key><VersionId>v&#49;</VersionId></Object><Object><Key>k</Key><ETag>e</ETag></Object>"
    document = b"<Delete><Quiet>true</Quiet>" + named + named + b"</Delete>"
    async with Upstream(serving(RESULT)) as store, serving_rig(Rig(storage(store.port))) as rig:
        rig.story = bulk(allowed=("k",), document=document)
        await forwarded(rig, request("POST", "/data?delete", body=document))
    assert verified(store.requests[0]).body == _SENT % (named.replace(b"&#49;", b"1") * 2 + b"<Quiet>true</Quiet>")


async def test_a_checksum_that_is_not_computed_here_is_replaced_by_one_that_is() -> None:
    """It is one of the client's own bytes, which the store never sees: every bulk delete of such a client fails."""
    headers = "X-Amz-Checksum-XXHash64: AAAAAAAAAAA=\r\nx-amz-sdk-checksum-algorithm: XXHASH64\r\n"
    async with Upstream(serving(RESULT)) as store, serving_rig(Rig(storage(store.port))) as rig:
        rig.story = bulk(allowed=EVERY)
        await forwarded(rig, request("POST", "/data?delete", headers, DELETE))
    received = verified(store.requests[0])
    assert received.header("x-amz-checksum-xxhash64") is None
    assert received.header("x-amz-sdk-checksum-algorithm") is None
    assert received.header("content-md5") == declared(WHOLE)["Content-MD5"]
    assert "content-md5;" in (received.header("authorization") or "")


@pytest.mark.parametrize(
    ("result", "merged"),
    (
        (RESULT, RESULT.replace(b"</DeleteResult>", b"{errors}</DeleteResult>")),
        (b"<DeleteResult></DeleteResult>", b"<DeleteResult>{errors}</DeleteResult>"),
        (
            b"<DeleteResult><!--</DeleteResult>--><Deleted/></DeleteResult >\n<!-- -->",
            b"<DeleteResult><!--</DeleteResult>--><Deleted/>{errors}</DeleteResult >\n<!-- -->",
        ),
        (
            b'<?xml version="1.0"?><DeleteResult xmlns="x" />\n',
            DECLARED + b'<DeleteResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{errors}</DeleteResult>',
        ),
    ),
)
async def test_refused_keys_are_left_out_and_reported_beside_the_others(result: bytes, merged: bytes) -> None:
    """Another table's object would be deleted; or a job would believe that it was."""
    refused = (RefusedKey("wh/t2/x<", Reason.NO_WRITE_DATA),)
    lines = "".join([f"{name}: {value}\r\n" for name, value in declared(DELETE).items()])
    async with (
        Upstream(serving(result)) as store,
        serving_rig(Rig(storage(store.port))) as rig,
        connected(rig) as client,
    ):
        rig.story = bulk(refused=refused)
        await client.send(request("POST", "/data?delete", lines, DELETE))
        _, body = await client.answer()
    received = verified(store.requests[0])
    assert received.body == CUT
    for name, value in declared(CUT).items():
        assert received.header(name.lower()) == value
    message = Reason.NO_WRITE_DATA.value.message
    errors = f"<Error><Key>wh/t2/x&lt;</Key><Code>AccessDenied</Code><Message>{message}</Message></Error>".encode()
    assert body == merged.replace(b"{errors}", errors)


async def test_a_key_that_is_too_long_is_reported_as_s3_reports_it() -> None:
    """The client looks its key up in the answer, and takes what it does not find there for deleted."""
    key = "wh/t1/&\u20ac" + "a" * 1111
    document = f"<Delete><Object><Key>a</Key></Object><Object><Key>{escape(key)}</Key></Object></Delete>".encode()
    async with (
        Upstream(serving(b"<DeleteResult><Deleted><Key>a</Key></Deleted></DeleteResult>")) as store,
        serving_rig(Rig(storage(store.port))) as rig,
        connected(rig) as client,
    ):
        rig.story = bulk(refused=(RefusedKey(key, Reason.KEY_TOO_LONG),), allowed=("a",), document=document)
        await client.send(request("POST", "/data?delete", body=document))
        _, body = await client.answer()
    assert verified(store.requests[0]).body == _SENT % b"<Object><Key>a</Key></Object>"
    (error,) = ElementTree.fromstring(body).iterfind("Error")  # noqa: S314 - of our own server
    told = [error.findtext(name) for name in ("Key", "Code", "Message")]
    assert told == [key, "KeyTooLongError", "The key is longer than 1,024 bytes"]


async def test_each_refused_object_is_reported_with_its_version() -> None:
    """A client that deletes versions would take all of one key's for deleted but one."""
    named = b"<Object><Key>k</Key><VersionId>v</VersionId></Object><Object><Key>k</Key></Object>"
    document = b"<Delete><Object><Key>a</Key></Object>" + named + b"</Delete>"
    async with (
        Upstream(serving(b"<DeleteResult></DeleteResult>")) as store,
        serving_rig(Rig(storage(store.port))) as rig,
        connected(rig) as client,
    ):
        rig.story = bulk(refused=(RefusedKey("k", Reason.NO_WRITE_DATA),), allowed=("a",), document=document)
        await client.send(request("POST", "/data?delete", body=document))
        _, body = await client.answer()
    told = [(each.findtext("Key"), each.findtext("VersionId")) for each in ElementTree.fromstring(body)]  # noqa: S314
    assert told == [("k", "v"), ("k", None)]


@pytest.mark.parametrize(
    ("header", "reason"),
    (("Content-MD5", Reason.CONTENT_MD5), ("x-amz-checksum-crc32", Reason.CHECKSUM_MISMATCH)),
)
@pytest.mark.parametrize("refused", ((), (RefusedKey("wh/t2/x<", Reason.NO_WRITE_DATA),)))
async def test_what_a_client_declares_of_a_bulk_delete_is_compared_before_it_is_written_anew(
    store: Upstream, header: str, reason: Reason, refused: tuple[RefusedKey, ...]
) -> None:
    """The store sees another body: an altered list of keys would be deleted although the client's checksum tells."""
    async with serving_rig(Rig(storage(store.port))) as rig:
        rig.story = bulk(refused=refused)
        assert b" 599 " in await forwarded(rig, request("POST", "/data?delete", f"{header}: AAAAAA==\r\n", DELETE))
        assert rig.refusals[0].reason is reason
    assert not store.requests


@pytest.mark.parametrize("document", (b"<html>", b"<html/>", b"\xff", b"<!DOCTYPE DeleteResult><DeleteResult/>"))
async def test_an_answer_that_is_no_result_is_not_taken_for_one(document: bytes) -> None:
    """A job would believe that its objects are gone."""
    async with Upstream(serving(document)) as store, serving_rig(Rig(storage(store.port))) as rig:
        rig.story = bulk(refused=(RefusedKey("wh/t2/x<", Reason.NO_WRITE_DATA),))
        assert b" 599 " in await forwarded(rig, request("POST", "/data?delete", body=DELETE))
        assert rig.refusals[0].reason is Reason.STORE_INVALID


async def test_a_stores_refusal_of_a_cut_bulk_delete_comes_as_it_is() -> None:
    """The client would be told of a result where there was none."""
    async with (
        Upstream(serving(b"<Error/>", status="403 Forbidden")) as store,
        serving_rig(Rig(storage(store.port))) as rig,
        connected(rig) as client,
    ):
        rig.story = bulk(refused=(RefusedKey("wh/t2/x<", Reason.NO_WRITE_DATA),))
        await client.send(request("POST", "/data?delete", body=DELETE))
        head, body = await client.answer()
        assert (head[:12], body) == (b"HTTP/1.1 403", b"<Error/>")
