"""What a client gets of a store's answer, whatever kind of answer it is."""

from __future__ import annotations

import asyncio
import os

import pytest

from signproxy.audit.event import Verdict
from signproxy.errors import Reason
from signproxy.s3.operation import Operation
from tests.forward.rig import EVENT_ID, REQUEST_ID, Rig, Story, connected, request, serving_rig, storage
from tests.forward.upstream import OK, Script, Talk, Upstream, serve, serving
from tests.waiting import at_rest, until


async def test_a_small_answer_comes_as_the_store_wrote_it() -> None:
    """A client would miss the header that it looks for, or read a body that is not the object's."""
    headers = 'ETag: "abc"\r\nX-Amz-Meta-Name: \xc3\xa4 \xff\r\nContent-Encoding: gzip\r\nServer: S\r\n'
    async with Upstream(serving(b"\x1f\x8bgzip", headers)) as store, serving_rig(Rig(storage(store.port))) as rig:
        async with connected(rig) as client:
            for _ in range(3):
                await client.send(request())
                head, body = await client.answer()
                assert body == b"\x1f\x8bgzip"
                assert head.startswith(b"HTTP/1.1 200 OK\r\nx-amz-request-id: UP1\r\n" + headers.encode("latin-1"))
                assert head.count(b"Content-Length: 6\r\n") == 1
                assert head.endswith(f"x-signproxy-event-id: {EVENT_ID}\r\n\r\n".encode())
        assert store.connections == 1
        outcome = rig.outcomes[-1]
        assert (outcome.status, outcome.upstream_status, outcome.bytes_out, outcome.bytes_in) == (200, 200, 6, 0)
        assert outcome.upstream_request_id == "UP1"
        assert (outcome.verdict, outcome.reason, outcome.aborted) == (Verdict.ALLOW, Reason.ALLOWED, "")


@pytest.mark.parametrize("size", (0, 1, 65_535, 65_536, 65_537, 300_000, 3_000_000))
async def test_bodies_of_any_size_arrive_whole_and_leave_the_connections_in_use(size: int) -> None:
    """A boundary between the ways that bodies take would cut or repeat bytes."""
    content = os.urandom(size)
    async with Upstream(serving(content)) as store, serving_rig(Rig(storage(store.port))) as rig:
        async with connected(rig) as client:
            for _ in range(3):
                await client.send(request())
                _, body = await client.answer()
                assert body == content
        assert store.connections == 1
        assert [outcome.bytes_out for outcome in rig.outcomes] == [size] * 3


@pytest.mark.parametrize("pause", (0.0, 0.05))
async def test_a_small_answer_whose_body_comes_later_is_one_piece_all_the_same(pause: float) -> None:
    """Each object of a table of small files would cost the client two packets instead of one."""

    async def script(talk: Talk) -> None:
        while True:
            await talk.request()
            await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n")
            await asyncio.sleep(pause)
            await talk.send(b"data")

    async with Upstream(script) as store, serving_rig(Rig(storage(store.port))) as rig, connected(rig) as client:
        await client.send(request())
        first = await client.reader.read(65_536)
        assert first.endswith(b"\r\n\r\ndata")
        # The store gave no id of its own.
        assert f"x-amz-request-id: {REQUEST_ID}\r\n".encode() in first


