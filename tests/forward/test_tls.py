"""Over TLS a store may do as badly as over plain HTTP, and its end is only an end if it says so."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.authority import Authority
from tests.forward.rig import Rig, connected, request, serving_rig, storage
from tests.forward.test_addresses import served_by
from tests.forward.test_bodies import LARGE
from tests.forward.upstream import Script, Talk, Upstream


@contextlib.asynccontextmanager
async def before(directory: Path, *scripts: Script) -> AsyncIterator[tuple[Rig, Upstream]]:
    """Serve before a store that speaks TLS."""
    authority = Authority()
    (directory / "ca.pem").write_text(authority.pem)
    tls: ssl.SSLContext = served_by(authority, directory, "127.0.0.1")
    async with Upstream(*scripts, tls=tls) as store:
        rig = Rig(storage(store.port, "https"))
        rig.ca_file = str(directory / "ca.pem")
        rig.forwarder = rig.forwarder_now()
        async with serving_rig(rig):
            yield rig, store


UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\nx-amz-request-id: UP1\r\nConnection: close\r\n\r\n"


async def test_a_body_that_ends_with_its_connection_is_whole_if_tls_says_so(tmp_path: Path) -> None:
    """Some stores answer lists and errors so."""

    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.send(UNTIL_CLOSE + LARGE)

    async with before(tmp_path, script) as (rig, _), connected(rig) as client:
        await client.send(request())
        head, body = await client.answer()
        assert b"chunked" in head
        assert body == LARGE
    assert rig.outcomes[0].aborted == ""


@pytest.mark.parametrize("framing", ("until close", "sized"))
async def test_a_body_whose_connection_is_cut_is_not_whole(tmp_path: Path, framing: str) -> None:
    """Any host on the way could cut an object, and it would look whole."""
    start = (
        UNTIL_CLOSE if framing == "until close" else b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(LARGE) + 9)
    )

    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.send(start + LARGE)
        await asyncio.sleep(0.2)
        # Without the alert that ends TLS.
        talk.reset()

    async with before(tmp_path, script) as (rig, _), connected(rig) as client:
        await client.send(request())
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await client.answer()
        await rig.settled()
    assert rig.outcomes[0].aborted == "upstream"


async def test_a_store_that_refuses_an_upload_in_its_middle_is_heard(tmp_path: Path) -> None:
    """The client would be told that the store is gone, and try again for ever."""

    async def script(talk: Talk) -> None:
        await talk.head()
        await talk.reader.readexactly(1000)
        await talk.answer(b"<Error/>", "403 Forbidden", "Connection: close\r\n")
        await talk.stall()

    async with before(tmp_path, script) as (rig, _), connected(rig) as client:
        await client.send(request("PUT", headers=f"Content-Length: {64 * len(LARGE)}\r\n"))
        for _ in range(4):
            with contextlib.suppress(ConnectionError):
                await client.send(LARGE)
        head, body = await client.answer()
        assert b" 403 " in head
        assert body == b"<Error/>"
        await rig.settled()
    assert rig.outcomes[0].upstream_status == 403


async def test_an_upload_arrives_as_it_was_sent_however_slowly_the_store_reads(tmp_path: Path) -> None:
    """What waits to be encrypted must not be lost, doubled or mixed."""
    content = b"".join(bytes([number % 251]) * 10_007 for number in range(300))

    async def script(talk: Talk) -> None:
        head = await talk.head()
        body = b""
        while len(body) < len(content):
            body += await talk.reader.read(65_536)
            await asyncio.sleep(0.001)
        assert body == content
        assert b"content-length: %d" % len(content) in head.lower()
        await talk.answer()

    async with before(tmp_path, script) as (rig, _), connected(rig) as client:
        await client.send(request("PUT", body=content))
        assert b" 200 " in (await client.answer())[0]


async def test_a_client_that_goes_away_ends_the_conversation(tmp_path: Path) -> None:
    """A store would pour an object into nothing."""
    ended = asyncio.Event()

    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (1 << 40))
        with contextlib.suppress(ConnectionError):
            while not talk.writer.is_closing():
                await talk.send(LARGE)
                await asyncio.sleep(0)
        ended.set()

    async with before(tmp_path, script) as (rig, _):
        async with connected(rig) as client:
            await client.send(request())
            await client.reader.readexactly(100_000)
        async with asyncio.timeout(10):
            await ended.wait()
        await rig.settled()
    assert rig.outcomes[0].aborted == "client"
