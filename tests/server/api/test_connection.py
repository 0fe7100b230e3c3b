"""Requests that are answered as they arrive: only the plainest are, and no client can tell the difference."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from signproxy.answers.reply import Reply
from signproxy.errors import Reason, Refused
from signproxy.model import ByLocation, NamedTable
from signproxy.policy.catalog import Catalog
from signproxy.policy.resolver import PolicyResolver
from signproxy.s3.request import S3Request
from signproxy.server.api import direct
from signproxy.server.api.plain import Head, Heads
from tests.product import HOST, SIGN_T1, Product, sign_message, token_of
from tests.server.api.rig import server_of

BODY = msgspec.json.encode(sign_message())
AUTHORIZATION = f"Authorization: Bearer {token_of('reader')}"
PLAIN = [f"POST {SIGN_T1} HTTP/1.1", "Host: x", AUTHORIZATION, f"Content-Length: {len(BODY)}"]


def _bytes(lines: list[str], body: bytes = BODY) -> bytes:
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def test_a_plain_request_is_read_whole() -> None:
    """What Iceberg's clients send must be recognised, or the quick way is never taken."""
    java = [
        *PLAIN,
        "Accept-Encoding: gzip, deflate",
        "Connection: keep-alive",
        "User-Agent: Apache-HttpClient/5.5 (Java/17.0.15)",
        "Content-Type: application/json",
        "X-Client-Version: Apache Iceberg 1.12.0",
    ]
    read = Heads().read(_bytes(java))
    assert read is not None
    head, body = read
    assert (head.path, body) == (SIGN_T1, BODY)
    assert head.headers["Authorization"] == f"Bearer {token_of('reader')}"
    assert head.headers["X-Client-Version"] == "Apache Iceberg 1.12.0"
    requests = [*PLAIN, "User-Agent: python-requests/2.34.2", "Accept: */*", "Connection: keep-alive"]
    assert Heads().read(_bytes(requests)) is not None


_LEFT_TO_AIOHTTP: list[tuple[str, bytes]] = [
    ("empty", b""),
    ("half a head", _bytes(PLAIN, b"")[:-2]),
    ("half a body", _bytes(PLAIN, BODY[:-1])),
    ("more than a body", _bytes(PLAIN, BODY + b"P")),
    ("two requests", _bytes(PLAIN) * 2),
    ("get", _bytes(["GET /v1/config HTTP/1.1", "Host: x"], b"")),
    ("lower-case method", _bytes([PLAIN[0].replace("POST", "post"), *PLAIN[1:]])),
    ("absolute form", _bytes([PLAIN[0].replace("POST ", "POST http://x"), *PLAIN[1:]])),
    ("http/1.0", _bytes([PLAIN[0].replace("1.1", "1.0"), *PLAIN[1:]])),
    ("space in path", _bytes([PLAIN[0].replace("t1 ", "t 1 "), *PLAIN[1:]])),
    ("tab in path", _bytes([PLAIN[0].replace("t1 ", "t\t1 "), *PLAIN[1:]])),
    ("no host", _bytes([PLAIN[0], *PLAIN[2:]])),
    ("two hosts", _bytes([*PLAIN, "Host: y"])),
    ("no length", _bytes(PLAIN[:3])),
    ("two lengths", _bytes([*PLAIN, f"Content-Length: {len(BODY)}"])),
    ("two spellings", _bytes([*PLAIN, "content-length: 0"])),
    ("two spellings of the token", _bytes([*PLAIN, "authorization: Bearer x"])),
    ("length with a sign", _bytes([*PLAIN[:3], f"Content-Length: +{len(BODY)}"])),
    ("length with a zero", _bytes([*PLAIN[:3], f"Content-Length: 0{len(BODY)}"])),
    ("length in other digits", _bytes([*PLAIN[:3], "Content-Length: \xb2"])),
    ("chunked", _bytes([*PLAIN, "Transfer-Encoding: chunked"])),
    ("chunked, lower case", _bytes([*PLAIN, "transfer-encoding: chunked"])),
    ("expect", _bytes([*PLAIN, "Expect: 100-continue"])),
    ("upgrade", _bytes([*PLAIN, "Connection: Upgrade", "Upgrade: websocket"])),
    ("close", _bytes([*PLAIN, "Connection: close"])),
    ("gzip body", _bytes([*PLAIN, "Content-Encoding: gzip"])),
    ("trailers", _bytes([*PLAIN, "Trailer: X"])),
    ("folded line", _bytes([*PLAIN, "X-A: 1", " 2"])),
    ("no colon", _bytes([*PLAIN, "X-A"])),
    ("blank before the colon", _bytes([*PLAIN, "X-A : 1"])),
    ("blank in a name", _bytes([*PLAIN, "X A: 1"])),
    ("control character", _bytes([*PLAIN, "X-A: \x00"])),
    ("bare carriage return", _bytes([*PLAIN, "X-A: 1\rX-B: 2"])),
    ("bare line feed", _bytes([*PLAIN, "X-A: 1\nX-B: 2"])),
    ("not ASCII", _bytes([*PLAIN, "X-A: \xe9"])),
    ("leading line", b"\r\n" + _bytes(PLAIN)),
]


