"""Bodies of uploads in each of S3's payload modes: sent on as they are if they are true, and else no object at all."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import zlib
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import NamedTuple

import msgspec
import pytest

from signproxy.errors import Reason
from signproxy.s3.operation import Operation
from signproxy.s3.payload import Carriage, Payload, PayloadMode, payload_of
from signproxy.s3.request import ObjectRef
from signproxy.s3.sigv4 import ALGORITHM, amz_date, derive
from signproxy.s3.storage import Storage
from signproxy.s3.verify import SeedSignature
from tests.forward.rig import NOW, QUICK, Client, Rig, Story, connected, request, serving_rig, storage
from tests.forward.test_requests import verified
from tests.forward.upstream import OK, Talk, Upstream, serve

SMALL, LARGE = b"small body", b"0123456789abcdef" * 20_000
SIZES = pytest.mark.parametrize("body", (SMALL, b"x" * 65_536, b"y" * 65_537, LARGE))


def lax(store: Upstream) -> Storage:
    """Return a store that does not look at what it gets."""
    return storage(store.port, looks=False)


def sha(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def crc(body: bytes) -> str:
    return b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()


def md5(body: bytes) -> str:
    return b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()


def http_chunked(body: bytes, size: int = 50_000) -> bytes:
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


async def put(client: Client, headers: str, body: bytes, *, chunked: bool = False) -> bytes:
    """Send an upload and return the head of its answer, or the code of its refusal."""
    if chunked:
        await client.send(request("PUT", headers=f"{headers}Transfer-Encoding: chunked\r\n") + http_chunked(body))
    else:
        await client.send(request("PUT", headers=headers, body=body))
    head, refusal = await client.answer()
    return refusal or head


@contextlib.asynccontextmanager
async def nothing_stored() -> AsyncIterator[Upstream]:
    """Run a store that must not get a whole body."""
    whole: list[bytes] = []

    async def script(talk: Talk) -> None:
        received = await talk.request()
        whole.append(received.body)
        await talk.answer()

    async with Upstream(script) as store:
        yield store
    assert not whole, "the store got all of a body that was refused"


# -- plain bodies ----------------------------------------------------------------------------------------------------


@SIZES
@pytest.mark.parametrize("declared", ("UNSIGNED-PAYLOAD", "sha256"))
async def test_a_true_body_arrives_whole(body: bytes, declared: str) -> None:
    """No object could be written, or another one than was sent."""
    declared = sha(body) if declared == "sha256" else declared
    async with Upstream(serve) as store, serving_rig(Rig(storage(store.port))) as rig, connected(rig) as client:
        for _ in range(2):
            assert b" 200 " in await put(
                client, f"x-amz-content-sha256: {declared}\r\nContent-MD5: {md5(body)}\r\n", body
            )
        assert store.connections == 1
        received = verified(store.requests[0])
        assert received.body == body
        assert received.header("x-amz-content-sha256") == declared
        assert received.header("content-md5") == md5(body)
        assert rig.outcomes[0].bytes_in == len(body)
        assert rig.outcomes[0].checksum == ("" if declared == "UNSIGNED-PAYLOAD" else "sha256")
        assert rig.outcomes[0].payload == ("unsigned" if declared == "UNSIGNED-PAYLOAD" else "hashed")


@SIZES
async def test_a_body_that_is_not_the_declared_one_is_never_stored(body: bytes) -> None:
    """A store that does not look would keep what the caller never signed."""
    async with nothing_stored() as store, serving_rig(Rig(storage(store.port))) as rig, connected(rig) as client:
        wrong = bytes([body[0] ^ 1]) + body[1:]
        assert await put(client, f"x-amz-content-sha256: {sha(body)}\r\n", wrong) == b"payload_hash"
        assert rig.pool.open == rig.pool.idle


async def test_no_body_is_not_the_declared_one_either() -> None:
    """An empty object would take the place of the one that was signed."""
    async with nothing_stored() as store, serving_rig(Rig(storage(store.port))) as rig, connected(rig) as client:
        headers = f"x-amz-content-sha256: {sha(SMALL)}\r\nContent-Length: 0\r\n"
        assert await put(client, headers, b"") == b"payload_hash"
    async with Upstream(serve) as empty, serving_rig(Rig(storage(empty.port))) as rig, connected(rig) as client:
        headers = f"x-amz-content-sha256: {sha(b'')}\r\nContent-Length: 0\r\n"
        assert b" 200 " in await put(client, headers, b"")


@SIZES
@pytest.mark.parametrize(
    ("header", "reason"),
    (
        ("Content-MD5: {md5}", "content_md5"),
        ("x-amz-checksum-crc32: {crc}", "checksum_mismatch"),
        ("X-Amz-Checksum-SHA256: {sha}", "checksum_mismatch"),
    ),
)
async def test_where_the_store_does_not_look_signproxy_does(body: bytes, header: str, reason: str) -> None:
    """Damaged objects would be stored under the checksum of whole ones."""
    sha256 = b64encode(hashlib.sha256(body).digest()).decode()
    line = header.format(md5=md5(body), crc=crc(body), sha=sha256) + "\r\nx-amz-checksum-algorithm: CRC32\r\n"
    wrong = body[:-1] + b"!"
    async with (
        Upstream(serve) as store,
        serving_rig(Rig(lax(store))) as rig,
        connected(rig) as client,
    ):
        assert b" 200 " in await put(client, line, body)
        assert store.requests[0].body == body
        assert rig.outcomes[0].checksum
    async with (
        nothing_stored() as store,
        serving_rig(Rig(lax(store))) as rig,
        connected(rig) as client,
    ):
        assert await put(client, line, wrong) == reason.encode()
    # A store that looks is left to do so.
    async with Upstream(serve) as store, serving_rig(Rig(storage(store.port))) as rig, connected(rig) as client:
        assert b" 200 " in await put(client, line, wrong)


@SIZES
async def test_everything_that_is_said_of_a_body_has_to_be_true(body: bytes) -> None:
    """One true checksum would cover for a wrong one."""
    lines = ("x-amz-content-sha256: {sha}", "Content-MD5: {md5}", "x-amz-checksum-crc32: {crc}")
    true, other = ({"sha": sha(data), "md5": md5(data), "crc": crc(data)} for data in (body, b"other"))
    async with Upstream(serve) as store, serving_rig(Rig(lax(store))) as rig, connected(rig) as client:
        assert b" 200 " in await put(client, "".join(f"{line.format(**true)}\r\n" for line in lines), body)
        assert rig.outcomes[0].checksum == "sha256,md5,crc32"
    for wrong, reason in zip(lines, ("payload_hash", "content_md5", "checksum_mismatch"), strict=True):
        headers = "".join(f"{line.format(**(other if line == wrong else true))}\r\n" for line in lines)
        async with nothing_stored() as store, serving_rig(Rig(lax(store))) as rig, connected(rig) as client:
            assert await put(client, headers, body) == reason.encode()


async def test_the_checksum_of_a_completed_upload_is_not_that_of_its_document() -> None:
    """No multipart upload with checksums could be completed."""
    async with (
        Upstream(serve) as store,
        serving_rig(Rig(lax(store))) as rig,
        connected(rig) as client,
    ):
        rig.story = Story(operation=Operation.COMPLETE_MULTIPART_UPLOAD)
        assert b" 200 " in await put(client, f"x-amz-checksum-crc32: {crc(b'the object')}\r\n", b"<Complete/>")


@SIZES
async def test_a_body_of_unknown_length_goes_in_chunks_where_the_store_takes_them(body: bytes) -> None:
    """A stream could not be uploaded, or would be stored with its framing."""
    headers = f"x-amz-content-sha256: {sha(body)}\r\n"
    async with (
        Upstream(serve) as store,
        serving_rig(Rig(storage(store.port, accepts_chunked_transfer=True))) as rig,
        connected(rig) as client,
    ):
        assert b" 200 " in await put(client, headers, body, chunked=True)
        assert verified(store.requests[0]).body == body
    async with (
        nothing_stored() as store,
        serving_rig(Rig(storage(store.port, accepts_chunked_transfer=True))) as rig,
        connected(rig) as client,
    ):
        assert await put(client, headers, body + b"!", chunked=True) == b"payload_hash"
    async with nothing_stored() as store, serving_rig(Rig(storage(store.port))) as rig, connected(rig) as client:
        assert await put(client, headers, body, chunked=True) == b"length_required"
        assert store.connections == 0


@pytest.mark.parametrize("chunked", (False, True))
async def test_no_request_follows_one_in_chunks_on_a_connection_to_the_store(chunked: bool) -> None:
    """Versitygw may take the end of the chunks for the next request: that one's caller would get the answer to it."""
    body = b"x" * 300_000
    async with (
        Upstream(serve) as store,
        serving_rig(Rig(storage(store.port, accepts_chunked_transfer=True))) as rig,
        connected(rig) as client,
    ):
        for _ in range(2):
            assert b" 200 " in await put(client, f"x-amz-content-sha256: {sha(body)}\r\n", body, chunked=chunked)
        assert store.connections == (2 if chunked else 1)