@pytest.mark.parametrize(
    ("method", "answer", "expected"),
    (
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n", b"Content-Length: 5000\r\n"),
        ("HEAD", b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n", b"HTTP/1.1 404 Not Found\r\n"),
        ("DELETE", b"HTTP/1.1 204 No Content\r\nx-amz-version-id: 3\r\n\r\n", b"x-amz-version-id: 3\r\n"),
        ("GET", b'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\n\r\n', b'ETag: "x"\r\n'),
    ),
)
async def test_an_answer_without_a_body_ends_with_its_head(method: str, answer: bytes, expected: bytes) -> None:
    """A client, or signproxy itself, would wait for a body that never comes."""

    async def script(talk: Talk) -> None:
        while True:
            await talk.request()
            await talk.send(answer)

    async with Upstream(script) as store, serving_rig(Rig(storage(store.port))) as rig, connected(rig) as client:
        for _ in range(2):
            await client.send(request(method))
            assert expected in await client.head()
        assert store.connections == 1


async def test_a_chunked_answer_stays_chunked_and_hop_by_hop_headers_stay_behind() -> None:
    """A client would take the store's word about another connection for one about its own."""

    async def script(talk: Talk) -> None:
        while True:
            await talk.request()
            await talk.send(
                b"HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Hop, ETag\r\nKeep-Alive: timeout=5\r\nX-Hop: 1\r\n"
                b'ETag: "x"\r\nX-Signproxy-Event-Id: forged\r\nTransfer-Encoding: chunked\r\n\r\n'
                b"4\r\ndata\r\n"
            )
            await asyncio.sleep(0.02)
            await talk.send(b"1\r\n!\r\n0\r\n\r\n")

    async with Upstream(script) as store, serving_rig(Rig(storage(store.port))) as rig, connected(rig) as client:
        for _ in range(2):
            await client.send(request())
            head, body = await client.answer()
            assert body == b"data!"
            lowered = head.lower()
            assert b"keep-alive" not in lowered
            assert b"x-hop" not in lowered
            assert b"forged" not in lowered
            assert b'etag: "x"' in lowered
        assert store.connections == 1


async def test_a_body_that_ends_with_the_connection_is_sent_on_with_an_end_of_its_own() -> None:
    """A client could not tell a whole object from one that was cut off."""

    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.send(b"HTTP/1.0 200 OK\r\nETag: x\r\n\r\n" + b"d" * 100_000)

    async with Upstream(script) as store, serving_rig(Rig(storage(store.port))) as rig, connected(rig) as client:
        for _ in range(2):
            await client.send(request())
            head, body = await client.answer()
            assert b"HTTP/1.1 200" in head
            assert body == b"d" * 100_000
        # Neither connection could be used again.
        assert store.connections == 2
        await until(lambda: rig.pool.open == 0)


@pytest.mark.parametrize("status", ("301 Moved Permanently", "307 Temporary Redirect"))
async def test_a_redirect_is_the_clients_to_see_and_never_followed(status: str) -> None:
    """The signed request, and with it the object, would go to wherever a store points."""
    script = serving(b"<Error/>", "Location: http://127.0.0.1:1/elsewhere\r\nx-amz-bucket-region: r\r\n", status)
    async with Upstream(script) as store, serving_rig(Rig(storage(store.port))) as rig, connected(rig) as client:
        await client.send(request())
        head, body = await client.answer()
        assert head.startswith(f"HTTP/1.1 {status}".encode())
        assert b"Location: http://127.0.0.1:1/elsewhere\r\n" in head
        assert body == b"<Error/>"
        assert rig.outcomes[0].verdict is Verdict.ALLOW


@pytest.mark.parametrize("status", ("403 Forbidden", "404 Not Found", "412 Precondition Failed", "503 Slow Down"))
async def test_a_stores_own_refusal_comes_untouched(status: str) -> None:
    """A client would retry what is final, or give up what it should retry."""
    document = b"<Error><Code>X</Code></Error>"
    async with (
        Upstream(serving(document, "Content-Type: application/xml\r\nRetry-After: 3\r\n", status)) as store,
        serving_rig(Rig(storage(store.port))) as rig,
        connected(rig) as client,
    ):
        await client.send(request())
        head, body = await client.answer()
        assert head.startswith(f"HTTP/1.1 {status}\r\n".encode())
        assert b"Retry-After: 3\r\n" in head
        assert body == document
        assert rig.outcomes[0].upstream_status == int(status[:3])


async def test_interim_answers_are_for_this_connection_alone() -> None:
    """A client would take a 100 that it never asked for as its answer."""

    async def script(talk: Talk) -> None:
        while True:
            await talk.request()
            await talk.send(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK)

    async with Upstream(script) as store, serving_rig(Rig(storage(store.port))) as rig, connected(rig) as client:
        await client.send(request())
        head, _ = await client.answer()
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"Link" not in head


async def test_the_client_is_asked_to_close_where_the_connection_ends() -> None:
    """A client would send its next request into a connection that is closed."""
    async with Upstream(serve) as store, serving_rig(Rig(storage(store.port))) as rig, connected(rig) as client:
        await client.send(request(headers="Connection: close\r\n"))
        assert b"Connection: close\r\n" in await client.head()
        assert await client.rest() == b""


@pytest.mark.parametrize(
    ("document", "completed"),
    (
        (b"<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>", "completed"),
        (b"<Error><Code>InternalError</Code></Error>", "InternalError"),
    ),
)
async def test_a_completed_upload_streams_its_blanks_and_tells_what_became_of_it(
    document: bytes, completed: str
) -> None:
    """The client would give up while the store works, or the trail call a lost object complete."""

    async def script(talk: Talk) -> None:
        while True:
            await talk.request()
            # Longer than an ordinary head may take.
            await asyncio.sleep(0.5)
            await talk.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n     \r\n")
            await asyncio.sleep(0.1)
            await talk.send(b"%x\r\n%b\r\n0\r\n\r\n" % (len(document), document))

    async with Upstream(script) as store, serving_rig(Rig(storage(store.port))) as rig, connected(rig) as client:
        rig.story = Story(operation=Operation.COMPLETE_MULTIPART_UPLOAD)
        await client.send(request("POST", body=b"<CompleteMultipartUpload/>"))
        await client.head()
        assert await client.reader.readexactly(10) == b"5\r\n     \r\n"
        async with asyncio.timeout(1):
            await client.reader.readuntil(b"0\r\n\r\n")
        await until(lambda: bool(rig.outcomes))
        assert rig.outcomes[0].completed == completed
        assert rig.outcomes[0].status == 200


_COMPLETED = (
    b"<CompleteMultipartUploadResult><Location>http://10.0.0.7:9000/data/key</Location><Key>key</Key>"
    b"</CompleteMultipartUploadResult>"
)


@pytest.mark.parametrize("spelled", (b"<Location>", b"<Location >", b'<Location xmlns="">', b"<!-- a --><Location>"))
@pytest.mark.parametrize("chunks", (0, 1, 7, 4096), ids=("sized", "by one", "by seven", "at once"))
async def test_a_completed_upload_is_where_the_client_asked_for_it(chunks: int, spelled: bytes) -> None:
    """A client that follows the store's own address finds nothing there, and learns where the store is."""
    document = b'<?xml version="1.0"?>\n' + _COMPLETED.replace(b"<Location>", spelled)

    async def script(talk: Talk) -> None:
        while True:
            await talk.request()
            if not chunks:
                await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(document), document))
                continue
            await talk.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for at in range(0, len(document), chunks):
                piece = document[at : at + chunks]
                await talk.send(b"%x\r\n%b\r\n" % (len(piece), piece))
            await talk.send(b"0\r\n\r\n")

    async with Upstream(script) as store, serving_rig(Rig(storage(store.port))) as rig, connected(rig) as client:
        rig.story = Story(operation=Operation.COMPLETE_MULTIPART_UPLOAD)
        for _ in range(2):
            await client.send(request("POST", "/data/a&b", body=b"<CompleteMultipartUpload/>"))
            _, body = await client.answer()
            host = request().partition(b"Host: ")[2].partition(b"\r\n")[0]
            before = spelled if spelled.startswith(b"<!--") else b"<Location>"
            expected = document.replace(spelled, before).replace(b"10.0.0.7:9000/data/key", host + b"/data/a&amp;b")
            assert body == expected
        assert store.connections == 1
        assert [outcome.completed for outcome in rig.outcomes] == ["completed"] * 2