@pytest.mark.parametrize(("_name", "data"), _LEFT_TO_AIOHTTP, ids=[name for name, _ in _LEFT_TO_AIOHTTP])
def test_whatever_is_not_plain_is_left_to_aiohttp(_name: str, data: bytes) -> None:
    """Two readers that disagree on where a message ends are a request that was not checked."""
    heads = Heads()
    assert heads.read(data) is None
    # Nor if the same head, or nearly the same, was plain before.
    assert heads.read(_bytes(PLAIN)) is not None
    assert heads.read(data) is None


def _with_length(length: str, body: bytes = BODY) -> bytes:
    return _bytes([*PLAIN[:3], length, "Accept: */*"], body)


def test_a_head_that_came_before_is_not_read_again() -> None:
    """Engines repeat it for file after file; reading and judging it anew took a fifth of a signature's time."""
    heads = Heads()
    first = heads.read(_with_length(f"Content-Length: {len(BODY)}"))
    assert first is not None
    assert heads.read(_with_length("Content-Length: 2", b"{}")) == (first[0], b"{}")
    other = heads.read(_bytes([*PLAIN, "Accept: application/json"]))
    assert other is not None
    assert other[0] is not first[0]


@pytest.mark.parametrize(
    "length",
    (
        "Content-Length: 1", "Content-Length: 3", "Content-Length: +2", "Content-Length: 02", "Content-Length: 2 ",
        "Content-Length: 0x2", "Content-Length: ", "Content-Length: 2\r\nContent-Length: 2",
        "Content-Length: 2\r\nContent-Length: 3", "Content-Length: 3\r\nContent-Length: 2", "Content-Length: 2\nX: y",
        "content-length: 2\r\nContent-Length: 2", "Content-Length: 2\r\ncontent-length: 9", "X-A: 1",
        "Transfer-Encoding: chunked",
    ),
)  # fmt: skip
def test_a_length_that_is_not_exact_is_left_to_aiohttp_behind_a_known_head(length: str) -> None:
    """The length is all that may differ from a head that was read: two answers to where a body ends smuggle."""
    fresh, warm = Heads(), Heads()
    assert warm.read(_with_length(f"Content-Length: {len(BODY)}")) is not None
    for heads in (fresh, warm):
        assert heads.read(_with_length(length, b"{}")) is None


_SCRAPS = st.sampled_from([b"", b"\r", b"\n", b"\r\n", b"0", b": ", b"Content-Length: 2\r\n"])


@given(st.lists(st.tuples(st.integers(0, 400), _SCRAPS, st.integers(0, 4)), max_size=3))
def test_whether_a_head_came_before_changes_nothing(edits: list[tuple[int, bytes, int]]) -> None:
    """A client that shares a connection with a plain request cannot have another one misread."""
    data = _with_length("Content-Length: 2", b"{}")
    for at, text, cut in edits:
        data = data[:at] + text + data[at + cut :]
    warm = Heads()
    assert warm.read(_with_length(f"Content-Length: {len(BODY)}")) is not None
    fresh, known = Heads().read(data), warm.read(data)
    assert (fresh is None) == (known is None)
    if fresh is not None and known is not None:
        assert (fresh[0].path, fresh[0].headers, fresh[1]) == (known[0].path, known[0].headers, known[1])


def test_what_is_kept_of_a_connection_is_bounded() -> None:
    """Thousands of connections may each send whatever heads they like."""
    heads = Heads()
    for number in range(50):
        assert heads.read(_bytes([*PLAIN, f"X-A: {number}"])) is not None
    assert heads.read(_bytes([*PLAIN, f"X-A: {'a' * 5_000}"])) is not None
    assert 0 < len(heads._kept) <= 4
    assert sum(map(len, heads._kept)) <= 4 * 4_096


async def _exchange(product: Product, *pieces: bytes, answers: int = 1) -> list[bytes]:
    """Send the pieces, each a segment of its own, and return the answers."""
    host, _, port = product.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    got = []
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.02)
        for _ in range(answers):
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
            length = int(re.findall(rb"Content-Length: (\d+)", head)[0])
            got.append(head + await reader.readexactly(length))
    finally:
        writer.close()
    return got


