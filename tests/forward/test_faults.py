"""Stores and clients that break off, stall and lie: nothing hangs, nothing is left open, each has its outcome."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct

import pytest

from signproxy.audit.event import Verdict
from signproxy.errors import Reason
from signproxy.forward.addresses import Address
from signproxy.forward.pool import Times
from signproxy.gate.outcome import StoreOutcome
from signproxy.transfer.channel import Channel
from tests.forward.rig import QUICK, Client, Rig, connected, descriptors, request, serving_rig, storage
from tests.forward.upstream import OK, Script, Talk, Upstream, serve, serving
from tests.waiting import turns, until

BIG = 3 * 1024 * 1024
HEAD = b"HTTP/1.1 200 OK\r\nx-amz-request-id: UP1\r\nContent-Length: %d\r\n\r\n"


def after(*steps: bytes, reset: bool = False, stalls: bool = False) -> Script:
    """Return a script that reads one request, sends this and ends, resets or stalls."""

    async def script(talk: Talk) -> None:
        await talk.request()
        for step in steps:
            await talk.send(step)
            await asyncio.sleep(0.01)
        if stalls:
            await talk.stall()
        elif reset:
            talk.reset()

    return script


# -- before the answer -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "reason"),
    (
        (after(), Reason.STORE_UNAVAILABLE),
        (after(reset=True), Reason.STORE_UNAVAILABLE),
        (after(b"HTTP/1.1 200 OK\r\nContent-Le"), Reason.STORE_INVALID),
        (after(stalls=True), Reason.STORE_TIMEOUT),
        (after(b"HTTP/1.1 200 OK\r\nX: 1\r\n", stalls=True), Reason.STORE_TIMEOUT),
        (after(b"SSH-2.0-OpenSSH_9.2\r\n\r\n\r\n"), Reason.STORE_INVALID),
        (after(b"\x00\xff" * 5_000, stalls=True), Reason.STORE_TIMEOUT),
        (after(b"HTTP/1.1 200 OK\r\n" + b"X-Long: %b\r\n" % (b"x" * 40_000)), Reason.STORE_INVALID),
        (after(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 2_000 + b"\r\n"), Reason.STORE_INVALID),
        (after(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello"), Reason.STORE_INVALID),
        (after(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello"), Reason.STORE_INVALID),
        (
            after(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello"),
            Reason.STORE_INVALID,
        ),
        (after(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"), Reason.STORE_INVALID),
        (after(b"HTTP/1.1 100 Continue\r\n\r\n" * 100, stalls=True), Reason.STORE_INVALID),
        # Small bodies are read before the client is answered, so that it can still be told.
        (after(HEAD % 50 + b"too short"), Reason.STORE_INVALID),
        (after(HEAD % 50 + b"stalls", stalls=True), Reason.STORE_TIMEOUT),
        (after(HEAD % 50 + b"is reset", reset=True), Reason.STORE_UNAVAILABLE),
    ),
)
async def test_a_store_that_fails_before_the_answer_is_a_refusal(script: Script, reason: Reason) -> None:
    """A client would hang, or take a broken answer for an object."""
    before = descriptors()
    async with Upstream(script) as store, serving_rig(Rig(storage(store.port))) as rig, connected(rig) as client:
        await client.send(request())
        head, body = await client.answer()
        assert head.startswith(b"HTTP/1.1 599")
        assert body == reason.code.encode()
        assert await client.rest() == b""
        assert rig.pool.open == 0
        assert store.connections == 1
    assert descriptors() <= before


async def test_a_store_that_is_not_there_is_unavailable() -> None:
    """A client would hang while a store is restarted."""
    async with Upstream(serve) as store:
        port = store.port
    async with serving_rig(Rig(storage(port))) as rig, connected(rig) as client:
        await client.send(request())
        assert (await client.answer())[1] == b"store_unavailable"
        assert rig.pool.open == 0


async def test_a_store_that_comes_back_within_a_moment_is_reached() -> None:
    """Each restart of a store would fail the requests of that moment."""
    async with Upstream(serve) as gone:
        port = gone.port
    store = Upstream(serve)

    async def come_back() -> None:
        await asyncio.sleep(0.03)
        await store.listen(port)

    async with serving_rig(Rig(storage(port))) as rig, connected(rig) as client:
        coming = asyncio.create_task(come_back())
        await client.send(request())
        assert (await client.answer())[0].startswith(b"HTTP/1.1 200")
        await coming
    await store.__aexit__()


async def test_a_store_that_accepts_no_connection_is_given_up() -> None:
    """A host that drops packets would hold each of its requests for minutes."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=0)
    port = listener.getsockname()[1]
    # What fills the backlog: further connections are neither taken nor refused.
    fillers = [socket.socket() for _ in range(4)]
    for filler in fillers:
        filler.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            filler.connect(("127.0.0.1", port))
    try:
        times = Times(connect=0.2)
        async with serving_rig(Rig(storage(port), times)) as rig, connected(rig) as client:
            await client.send(request())
            assert (await client.answer())[1] == b"store_unavailable"
            assert rig.pool.open == 0
    finally:
        for each in (listener, *fillers):
            each.close()


