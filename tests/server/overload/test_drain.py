"""The end of a server that clients outlive: they go elsewhere with their next request, and no request is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from signproxy.gate import limits
from signproxy.server.api import direct
from signproxy.server.api.connection import DirectServer
from signproxy.server.api.listener import Listener
from signproxy.server.process.sockets import bind_tcp
from tests.product import Product
from tests.server.api.rig import server_of
from tests.server.overload.test_backpressure import Behind
from tests.server.talk import BODY, Talk, parsed, request
from tests.waiting import turns, until

WAYS = {"at once": request, "parsed": parsed}


@asynccontextmanager
async def _listening() -> AsyncIterator[tuple[Product, Listener]]:
    product = Product()
    product.trail.start()
    listener = await Listener.open(product.handler, bind_tcp("127.0.0.1", 0))
    product.url = f"http://{listener.addresses[0]}"
    try:
        yield product, listener
    finally:
        await listener.finish(0.1)
        await asyncio.to_thread(product.trail.close, 5.0)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("who", ("reader", "nobody", None))
async def test_every_answer_of_a_draining_server_ends_its_connection(way: str, who: str | None) -> None:
    """A pooled connection that goes on would be closed under the next request, which Java does not repeat."""
    async with _listening() as (product, _):
        talk = await Talk.with_(product.url)
        assert "Connection" not in (await talk.ask(WAYS[way](who))).headers
        product.handler.drain()
        answer = await talk.ask(WAYS[way](who))
        assert answer.status == {"reader": 200, "nobody": 403, None: 401}[who]
        assert answer.headers["Connection"] == "close"
        assert await talk.ended() == b""
        await talk.close()


async def test_who_connects_to_a_draining_server_is_served() -> None:
    """Balancers take seconds to notice."""
    async with _listening() as (product, _):
        product.handler.drain()
        talk = await Talk.with_(product.url)
        assert (await talk.ask(request())).status == 200
        assert await talk.ended() == b""
        await talk.close()


async def test_idle_connections_are_left_until_the_end_of_the_delay() -> None:
    """Closed at once, each of them would fail the request that is just being sent on it."""
    async with _listening() as (product, listener):
        talks = {name: await Talk.with_(product.url) for name in WAYS}
        for name, talk in talks.items():
            assert (await talk.ask(WAYS[name]())).status == 200
        product.handler.drain()
        await turns()
        assert product.handler.connections == 2
        assert (await talks["at once"].ask(request())).status == 200
        assert await talks["at once"].ended() == b""
        await listener.finish(20)
        assert await talks["parsed"].ended() == b""
        assert product.handler.connections == 0
        for talk in talks.values():
            await talk.close()


async def test_what_is_in_flight_at_the_end_is_answered() -> None:
    """A head in two packets, a body in two packets: a client that has begun to ask is owed an answer."""
    async with _listening() as (product, listener):
        heads, bodies = await Talk.with_(product.url), await Talk.with_(product.url)
        whole = request()
        await heads.send(whole[:30])
        await bodies.send(whole[:-1])
        await until(lambda: product.handler.in_flight == 1)
        product.handler.drain()
        ending = asyncio.create_task(listener.finish(20))
        await asyncio.sleep(0.05)
        await bodies.send(BODY[-1:])
        assert (await bodies.answer()).status == 200
        await heads.send(whole[30:])
        answer = await heads.answer()
        assert (answer.status, answer.headers["Connection"]) == (200, "close")
        await ending
        for talk in (heads, bodies):
            assert await talk.ended() == b""
            await talk.close()


@pytest.mark.parametrize("way", WAYS)
async def test_answers_that_are_held_back_are_sent_at_the_end(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a flood would decide how long the process takes to end, or its callers would get no answer at all."""
    monkeypatch.setattr(limits, "HOLD_SECONDS", 1_000.0)
    async with _listening() as (product, listener):
        talks = [await Talk.with_(product.url) for _ in range(25)]
        for talk in talks:
            await talk.send(WAYS[way](None))
        held = product.handler.limits.strangers
        await until(lambda: held.now > 0)
        product.handler.drain()
        await listener.finish(0.2)
        assert [(await talk.answer()).status for talk in talks] == [401] * 25
        assert (held.now, product.handler.connections) == (0, 0)
        for talk in talks:
            await talk.close()


