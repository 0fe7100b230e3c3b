"""Sign requests that have to wait are answered on the connection that they came over, each with exactly one event."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace

import msgspec
import pytest

from signproxy.config.settings import LimitSettings
from signproxy.errors import Reason, Refused
from signproxy.gate.judgement import Judgement
from signproxy.gate.request import AskedFor
from signproxy.gate.turns import one_at_a_time
from signproxy.model import ByLocation, NamedTable, Principal, Subject
from signproxy.policy.catalog import Catalog
from signproxy.s3.request import S3Request
from signproxy.server.api import direct
from signproxy.server.api.direct import DirectConnection
from signproxy.server.api.listener import Listener
from signproxy.server.process.sockets import bind_tcp
from tests.product import HOST, SIGN_T1, Product, sign_message, token_of
from tests.server.api.rig import server_of
from tests.server.talk import Talk, parsed, request
from tests.waiting import until


class Asking:
    """Tells of a table once it is let go of; every other request waits for it as well."""

    def __init__(self) -> None:
        self.asked = 0
        self.waits = True
        self.known = False
        self.told = asyncio.Event()
        self.refusal: Refused | None = None

    def resolve(self, catalog: Catalog, target: NamedTable | ByLocation, _request: S3Request) -> object:
        assert isinstance(target, NamedTable)
        table = catalog.table(target.namespace, target.name)
        assert table is not None
        if self.known or not self.waits:
            return (table,)
        self.asked += 1
        return self._ask()

    async def _ask(self) -> None:
        await self.told.wait()
        if self.refusal is not None:
            raise Refused(self.refusal.reason, self.refusal.detail)
        self.known = True


@asynccontextmanager
async def asking() -> AsyncIterator[tuple[Product, Asking, Talk]]:
    resolver = Asking()
    async with Product(resolver=resolver).running() as product:  # type: ignore[arg-type]  # an awaitable is one
        talk = await Talk.with_(product.url)
        try:
            yield product, resolver, talk
        finally:
            resolver.told.set()
            await talk.close()


def reasons(product: Product) -> list[str]:
    return [event.reason for event in product.events()]


async def test_a_request_that_waits_is_judged_once_and_the_next_one_needs_no_task() -> None:
    """A first request for a table would make every later one of its connection slow."""
    async with asking() as (product, resolver, talk):
        await talk.send(request())
        await until(lambda: product.handler.in_flight == 1)
        resolver.told.set()
        assert (await talk.answer()).status == 200
        assert resolver.asked == 1
        assert product.handler.in_flight == 0
        resolver.waits = False
        tasks = len(asyncio.all_tasks())
        assert (await talk.ask(request())).status == 200
        assert len(asyncio.all_tasks()) == tasks
    assert reasons(product) == ["allowed"] * 2


async def test_what_came_meanwhile_is_answered_in_its_turn() -> None:
    """An answer that overtakes another one would be taken for it."""
    async with asking() as (product, resolver, talk):
        await talk.send(request())
        await until(lambda: product.handler.in_flight == 1)
        await talk.send(request("sign-only") + request() + request(None))
        await asyncio.sleep(0.05)
        assert resolver.asked == 1
        resolver.told.set()
        assert [(await talk.answer()).status for _ in range(4)] == [200, 403, 200, 401]
    assert [reason for reason in reasons(product) if reason != "token_missing"] == [
        "allowed", Reason.NO_READ_DATA.code, "allowed"
    ]  # fmt: skip


async def test_what_is_refused_after_it_waited_is_told_and_recorded() -> None:
    """The refusal of an upstream reaches the caller that caused the question."""
    async with asking() as (product, resolver, talk):
        resolver.refusal = Refused(Reason.UPSTREAM_UNAVAILABLE, "down")
        resolver.told.set()
        answer = await talk.ask(request())
        assert answer.status == Reason.UPSTREAM_UNAVAILABLE.status
        assert product.handler.in_flight == 0
    assert reasons(product) == ["upstream_unavailable"]


async def test_requests_that_wait_have_their_limit() -> None:
    """One caller's requests for tables that are not known would wait in the memory of all."""
    async with asking() as (product, resolver, talk):
        product.handler.limits.replace(LimitSettings(in_flight=2))
        others = [await Talk.with_(product.url) for _ in range(2)]
        for other in others:
            await other.send(request())
        await until(lambda: product.handler.in_flight == 2)
        answer = await talk.ask(request())
        assert (answer.status, answer.reason) == (429, Reason.IN_FLIGHT_LIMITED.value.type)
        resolver.told.set()
        assert [(await other.answer()).status for other in others] == [200, 200]
        assert (await talk.ask(request())).status == 200
        for other in others:
            await other.close()
    assert sorted(reasons(product)) == ["allowed"] * 3 + ["in_flight_limited"]


@pytest.mark.parametrize("turns", range(4))
async def test_the_end_of_the_server_leaves_one_event_for_each(turns: int) -> None:
    """A request that is lost without an event is one that no operator can account for."""
    resolver = Asking()
    product = Product(resolver=resolver)  # type: ignore[arg-type]  # an awaitable is one
    product.trail.start()
    listener = await Listener.open(product.handler, bind_tcp("127.0.0.1", 0))
    talk = await Talk.with_(f"http://{listener.addresses[0]}")
    await talk.send(request())
    await until(lambda: product.handler.in_flight == 1)
    for _ in range(turns):
        await asyncio.sleep(0)
    await listener.finish(0.1)
    assert await talk.ended() == b""
    assert product.handler.in_flight == 0
    await talk.close()
    assert reasons(product) == ["client_gone"]
    await asyncio.to_thread(product.trail.close, 5.0)


