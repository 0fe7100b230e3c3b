"""While the trail is behind, requests are left unread: what is merely busy refuses no request for the trail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from signproxy.gate import backpressure as module
from signproxy.gate.backpressure import Backpressure
from tests.audit.sinks import MemorySink
from tests.product import Product
from tests.server.s3.door import opened
from tests.server.talk import Talk, parsed, request
from tests.waiting import until


class Behind:
    """A trail whose writer is as far as a test says."""

    def __init__(self) -> None:
        self.is_behind = True
        self.fell_behind: Callable[[], None] = lambda: None


def following(trail: Behind) -> Backpressure:
    found = Backpressure()
    found.follow(trail)  # type: ignore[arg-type]  # as much as is asked of it
    return found


async def test_what_waits_goes_on_once_the_trail_has_caught_up() -> None:
    """A request that is left unread for good would be one that is lost."""
    trail, gone_on = Behind(), list[str]()
    pressure = following(trail)
    trail.fell_behind()
    for name in ("a", "b", "c"):
        pressure.wait(name, lambda name=name: gone_on.append(name))  # type: ignore[misc]  # bound here
    pressure.forget("b")
    waiting = asyncio.create_task(pressure.over())
    await asyncio.sleep(3 * module.LOOK_SECONDS)
    assert (pressure.is_on, gone_on, waiting.done()) == (True, [], False)
    trail.is_behind = False
    await asyncio.wait_for(waiting, 5)
    assert (pressure.is_on, gone_on) == (False, ["a", "c"])
    await asyncio.wait_for(pressure.over(), 1)
    assert pressure.total == 1


async def test_one_that_fails_leaves_no_other_waiting() -> None:
    """A fault in one connection would hang every client that was left unread with it, for ever."""
    trail, gone_on = Behind(), list[str]()
    pressure = following(trail)
    trail.fell_behind()

    def fail() -> None:
        raise RuntimeError("a fault of ours")

    pressure.wait("a", fail)
    pressure.wait("b", lambda: gone_on.append("b"))
    trail.is_behind = False
    await asyncio.wait_for(pressure.over(), 5)
    assert gone_on == ["b"]


async def test_no_request_waits_longer_than_a_write_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that stands still would hang every client instead of being told to them."""
    monkeypatch.setattr(module, "MOST_SECONDS", 0.05)
    pressure = following(Behind())
    pressure.begin()
    pressure.begin()
    assert pressure.is_on
    async with asyncio.timeout(5):
        await pressure.over()
    assert pressure.total == 1


async def test_those_for_whom_there_is_no_room_wait_on() -> None:
    """All at once they would fill the queue that was just emptied, and be refused."""
    trail, gone_on = Behind(), list[int]()
    pressure = following(trail)
    pressure.begin()

    def go_on(number: int) -> None:
        gone_on.append(number)
        if number == 1:
            trail.is_behind = True
            pressure.begin()

    for number in range(4):
        pressure.wait(number, lambda number=number: go_on(number))  # type: ignore[misc]  # bound here
    trail.is_behind = False
    await until(lambda: gone_on == [0, 1])
    await asyncio.sleep(3 * module.LOOK_SECONDS)
    assert gone_on == [0, 1]
    trail.is_behind = False
    await until(lambda: gone_on == [0, 1, 2, 3])