async def test_a_completed_upload_told_of_in_a_coding_is_told_of_all_the_same() -> None:
    """The object is there: an error in place of the answer would have it written again."""
    async with (
        Upstream(serving(b"\x1f\x8bpacked", "Content-Encoding: gzip\r\n")) as store,
        serving_rig(Rig(storage(store.port))) as rig,
        connected(rig) as client,
    ):
        rig.story = Story(operation=Operation.COMPLETE_MULTIPART_UPLOAD)
        await client.send(request("POST", body=b"<CompleteMultipartUpload/>"))
        assert (await client.answer())[1] == b"\x1f\x8bpacked"
        assert rig.outcomes[0].status == 200


async def test_a_client_that_reads_slowly_slows_down_the_store() -> None:
    """A slow reader of a large object would fill the memory."""
    size = 64 * 1024 * 1024
    sent = 0

    async def script(talk: Talk) -> None:
        nonlocal sent
        await talk.request()
        await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        while sent < size:
            await talk.send(b"x" * 65_536)
            sent += 65_536

    async with Upstream(script) as store, serving_rig(Rig(storage(store.port))) as rig, connected(rig) as client:
        await client.send(request())
        await client.head()
        await at_rest(lambda: sent)
        assert sent < size // 2
        left = size
        while left:
            left -= len(await client.reader.read(1024 * 1024))
    assert rig.outcomes[0].bytes_out == size


@pytest.mark.parametrize("script", (serve,))
async def test_an_http_1_0_client_gets_its_answer_and_the_end(script: Script) -> None:
    """A health check written by hand would hang."""
    async with Upstream(script) as store, serving_rig(Rig(storage(store.port))) as rig, connected(rig) as client:
        await client.send(b"GET /data/key HTTP/1.0\r\nHost: s3.local\r\n\r\n")
        assert b"Connection: close\r\n" in await client.rest()
