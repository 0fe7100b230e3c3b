"""Serve one request of each way, in-process and over sockets, as a client sends it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import cache
from itertools import count

from tests.facade.front import by_path, front, loaded
from tests.forward.upstream import Talk as StoreTalk
from tests.forward.upstream import serving
from tests.product import Product
from tests.server.s3.door import opened
from tests.server.talk import Talk, request
from tests.walk.steps import Profile, Walk

Once = Callable[[], Awaitable[Walk]]
"""Serves one request, and returns what was called for it."""

OBJECT = b"x" * 512
FOLDER = "/data/wh/t1/data"

WARM = 4
"""Requests before the first that counts: caches are filled, connections are kept, and the next GET is a quick one."""

LEAST = 16
MOST = 64
"""Walks of one way. The shortest counts, once it was taken twice: now and then a walk takes a step more, for the first
event of a batch or the first request of a second."""

PAUSE = 0.002
"""Seconds between two walks: each begins in a millisecond of its own, in which its event id is the first."""

ROUNDS = 20
"""Of the event loop, for what follows an answer."""


class Unsteady(Exception):
    """The same request takes another way each time."""


@asynccontextmanager
async def sign() -> AsyncIterator[Once]:
    """Have a request signed, over a connection that is open."""
    async with Product().running() as product:
        talk = await Talk.with_(product.url)
        data = request()

        async def once() -> Walk:
            profile = Profile()
            with profile.on():
                answer = await talk.ask(data)
                await _settled()
            assert answer.status == 200
            return profile.walk

        yield once
        await talk.close()


@asynccontextmanager
async def get() -> AsyncIterator[Once]:
    """Read an object through the S3 listener: the first request of a connection."""
    async with opened(_store) as door:
        numbers = count()

        async def once() -> Walk:
            client = await door.connect()
            await _settled()
            profile = Profile()
            with profile.on():
                answer = await door.ask("GET", f"{FOLDER}/part-{next(numbers)}.parquet", client=client)
                await _settled()
            await client.close()
            await _settled()
            assert answer.body == OBJECT
            return profile.walk

        yield once


@asynccontextmanager
async def get_quick() -> AsyncIterator[Once]:
    """Read an object through the S3 listener, after others of its folder on the same connection."""
    async with opened(_store) as door:
        client = await door.connect()
        numbers = count()

        async def once() -> Walk:
            profile = Profile()
            with profile.on():
                answer = await door.ask("GET", f"{FOLDER}/part-{next(numbers)}.parquet", client=client)
                await _settled()
            assert answer.body == OBJECT
            return profile.walk

        yield once
        await client.close()


@asynccontextmanager
async def load_table() -> AsyncIterator[Once]:
    """Load a table through the facade, from an upstream that hands out keys."""
    async with front() as served:
        served.upstream.script = by_path(t1=loaded())

        async def once() -> Walk:
            profile = Profile()
            with profile.on():
                answer = await served.load()
                await _settled()
            assert answer.status == 200
            return profile.walk

        yield once


WAYS: dict[str, Callable[[], AbstractAsyncContextManager[Once]]] = {
    "sign": sign,
    "get": get,
    "get-quick": get_quick,
    "load-table": load_table,
}


@cache
def walk_of(name: str) -> Walk:
    """Return what is called for one request of a way once everything that is kept of former ones is there."""
    return asyncio.run(_steady(name))


async def _steady(name: str) -> Walk:
    walks: list[Walk] = []
    async with WAYS[name]() as once:
        for _ in range(WARM):
            await once()
        while len(walks) < MOST:
            await asyncio.sleep(PAUSE)
            walks.append(await once())
            shortest = min(walks, key=lambda walk: len(walk.steps))
            if len(walks) >= LEAST and walks.count(shortest) > 1:
                return shortest
    raise Unsteady(f"{name}: {[len(walk.steps) for walk in walks]} calls")


async def _store(talk: StoreTalk) -> None:
    """Answer every request with the object. The end of the store is no fault to be told on the terminal."""
    with suppress(asyncio.CancelledError):
        await serving(OBJECT)(talk)


async def _settled() -> None:
    for _ in range(ROUNDS):
        await asyncio.sleep(0)
