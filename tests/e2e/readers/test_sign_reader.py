"""A sign request that is read at first sight is the one that aiohttp reads, and gets the same answer and event."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import HttpRequestParser
from aiohttp.http_exceptions import HttpProcessingError

from signproxy.audit.event import AuditEvent
from signproxy.config.settings import LimitSettings
from signproxy.server.api import plain
from signproxy.server.api.listener import MAX_HEADER
from signproxy.server.api.plain import Heads
from tests.e2e.readers.bent_heads import bent_head, of_lines
from tests.e2e.readers.search import AMOUNTS, Search, counted
from tests.product import HOST, KEY, SIGN_T1, Product, sign_message, token_of
from tests.server.s3.rig import Client
from tests.server.s3.test_sequels import lasting

MORE = (
    b"X-Request-Id: r-1", b"X-Request-Id: r-1 ", b"X-Request-Id: r 1", b"X-Request-Id:r-1", b"User-Agent: x/1  y",
    b"User-Agent: caf\xc3\xa9", b"Accept: */*", b"Accept: a", b"Connection: keep-alive", b"Connection: Keep-Alive",
    b"Connection: close", b"Content-Type: application/json", b"Te: trailers", b"Expect: 100-continue", b"Etag: x",
    b"Content-Encoding: gzip", b"Transfer-Encoding: chunked", b"Upgrade: h2c", b"Authorization: Bearer x", b"X-A: \t",
    b"Host: other", b"Content-Length: 0", b"X-Empty:", b"X_Under: 1", b"Sec-Fetch-Mode: cors",
)  # fmt: skip
PATHS = (
    *[SIGN_T1] * 8, "/v1/aws/s3/sign", "/lake/v1/aws/s3/sign", "/s3-sign/v1/lake/namespaces/ns/tables/nope",
    "/s3-sign/v1/lake/namespaces/n%73/tables/t1", "/s3-sign/v1/lake/namespaces/ns/tables/t1?x=1", "//v1/aws/s3/sign",
    "/s3-sign/v1/lake/namespaces/a%1Fb+c%1Fd%2Be/tables/deep", "/v1/config?warehouse=lake", "/nothing", "/", "/%zz",
    "/v1/aws/s3/sign?", "/v1/aws/s3/sign#x", "/v1/aws/../aws/s3/sign", "/v1/aws/s3/sign;x",
)  # fmt: skip
LIKE = 4000
"""Bytes of a request that others are made from: those that grew go on in a shorter form."""
CALLERS = ("reader", "reader", "reader", "writer", "writer", "nobody", "ghost", "data-only")
BODIES: tuple[Callable[[Random], bytes], ...] = (
    lambda chance: json.dumps(sign_message(uri=f"{HOST}/{KEY}{chance.randrange(9)}")).encode(),
    lambda chance: json.dumps(sign_message(chance.choice(("PUT", "HEAD", "DELETE", "POST")))).encode(),
    lambda chance: json.dumps(sign_message(uri=f"{HOST}/wh/{chance.choice(('t2', 't1/..', 't1//', 'x'))}/f")).encode(),
    lambda chance: json.dumps(sign_message(headers={"x-amz-acl": "public-read"}, more=chance.random())).encode(),
    lambda chance: json.dumps(sign_message(properties={"a": None, "b": chance.choice("cd")})).encode(),
    lambda chance: b"\r\n" * chance.randrange(3),
    lambda chance: chance.choice((b"{", b"null", b"[]", b"\xff", b'{"a":1}', b"POST / HTTP/1.1\r\n\r\n")),
)


def message_of(chance: Random) -> bytes:
    """Return a sign request as clients send it, or nearly so."""
    body = chance.choice(BODIES)(chance)
    lines = [
        b"Host: h",
        f"Authorization: Bearer {token_of(chance.choice(CALLERS))}".encode(),
        b"Content-Length: %d" % len(body),
        *chance.sample(MORE, chance.choice((0, 0, 1, 1, 2))),
    ]
    if chance.random() < 0.5:
        chance.shuffle(lines)
    first = f"POST {chance.choice(PATHS)} HTTP/1.1".encode()
    return b"\r\n".join((first, *lines)) + b"\r\n\r\n" + body


def again(data: bytes, chance: Random) -> bytes:
    """Return a request with the head of the one before, but for the length, and with another body."""
    lines = _without_length(data)
    body = chance.choice(BODIES)(chance)
    lines.insert(chance.choice((1, len(lines))), b"Content-Length: %d" % len(body))
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def wrongly_long(data: bytes, chance: Random) -> bytes:
    """Return such a request whose length is another one than that of its body, is none, or does not end."""
    lines = _without_length(data)
    body = chance.choice(BODIES)(chance)
    right = b"%d" % len(body)
    said = chance.choice((
        b"1" + right, right + b"0", b"0" + right, right[1:], right[:-1], b"%d" % (len(body) + 1),
        b"%d" % (len(body) - 1), b"+" + right, b" " + right, right + b" ", right + b"," + right, right + b".0", b"",
        right[::-1], right + b"x", right + b"\r\nContent-Length: " + right, right + b"\r\ncontent-length: 0",
        b"-" + right,
    ))  # fmt: skip
    head = b"\r\n".join(lines) + b"\r\nContent-Length: "
    match chance.randrange(5):
        case 0:
            # The bytes are as many as they would be said to be, were the end that has not come one before the first.
            size = len(head) - 3
            return b"%b%d%b" % (head, size + len(b"%d" % size) + 1, chance.choice((b"7", b"\r", b" ")))
        case 1:
            data = b"%b%b\r\n\r\n%b" % (head, right, body)
            return data[: chance.randrange(len(data))]
        case 2:
            return b"%b%b\r\n\r\n%b%b" % (head, right, body, chance.choice((b"\r\n", b" ", b"x", data)))
        case _:
            return b"%b%b\r\n\r\n%b" % (head, said, body)


def _without_length(data: bytes) -> list[bytes]:
    lines = data.partition(b"\r\n\r\n")[0].split(b"\r\n")
    return [line for line in lines if not line.startswith(b"Content-Length: ")]


# -- what is read ------------------------------------------------------------------------------------------------------


class _Parser:
    """aiohttp's own, as its server makes it."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._parser = HttpRequestParser(
            BaseProtocol(loop), loop, 2**16, max_line_size=MAX_HEADER, max_field_size=MAX_HEADER
        )

    def read(self, data: bytes) -> tuple[str, str, list[tuple[str, str]], bytes] | str:
        """Return method, path, headers and body of exactly one request; or what else it was."""
        try:
            messages, upgraded, tail = self._parser.feed_data(data)
        except HttpProcessingError as error:
            return str(error)
        if len(messages) != 1 or upgraded or tail:
            return f"{len(messages)} messages, {upgraded}, {tail!r}"
        ((message, payload),) = messages
        if message.should_close or message.chunked or message.compression or message.upgrade:
            return f"{message!r}"
        body = b""
        if hasattr(payload, "_buffer"):
            if not payload.is_eof():
                return "a body that is not whole"
            body = b"".join(payload._buffer)
        return message.method, message.path, list(message.headers.items()), body


