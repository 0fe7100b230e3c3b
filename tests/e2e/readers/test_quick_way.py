"""A request that is served at once, for it is like the one before, gets what the ordinary way would have given it."""

from __future__ import annotations

import asyncio
import re
from random import Random
from time import time
from typing import Any, NamedTuple

from signproxy.audit.event import AuditEvent
from signproxy.config.settings import LimitSettings
from signproxy.identity.emulated import IssuedKey
from signproxy.s3.sigv4 import SigningKey, amz_date
from signproxy.server.s3.connection import S3Connection
from signproxy.transfer.head import RequestHead
from signproxy.transfer.heads import RequestHeads
from tests.e2e.readers.bent_heads import bent_head
from tests.e2e.readers.search import AMOUNTS, Search
from tests.forward.upstream import serving
from tests.product import token_of
from tests.server.s3.door import REGION, Door, opened
from tests.server.s3.rig import Client
from tests.server.s3.test_sequels import NAMES, lasting, volatile
from tests.waiting import until

FOLDER = "/data/wh/t1/data/"
FOLDERS = ("/data/wh/t2/data/", "/data/wh/t1/", "/data/wh/", "/other/wh/t1/data/", "/data//wh/t1/data/", "/", "/data/")
SETS: tuple[dict[str, str], ...] = (
    {"Accept-Encoding": "identity", "User-Agent": "test/1 app/etl"},
    {"User-Agent": "test/1", "Range": "bytes=0-3", "amz-sdk-invocation-id": "1", "amz-sdk-request": "attempt=1"},
    {"Accept": "*/*", "traceparent": "00-1", "Connection": "keep-alive", "x-request-id": "mine"},
    {},
)
"""Headers that a client sends with each request, besides those that tell who it is."""
CHANGING = ("Range", "amz-sdk-invocation-id", "amz-sdk-request", "traceparent")
VALUES = ("bytes=0-1", "bytes=5-", "8f14e45f", "attempt=2; max=3", "", " ", "a  b", "x\t", "\x01", "\xe9", "00-3-4-01")
PIECES = (
    "a",
    "b-1",
    "00001",
    "_",
    "~",
    ".",
    "..",
    "%2e",
    "%2F",
    "%20",
    ";",
    "=",
    "+",
    "/",
    "?",
    "?x-id=GetObject",
    " ",
)
ENDS = (".parquet", ".metadata.json", ".metadata.json.gz", "version-hint.text", ".avro", "", "")
SKEWS = (0, 0, 0, 0, 1, -3, 60, -600, 1200, -1200)


class _Client(NamedTuple):
    """A client of one kind: who it is, what it asks, and with which headers."""

    method: str
    headers: dict[str, str]
    who: str
    key: IssuedKey | None


class Seen(NamedTuple):
    """What became of a request, but for its event."""

    head: tuple[str, ...]
    body: bytes
    sent: tuple[bytes, ...]
    closed: bool
    events: int


def client_of(door: Door, chance: Random) -> _Client:
    key = door.key(chance.choice(("reader", "writer"))) if chance.random() < 0.5 else None
    return _Client(chance.choice(("GET", "GET", "HEAD")), chance.choice(SETS), chance.choice(("reader", "writer")), key)


def name_of(chance: Random) -> str:
    """Return the last part of a path, plain ones among them."""
    if chance.random() < 0.5:
        return f"{chance.randrange(10_000):05}-{chance.randrange(99)}.parquet"
    if chance.random() < 0.3:
        return chance.choice(NAMES)
    return "".join(chance.choice(PIECES) for _ in range(chance.randint(0, 4))) + chance.choice(ENDS)


def request_of(door: Door, client: _Client, name: str, chance: Random | None = None) -> bytes:
    """Return a request as the client sends it; with `chance`, with other values of what changes, at another time."""
    folder = FOLDER if chance is None or chance.random() < 0.95 else chance.choice(FOLDERS)
    target = folder + name
    headers = {"Host": door.address, **client.headers}
    if chance is not None:
        for changing in CHANGING:
            if changing in headers and chance.random() < 0.5:
                headers[changing] = chance.choice(VALUES)
    key = client.key
    if key is None:
        headers["Authorization"] = f"Bearer {token_of(client.who)}"
    else:
        date = amz_date(int(time()) + (0 if chance is None else chance.choice(SKEWS)))
        path = target.partition("?")[0]
        signer = SigningKey(key.access_key_id, key.secret_access_key, REGION)
        authorization = signer.authorization(
            client.method, door.address, path, "", (), "UNSIGNED-PAYLOAD", date, key.session_token
        )
        if chance is not None and chance.random() < 0.05:
            authorization = authorization[:-1] + chance.choice(("0", "G", "\xe9", "\t", "", "00", ",", "\x01"))
        headers |= {
            "x-amz-date": date,
            "x-amz-content-sha256": "UNSIGNED-PAYLOAD",
            "x-amz-security-token": key.session_token,
            "Authorization": authorization,
        }
    lines = "".join(f"{each}: {value}\r\n" for each, value in headers.items())
    return f"{client.method} {target} HTTP/1.1\r\n{lines}\r\n".encode("latin-1")