@pytest.mark.parametrize("chunked", (False, True))
async def test_a_body_beyond_the_limit_is_refused(chunked: bool) -> None:
    """One upload could fill the store."""
    rig = Rig(storage(0, accepts_chunked_transfer=True))
    rig.max_body = 100_000
    async with nothing_stored() as store:
        rig.store = storage(store.port, accepts_chunked_transfer=True)
        rig.forwarder = rig.forwarder_now()
        async with serving_rig(rig), connected(rig) as client:
            size = 100_001 if not chunked else 600_000
            assert await put(client, "", b"x" * size, chunked=chunked) == b"entity_too_large"


@pytest.mark.parametrize("method", ("DELETE", "PUT"))
async def test_a_body_where_none_belongs_is_refused(method: str) -> None:
    """Stores disagree on what such a body means; one would take a copy for an upload."""
    async with nothing_stored() as store, serving_rig(Rig(storage(store.port))) as rig, connected(rig) as client:
        rig.story = Story(copy_source=ObjectRef("data", "other") if method == "PUT" else None)
        await client.send(request(method, body=b"body"))
        assert (await client.answer())[1] == b"body_unexpected"


# -- 100-continue ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", (SMALL, LARGE))
async def test_a_client_that_waits_is_invited_once_it_may_send(body: bytes) -> None:
    """boto3 waits a second for it with each upload, and sends its body to a refusal without it."""
    async with Upstream(serve) as store, serving_rig(Rig(storage(store.port))) as rig, connected(rig) as client:
        for _ in range(2):
            headers = f"Expect: 100-continue\r\nContent-Length: {len(body)}\r\n"
            await client.send(request("PUT", headers=headers))
            assert await client.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
            await client.send(body)
            assert (await client.head()).startswith(b"HTTP/1.1 200")
        assert store.requests[1].body == body
        assert store.requests[1].header("expect") is None