# -- connections that were kept --------------------------------------------------------------------------------------


def once_then(end: str) -> Script:
    """Return a script that answers one request, and fails the second on the same connection."""

    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.send(OK)
        await talk.head()
        if end == "reset":
            talk.reset()

    return script


@pytest.mark.parametrize("end", ("reset", "closed"))
@pytest.mark.parametrize("method", ("GET", "HEAD", "DELETE", "PUT"))
async def test_a_kept_connection_that_dies_unanswered_is_exchanged_once(end: str, method: str) -> None:
    """Now and then a request would fail because the store closed an idle connection just then."""
    async with (
        Upstream(once_then(end), serve) as store,
        serving_rig(Rig(storage(store.port))) as rig,
        connected(rig) as client,
    ):
        for _ in range(2):
            await client.send(request(method))
            assert (await client.head()).startswith(b"HTTP/1.1 200")
        assert store.connections == 2


@pytest.mark.parametrize(("method", "body"), (("PUT", b"data"), ("POST", b""), ("POST", b"data")))
async def test_what_may_have_been_done_is_not_done_again(method: str, body: bytes) -> None:
    """An upload would be begun, or a write made, twice."""
    async with (
        Upstream(once_then("reset"), serve) as store,
        serving_rig(Rig(storage(store.port))) as rig,
        connected(rig) as client,
    ):
        for status in (b"200", b"599"):
            await client.send(request(method, body=body))
            assert (await client.head()).startswith(b"HTTP/1.1 " + status)
        assert store.connections == 1


async def test_a_second_failure_is_not_tried_a_third_time() -> None:
    """A store in trouble would get every request many times."""
    async with (
        Upstream(once_then("reset"), after(reset=True)) as store,
        serving_rig(Rig(storage(store.port))) as rig,
        connected(rig) as client,
    ):
        for status in (b"200", b"599"):
            await client.send(request())
            assert (await client.head()).startswith(b"HTTP/1.1 " + status)
        assert store.connections == 2


async def test_a_connection_that_the_store_closes_while_idle_is_not_used() -> None:
    """Each request after a pause would cost a failed try."""

    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.send(OK)

    async with Upstream(script) as store, serving_rig(Rig(storage(store.port))) as rig, connected(rig) as client:
        for _ in range(3):
            await client.send(request("POST"))
            assert (await client.answer())[0].startswith(b"HTTP/1.1 200")
            await until(lambda: rig.pool.open == 0)
        assert store.connections == 3


