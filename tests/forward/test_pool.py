"""Connections to stores: kept for a while, no more of them than allowed, and none that cannot be trusted."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from signproxy.errors import Reason, Refused
from signproxy.forward.addresses import Address
from signproxy.forward.pool import Pool, Times
from signproxy.transfer.channel import Channel
from tests.forward.rig import Rig, connected, request, serving_rig, storage
from tests.forward.upstream import Talk, Upstream, serving
from tests.waiting import PATIENCE, turns, until

TIMES = Times(connect=0.3, keepalive=0.2)


@contextlib.asynccontextmanager
async def pool_of(store: Upstream, *, connections: int = 2, idle: int = 8) -> AsyncIterator[tuple[Pool, Address]]:
    pool = Pool(TIMES, connections=connections, idle=idle)
    try:
        yield pool, Address("127.0.0.1", store.port)
    finally:
        await pool.aclose()
    await until(lambda: not pool.open)


async def wait(talk: Talk) -> None:
    await talk.stall()


async def test_what_was_given_back_last_is_used_first() -> None:
    """What a burst left behind would be kept alive for ever."""
    async with Upstream(wait) as store, pool_of(store) as (pool, address):
        assert pool.take(address) is None
        first, second = await pool.connect(address), await pool.connect(address)
        pool.give_back(address, first)
        pool.give_back(address, second)
        assert (pool.open, pool.idle) == (2, 2)
        assert pool.take(address) is second
        assert pool.take(address) is first
        assert pool.take(address) is None
        assert (pool.open, pool.idle) == (2, 0)
        for channel in (first, second):
            channel.abort()
        await until(lambda: pool.open == 0)


async def test_idle_connections_end_before_the_store_ends_them() -> None:
    """Requests would meet connections that the store is about to close."""
    async with Upstream(wait) as store, pool_of(store) as (pool, address):
        pool.give_back(address, await pool.connect(address))
        await asyncio.sleep(TIMES.keepalive / 2)
        assert pool.idle == 1
        async with asyncio.timeout(2 * TIMES.keepalive):
            await until(lambda: pool.open == 0)


async def test_no_more_idle_connections_are_kept_than_allowed() -> None:
    """A burst would leave a thousand sockets behind, here and at the store."""
    async with Upstream(wait) as store, pool_of(store, connections=8, idle=2) as (pool, address):
        channels = [await pool.connect(address) for _ in range(5)]
        for channel in channels:
            pool.give_back(address, channel)
        await until(lambda: pool.open == 2)
        assert pool.idle == 2


async def test_beyond_the_limit_one_waits_for_its_turn() -> None:
    """A burst would open more connections than the store takes."""
    async with Upstream(wait) as store, pool_of(store) as (pool, address):
        first, second = await pool.connect(address), await pool.connect(address)
        waiting = [asyncio.create_task(pool.connect(address)) for _ in range(2)]
        await turns()
        assert not any(task.done() for task in waiting)
        # One gets what is given back, the other what takes the place of what ended.
        pool.give_back(address, first)
        assert await waiting[0] is first
        second.abort()
        third = await waiting[1]
        assert third not in (first, second)
        assert (pool.open, store.connections) == (2, 3)
        for channel in (first, third):
            channel.abort()


async def test_a_caller_that_waits_too_long_is_told() -> None:
    """A request would hang for as long as others hold their connections."""
    async with Upstream(wait) as store, pool_of(store, connections=1) as (pool, address):
        held = await pool.connect(address)
        with pytest.raises(Refused) as refusal:
            await pool.connect(address)
        assert refusal.value.reason is Reason.STORE_UNAVAILABLE
        held.abort()
        await until(lambda: pool.open == 0)
        (await pool.connect(address)).abort()


async def test_a_turn_is_not_lost_with_the_one_who_waited_for_it() -> None:
    """One client that goes away while it waits would block all others behind it."""
    async with Upstream(wait) as store, pool_of(store, connections=1) as (pool, address):
        held = await pool.connect(address)
        first, second = (asyncio.create_task(pool.connect(address)) for _ in range(2))
        await turns()
        held.abort()
        await asyncio.sleep(0)
        # It was given the turn, or is about to be.
        first.cancel()
        async with asyncio.timeout(PATIENCE):
            channel = await second
        with contextlib.suppress(asyncio.CancelledError):
            (await first).abort()
        channel.abort()


async def test_what_failed_is_not_counted() -> None:
    """A store that was away for a while would never be called again."""
    pool = Pool(TIMES, connections=1)
    with socket.socket() as deaf:
        # Bound, so that no other process takes the port, and not listening.
        deaf.bind(("127.0.0.1", 0))
        address = Address("127.0.0.1", deaf.getsockname()[1])
        for _ in range(3):
            with pytest.raises(Refused) as refusal:
                await pool.connect(address)
            assert refusal.value.reason is Reason.STORE_UNAVAILABLE
            assert pool.open == 0
    await pool.aclose()


async def test_a_closed_pool_keeps_nothing() -> None:
    """A worker that ends would leave connections behind."""
    async with Upstream(wait) as store:
        pool = Pool(TIMES)
        address = Address("127.0.0.1", store.port)
        idle, used = await pool.connect(address), await pool.connect(address)
        pool.give_back(address, idle)
        await pool.aclose()
        assert idle.closed
        assert not used.closed
        pool.give_back(address, used)
        await until(lambda: pool.open == 0)


async def test_hosts_of_former_policies_are_forgotten() -> None:
    """Each reload that moves a store would leave a little behind, for ever."""
    async with Upstream(wait) as store, pool_of(store) as (pool, _):
        for number in range(300):
            pool._add(Address("127.0.0.1", number))
        assert len(pool._hosts) <= 257
        kept = Address("127.0.0.1", store.port)
        channel = await pool.connect(kept)
        for number in range(300):
            pool._add(Address("127.0.0.2", number))
        pool.give_back(kept, channel)
        assert pool.take(kept) is channel
        channel.abort()


async def test_a_connection_to_a_forgotten_host_ends() -> None:
    """The request that gives it back would fail after its answer, and its slot would stay taken."""
    async with Upstream(wait) as store, pool_of(store) as (pool, address):
        channel = await pool.connect(address)
        pool._hosts.clear()
        pool.give_back(address, channel)
        await until(lambda: channel.closed)


async def test_many_requests_share_few_connections() -> None:
    """Each request would pay for a connection of its own."""
    async with Upstream(serving(b"x" * 1000)) as store, serving_rig(Rig(storage(store.port), connections=3)) as rig:

        async def client() -> None:
            async with connected(rig) as each:
                for _ in range(20):
                    await each.send(request())
                    assert len((await each.answer())[1]) == 1000

        await asyncio.gather(*(client() for _ in range(10)))
        assert store.connections <= 3
        assert len(rig.outcomes) == 200


async def test_a_connection_that_is_dead_already_is_not_used() -> None:
    """A request would be sent to a server that has left."""

    async def script(talk: Talk) -> None:
        talk.reset()

    async with Upstream(script) as store, pool_of(store) as (pool, address):
        channel = await pool.connect(address)
        await until(lambda: channel.closed)
        assert pool.open == 0
        # Nothing of the host need be left by then.
        pool._hosts.clear()
        pool.give_back(address, channel)
        assert pool.idle == 0

    class Dead(Channel):
        @property
        def closed(self) -> bool:
            return True

    async def dead(_: Address) -> Channel:
        return Dead()

    pool = Pool(TIMES, connect=dead)
    with pytest.raises(Refused, match="at once"):
        await pool.connect(address)
    assert pool.open == 0
    await pool.aclose()


async def test_a_connection_that_dies_as_it_is_taken_is_passed_over() -> None:
    """The one that lay on top would be used although it had just ended."""

    class Dying(Channel):
        def park(self) -> bool:
            return True

        def unpark(self) -> bool:
            return False

    made: list[Channel] = []

    async def connect(_to: Address) -> Channel:
        loop = asyncio.get_running_loop()
        _, channel = await loop.create_connection(Dying if made else Channel, "127.0.0.1", store.port)
        made.append(channel)
        return channel

    async with Upstream(wait) as store:
        pool = Pool(TIMES, connect=connect)
        address = Address("127.0.0.1", store.port)
        good, dying = await pool.connect(address), await pool.connect(address)
        pool.give_back(address, good)
        pool.give_back(address, dying)
        assert pool.take(address) is good
        await until(lambda: pool.open == 1)
        good.abort()
        await pool.aclose()


async def test_the_sweep_goes_on_as_long_as_anything_is_idle() -> None:
    """What was given back after the first look would be kept for ever."""
    async with Upstream(wait) as store, pool_of(store, connections=8) as (pool, address):
        channels = [await pool.connect(address) for _ in range(4)]
        for channel in channels:
            pool.give_back(address, channel)
            await asyncio.sleep(TIMES.keepalive / 4)
        async with asyncio.timeout(4 * TIMES.keepalive):
            await until(lambda: pool.open == 0)