async def test_a_client_that_waits_for_a_store_that_is_not_there_never_sends() -> None:
    """Gigabytes would be sent to learn that there is no store."""
    async with Upstream(serve) as store:
        port = store.port
    async with serving_rig(Rig(storage(port))) as rig, connected(rig) as client:
        await client.send(request("PUT", headers=f"Expect: 100-continue\r\nContent-Length: {len(LARGE)}\r\n"))
        assert (await client.answer())[1] == b"store_unavailable"


# -- aws-chunked -----------------------------------------------------------------------------------------------------


class Framed(NamedTuple):
    """A body in chunks, and what the request says of it."""

    body: bytes
    payload: Payload
    headers: str
    seed: SeedSignature | None = None


def story(framed: Framed) -> Story:
    return Story(payload=framed.payload, seed=framed.seed)


def unsigned(
    data: bytes, store: Storage, *, checksum: str | None = None, end: bool = True, size: int = 65_536
) -> Framed:
    """Frame data as boto3, PyArrow and the Java SDK do."""
    payload = payload_of(
        "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        "aws-chunked",
        "x-amz-checksum-crc32",
        str(len(data)),
        Operation.PUT_OBJECT,
        store,
    )
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    if end:
        body += f"0\r\nx-amz-checksum-crc32:{checksum or crc(data)}\r\n\r\n".encode()
    return Framed(body, payload, _headers(payload, len(data)))