def _comparable(answer: bytes) -> bytes:
    """Return an answer without what differs from request to request."""
    return re.sub(rb"[0-9A-HJKMNP-TV-Z]{26}|Signature=[0-9a-f]+|Date: [^\r]+|\d{8}T\d{6}Z", b"", answer)


_CASES = [
    ("signed", PLAIN, BODY),
    ("refused", [PLAIN[0].replace("t1", "t9"), *PLAIN[1:]], BODY),
    ("no token", [line for line in PLAIN if line != AUTHORIZATION], BODY),
    ("no message", [*PLAIN[:3], "Content-Length: 2"], b"{}"),
    ("no route", ["POST /nowhere HTTP/1.1", *PLAIN[1:]], BODY),
    ("wrong method", ["POST /v1/config HTTP/1.1", *PLAIN[1:]], BODY),
    ("request id", [*PLAIN, "X-Request-Id: job-7"], BODY),
]


_ROUTES = (SIGN_T1, "/v1/lake/namespaces/ns/tables/t1/sign")
_REFUSED = (
    (
        {"headers": {"X-Amz-Grant-Read": "s3cret"}},
        "header_refused",
        "The header 'X-Amz-Grant-Read' is not allowed here",
    ),
    (
        {"headers": {"X-Amz-Acl": "s3cret"}},
        "header_value",
        "The value of the header 'X-Amz-Acl' is not allowed here",
    ),
    (
        {"headers": {"X-Amz-Date": "s3cret"}},
        "header_credentials",
        "The request already carries credentials or a date, in the header 'X-Amz-Date'",
    ),
    (
        {"headers": {'x-\u202e"\x1b[2J': "s3cret"}},
        "header_malformed",
        "The header 'x-\\u202e\"\\x1b[2J' is not well-formed",
    ),
    (
        {
            "method": "POST",
            "uri": f"{HOST}?delete",
            "body": "<Delete><Object><Key>wh/t1/a</Key><VersionId>s3cret</VersionId></Object></Delete>",
        },
        "delete_body",
        (
            "In a table a bulk delete names objects by their key alone: VersionId is not accepted; leave it out. "
            "Only volumes accept it"
        ),
    ),
)