@pytest.mark.parametrize("pause", (0.0, 0.02))
async def test_what_comes_behind_an_answer_is_no_answer(pause: float) -> None:
    """The next caller would get what the store meant for another caller, or for none."""

    async def script(talk: Talk) -> None:
        while True:
            await talk.request()
            if pause:
                await talk.answer(b"mine")
                await asyncio.sleep(pause)
                await talk.send(HEAD % 6 + b"forged")
            else:
                await talk.send(HEAD % 4 + b"mine" + HEAD % 6 + b"forged")

    async with Upstream(script) as store, serving_rig(Rig(storage(store.port))) as rig, connected(rig) as client:
        for _ in range(3):
            await client.send(request())
            _, body = await client.answer()
            assert body == b"mine"
            await asyncio.sleep(3 * pause)
        assert store.connections == 3


async def test_a_store_that_says_close_is_taken_at_its_word() -> None:
    """The next request would meet a connection that is about to end."""
    async with (
        Upstream(serving(b"x", "Connection: close\r\n")) as store,
        serving_rig(Rig(storage(store.port))) as rig,
        connected(rig) as client,
    ):
        for _ in range(2):
            await client.send(request())
            head, body = await client.answer()
            assert body == b"x"
            assert b"onnection" not in head
        assert store.connections == 2