async def test_a_crowd_goes_on_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Health would not be answered while thousands of connections go on in one go."""
    monkeypatch.setattr(module, "_AT_A_TIME", 2)
    trail, gone_on, rounds = Behind(), list[int](), list[int]()
    pressure = following(trail)
    pressure.begin()
    for number in range(5):
        pressure.wait(number, lambda number=number: gone_on.append(number))  # type: ignore[misc]  # bound here
    trail.is_behind = False
    while len(gone_on) < 5:
        await asyncio.sleep(0)
        if gone_on and (not rounds or rounds[-1] != len(gone_on)):
            rounds.append(len(gone_on))
    assert rounds == [2, 4, 5]


@pytest.mark.parametrize("ask_for", (request, parsed), ids=("at once", "parsed"))
async def test_a_sign_request_is_left_unread_and_then_answered(ask_for: Callable[..., bytes]) -> None:
    """It would be refused with 503 for a trail that is well, and a moment behind."""
    trail = Behind()
    async with Product().running() as product:
        pressure = product.handler.limits.backpressure
        pressure.follow(trail)  # type: ignore[arg-type]  # as much as is asked of it
        client = await Talk.with_(product.url)
        await client.send(ask_for())
        assert (await client.answer()).status == 200
        pressure.begin()
        await client.send(ask_for())
        await asyncio.sleep(0.05)
        assert len(product.events()) == 1
        trail.is_behind = False
        assert (await client.answer()).status == 200
        assert len(product.events()) == 2
        # Reading goes on as before.
        await client.send(ask_for())
        assert (await client.answer()).status == 200
        await client.close()


async def test_a_client_that_goes_away_unread_is_forgotten() -> None:
    """A client that comes and goes while the trail is behind would fill the memory."""
    async with Product().running() as product:
        pressure = product.handler.limits.backpressure
        pressure.follow(Behind())  # type: ignore[arg-type]  # as much as is asked of it
        pressure.begin()
        client = await Talk.with_(product.url)
        await client.send(request())
        await until(lambda: len(pressure._waiting) == 1)
        (connection,) = pressure._waiting
        connection.abort()  # type: ignore[attr-defined]  # a connection
        await until(lambda: not pressure._waiting)
        await client.close()
        assert product.events() == []


async def test_an_object_is_asked_for_once_the_trail_has_caught_up() -> None:
    """What the store served must have an event, and what it could serve must not be refused."""
    trail = Behind()
    async with opened() as door:
        pressure = door.product.handler.limits.backpressure
        pressure.follow(trail)  # type: ignore[arg-type]  # as much as is asked of it
        client = await door.connect()
        for _ in range(4):
            assert (await door.ask("GET", "/data/wh/t1/data/a", who="reader", client=client)).status == 200
        pressure.begin()
        asked = asyncio.create_task(door.ask("GET", "/data/wh/t1/data/a", who="reader", client=client))
        await asyncio.sleep(0.05)
        assert len(door.upstream.requests) == 4
        trail.is_behind = False
        assert (await asked).status == 200
        assert len(door.events()) == 5
        await client.close()


async def _crowd(product: Product, size: int) -> list[int]:
    async def one() -> int:
        client = await Talk.with_(product.url)
        try:
            await client.send(request())
            return (await client.answer()).status
        finally:
            await client.close()

    return list(await asyncio.gather(*(one() for _ in range(size))))


async def test_a_crowd_that_would_fill_the_queue_is_answered() -> None:
    """9 to 24 % of all answers were 503 `audit_unavailable` on a server with nothing but much to do."""
    sink = MemorySink()
    sink.gate.clear()
    async with Product(sink=sink, queue=20).running() as product:
        asked = asyncio.create_task(_crowd(product, 100))
        await until(lambda: product.handler.limits.backpressure.is_on)
        await asyncio.sleep(0.05)
        assert not asked.done()
        sink.gate.set()
        assert await asked == [200] * 100
        assert len(product.events()) == 100
        assert product.trail.state.refused == 0


async def test_a_disk_that_stands_still_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """`audit.on_error: deny`: nothing is served that no writer takes, and no client waits for it without end."""
    monkeypatch.setattr(module, "MOST_SECONDS", 0.1)
    sink = MemorySink()
    sink.gate.clear()
    async with Product(sink=sink, queue=20).running() as product:
        statuses = await _crowd(product, 100)
        assert set(statuses) == {200, 503}
        # What the writer has in its hands, and what the queue holds.
        assert 20 <= statuses.count(200) <= 40
        sink.gate.set()
        assert sum(event.count for event in product.events() if event.reason == "allowed") == statuses.count(200)