async def test_a_connection_that_is_cut_before_the_task_runs_leaves_its_event() -> None:
    """A task that is cancelled before its first turn runs nothing: the request would be lost."""
    product = Product(resolver=Asking())  # type: ignore[arg-type]  # an awaitable is one
    product.trail.start()
    server = await server_of(product.handler)
    connection = DirectConnection(server, product.handler, asyncio.get_running_loop())
    wire = Wire(connection)
    connection.connection_made(wire)
    connection.data_received(request())
    assert connection.task is not None
    assert product.events() == []
    connection.abort()
    await until(lambda: not server.guests.open)
    await until(lambda: product.handler.in_flight == 0)
    assert reasons(product) == ["client_gone"]
    await asyncio.to_thread(product.trail.close, 5.0)


class Wire(asyncio.Transport):
    """A transport that ends when it is told to."""

    def __init__(self, connection: DirectConnection) -> None:
        super().__init__()
        self._connection = connection
        self._ended = False

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    def is_closing(self) -> bool:
        return self._ended

    def abort(self) -> None:
        if not self._ended:
            self._ended = True
            self._connection.connection_lost(None)


async def test_both_readers_answer_alike_what_has_to_wait() -> None:
    """The quick reader and aiohttp's are two readers of one request."""
    seen: list[list[tuple[int, str]]] = []
    for form in (request, parsed):
        async with asking() as (product, resolver, talk):
            resolver.told.set()
            answers = [await talk.ask(form(who)) for who in ("reader", "sign-only", "nobody", None)]
            told = ["" if answer.status == 200 else answer.reason for answer in answers]
        seen.append([(answer.status, why) for answer, why in zip(answers, told, strict=True)])
        seen.append(
            [(event.http_status, event.reason) for event in sorted(product.events(), key=lambda each: each.reason)]
        )
    assert seen[0] == seen[2]
    assert seen[1] == seen[3]
    assert len(seen[1]) == 4


async def test_a_short_bulk_delete_does_not_wait_for_a_long_one_of_another_caller() -> None:
    """A caller with long bodies would keep the short requests of every other one waiting, counted by no limit."""
    document = "<Delete><Object><Key>wh/t1/data/a</Key></Object></Delete>"
    body = msgspec.json.encode(sign_message("POST", f"{HOST}?delete", body=document))
    assert len(body) < direct.AT_ONCE
    async with Product().running() as product:
        talk = await Talk.with_(product.url)
        async with one_at_a_time(), asyncio.timeout(1):
            assert (await talk.ask(request("writer", body=body))).status == 200
        await talk.close()


async def test_no_place_is_held_by_a_refused_request_that_is_only_heard_out() -> None:
    """Those whose bodies are forgotten would keep the caller's other requests from being served for two seconds."""
    async with Product().running() as product:
        talk = await Talk.with_(product.url)
        lines = f"POST {SIGN_T1} HTTP/1.1", "host: x", f"authorization: Bearer {token_of('reader')}"
        await talk.send("\r\n".join([*lines, "content-length: 9000000", "", ""]).encode())
        await until(lambda: bool(product.events()))
        assert product.handler.in_flight == 0
        assert (await talk.answer()).status == 413
        await talk.close()


@pytest.mark.parametrize("form", (request, parsed))
async def test_an_answer_is_not_held_back_once_the_server_ends(form: Callable[[], bytes]) -> None:
    """The server does not wait that long: it would be cut off before its answer."""
    resolver = Asking()
    product = Product(resolver=resolver)  # type: ignore[arg-type]  # an awaitable is one
    product.trail.start()
    listener = await Listener.open(product.handler, bind_tcp("127.0.0.1", 0))
    talk = await Talk.with_(f"http://{listener.addresses[0]}")
    await talk.send(form())
    await until(lambda: product.handler.in_flight == 1)
    resolver.refusal = Refused(Reason.RATE_LIMITED, "by the upstream")
    asyncio.get_running_loop().call_later(0.2, resolver.told.set)
    # Longer than the time for what is in flight, and less than the second after it.
    await listener.finish(0.1)
    assert (await talk.ended()).startswith(b"HTTP/1.1 429 ")
    await talk.close()
    await asyncio.to_thread(product.trail.close, 5.0)


async def test_who_was_waited_for_is_not_remembered_by_rooms_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection would ask the upstreams that a reload brought without a token, until the token ends."""
    product = Product()
    authenticator, told = product.authenticator, asyncio.Event()
    authenticate = authenticator.authenticate
    bearers: list[str] = []

    asked: list[bool] = []

    async def later(token: str) -> Principal:
        asked.append(True)
        await told.wait()
        found = authenticate(token)
        assert isinstance(found, Principal)
        return found

    def judge(_subject: Subject, asked: AskedFor) -> Judgement:
        bearers.append(asked.bearer)
        raise Refused(Reason.NO_READ_DATA)

    def at_once_or_later(token: str) -> object:
        return authenticate(token) if told.is_set() else later(token)

    monkeypatch.setattr(authenticator, "authenticate", at_once_or_later)
    async with product.running():
        product.sign_by(gate=SimpleNamespace(judge=judge, state=product.state))
        talk = await Talk.with_(product.url)
        await talk.send(request())
        await until(lambda: asked == [True])
        product.sign_by(carried=lambda *_: None)
        told.set()
        assert (await talk.answer()).status == 403
        assert (await talk.ask(request())).status == 403
        await talk.close()
    assert bearers == ["", token_of("reader")]
