"""Too much of anything: refused early, answered late, bounded in memory, and unnoticed by all others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import cast

import msgspec
import pytest

from signproxy.answers import bodies
from signproxy.answers.bodies import MAX_MESSAGE
from signproxy.answers.reply import Reply
from signproxy.config.fields import TlsSettings
from signproxy.config.settings import LimitSettings
from signproxy.errors import Reason, Refused
from signproxy.gate import limits
from signproxy.gate.limits import Held
from signproxy.server.api import direct
from signproxy.server.api.listener import Listener
from signproxy.server.api.plain import Head
from signproxy.server.process.sockets import bind_tcp
from signproxy.server.process.tls import CertificateHolder
from signproxy.signing import sign_way
from tests.authority import Authority
from tests.product import SIGN_T1, Product, token_of
from tests.server.api.rig import listen, server_of
from tests.server.talk import BODY, Talk, parsed, request
from tests.waiting import until

WAYS = {"at once": request, "parsed": parsed}
"""A request that is answered as it arrives, and one that aiohttp parses: no limit may hold for one of them only."""

Request = Callable[..., bytes]

FOREVER = 1_000.0


@pytest.fixture(params=WAYS)
def ask_for(request: pytest.FixtureRequest) -> Request:
    return WAYS[request.param]


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold refusals back for longer than any test lasts."""
    monkeypatch.setattr(limits, "HOLD_SECONDS", FOREVER)


@asynccontextmanager
async def limited(*, keepalive: float = 75.0, product: Product | None = None, **changes: int) -> AsyncIterator[Product]:
    """Serve with some limits."""
    product = Product() if product is None else product
    product.handler.limits.replace(msgspec.structs.replace(LimitSettings(), **changes))
    product.trail.start()
    async with AsyncExitStack() as stack:
        product.url = "http://" + await listen(
            stack, product.handler, "127.0.0.1", 0, keepalive=keepalive, shutdown=0.2
        )
        yield product
    await asyncio.to_thread(product.trail.close, 5.0)


# -- rates -------------------------------------------------------------------------------------------------------------


async def test_a_principal_beyond_its_rate_is_told_when_to_come_back(ask_for: Request) -> None:
    """Java repeats a sign call after 429, and gives up at 500: a job that is too quick has to survive it."""
    async with limited(requests_per_second=1, burst=3) as product:
        talk = await Talk.with_(product.url)
        answers = [await talk.ask(ask_for()) for _ in range(4)]
        assert [answer.status for answer in answers] == [200, 200, 200, 429]
        refused = answers[3]
        assert refused.headers["Retry-After"] == "1"
        assert (refused.body["error"]["code"], refused.reason) == (429, "TooManyRequestsException")
        # A caller that shares nothing with it but the server does not notice, on whatever connection.
        assert (await talk.ask(ask_for("writer"))).status == 200
        await talk.close()
        events = product.events()
        assert [event.reason for event in events][3] == "rate_limited"
        assert (events[3].principal, events[3].http_status) == ("static/reader", 429)


async def test_a_principal_that_is_a_little_too_quick_is_served_a_little_later(ask_for: Request) -> None:
    """A refusal would end a PyIceberg write for some milliseconds of impatience."""
    async with limited(requests_per_second=50, burst=1) as product:
        talk = await Talk.with_(product.url)
        began = asyncio.get_running_loop().time()
        assert [(await talk.ask(ask_for())).status for _ in range(6)] == [200] * 6
        assert asyncio.get_running_loop().time() - began >= 5 / 50 - 0.01
        assert product.handler.limits.callers.total >= 4
        assert product.handler.limits.callers.now == 0
        await talk.close()