@pytest.mark.parametrize("route", _ROUTES)
@pytest.mark.parametrize(("asked", "reason", "words"), _REFUSED, ids=[reason for _, reason, _ in _REFUSED])
async def test_the_signer_names_what_it_refuses_whichever_way_a_request_takes(
    route: str, asked: dict[str, Any], reason: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine sends a dozen headers by itself: `A header is not allowed` does not say which one to switch off."""
    body = msgspec.json.encode(sign_message(**asked))
    writer = f"Authorization: Bearer {token_of('writer')}"
    data = _bytes([f"POST {route} HTTP/1.1", "Host: x", writer, f"Content-Length: {len(body)}"], body)
    seen = []
    for plain in (True, False):
        if not plain:
            monkeypatch.setattr(Heads, "read", lambda *_: None)
        async with Product().running() as product:
            (answer,) = await _exchange(product, data)
            (event,) = product.events()
        head, _, content = answer.partition(b"\r\n\r\n")
        error = msgspec.json.decode(content)["error"]
        spec = next(each.value for each in Reason if each.code == reason)
        assert (error["message"], error["type"], error["code"]) == (words, spec.type, spec.status)
        assert head.startswith(b"HTTP/1.1 %d " % spec.status)
        assert b"s3cret" not in answer
        # What an operator sees is what it was.
        assert (event.reason, event.http_status, event.principal) == (reason, spec.status, "static/writer")
        assert event.detail
        assert event.detail != words
        seen.append((_comparable(answer), event.reason, event.detail))
    assert seen[0] == seen[1]


@pytest.mark.parametrize(("_name", "lines", "body"), _CASES, ids=[case[0] for case in _CASES])
async def test_both_ways_answer_alike(
    _name: str, lines: list[str], body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which way a request took depends on how its bytes arrived; its answer and its event must not."""
    data = _bytes(lines, body)
    assert Heads().read(data) is not None
    seen = []
    for plain in (True, False):
        if not plain:
            monkeypatch.setattr(Heads, "read", lambda *_: None)
        async with Product().running() as product:
            (answer,) = await _exchange(product, data)
            (event,) = product.events()
            what = (event.reason, event.principal, event.key, event.http_status, event.remote_ip, event.user_agent)
            seen.append((_comparable(answer), what))
    assert seen[0] == seen[1]


async def test_a_connection_may_change_its_ways_at_any_request() -> None:
    """A client's next request may come in pieces, or with others behind it; each is answered once, in order."""
    data = _bytes(PLAIN)
    async with Product().running() as product:
        assert len(await _exchange(product, data, data, answers=2)) == 2
        assert len(await _exchange(product, data, data[:40], data[40:], data, answers=3)) == 3
        assert len(await _exchange(product, data * 3, data, answers=4)) == 4
        assert len(await _exchange(product, data[:-1], data[-1:] + data, answers=2)) == 2
        events = product.events()
    assert [event.reason for event in events] == ["allowed"] * 11
    assert len({event.event_id for event in events}) == 11


async def test_what_has_to_be_waited_for_takes_the_long_way() -> None:
    """A table that an upstream has to be asked for must not block the loop, nor be answered twice."""

    class Asking:
        asked = 0

        def resolve(self, catalog: Catalog, target: NamedTable | ByLocation, request: S3Request) -> object:
            async def ask() -> None:
                await asyncio.sleep(0)
                Asking.asked += 1

            return PolicyResolver().resolve(catalog, target, request) if Asking.asked else asyncio.ensure_future(ask())

    async with Product(resolver=Asking()).running() as product:  # type: ignore[arg-type]  # an awaitable is one
        (answer,) = await _exchange(product, _bytes(PLAIN))
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert [event.reason for event in product.events()] == ["allowed"]
    assert Asking.asked >= 1


async def test_an_idle_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections that say nothing, or nothing more, would pile up for ever."""
    from contextlib import AsyncExitStack

    from tests.server.api.rig import listen

    product = Product()
    product.trail.start()
    async with AsyncExitStack() as stack:
        address = await listen(stack, product.handler, "127.0.0.1", 0, keepalive=0.2, shutdown=1.0)
        host, _, port = address.partition(":")
        for first in (b"", _bytes(PLAIN)):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(first)
            rest = await asyncio.wait_for(reader.read(), 10)
            assert rest.startswith(b"HTTP/1.1 200 ") is bool(first)
            writer.close()
    product.trail.close(5.0)


async def test_a_client_that_does_not_read_has_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers that are not read must not fill the memory: beyond a bound aiohttp's flow control takes over."""
    monkeypatch.setattr(direct, "MAX_UNREAD", -1)
    async with Product().running() as product:
        (answer,) = await _exchange(product, _bytes(PLAIN))
        assert answer.startswith(b"HTTP/1.1 200 ")


async def test_an_answer_that_ends_the_connection_ends_it() -> None:
    """After an oversized message what follows on the connection cannot be trusted."""
    huge = _bytes([*PLAIN[:3], "Content-Length: 70000"], b"{" + b" " * 69_998 + b"}")
    async with Product().running() as product:
        host, _, port = product.url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(huge)
        assert b" 400 " in await asyncio.wait_for(reader.readline(), 10)
        writer.close()


def test_no_refusal_escapes() -> None:
    """`at_once` runs inside the transport's callback, where an exception would close the connection unheard."""
    product = Product()
    product.trail.start()
    for headers in ({}, {"Authorization": "Basic x"}, {"Authorization": "Bearer x"}):
        reply = product.handler.at_once(Head(SIGN_T1, headers), "", b"")
        assert isinstance(reply, Reply)
        assert reply.status == 401
    product.trail.close(5.0)
    assert issubclass(Refused, Exception)


# -- answers that are written together ---------------------------------------------------------------------------------


def _written_at_once(connection: direct.DirectConnection, reply: Reply) -> None:
    """Send an answer the plain way, for comparison."""
    connection._wire.write(reply.whole())
    connection._idle_since = connection._clock()
    if reply.closes:
        connection._wire.close()


class _Wire:
    """A transport that remembers what it was told."""

    def __init__(self) -> None:
        self.did: list[object] = []
        self.closing = False

    def write(self, data: bytes) -> None:
        assert not self.closing, "written behind the end"
        self.did.append(data[:12])

    def close(self) -> None:
        self.closing = True
        self.did.append("close")

    def abort(self) -> None:
        self.closing = True
        self.did.append("abort")

    def is_closing(self) -> bool:
        return self.closing

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, _name: str) -> object:
        return ("192.0.2.7", 1)

    def pause_reading(self) -> None:
        self.did.append("pause")

    def resume_reading(self) -> None:
        self.did.append("resume")

    def is_reading(self) -> bool:
        return True


_OK = b"HTTP/1.1 200"
_DATA = _bytes(PLAIN)