async def test_half_a_head_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sender may be any client."""
    monkeypatch.setattr(direct, "HEAD_SECONDS", 0.1)
    async with _listening() as (product, listener):
        talk = await Talk.with_(product.url)
        await talk.send(request()[:30])
        await until(lambda: product.handler.connections == 1)
        await asyncio.sleep(0.05)
        await listener.finish(20)
        assert await talk.ended() == b""
        assert product.handler.connections == 0
        await talk.close()


async def test_half_a_head_at_the_end_is_answered_if_the_rest_comes() -> None:
    """Its sender has begun to ask. The server was not told to drain before: then the end itself does."""
    async with _listening() as (product, listener):
        talk = await Talk.with_(product.url)
        whole = request()
        await talk.send(whole[:30])
        await until(lambda: product.handler.connections == 1)
        await asyncio.sleep(0.05)
        ending = asyncio.create_task(listener.finish(20))
        await asyncio.sleep(0.1)
        await talk.send(whole[30:])
        answer = await talk.answer()
        assert (answer.status, answer.headers["Connection"]) == (200, "close")
        assert await talk.ended() == b""
        await ending
        await talk.close()


@asynccontextmanager
async def _accepting() -> AsyncIterator[tuple[str, DirectServer]]:
    """Serve without a listener: what ends first is up to the test."""
    product = Product()
    product.trail.start()
    server = await server_of(product.handler, access_log=None)
    accepting = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    host, port = accepting.sockets[0].getsockname()
    try:
        yield f"http://{host}:{port}", server
    finally:
        accepting.close()
        await server.shutdown(0.05)
        await asyncio.to_thread(product.trail.close, 5.0)


async def test_who_comes_while_the_door_closes_is_answered_once() -> None:
    """The kernel may have accepted it before; left open afterwards, it would hold up the end."""
    async with _accepting() as (url, server):
        server.pre_shutdown()
        talk = await Talk.with_(url)
        answer = await talk.ask(request())
        assert (answer.status, answer.headers["Connection"]) == (200, "close")
        assert await talk.ended() == b""
        await talk.close()


@pytest.mark.parametrize("way", WAYS)
async def test_a_request_that_is_left_unread_ends_its_connection_with_its_answer(way: str) -> None:
    """Its client would go on with the process that ends, thousands of requests long, and hold up that end."""
    trail = Behind()
    async with _accepting() as (url, server):
        pressure = server.limits.backpressure
        pressure.follow(trail)  # type: ignore[arg-type]  # as much as is asked of it
        talk = await Talk.with_(url)
        assert (await talk.ask(WAYS[way]())).status == 200
        pressure.begin()
        await talk.send(WAYS[way]())
        await until(lambda: len(pressure._waiting) == 1)
        server.pre_shutdown()
        trail.is_behind = False
        answer = await talk.answer()
        assert (answer.status, answer.headers["Connection"]) == (200, "close")
        assert await talk.ended() == b""
        async with asyncio.timeout(5):
            await server.shutdown(60)
        assert server.limits.connections.open == 0
        await talk.close()


async def test_a_client_that_reads_nothing_does_not_hold_up_the_end() -> None:
    """Its answers lie in our memory; they go with the process."""
    async with _accepting() as (url, server):
        talk = await Talk.with_(url)
        talk.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a transport of both directions
        talk.writer.write(parsed() * 8_000)
        await until(lambda: server.limits.connections.open == 1)
        await asyncio.sleep(0.5)
        server.pre_shutdown()
        await server.shutdown(0.05)
        await until(lambda: server.limits.connections.open == 0)
        await talk.close()