def signed(data: bytes, store: Storage, *, tampered: bool = False, trailer: bool = False, size: int = 65_536) -> Framed:
    """Frame data as older SDKs do over plain HTTP."""
    day = derive("AKID", "secret", "20270115", "us-east-1", "s3")
    seed = SeedSignature("ab" * 32, amz_date(int(NOW)), day)
    mode = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" + ("-TRAILER" if trailer else "")
    name = "x-amz-checksum-crc32" if trailer else ""
    payload = payload_of(mode, "aws-chunked", name, str(len(data)), Operation.PUT_OBJECT, store)
    previous, body = seed.signature, b""
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    for part in [*parts, b""]:
        text = f"{ALGORITHM}-PAYLOAD\n{seed.amz_date}\n{day.scope}\n{previous}\n{sha(b'')}\n{sha(part)}"
        previous = day.mac(text.encode())
        content = part[:-1] + b"!" if tampered and part is parts[-1] else part
        body += f"{len(part):x};chunk-signature={previous}\r\n".encode() + content + (b"\r\n" if part else b"")
    if trailer:
        line = f"{name}:{crc(data)}"
        digest = sha(f"{line}\n".encode())
        text = f"{ALGORITHM}-TRAILER\n{seed.amz_date}\n{day.scope}\n{previous}\n{digest}"
        body += f"{line}\r\nx-amz-trailer-signature:{day.mac(text.encode())}\r\n".encode()
    return Framed(body + b"\r\n", payload, _headers(payload, len(data)), seed)


def _headers(payload: Payload, decoded: int) -> str:
    """Return the headers that the S3 grammar leaves of those of a framed body."""
    if payload.carriage is Carriage.DECODED:
        return ""
    trailer = f"x-amz-trailer: {payload.trailer}\r\n"
    return f"Content-Encoding: aws-chunked\r\nx-amz-decoded-content-length: {decoded}\r\n{trailer}"


def decoded(body: bytes) -> tuple[bytes, bytes]:
    """Take unsigned chunks apart; return data and trailer."""
    data = b""
    while True:
        line, _, body = body.partition(b"\r\n")
        size = int(line, 16)
        if not size:
            return data, body
        data, body = data + body[:size], body[size + 2 :]


TRUSTED = storage(0, accepts_chunked_transfer=True)
WITHOUT_CHUNKED_TRANSFER = storage(0)
TRUSTLESS = storage(0, looks=False)


@SIZES
@pytest.mark.parametrize("chunked", (False, True))
@pytest.mark.parametrize("kind", (TRUSTED, WITHOUT_CHUNKED_TRANSFER, TRUSTLESS))
@pytest.mark.parametrize("how", ("unsigned", "signed", "signed with trailer"))
async def test_chunks_arrive_as_the_store_can_take_them(body: bytes, chunked: bool, kind: Storage, how: str) -> None:
    """The framing would be stored as data, the upload be refused, or its checksum be lost."""
    async with Upstream(serve) as store:
        target = msgspec.structs.replace(kind, endpoints=storage(store.port).endpoints)
        framed = unsigned(body, target) if how == "unsigned" else signed(body, target, trailer="trailer" in how)
        async with serving_rig(Rig(target)) as rig, connected(rig) as client:
            rig.story = story(framed)
            for _ in range(2):
                assert b" 200 " in await put(client, framed.headers, framed.body, chunked=chunked)
            # None follows what went in chunks of its own.
            in_chunks = b"transfer-encoding" in store.requests[0].head.lower()
            assert store.connections == (2 if in_chunks else 1)
            payload = rig.outcomes[0].payload
        received = verified(store.requests[0])
        assert b"chunk-signature" not in received.body
        if framed.payload.carriage is Carriage.DECODED:
            assert received.body == body
            assert received.header("x-amz-content-sha256") == "UNSIGNED-PAYLOAD"
        else:
            data, trailer = decoded(received.body)
            assert data == body
            assert trailer == f"x-amz-checksum-crc32:{crc(body)}\r\n\r\n".encode()
            assert received.header("x-amz-content-sha256") == "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
        if framed.payload.carriage is Carriage.AS_SENT:
            assert received.body == framed.body
        assert (
            payload
            == {
                "unsigned": "unsigned-trailer",
                "signed": "signed-chunks",
                "signed with trailer": "signed-chunks-trailer",
            }[how]
        )