_TOGETHER: list[tuple[str, list[object], list[object]]] = [
    ("two in one round", [_DATA, _DATA], [_OK, _OK]),
    ("one after the other", [_DATA, "turn", _DATA, "turn"], [_OK, _OK]),
    ("the end of what the client sends", [_DATA, "eof", "turn"], [_OK]),
    ("the last answer", ["drain", _DATA, "turn"], [_OK, "close"]),
    ("the last answer behind another", [_DATA, "drain", _DATA, "turn"], [_OK, _OK, "close"]),
    ("an end that is asked for", [_DATA, "close", "turn"], [_OK, "close"]),
    ("an end by force", [_DATA, "abort", "turn"], [_OK, "abort"]),
    ("a connection that is lost", [_DATA, "lost", "turn"], []),
]


@pytest.mark.parametrize(("_name", "steps", "expected"), _TOGETHER, ids=[case[0] for case in _TOGETHER])
async def test_answers_leave_in_their_order_and_before_any_end(
    _name: str, steps: list[object], expected: list[object]
) -> None:
    """They wait for the end of the loop's round, and must not be lost, or come late, for whatever happens before it."""
    product = Product()
    product.trail.start()
    wire = _Wire()
    connection = direct.DirectConnection(await server_of(product.handler), product.handler, asyncio.get_running_loop())
    connection.connection_made(cast("asyncio.Transport", wire))
    for step in steps:
        match step:
            case bytes():
                connection.data_received(step)
            case "turn":
                await asyncio.sleep(0.01)
            case "eof":
                connection.eof_received()
                # As every transport does then.
                wire.closing = True
            case "drain":
                product.handler.drain()
            case "close":
                connection.close()
            case "abort":
                connection.abort()
            case _:
                wire.closing = True
                connection.connection_lost(None)
    await asyncio.sleep(0.01)
    assert wire.did == expected
    connection.connection_lost(None)
    assert len(product.events()) == sum(isinstance(step, bytes) for step in steps)
    product.trail.close(5.0)


async def test_answers_of_one_round_are_written_together() -> None:
    """Written in between, each wakes its client from a sleep of its own: a third of a signature's time."""
    product = Product()
    product.trail.start()
    server, loop = await server_of(product.handler), asyncio.get_running_loop()
    wires = [_Wire() for _ in range(3)]
    for wire in wires:
        connection = direct.DirectConnection(server, product.handler, loop)
        connection.connection_made(cast("asyncio.Transport", wire))
        connection.data_received(_DATA)
    assert [wire.did for wire in wires] == [[], [], []]
    await asyncio.sleep(0.01)
    assert [wire.did for wire in wires] == [[_OK]] * 3
    product.trail.close(5.0)


async def test_nothing_else_differs_from_writing_each_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests one by one, ahead of their answers, in pieces, refused, parsed: the same answers in the same order."""
    refused = _bytes([PLAIN[0].replace("t1", "t9"), *PLAIN[1:]])
    config = _bytes(["GET /v1/config HTTP/1.1", "Host: x", AUTHORIZATION], b"")
    talks: list[tuple[tuple[bytes, ...], int]] = [
        ((_DATA, _DATA, refused, _DATA), 4),
        ((_DATA + _DATA, refused), 3),
        ((_DATA[:50], _DATA[50:] + refused + _DATA), 3),
        ((_DATA, config, _DATA), 3),
        ((_DATA, config + _DATA), 3),
        ((refused, _DATA[:-1], _DATA[-1:] + config), 3),
    ]
    seen = []
    for together in (True, False):
        if not together:
            monkeypatch.setattr(direct.DirectConnection, "_send", _written_at_once)
        async with Product().running() as product:
            answers = [await _exchange(product, *pieces, answers=count) for pieces, count in talks]
            told = [(event.reason, event.kind, event.http_status) for event in product.events()]
            seen.append(([[_comparable(answer) for answer in each] for each in answers], told))
    assert seen[0] == seen[1]
    assert len(seen[0][1]) == sum(count for _, count in talks)


@pytest.mark.parametrize("new_loop", (asyncio.new_event_loop, uvloop.new_event_loop), ids=("asyncio", "uvloop"))
def test_the_quick_way_is_taken_on_either_loop(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """A transport of another kind would send every request the long way, and only the bill would show it."""
    data = _bytes(PLAIN)

    async def exchange() -> int:
        async with Product().running() as product:
            answered = 0
            at_once = product.handler.at_once

            def counted(*request: Any) -> object:
                nonlocal answered
                reply = at_once(*request)
                answered += reply is not None
                return reply

            product.handler.at_once = counted  # type: ignore[method-assign,assignment]  # observed, not changed
            await _exchange(product, data, data, data, answers=3)
            return answered

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(exchange()) == 3