async def test_a_principal_whose_requests_are_denied_is_held_to_its_rate_as_well(ask_for: Request) -> None:
    """Refusals take as long as signatures do."""
    # A twelfth of a second each: on a busy machine a fiftieth passes between two requests by itself, and of a tenth,
    # which is the longest wait, a timer that rounds makes too much.
    async with limited(requests_per_second=12, burst=1) as product:
        talk = await Talk.with_(product.url)
        assert {(await talk.ask(ask_for("nobody"))).status for _ in range(4)} == {403}
        assert product.handler.limits.callers.total == 3
        await talk.close()
    async with limited(requests_per_second=1, burst=1) as product:
        talk = await Talk.with_(product.url)
        assert [(await talk.ask(ask_for("nobody"))).status for _ in range(2)] == [403, 429]
        await talk.close()


async def test_what_is_too_much_costs_no_more_than_knowing_who_asks(
    ask_for: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit that is looked at after the work protects no caller."""

    def read_message(_: bytes) -> object:
        raise AssertionError("the message was read")

    async with limited(requests_per_second=1, burst=1) as product:
        talk = await Talk.with_(product.url)
        assert (await talk.ask(ask_for())).status == 200
        monkeypatch.setattr(sign_way, "read_message", read_message)
        assert (await talk.ask(ask_for(body=b"no JSON"))).status == 429
        assert (await talk.ask(ask_for(None, body=b"no JSON"))).status == 401
        await talk.close()


async def test_the_configuration_route_counts_too() -> None:
    """Any door that is not watched is the one that is used."""
    async with limited(requests_per_second=1, burst=1) as product:
        talk = await Talk.with_(product.url)
        config = f"GET /v1/config HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token_of('reader')}\r\n\r\n".encode()
        assert [(await talk.ask(config)).status for _ in range(2)] == [200, 429]
        await talk.close()


async def test_large_messages_use_up_more_of_the_rate(ask_for: Request) -> None:
    """One caller's bulk deletes would take the whole server at a rate that looks modest."""
    padded = BODY[:-1] + b',"padding":"' + b"x" * (10 * 4096) + b'"}'
    async with limited(requests_per_second=1, burst=25) as product:
        talk = await Talk.with_(product.url)
        statuses = [(await talk.ask(ask_for(body=padded))).status for _ in range(4)]
        assert statuses == [200, 200, 200, 429]
        await talk.close()


async def test_who_has_to_wait_for_a_table_pays_once() -> None:
    """Such a request is begun twice; a principal with an upstream catalog would have half of its rate."""
    product = Product(resolver=_Asking())  # type: ignore[arg-type]  # an awaitable is one
    async with limited(product=product, requests_per_second=1, burst=3):
        talk = await Talk.with_(product.url)
        assert [(await talk.ask(request())).status for _ in range(4)] == [200, 200, 200, 429]
        await talk.close()


class _Asking:
    """Has to ask for the table of each request, and knows it for that request alone."""

    known = False

    def resolve(self, catalog: object, target: object, _request: object) -> object:
        async def ask() -> None:
            await asyncio.sleep(0)

        self.known = not self.known
        if self.known:
            return asyncio.ensure_future(ask())
        return (catalog.table(target.namespace, target.name),)  # type: ignore[attr-defined]


# -- answers that are held back ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("held")
async def test_strangers_beyond_their_share_wait_for_their_answer(ask_for: Request) -> None:
    """A flood that is answered at once asks again at once; one that waits asks once a second per connection."""
    async with limited(unauthenticated_per_second=2) as product:
        talks = [await Talk.with_(product.url) for _ in range(5)]
        for talk in talks:
            await talk.send(ask_for(None))
        assert [(await talk.answer()).status for talk in talks[:2]] == [401, 401]
        strangers = product.handler.limits.strangers
        await until(lambda: strangers.now == 3)
        # No other caller does: not on another connection, and not on one that a stranger used before.
        assert (await talks[0].ask(ask_for())).status == 200
        other = await Talk.with_(product.url)
        assert (await other.ask(ask_for())).status == 200
        assert strangers.now == 3
        for talk in (*talks, other):
            await talk.close()
    assert (strangers.now, product.handler.connections) == (0, 0)


async def test_a_held_answer_is_the_answer(ask_for: Request) -> None:
    """What comes late must be whole, in order, and leave the connection as it was."""
    async with limited(unauthenticated_per_second=1) as product:
        talk = await Talk.with_(product.url)
        for _ in range(5):
            answer = await talk.ask(ask_for(None))
            assert (answer.status, answer.reason) == (401, "NotAuthorizedException")
            assert answer.headers["WWW-Authenticate"] == 'Bearer realm="signproxy"'
            assert "Connection" not in answer.headers
        assert (await talk.ask(ask_for())).status == 200
        await talk.close()
        assert product.handler.limits.strangers.total >= 4
        assert [event.reason for event in product.events()] == ["token_missing"] * 5 + ["allowed"]


async def test_what_is_sent_meanwhile_is_answered_afterwards_and_in_order(ask_for: Request) -> None:
    """An answer to the wrong request is a signature in the wrong hands."""
    async with limited(unauthenticated_per_second=1) as product:
        talk = await Talk.with_(product.url)
        assert (await talk.ask(ask_for(None))).status == 401
        await talk.send(ask_for(None))
        await until(lambda: product.handler.limits.strangers.total == 1)
        await talk.send(ask_for() + ask_for("nobody"))
        assert [(await talk.answer()).status for _ in range(3)] == [401, 200, 403]
        await talk.close()


@pytest.mark.usefixtures("held")
async def test_nothing_is_read_while_an_answer_is_held_back(ask_for: Request, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a caller that waits for an answer could keep the core busy meanwhile."""
    wires: list[asyncio.Transport] = []
    opened = direct.DirectConnection.connection_made

    def made(connection: direct.DirectConnection, transport: asyncio.BaseTransport) -> None:
        wires.append(cast("asyncio.Transport", transport))
        opened(connection, transport)

    monkeypatch.setattr(direct.DirectConnection, "connection_made", made)
    async with limited(unauthenticated_per_second=1) as product:
        talk = await Talk.with_(product.url)
        assert (await talk.ask(ask_for(None))).status == 401
        assert wires[0].is_reading()
        await talk.send(ask_for(None))
        await until(lambda: product.handler.limits.strangers.now == 1)
        assert not wires[0].is_reading()
        await talk.close()


@pytest.mark.usefixtures("held")
async def test_the_number_of_held_answers_is_bounded(ask_for: Request) -> None:
    """Each is memory and a connection; what is beyond is answered at once, and the connection ends."""
    async with limited(unauthenticated_per_second=1, connections=16) as product:
        callers = [await Talk.with_(product.url) for _ in range(7)]
        for talk in callers:
            assert (await talk.ask(ask_for())).status == 200
        limited_to = product.handler.limits.strangers
        assert limited_to.limit == 8
        strangers = [await Talk.with_(product.url) for _ in range(8)]
        assert (await strangers[0].ask(ask_for(None))).status == 401
        for talk in strangers:
            await talk.send(ask_for(None))
        await until(lambda: limited_to.now == 8)
        # A caller's connection, for the strangers' are all taken.
        answer = await callers[0].ask(ask_for(None))
        assert (answer.status, answer.headers["Connection"]) == (401, "close")
        assert await callers[0].ended() == b""
        assert limited_to.now == 8
        for talk in (*callers, *strangers):
            await talk.close()


async def test_nothing_is_left_of_held_answers_whose_callers_leave(
    ask_for: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that connects, asks and leaves would fill the memory, one timer and one answer at a time."""
    monkeypatch.setattr(limits, "HOLD_SECONDS", 0.3)

    async def flood(url: str, who: str | None, held: Held) -> None:
        talks = [await Talk.with_(url) for _ in range(20)]
        for talk in talks:
            await talk.send(ask_for(who))
        await until(lambda: held.now > 0)
        for talk in talks:
            talk.writer.transport.abort()
        await until(lambda: held.now == 0)

    async with limited(unauthenticated_per_second=1, requests_per_second=1, burst=1) as product:
        counts = product.handler.limits
        before = len(asyncio.all_tasks())
        await flood(product.url, None, counts.strangers)
        await flood(product.url, "reader", counts.callers)
        await until(lambda: product.handler.connections == 0)
        await until(lambda: len(asyncio.all_tasks()) <= before)
        assert (counts.waiting.taken, counts.waiting._by_name) == (0, {})


async def test_answers_are_held_back_through_tls_as_well(ask_for: Request, tmp_path: Path) -> None:
    """TLS reads ahead: what it has decrypted already must wait with the rest."""
    authority = Authority()
    directory = authority.issue().write(tmp_path)
    tls = TlsSettings(cert_file=str(directory / "tls.crt"), key_file=str(directory / "tls.key"))
    product = Product()
    product.handler.limits.replace(LimitSettings(unauthenticated_per_second=1, requests_per_second=50, burst=1))
    product.trail.start()
    listener = await Listener.open(product.handler, bind_tcp("127.0.0.1", 0), certificate=CertificateHolder(tls))
    talk = await Talk.with_(listener.addresses[0], authority.trusting())
    assert [(await talk.ask(ask_for(None))).status for _ in range(3)] == [401] * 3
    assert product.handler.limits.strangers.total >= 2
    # All at once, in one record: the first is free, the second waits, and what follows it waits with it.
    await talk.send(ask_for() + ask_for() + ask_for(None) + ask_for())
    assert [(await talk.answer()).status for _ in range(4)] == [200, 200, 401, 200]
    product.handler.drain()
    assert (await talk.ask(ask_for())).headers["Connection"] == "close"
    assert await talk.ended() == b""
    await talk.close()
    await listener.finish(1.0)
    assert (product.handler.connections, product.handler.limits.strangers.now) == (0, 0)
    await asyncio.to_thread(product.trail.close, 5.0)


async def test_strangers_leave_nothing_behind(ask_for: Request) -> None:
    """Any client can make up tokens; a table that remembers each of them is theirs to fill."""
    async with limited(unauthenticated_per_second=1_000_000) as product:
        talk = await Talk.with_(product.url)
        for number in range(200):
            assert (await talk.ask(ask_for(None, f"Authorization: Bearer t{number}"))).status == 401
        assert product.handler.limits._due == {}
        await talk.close()


@pytest.mark.usefixtures("held")
async def test_floods_of_known_callers_become_a_few_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that runs wild must not fill the disk, nor hide another one that does."""
    async with limited(requests_per_second=1, burst=1, connections=100_000) as product:
        for who in ("reader", "writer"):
            for _ in range(300):
                head = Head(SIGN_T1, {"Authorization": f"Bearer {token_of(who)}"})
                reply = product.handler.at_once(head, "192.0.2.7", BODY)
                assert isinstance(reply, Reply)
        await asyncio.to_thread(product.trail.close, 5.0)
        events = [event for event in product.events() if event.reason == "rate_limited"]
    assert len(events) == 2 * (5 + 1)
    for who in ("static/reader", "static/writer"):
        assert sum(event.count for event in events if event.principal == who) == 299


# -- requests in flight ------------------------------------------------------------------------------------------------


def _half(who: str) -> bytes:
    return request(who)[:-1]


async def test_requests_that_wait_for_their_body_are_bounded_for_each_and_for_all() -> None:
    """A thousand half requests of one job would be the last that the server had room for."""
    async with limited(in_flight=2, total_in_flight=3) as product:
        waiting = []
        for who in ("reader", "reader", "writer"):
            waiting.append(await Talk.with_(product.url))
            await waiting[-1].send(_half(who))
        await until(lambda: product.handler.in_flight == 3)
        talk = await Talk.with_(product.url)
        mine = await talk.ask(parsed("reader"))
        assert (mine.status, mine.headers["Retry-After"]) == (429, "1")
        of_all = await talk.ask(parsed("writer"))
        assert (of_all.status, of_all.headers["Retry-After"]) == (503, "1")
        # What need not be waited for is served all the same.
        whole = await Talk.with_(product.url)
        assert (await whole.ask(request("reader"))).status == 200
        await waiting[0].send(BODY[-1:])
        assert (await waiting[0].answer()).status == 200
        assert (await talk.ask(parsed("reader"))).status == 200
        reasons = {event.reason for event in product.events()}
        assert {"in_flight_limited", "overloaded", "allowed"} == reasons
        for each in (*waiting, talk, whole):
            await each.close()
        await until(lambda: product.handler.in_flight == 0)


# -- connections -------------------------------------------------------------------------------------------------------


async def test_one_connection_too_many_is_closed_at_once() -> None:
    """Without a bound the process runs out of descriptors, and then no request is answered."""
    async with limited(connections=16) as product:
        talks = []
        for _ in range(16):
            talks.append(await Talk.with_(product.url))
            assert (await talks[-1].ask(request())).status == 200
        assert product.handler.connections == 16
        surplus = await Talk.with_(product.url)
        assert await surplus.ended() == b""
        assert product.handler.limits.connections.surplus == 1
        # The others go on, and one that ends makes room.
        assert (await talks[0].ask(request())).status == 200
        await talks[0].close()
        await until(lambda: product.handler.connections == 15)
        again = await Talk.with_(product.url)
        assert (await again.ask(request())).status == 200
        for talk in (*talks, surplus, again):
            await talk.close()
        await until(lambda: product.handler.connections == 0)


async def test_strangers_cannot_take_all_connections() -> None:
    """Connecting takes no token: a client that opens thousands and says nothing would lock out all callers with one."""
    async with limited(connections=16) as product:
        silent = [await Talk.with_(product.url) for _ in range(8)]
        await until(lambda: product.handler.connections == 8)
        caller = await Talk.with_(product.url)
        assert await silent[0].ended() == b""
        assert (await caller.ask(request())).status == 200
        for _ in range(100):
            silent.append(await Talk.with_(product.url))
            await until(lambda: product.handler.connections <= 9)
        assert (await caller.ask(request())).status == 200
        assert product.handler.limits.connections.surplus == 100
        for talk in (*silent, caller):
            await talk.close()


async def test_strangers_that_come_all_at_once_are_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections come in batches; a bound that is looked at once a batch is none."""
    async with limited(connections=16) as product:
        silent = await asyncio.gather(*[Talk.with_(product.url) for _ in range(64)])
        await until(lambda: product.handler.limits.connections.surplus >= 56)
        await until(lambda: product.handler.connections == 8)
        for talk in silent:
            await talk.close()


@pytest.mark.usefixtures("held")
async def test_a_stranger_that_has_to_make_room_takes_its_held_answer_along(ask_for: Request) -> None:
    """Places that are not given back would be used up, and every answer would go out at once again."""
    async with limited(connections=16, unauthenticated_per_second=1) as product:
        talks = [await Talk.with_(product.url) for _ in range(8)]
        for talk in talks:
            await talk.send(ask_for(None))
        held = product.handler.limits.strangers
        await until(lambda: held.now == 7)
        # The first of them was answered at once.
        for places in (7, 6, 5, 4, 3, 2, 1, 0):
            talks.append(await Talk.with_(product.url))
            await _so_many_held(held, places)
        for talk in talks:
            await talk.close()


async def _so_many_held(held: Held, number: int) -> None:
    await until(lambda: held.now == number)


async def test_a_connection_without_a_token_is_not_kept_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are what strangers could use up; a caller's connection may rest between two queries."""
    monkeypatch.setattr(direct, "STRANGER_SECONDS", 0.1)
    async with limited() as product:
        caller, refused, silent = [await Talk.with_(product.url) for _ in range(3)]
        assert (await caller.ask(request())).status == 200
        assert (await refused.ask(request(None))).status == 401
        assert await silent.ended() == b""
        assert await refused.ended() == b""
        assert (await caller.ask(request())).status == 200
        for talk in (caller, refused, silent):
            await talk.close()


@pytest.mark.parametrize("way", WAYS)
async def test_a_connection_in_use_is_not_closed(way: str) -> None:
    """Java does not repeat a request whose connection was closed under it: its task fails."""
    async with limited(keepalive=0.4) as product:
        talk = await Talk.with_(product.url)
        for _ in range(16):
            assert (await talk.ask(WAYS[way]())).status == 200
            await asyncio.sleep(0.05)
        assert await talk.ended() == b""
        await talk.close()


async def test_a_request_may_take_longer_than_a_connection_may_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is under way is not idle, however long it takes."""
    monkeypatch.setattr(limits, "HOLD_SECONDS", 0.6)
    async with limited(keepalive=0.1, unauthenticated_per_second=1) as product:
        waiting = await Talk.with_(product.url)
        await waiting.send(_half("reader"))
        strangers = [await Talk.with_(product.url) for _ in range(3)]
        await strangers[0].ask(request(None))
        await strangers[1].send(request(None))
        await strangers[2].send(parsed(None))
        await asyncio.sleep(0.25)
        await waiting.send(BODY[-1:])
        assert (await waiting.answer()).status == 200
        assert [(await talk.answer()).status for talk in strangers[1:]] == [401, 401]
        for talk in (waiting, *strangers):
            await talk.close()


@pytest.mark.parametrize("before", (b"", request(), parsed()), ids=("first", "after one at once", "after a parsed one"))
async def test_a_head_that_does_not_arrive_ends_in_time(before: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte a second, on a thousand connections: each is busy for ever, and none of them has shown a token."""
    monkeypatch.setattr(direct, "HEAD_SECONDS", 0.3)
    async with limited() as product:
        talk = await Talk.with_(product.url)
        if before:
            assert (await talk.ask(before)).status == 200
        ended = asyncio.create_task(talk.ended())
        for byte in request():
            talk.writer.write(bytes([byte]))
            await asyncio.sleep(0.01)
            if ended.done():
                break
        # It counts from the first byte: bytes that go on arriving do not prolong it.
        assert ended.done()
        assert await ended == b""
        assert product.handler.limits.connections.slow == 1
        await talk.close()


async def test_a_head_in_pieces_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens are large, and networks cut where they like."""
    monkeypatch.setattr(direct, "HEAD_SECONDS", 0.3)
    async with limited() as product:
        talk = await Talk.with_(product.url)
        for _ in range(3):
            whole = request()
            for start in range(0, len(whole), 40):
                await talk.send(whole[start : start + 40])
                await asyncio.sleep(0)
            assert (await talk.answer()).status == 200
        # Idle for longer than a head may take.
        await asyncio.sleep(0.4)
        assert (await talk.ask(request())).status == 200
        assert product.handler.limits.connections.slow == 0
        await talk.close()


async def test_an_answer_that_is_not_read_does_not_keep_a_connection() -> None:
    """A client that asks and never reads holds its answers in our memory, for as long as it likes."""
    async with limited(keepalive=0.3) as product:
        talk = await Talk.with_(product.url)
        talk.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a transport of both directions
        talk.writer.write(parsed() * 8_000)
        await until(lambda: product.handler.connections == 1)
        await until(lambda: product.handler.connections == 0)
        await talk.close()


class _Wire(asyncio.Transport):
    """A transport that goes nowhere."""

    def is_closing(self) -> bool:
        return False

    def is_reading(self) -> bool:
        return True

    def close(self) -> None:
        pass


async def test_aiohttp_learns_what_the_client_had_not_read_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would go on writing to a client that does not read, and fail where that one reads again."""
    connection = (await server_of(Product().handler, access_log=None))()
    connection.connection_made(_Wire())
    connection.pause_writing()
    connection.data_received(b"GET /")
    parsed_by = connection._parsed
    assert parsed_by is not None
    told = [parsed_by.writing_paused]
    connection.resume_writing()
    told.append(parsed_by.writing_paused)
    connection.pause_writing()
    told.append(parsed_by.writing_paused)
    assert told == [True, False, True]
    connection.connection_lost(None)


# -- what was not asked for --------------------------------------------------------------------------------------------


async def test_a_refused_request_is_heard_out() -> None:
    """A body that comes in a packet of its own must not cost a caller with an old token reason or connection."""
    async with limited() as product:
        talk = await Talk.with_(product.url)
        whole = request(None)
        await talk.send(whole[:-100])
        await asyncio.sleep(0.05)
        await talk.send(whole[-100:])
        answer = await talk.answer()
        assert answer.status == 401
        assert "Connection" not in answer.headers
        assert (await talk.ask(request())).status == 200
        await talk.close()


@pytest.mark.parametrize("who", (None, "reader"), ids=("a stranger", "a caller beyond its rate"))
async def test_a_client_is_not_listened_to_for_long_whose_request_is_refused(who: str | None) -> None:
    """A body of gigabytes behind a refused head would keep the core busy reading it."""
    async with limited(requests_per_second=1, burst=1) as product:
        first = await Talk.with_(product.url)
        assert (await first.ask(request("reader"))).status == 200
        talk = await Talk.with_(product.url)
        sent = 0
        try:
            await talk.send(_announcing(who, 10**12))
            while sent < 64 * 2**20:
                await talk.send(b"x" * MAX_MESSAGE)
                sent += MAX_MESSAGE
                await asyncio.sleep(0)
        except ConnectionError:
            pass
        # A message, and what lies in the buffers of two sockets.
        assert sent < 8 * 2**20
        await first.close()
        await talk.close()
        await until(lambda: product.handler.connections == 0)


def _announcing(who: str | None, length: int, *more: str) -> bytes:
    """Return the head of a request whose body is to be so long."""
    head = request(who, *more).partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
    return head.replace(b"Content-Length: %d\r\n" % len(BODY), b"Content-Length: %d\r\n" % length)


async def test_a_refused_body_that_does_not_come_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows on it would be taken for the next request, or for the rest of this one."""
    monkeypatch.setattr(bodies, "DISCARD_SECONDS", 0.05)
    async with limited() as product:
        talk = await Talk.with_(product.url)
        answer = await talk.ask(_announcing(None, 100) + b"{")
        assert (answer.status, answer.headers["Connection"]) == (401, "close")
        assert await talk.ended() == b""
        await talk.close()


async def test_a_client_that_waits_to_be_asked_for_its_body_is_refused_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither end waits for the other: it has not sent a body that could be heard out."""
    monkeypatch.setattr(bodies, "DISCARD_SECONDS", FOREVER)
    async with limited() as product:
        talk = await Talk.with_(product.url)
        answer = await talk.ask(_announcing(None, 100, "Expect: 100-continue"))
        assert (answer.status, answer.headers["Connection"]) == (401, "close")
        await talk.close()


@pytest.mark.usefixtures("held")
async def test_what_is_no_http_is_answered_like_a_stranger(capfd: pytest.CaptureFixture[str]) -> None:
    """It takes no token either: a flood of it must not be cheaper to send than one of requests, nor fill the log."""
    async with limited(unauthenticated_per_second=10) as product:
        talks = [await Talk.with_(product.url) for _ in range(20)]
        for talk in talks:
            await talk.send(b"\x16\x03\x01 hello\r\n\r\n")
        answer = await talks[0].answer()
        assert (answer.status, answer.headers["Connection"]) == (400, "close")
        assert answer.body["error"]["code"] == 400
        await until(lambda: product.handler.limits.strangers.now == 10)
        assert product.handler.limits.connections.unread == 20
        for talk in talks:
            await talk.close()
    assert capfd.readouterr().err.count("http request not understood") <= 2


@pytest.mark.parametrize("reason", (Reason.RATE_LIMITED, Reason.IN_FLIGHT_LIMITED, Reason.OVERLOADED))
def test_what_may_work_later_says_when(reason: Reason) -> None:
    """Java repeats 429, and 503 with Retry-After, and nothing else."""
    from signproxy.answers.reply import refusal

    assert reason.status in (429, 503)
    assert b"\r\nRetry-After: 1\r\n" in refusal(Refused(reason), "id").whole()