# -- within the answer -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "reason"),
    (
        (after(HEAD % BIG + b"x" * 500_000), Reason.STORE_INVALID),
        (after(HEAD % BIG + b"x" * 500_000, reset=True), Reason.STORE_UNAVAILABLE),
        (after(HEAD % BIG + b"x" * 500_000, stalls=True), Reason.STORE_TIMEOUT),
        (after(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"), Reason.STORE_INVALID),
        (after(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n"), Reason.STORE_INVALID),
        (
            after(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", stalls=True),
            Reason.STORE_TIMEOUT,
        ),
        (after(b"HTTP/1.1 200 OK\r\n\r\nunknown length", reset=True), Reason.STORE_UNAVAILABLE),
    ),
)
async def test_an_answer_that_breaks_off_never_looks_whole(script: Script, reason: Reason) -> None:
    """A client would take half an object for all of it."""
    before = descriptors()
    async with Upstream(script) as store, serving_rig(Rig(storage(store.port))) as rig, connected(rig) as client:
        await client.send(request())
        head = await client.head()
        assert head.startswith(b"HTTP/1.1 200")
        rest = await client.rest()
        assert not rest.endswith(b"0\r\n\r\n")
        assert len(rest) < BIG
        await rig.settled()
        outcome = rig.outcomes[0]
        assert (outcome.verdict, outcome.reason, outcome.aborted) == (Verdict.ERROR, reason, "upstream")
        assert (outcome.status, outcome.upstream_status) == (200, 200)
        assert rig.pool.open == 0
    assert descriptors() <= before


# -- clients ---------------------------------------------------------------------------------------------------------


def gone(client: Client) -> None:
    """Let a client vanish as a process that is killed does."""
    bare = client.writer.get_extra_info("socket")
    if bare.fileno() < 0:
        # The other side was quicker: there is nothing left to vanish.
        return
    bare.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.writer.transport.abort()


def left(rig: Rig) -> StoreOutcome:
    """Return the outcome of a request that its client left."""
    (outcome,) = rig.outcomes
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, Reason.CLIENT_GONE)
    assert outcome.aborted == "client"
    return outcome


async def test_a_client_that_vanishes_frees_the_store_at_once() -> None:
    """Stores would go on working for clients that are gone, each with a connection of its own."""
    ended = asyncio.Event()

    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.stall()
        ended.set()

    times = Times(answer=30, idle=30, client_idle=30)
    async with Upstream(script) as store, serving_rig(Rig(storage(store.port), times)) as rig:
        async with connected(rig) as client:
            await client.send(request())
            await until(lambda: bool(store.requests))
            gone(client)
            async with asyncio.timeout(2):
                await ended.wait()
        await rig.settled()
        assert left(rig).status == 0
        assert rig.pool.open == 0


async def test_a_client_that_vanishes_within_an_answer_stops_it() -> None:
    """A store would send terabytes to no reader."""
    script = after(HEAD % (1 << 40), *[b"x" * 100_000 for _ in range(200)], stalls=True)
    times = Times(answer=30, idle=30, client_idle=30)
    async with Upstream(script) as store, serving_rig(Rig(storage(store.port), times)) as rig:
        async with connected(rig) as client:
            await client.send(request())
            await client.reader.readexactly(200_000)
            gone(client)
        await rig.settled()
        assert left(rig).status == 200
        assert rig.pool.open == 0


async def test_a_client_that_takes_nothing_is_cut_off() -> None:
    """A client that stops reading would hold a connection to the store for ever."""
    async with (
        Upstream(serving(b"x" * (64 * 1024 * 1024))) as store,
        serving_rig(Rig(storage(store.port))) as rig,
        connected(rig) as client,
    ):
        await client.send(request())
        await client.head()
        await rig.settled()
        left(rig)
        assert rig.pool.open == 0


@pytest.mark.parametrize("size", (1_000, BIG))
async def test_a_client_that_vanishes_within_its_body_leaves_no_object(size: int) -> None:
    """Half of an upload would be stored as if it were whole."""
    bodies: list[int] = []

    async def script(talk: Talk) -> None:
        await talk.head()
        body = b""
        with contextlib.suppress(ConnectionError):
            while piece := await talk.reader.read(65_536):
                body += piece
        bodies.append(len(body))

    async with Upstream(script) as store, serving_rig(Rig(storage(store.port))) as rig:
        async with connected(rig) as client:
            await client.send(request("PUT", headers=f"Content-Length: {size}\r\n") + b"x" * (size // 2))
            await asyncio.sleep(0.05)
            gone(client)
        await rig.settled()
        left(rig)
        assert rig.pool.open == 0
    assert all(length < size for length in bodies)
    # A small body is not begun before all of it is there.
    assert len(bodies) == (size > 65_536)


@pytest.mark.parametrize("size", (1_000, BIG))
async def test_a_client_that_ends_its_body_early_is_told_if_it_listens(size: int) -> None:
    """A client whose body was cut off on the way would believe that it was stored."""
    async with Upstream(serve) as store, serving_rig(Rig(storage(store.port))) as rig, connected(rig) as client:
        await client.send(request("PUT", headers=f"Content-Length: {size}\r\n") + b"x" * (size // 2))
        client.writer.write_eof()
        assert (await client.answer())[1] == b"chunk_incomplete"
        await rig.settled()
        assert rig.pool.open == 0
        assert not store.requests


@pytest.mark.parametrize("size", (1_000, BIG))
async def test_a_client_that_stops_sending_is_cut_off(size: int) -> None:
    """Any client could hold connections to the store open for nothing."""
    async with Upstream(serve) as store, serving_rig(Rig(storage(store.port))) as rig, connected(rig) as client:
        await client.send(request("PUT", headers=f"Content-Length: {size}\r\n") + b"x" * (size // 2))
        assert (await client.answer())[1] == b"body_stalled"
        await rig.settled()
        assert rig.pool.open == 0
        assert not store.requests


async def test_a_client_that_sends_one_byte_at_a_time_gets_through_as_long_as_it_goes_on() -> None:
    """A slow line would never finish an upload; or a limit on all of it would cut large ones off."""
    async with Upstream(serve) as store, serving_rig(Rig(storage(store.port))) as rig, connected(rig) as client:
        await client.send(request("PUT", headers="Content-Length: 8\r\n"))
        for _ in range(8):
            await asyncio.sleep(QUICK.client_idle / 4)
            await client.send(b"x")
        assert (await client.answer())[0].startswith(b"HTTP/1.1 200")
        assert store.requests[0].body == b"x" * 8


async def test_what_follows_a_body_is_the_next_request() -> None:
    """More than was announced would be stored with the object, or two requests be taken for one."""
    async with Upstream(serve) as store, serving_rig(Rig(storage(store.port))) as rig, connected(rig) as client:
        for body in (b"12345", b"y" * 200_000):
            await client.send(request("PUT", body=body) + request("GET", "/data/next"))
            assert (await client.answer())[0].startswith(b"HTTP/1.1 200")
            assert (await client.answer())[0].startswith(b"HTTP/1.1 200")
        assert [received.body for received in store.requests] == [b"12345", b"", b"y" * 200_000, b""]
        assert store.connections == 1


# -- stores that do not take the body --------------------------------------------------------------------------------


async def test_a_store_that_takes_nothing_of_a_body_is_given_up() -> None:
    """An upload would hang for as long as the store does."""

    async def script(talk: Talk) -> None:
        await talk.head()
        await talk.sleep()

    async with Upstream(script) as store, serving_rig(Rig(storage(store.port))) as rig, connected(rig) as client:
        sending = asyncio.create_task(client.send(request("PUT", body=b"x" * 64 * 1024 * 1024)))
        assert (await client.answer())[1] == b"store_timeout"
        assert rig.pool.open == 0
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


@pytest.mark.parametrize("reset", (False, True))
@pytest.mark.parametrize("length", (True, False))
async def test_an_early_answer_reaches_the_client_and_ends_both_connections(reset: bool, length: bool) -> None:
    """A client would send gigabytes to learn at the end that it may not; or the rest be read as the next request."""
    document = b"<Error><Code>AccessDenied</Code></Error>"

    async def script(talk: Talk) -> None:
        await talk.head()
        await talk.reader.read(65_536)
        framing = f"Content-Length: {len(document)}\r\n" if length else ""
        await talk.send(f"HTTP/1.1 403 Forbidden\r\n{framing}\r\n".encode() + document)
        if reset:
            await asyncio.sleep(0.05)
            talk.reset()
        elif length:
            await talk.stall()

    async with Upstream(script) as store, serving_rig(Rig(storage(store.port))) as rig, connected(rig) as client:
        sending = asyncio.create_task(client.send(request("PUT", body=b"x" * 64 * 1024 * 1024)))
        if length:
            head, body = await client.answer()
            assert head.startswith(b"HTTP/1.1 403")
            assert b"Connection: close\r\n" in head
            assert body == document
        else:
            assert (await client.head()).startswith(b"HTTP/1.1 403")
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        gone(client)
        await rig.settled()
        assert rig.outcomes[0].upstream_status == 403
        assert rig.pool.open == 0


async def test_a_success_before_the_end_of_the_body_is_none() -> None:
    """A client would believe that an object is stored of which the store has the beginning."""

    async def script(talk: Talk) -> None:
        await talk.head()
        await talk.reader.read(1_000)
        await talk.send(OK)
        await talk.stall()

    async with Upstream(script) as store, serving_rig(Rig(storage(store.port))) as rig, connected(rig) as client:
        await client.send(request("PUT", headers=f"Content-Length: {BIG}\r\n") + b"x" * 100_000)
        assert (await client.answer())[1] == b"store_invalid"
        assert rig.pool.open == 0


async def test_a_success_is_none_either_where_the_rest_of_the_body_follows_at_once() -> None:
    """The store said what it has before it had the object."""
    answered = asyncio.Event()

    async def script(talk: Talk) -> None:
        await talk.head()
        await talk.reader.read(1_000)
        await talk.send(OK)
        answered.set()
        while await talk.reader.read(65_536):
            pass

    async with Upstream(script) as store, serving_rig(Rig(storage(store.port))) as rig, connected(rig) as client:
        await client.send(request("PUT", headers="Content-Length: 300000\r\n") + b"x" * 100_000)
        await answered.wait()
        await asyncio.sleep(0.05)
        await client.send(b"x" * 200_000)
        assert (await client.answer())[1] == b"store_invalid"
        assert rig.pool.open == 0


async def test_a_store_that_hangs_up_within_the_body_is_unavailable() -> None:
    """An upload would hang until the client gives up."""

    async def script(talk: Talk) -> None:
        await talk.head()
        await talk.reader.read(1_000)
        talk.reset()

    async with Upstream(script) as store, serving_rig(Rig(storage(store.port))) as rig, connected(rig) as client:
        sending = asyncio.create_task(client.send(request("PUT", body=b"x" * 16 * 1024 * 1024)))
        assert (await client.answer())[1] == b"store_unavailable"
        assert rig.pool.open == 0
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def test_a_store_that_never_answers_an_upload_is_given_up() -> None:
    """The wait would have no end once the body is sent."""

    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.stall()

    async with Upstream(script) as store, serving_rig(Rig(storage(store.port))) as rig, connected(rig) as client:
        await client.send(request("PUT", body=b"x" * BIG))
        assert (await client.answer())[1] == b"store_timeout"
        assert rig.pool.open == 0


# -- being stopped ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", (request(), request("PUT", headers="Content-Length: 900000\r\n") + b"x" * 100_000))
async def test_a_request_that_is_cancelled_leaves_nothing_behind(data: bytes) -> None:
    """A drain would leave connections to the store, or tasks that wait for them."""
    times = Times(answer=30, idle=30, client_idle=30)
    async with (
        Upstream(after(stalls=True)) as store,
        serving_rig(Rig(storage(store.port), times)) as rig,
        connected(rig) as client,
    ):
        await client.send(data)
        await until(lambda: store.connections == 1)
        (task,) = rig.tasks
        running = asyncio.all_tasks()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        rig.failures.clear()
        assert rig.pool.open == rig.pool.idle == 0
        assert not any("pump" in repr(each) or "_hear" in repr(each) for each in running & asyncio.all_tasks())


# -- less likely -----------------------------------------------------------------------------------------------------


async def test_a_client_that_vanishes_while_the_store_is_called_is_not_asked_for() -> None:
    """A store would do work for a client that is gone."""
    times = Times(connect=2, answer=30)
    async with Upstream(serve) as store:
        rig = Rig(storage(store.port), times)
        gate = asyncio.Event()
        opened = rig.pool._connect

        asked: list[Address] = []

        async def slowly(address: Address) -> Channel:
            asked.append(address)
            await gate.wait()
            return await opened(address)

        rig.pool._connect = slowly
        async with serving_rig(rig), connected(rig) as client:
            await client.send(request())
            await until(lambda: asked)
            gone(client)
            await turns()
            gate.set()
            await rig.settled()
            assert left(rig).status == 0
            assert rig.pool.open == 0
        assert not store.requests


async def test_a_client_that_asks_and_never_reads_is_slowed_down_and_cut_off() -> None:
    """Small answers to a client that does not take them would fill the memory."""
    async with (
        Upstream(serving(b"x" * 60_000)) as store,
        serving_rig(Rig(storage(store.port))) as rig,
        connected(rig) as client,
    ):
        client.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]  # nothing else keeps it from reading
        await client.send(request() * 500)
        await rig.settled()
        assert len(rig.outcomes) < 400
        assert rig.outcomes[-1].reason is Reason.CLIENT_GONE
        assert rig.pool.open == rig.pool.idle


async def test_an_answer_for_a_client_that_is_gone_is_no_fault_of_the_store() -> None:
    """The trail would blame the store for clients that went away."""

    async def script(talk: Talk) -> None:
        await talk.request()
        await asyncio.sleep(0.05)
        await talk.answer(b"x")

    async with Upstream(script) as store, serving_rig(Rig(storage(store.port))) as rig:
        async with connected(rig) as client:
            await client.send(request())
            client.writer.close()
        await rig.settled()
        assert [outcome.aborted for outcome in rig.outcomes] in ([""], ["client"])
        assert not rig.refusals