class _Way:
    """A connection, by which one way is taken."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self.client: Client | None = None
        self.guest: S3Connection | None = None

    async def connect(self) -> S3Connection:
        if self.client is None:
            assert self.door.service._listener is not None
            opened_now = self.door.service._listener.guests._open
            known = set(opened_now)
            self.client = await self.door.connect()
            await until(lambda: bool(set(opened_now) - known))
            (guest,) = set(opened_now) - known
            assert isinstance(guest, S3Connection)
            self.guest = guest
        assert self.guest is not None
        return self.guest

    async def send(self, data: bytes, ids: list[str]) -> Seen:
        """Send a request; return what is seen of it, and add the id of its event."""
        await self.connect()
        assert self.client is not None
        requests = self.door.upstream.requests
        requests.clear()
        await self.client.send(data)
        async with asyncio.timeout(20):
            head = (await self.client.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            lines = {line.partition(": ")[0].lower(): line.partition(": ")[2] for line in head.split("\r\n")[1:-2]}
            closed = lines.get("connection") == "close"
            if closed:
                body = await self.client.ended()
            elif data.startswith(b"HEAD "):
                body = b""
            else:
                body = await self.client.reader.readexactly(int(lines.get("content-length", "0")))
        if closed:
            await self.close()
        found = [lines[name] for name in ("x-signproxy-event-id",) if name in lines]
        ids += found
        told = [line for line in head.split("\r\n") if not re.match(r"(?i)[^:]*(?:\bid\b|-id-2|^date)[^:]*:", line)]
        body = re.sub(rb"<(RequestId|HostId|ServerTime)>[^<]*<", rb"<\1><", body)
        return Seen(tuple(told), body, tuple(volatile(each.head) for each in requests), closed, len(found))

    async def close(self) -> None:
        if self.client is not None:
            await self.client.close()
        self.client = self.guest = None


class _Warm(_Way):
    """Requests are served at once, where that is possible."""

    async def prepare(self, client: _Client, ids: list[str]) -> bool:
        """Have the connection know the client's requests; False where none of them is served at once."""
        for number in range(6):
            guest = await self.connect()
            plain = request_of(self.door, client, f"warm-{number}.parquet")
            if guest.sequels is not None and guest.sequels._read(plain) is not None:
                return True
            # The more requests were alike and had nothing in common, the less often it is looked for.
            guest._alike = min(guest._alike, 1)
            await self.send(plain, ids)
        return False


class _General(_Way):
    """Each request is looked at as a whole."""

    async def prepare(self) -> None:
        guest = await self.connect()
        guest.sequels, guest._alike, guest._heads = None, 0, RequestHeads()


@AMOUNTS
async def test_no_request_is_served_otherwise_for_what_came_before(cases: int) -> None:
    """One spelling that is only refused on a fresh connection is a way past every rule, and out of the trail."""
    search = Search("requests on a warm connection", cases)
    chance, seen = search.chance, search.seen
    limits = LimitSettings(requests_per_second=10_000_000, burst=10_000_000, unauthenticated_per_second=1_000_000)
    async with opened(serving(b"content", 'ETag: "x"\r\n'), callers=limits) as door:
        generally = _counted(door)
        warm, general = _Warm(door), _General(door)
        client = client_of(door, chance)
        warming: list[str] = []
        pairs: list[tuple[str, str, str]] = []
        for _ in search:
            if chance.random() < 0.02:
                client = client_of(door, chance)
                await warm.close()
            assert await warm.prepare(client, warming), search.told(client.headers)
            await general.prepare()
            data = request_of(door, client, name_of(chance), chance)
            if chance.random() < 0.4:
                data = bent_head(data, chance)
            ids: list[str] = []
            before = len(generally)
            found = await warm.send(data, ids)
            seen["at once"] += len(generally) == before
            expected = await general.send(data, ids)
            assert found == expected, search.told(data)
            seen["served" if expected.head[0].split(" ")[1] == "200" else "refused"] += 1
            if ids:
                pairs.append((ids[0], ids[1], search.told(data)))
        await warm.close()
        await general.close()
        _compare_events(door, pairs, warming)
    search.met(served=0.2, refused=0.2, **{"at once": 0.15})


def _counted(door: Door) -> list[str]:
    """Return the targets of requests that are served the ordinary way, as they come."""
    generally: list[str] = []
    handler = door.service.handler
    serve, malformed = handler.serve, handler.serve_malformed

    async def counted(guest: Any, head: RequestHead, underway: Any = None) -> bool:
        generally.append(head.target)
        return await serve(guest, head, underway)

    async def counted_too(guest: Any, invalid: Any) -> None:
        generally.append("")
        await malformed(guest, invalid)

    handler.serve = counted  # type: ignore[method-assign]
    handler.serve_malformed = counted_too  # type: ignore[method-assign]
    return generally


def _compare_events(door: Door, pairs: list[tuple[str, str, str]], warming: list[str]) -> None:
    """Compare the events of both ways; each answer has one, but for those of strangers, which are summed up."""
    events: dict[str, AuditEvent] = {}
    for event in door.events():
        assert event.event_id not in events
        events[event.event_id] = event
    compared = 0
    for one, other, told in pairs:
        assert (one in events) == (other in events) or not _named(events.get(one) or events.get(other)), told
        if one in events and other in events:
            assert lasting(events[one]) == lasting(events[other]), told
            compared += 1
    assert compared >= len(pairs) // 2
    answered = {each for one, other, _ in pairs for each in (one, other)} | set(warming)
    assert {event_id for event_id, event in events.items() if event.principal} <= answered


def _named(event: AuditEvent | None) -> bool:
    return event is not None and bool(event.principal)