async def test_an_answer_at_the_end_of_the_chunks_counts_once_the_message_has_ended() -> None:
    """Stores answer when S3's own chunks end; streams failed with 502 where the end around them came a moment later."""
    answered = asyncio.Event()

    async def script(talk: Talk) -> None:
        for _ in range(2):
            await talk.head()
            got = b""
            while b"x-amz-checksum-crc32:" not in got:
                got += await talk.reader.read(65_536)
            await talk.send(OK)
            answered.set()
            while not got.endswith(b"\r\n0\r\n\r\n"):
                got += await talk.reader.read(65_536)

    async with Upstream(script) as store:
        framed = unsigned(b"x" * 300_000, msgspec.structs.replace(TRUSTED, endpoints=storage(store.port).endpoints))
        target = msgspec.structs.replace(TRUSTED, endpoints=storage(store.port).endpoints)
        async with serving_rig(Rig(target)) as rig, connected(rig) as client:
            rig.story = story(framed)
            for _ in range(2):
                answered.clear()
                message = http_chunked(framed.body)
                head = request("PUT", headers=f"{framed.headers}Transfer-Encoding: chunked\r\n")
                await client.send(head + message.removesuffix(b"0\r\n\r\n"))
                async with asyncio.timeout(10):
                    await answered.wait()
                await asyncio.sleep(0.05)
                await client.send(b"0\r\n\r\n")
                assert (await client.answer())[0].startswith(b"HTTP/1.1 200")
        # A store that reads no further than the chunks of S3 would take the rest for the next request.
        assert store.connections == 2


@SIZES
@pytest.mark.parametrize("kind", (WITHOUT_CHUNKED_TRANSFER, TRUSTLESS))
@pytest.mark.parametrize(
    ("fault", "reason"),
    (
        ("checksum", Reason.CHECKSUM_MISMATCH),
        ("end", Reason.CHUNK_INCOMPLETE),
        ("signature", Reason.CHUNK_SIGNATURE),
        ("length", Reason.CHUNK_MALFORMED),
    ),
)
async def test_chunks_that_are_not_true_leave_no_object(body: bytes, kind: Storage, fault: str, reason: Reason) -> None:
    """Stores that do not look keep damaged, cut or forged objects."""
    async with nothing_stored() as store:
        target = msgspec.structs.replace(kind, endpoints=storage(store.port).endpoints)
        match fault:
            case "checksum":
                framed = unsigned(body, target, checksum=crc(b"other"))
            case "end":
                framed = unsigned(body, target, end=False)
            case "signature":
                framed = signed(body, target, tampered=True)
            case _:
                framed = unsigned(body + b"!", target)
                framed = framed._replace(payload=msgspec.structs.replace(framed.payload, decoded_length=len(body)))
        async with serving_rig(Rig(target)) as rig, connected(rig) as client:
            rig.story = story(framed)
            answered = await put(client, framed.headers, framed.body)
            assert rig.refusals, answered
            assert rig.refusals[0].reason in (reason, Reason.CHUNK_INCOMPLETE)


async def test_framing_without_end_is_not_collected() -> None:
    """Chunks of a byte each would make a small body as large as the sender likes."""
    async with (
        nothing_stored() as store,
        serving_rig(Rig(lax(store))) as rig,
        connected(rig) as client,
    ):
        framed = unsigned(b"x" * 60_000, rig.store, size=1)
        rig.story = story(framed)
        answered = await put(client, framed.headers, framed.body)
        assert answered == b"chunk_malformed"


async def test_a_stalled_framed_body_is_cut_off() -> None:
    """A client that never sends its last chunk would hold a connection to the store."""
    async with nothing_stored() as store, serving_rig(Rig(storage(store.port))) as rig, connected(rig) as client:
        framed = unsigned(LARGE, rig.store)
        rig.story = story(framed)
        await client.send(
            request("PUT", headers=f"{framed.headers}Content-Length: {len(framed.body)}\r\n") + framed.body[:-9]
        )
        async with asyncio.timeout(QUICK.client_idle + 2):
            assert (await client.answer())[1] == b"body_stalled"


def test_the_modes_of_these_tests_are_all_modes_with_a_body() -> None:
    """A mode that S3 adds would go untested."""
    assert {mode.value for mode in PayloadMode} == {
        "unsigned",
        "hashed",
        "unsigned-trailer",
        "signed-chunks",
        "signed-chunks-trailer",
    }