@AMOUNTS
async def test_what_is_read_at_first_sight_is_what_aiohttp_reads(cases: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who else reads the head may find another caller in it, another path, or the beginning of a second request."""
    search = Search("sign requests", cases)
    chance, seen = search.chance, search.seen
    counted(monkeypatch, plain, "_read", search)
    heads, last = Heads(), b""
    for _ in search:
        if chance.random() < 0.01:
            heads, last = Heads(), b""
        wrongly = False
        if last and chance.random() < 0.6:
            wrongly = chance.random() < 0.5
            data = wrongly_long(last, chance) if wrongly else again(last, chance)
        else:
            data = message_of(chance)
        if chance.random() < 0.3:
            lines, _, behind = data.partition(b"\r\n\r\n")
            lines += b"\r\n\r\n"
            # aiohttp refuses a head of more than 128 headers.
            many = chance.random() < 0.05
            data = (of_lines(lines, chance.randint(90, 140)) if many else bent_head(lines, chance)) + behind
        before = seen["as the first"]
        found = heads.read(data)
        if found is None:
            seen["left to aiohttp"] += 1
            seen["a known head with a wrong length"] += wrongly
            continue
        seen["read"] += 1
        seen["known again"] += seen["as the first"] == before
        read = _Parser().read(data)
        head, body = found
        length = [("Content-Length", str(len(body)))]
        assert not isinstance(read, str), search.told(data, read)
        assert read[:2] == ("POST", head.path), search.told(data)
        # aiohttp spells the names that it knows in its own way.
        expected = sorted((name.lower(), value) for name, value in (*head.headers.items(), *length))
        assert sorted((name.lower(), value) for name, value in read[2]) == expected, search.told(data)
        assert read[3] == body, search.told(data)
        if len(data) < LIKE:
            last = data
    search.met(
        read=0.15,
        **{"left to aiohttp": 0.15, "known again": 0.1, "a known head with a wrong length": 0.1},
    )


# -- what becomes of it ------------------------------------------------------------------------------------------------

_VOLATILE = re.compile(
    rb"(?<=Signature=)[0-9a-f]{64}|\d{8}T\d{6}Z|\b[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{26}\b|(?<=date: )[^\r]*"
)


async def answer_of(client: Client) -> bytes:
    """Return the next answer, its headers in order, without what each has of its own."""
    head, _, body = (await client.answer()).partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    return _VOLATILE.sub(b"", b"\r\n".join([first, *sorted(line.lower() for line in lines)]) + b"\r\n\r\n" + body)


class _Ways:
    """Two connections: one whose requests are read at first sight, and one whose requests aiohttp reads."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._clients: dict[str, Client] = {}

    async def ask(self, way: str, data: bytes) -> bytes:
        """Send a request; return its answer."""
        client = self._clients.get(way)
        if client is None:
            client = self._clients[way] = await Client.connect(self._address)
            if way == "aiohttp":
                # In two pieces, and so the connection is aiohttp's from then on.
                probe = b"GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n"
                await client.send(probe[:5])
                await asyncio.sleep(0.01)
                await client.send(probe[5:])
                await client.answer()
        await client.send(data)
        answer = await answer_of(client)
        if b"connection: close" in answer:
            await client.close()
            del self._clients[way]
        return answer

    async def aclose(self) -> None:
        for client in self._clients.values():
            await client.close()


@AMOUNTS
async def test_what_is_answered_at_once_gets_the_same_answer_and_event(cases: int) -> None:
    """A caller would be served, refused or recorded otherwise for how the bytes happened to arrive."""
    search = Search("answers to sign requests", cases)
    chance = search.chance
    async with Product().running() as product:
        product.handler.limits.replace(
            LimitSettings(requests_per_second=10_000_000, burst=10_000_000, unauthenticated_per_second=1_000_000)
        )
        ways = _Ways(product.url.removeprefix("http://"))
        last = b""
        for _ in search:
            known = last and chance.random() < 0.5
            data = again(last, chance) if known else message_of(chance)
            if Heads().read(data) is None:
                search.seen["left to aiohttp"] += 1
                continue
            last = data
            search.seen["known again"] += bool(known)
            at_once = await ways.ask("at once", data)
            assert at_once == await ways.ask("aiohttp", data), search.told(data)
            search.seen[at_once.split(b" ", 2)[1].decode()] += 1
        await ways.aclose()
        # What strangers are refused for is summed up; of callers each request has its event, in order.
        events = [event for event in product.events() if event.principal]
        assert len(events) % 2 == 0
        assert len(events) >= 0.3 * len(product.events())
        for one, other in zip(events[::2], events[1::2], strict=True):
            assert _lasting(one) == _lasting(other), search.told(one, other)
    search.met(**{"known again": 0.2, "200": 0.06, "400": 0.05, "401": 0.03, "403": 0.08, "404": 0.05})


def _lasting(event: AuditEvent) -> dict[str, Any]:
    told = lasting(msgspec.structs.replace(event, expires_at="", stamped=event.stamped))
    return {name: value for name, value in told.items() if name not in ("sign_us", "decided_at")}
