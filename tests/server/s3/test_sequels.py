"""A request that is like the one before is served at once, and gets what it would have got as the first one."""

from __future__ import annotations

import asyncio
import gc
import re
import socket
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from time import time
from typing import Any, NamedTuple, cast
from weakref import ref

import boto3
import msgspec
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from signproxy.audit.event import AuditEvent
from signproxy.config.s3 import S3LimitSettings
from signproxy.config.settings import LimitSettings
from signproxy.forward.relay import SMALL
from signproxy.gate import events as events_module
from signproxy.s3.sigv4 import SigningKey, amz_date
from signproxy.server.s3 import sequels as module
from signproxy.server.s3.connection import S3Connection
from signproxy.transfer.head import RequestHead
from tests.forward.upstream import Script, Talk, serving
from tests.policies import MemoryPolicySource
from tests.product import token_of
from tests.server.s3.door import POLICY, REGION, Answer, Door, answer_of, opened, request, signed
from tests.server.s3.rig import Client
from tests.waiting import until

FOLDER = "/data/wh/t1/data/"
KEPT = {"Accept-Encoding": "identity", "User-Agent": "test/1 app/etl"}
EACH_TIME = (
    "event_id",
    "request_id",
    "seq",
    "ts",
    "total_us",
    "authz_us",
    "first_byte_us",
    "upstream_us",
    "connect_us",
)
"""What differs between the events of two requests that are the same."""


class Warm:
    """A connection on which two requests were served, so that the next may be served at once."""

    def __init__(self, door: Door, client: Client) -> None:
        self.door = door
        self.client = client
        self.generally: list[str] = []
        serve = door.service.handler.serve

        async def counted(guest: Any, head: RequestHead, handover: Any = None) -> bool:
            self.generally.append(head.target)
            return await serve(guest, head, handover)

        door.service.handler.serve = counted  # type: ignore[method-assign]

    async def ask(self, name: str, **more: Any) -> Answer:
        """Ask for an object of the folder."""
        return await self.send(asking(name, **more))

    async def send(self, data: bytes, method: str = "GET") -> Answer:
        await self.client.send(data)
        async with asyncio.timeout(20):
            return await answer_of(self.client, method)


def asking(
    name: str,
    method: str = "GET",
    who: str | None = "reader",
    headers: Mapping[str, str] | None = None,
    folder: str = FOLDER,
) -> bytes:
    return request(method, folder + name, who=who, headers={**KEPT, **(headers or {})})


@asynccontextmanager
async def warm(*scripts: Script, method: str = "GET", who: str = "reader", **more: Any) -> AsyncIterator[Warm]:
    async with opened(*(scripts or (serving(b"content", 'ETag: "x"\r\n'),)), **more) as door:
        client = await door.connect()
        warmed = Warm(door, client)
        for name in ("first.parquet", "second.parquet"):
            assert (await warmed.send(asking(name, method, who), method)).status == 200
        assert len(warmed.generally) == 2
        warmed.generally.clear()
        yield warmed
        await client.close()


async def settled(door: Door, events: int) -> list[AuditEvent]:
    """Return the events once there are so many; a moment later there are no more."""
    await until(lambda: len(door.events()) >= events)
    await asyncio.sleep(0.05)
    found = door.events()
    assert len(found) == events, [(event.key, event.reason) for event in found]
    assert door.service.in_flight == 0
    return found


# -- the same as the first ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ("GET", "HEAD"))
async def test_each_object_is_asked_for_and_recorded_by_its_own_name(method: str) -> None:
    """A name that stuck would give one object's content as another's, or blame a reader for what was never read."""
    content = b"content" if method == "GET" else b""
    async with warm(serving(content), method=method) as warmed:
        for number in range(5):
            answer = await warmed.send(asking(f"{number}.parquet", method), method)
            assert (answer.status, answer.body) == (200, content)
            assert warmed.door.upstream.requests[-1].target == f"{FOLDER}{number}.parquet"
            event = (await settled(warmed.door, 3 + number))[-1]
            assert event.event_id == answer.headers["x-signproxy-event-id"]
            # The store's log has it, too.
            assert (event.stamped, warmed.door.upstream.requests[-1].stamp) == (True, event.event_id)
            assert event.key == f"wh/t1/data/{number}.parquet"
            assert event.bytes_out == len(answer.body)
        assert warmed.generally == []
        ids = [event.event_id for event in warmed.door.events()]
        assert len(set(ids)) == len(ids)
        assert warmed.door.upstream.connections == 1


async def test_each_is_counted_and_measured() -> None:
    """Dashboards would show a fraction of the traffic, and alerts would not fire."""
    async with warm() as warmed:
        for number in range(3):
            assert (await warmed.ask(f"{number}")).status == 200
        assert warmed.generally == []
        await settled(warmed.door, 5)
        text = warmed.door.product.metrics.render().body.decode()
        for line in (
            'signproxy_requests_total{decision="allow",op="GetObject",reason="allowed"} 5.0',
            'signproxy_forward_requests_total{decision="allow",op="GetObject",status="2xx"} 5.0',
            f'signproxy_forward_bytes_total{{direction="out"}} {5.0 * len(b"content")}',
            'signproxy_request_duration_seconds_count{stage="total"} 5.0',
            'signproxy_forward_duration_seconds_count{phase="authz"} 5.0',
            'signproxy_forward_duration_seconds_count{phase="first_byte"} 5.0',
            'signproxy_forward_duration_seconds_count{phase="transfer"} 5.0',
        ):
            assert f"{line}\n" in text, (line, text)


def volatile(head: bytes) -> bytes:
    """Return a head without what each request has of its own."""
    head = re.sub(rb"(x-signproxy-id=)[0-9A-Z]{26}", rb"\1", head)
    return re.sub(rb"(?i)(authorization|x-amz-date|amz-sdk-invocation-id): [^\r]*", rb"\1", head)


def lasting(event: AuditEvent) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(event).items() if name not in EACH_TIME}


NAMES = (
    "plain.parquet",
    "a-b_c~d.0",
    "v1.metadata.json",
    "00001-x.gz.metadata.json",
    "version-hint.text",
    "..",
    ".",
    ".hidden",
    "ends.",
    "",
    "a;b",
    "%2e%2e",
    "a%2Fb",
    "a%20b",
    "a+b",
    "a=b",
    "a b",
    "a//b",
    "../../t2/data/a.parquet",
    "deeper/a.parquet",
    "x" * 900,
    "x" * 1100,
    "a?versionId=3",
    "a?",
    "a#b",
    "a\\b",
    "\xe9",
    "metadata",
)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("who", ("reader", "writer"))
async def test_whatever_name_comes_next_it_is_treated_as_if_it_came_first(name: str, who: str) -> None:
    """One spelling that is only refused on a fresh connection is a way past every rule."""
    await compared(lambda: asking(name, who=who), who=who)


@pytest.mark.parametrize("before", ("x%2Fa", "%78", "a%20b", "a+b", "a?", "a?partNumber=1"))
async def test_what_was_spelled_otherwise_says_nothing_of_what_comes_next(before: str) -> None:
    """The key of an escaped slash lies in another folder than its path: a neighbour would be judged for that one."""
    async with opened(serving(b"content")) as door:
        warmed = Warm(door, await door.connect())
        for number in range(4):
            await warmed.ask(f"{before}{number}" if "?" not in before else f"{number}{before}", who="reader")
            assert (await warmed.ask(before, who="reader")).status in (200, 403)
        assert len(warmed.generally) == 8
        assert (await warmed.ask("third", who="reader")).status == 200
        assert door.events()[-1].key == "wh/t1/data/third"
        await warmed.client.close()


FOLDERS = ("/data/wh/t2/data/", "/data/wh/t1/", "/data/wh/", "/other/wh/t1/data/", "/data//wh/t1/data/", "/nowhere/a/")


@pytest.mark.parametrize("folder", FOLDERS)
async def test_another_folder_is_judged_for_itself(folder: str) -> None:
    """What was found for one table would hold for its neighbour's."""
    await compared(lambda: asking("a.parquet", folder=folder))


def lines(*changed: tuple[str, str]) -> Callable[[], bytes]:
    """Return a request with parts of it replaced."""

    def build() -> bytes:
        text = asking("third.parquet").decode("latin-1")
        for old, new in changed:
            assert old in text
            text = text.replace(old, new, 1)
        return text.encode("latin-1")

    return build


AGENT = "User-Agent: test/1 app/etl\r\n"
HEADS: dict[str, Callable[[], bytes]] = {
    "another caller": lambda: asking("a.parquet", who="writer"),
    "nobody": lambda: asking("a.parquet", who="nobody"),
    "no caller": lambda: asking("a.parquet", who=None),
    "a token that is none": lines((token_of("reader"), "0" * 39)),
    "another method": lambda: asking("a.parquet", "DELETE"),
    "HEAD": lambda: asking("a.parquet", "HEAD"),
    "another client": lines((AGENT, "User-Agent: test/2\r\n")),
    "one header more": lambda: asking("a.parquet", headers={"If-None-Match": '"x"'}),
    "a header that is refused": lambda: asking("a.parquet", headers={"x-amz-acl": "public-read"}),
    "one header less": lines((AGENT, "")),
    "a header in place of another": lines(("User-Agent: test/1 app/etl", "Range: bytes=0-1")),
    "a header twice": lines((AGENT, f"{AGENT}Range: bytes=0-1\r\nRange: bytes=2-3\r\n")),
    "another spelling": lines(("User-Agent", "user-agent")),
    "blanks": lines(("Accept-Encoding: identity", "Accept-Encoding:   identity ")),
    "another host": lines(("Host: 127.0.0.1", "Host: data.example")),
    "no host": lines(("Host: 127.0.0.1\r\n", "")),
    "the end of the connection": lambda: asking("a.parquet", headers={"Connection": "close"}),
    "an older protocol": lines(("HTTP/1.1", "HTTP/1.0")),
    "a protocol that is none": lines(("HTTP/1.1", "HTTP/2.0")),
    "an upgrade": lambda: asking("a.parquet", headers={"Connection": "upgrade", "Upgrade": "h2c"}),
    "a body": lambda: asking("a.parquet", headers={"Content-Length": "3"}) + b"abc",
    "a body of chunks": lambda: asking("a.parquet", headers={"Transfer-Encoding": "chunked"}) + b"0\r\n\r\n",
    "a bare line feed": lines(("\r\nHost", "\nHost")),
    "a folded line": lines(("User-Agent: test/1", "User-Agent:\r\n test/1")),
    "a second line in a value": lines(("test/1 app/etl", "test/1\rx-amz-acl: public-read")),
    "two blanks in the first line": lines(("GET ", "GET  ")),
    "an absolute target": lines(("GET /", "GET http://127.0.0.1/")),
    "an id of the client's": lambda: asking("a.parquet", headers={"x-request-id": "mine-1"}),
}


@pytest.mark.parametrize("change", HEADS)
async def test_whatever_else_comes_next_it_is_treated_as_if_it_came_first(change: str) -> None:
    """What is taken for a repetition is not looked at: anything could be hidden in it."""
    await compared(HEADS[change])


FREE = {
    "amz-sdk-invocation-id": ("8f14e45f", "9a25f56a"),
    "amz-sdk-request": ("attempt=1", "attempt=2; max=3"),
    "Range": ("bytes=0-3", "bytes=4-7"),
    "traceparent": ("00-1-2-01", "00-3-4-01"),
}


@pytest.mark.parametrize("name", FREE)
async def test_what_clients_change_each_time_goes_on_as_it_came(name: str) -> None:
    """A range that stuck would give one part of an object for another."""
    async with opened(serving(b"content")) as door:
        warmed = Warm(door, await door.connect())
        values = FREE[name]
        for number in range(6):
            value = values[number % 2]
            assert (await warmed.ask(f"{number}", headers={name: value})).status == 200
            assert door.upstream.requests[-1].header(name.lower()) == value
        assert len(warmed.generally) == 2
        # What the grammar of a head does not take is never sent on.
        await warmed.client.send(asking("x", headers={name: "bytes=0-1\x01"}))
        assert b" 400 " in await warmed.client.answer()
        assert len(door.upstream.requests) == 6
        await warmed.client.close()


class Seen(NamedTuple):
    """What became of a request."""

    status: int
    body: bytes
    headers: dict[str, str]
    sent: list[bytes]
    events: list[dict[str, Any]]


async def compared(build: Callable[[], bytes], who: str = "reader") -> None:
    """Send a request on a fresh connection, and behind others like it: all that is seen of it must be the same."""
    async with warm(who=who) as warmed:
        fresh = await warmed.door.connect()
        first = await seen(warmed.door, fresh, build())
        await fresh.close()
        third = await seen(warmed.door, warmed.client, build())
        assert third == first


async def seen(door: Door, client: Client, data: bytes) -> Seen:
    sent, events = len(door.upstream.requests), len(door.events())
    await client.send(data)
    answer = await answer_of(client, "HEAD" if data.startswith(b"HEAD") else "GET")
    # Where nothing was recognised there is no event either.
    await asyncio.sleep(0.02)
    told = {name: value for name, value in answer.headers.items() if "id" not in name.lower() and name != "Date"}
    body = re.sub(rb"<(RequestId|HostId)>[^<]*<", rb"<\1><", answer.body)
    heads = [volatile(received.head) for received in door.upstream.requests[sent:]]
    return Seen(answer.status, body, told, heads, [lasting(event) for event in door.events()[events:]])


# -- who signs ---------------------------------------------------------------------------------------------------------


def of_key(door: Door, key: Any, name: str, date: str = "", **changed: str) -> bytes:
    """Return a request that the holder of a key has signed, for an object, at a time; then parts of it were changed."""
    headers = signed(door, key, "GET", FOLDER + name)
    if date:
        headers["x-amz-date"] = date
        headers["Authorization"] = SigningKey(key.access_key_id, key.secret_access_key, REGION).authorization(
            "GET", door.address, FOLDER + name, "", (), "UNSIGNED-PAYLOAD", date, key.session_token
        )
    headers |= {each.replace("_", "-"): value for each, value in changed.items()}
    return request("GET", FOLDER + name, who=None, headers=headers)


async def test_each_signature_is_verified() -> None:
    """An observer of one request could ask for every object beside it."""
    async with opened(serving(b"content")) as door:
        key = door.key("reader")
        warmed = Warm(door, await door.connect())
        for number in range(4):
            assert (await warmed.send(of_key(door, key, f"{number}"))).status == 200
        assert len(warmed.generally) == 2
        now = time()
        later = amz_date(int(now) + 3)
        assert (await warmed.send(of_key(door, key, "later", later))).status == 200
        assert len(warmed.generally) == 2
        taken = dict(line.split(": ", 1) for line in of_key(door, key, "mine").decode().split("\r\n")[1:-2])
        forged = {
            "another's signature": of_key(door, key, "other", Authorization=taken["Authorization"]),
            "no signature": of_key(door, key, "x", Authorization=taken["Authorization"][:-64] + "0" * 64),
            "a short one": of_key(door, key, "x", Authorization=taken["Authorization"][:-1]),
            "another time": of_key(door, key, "x", x_amz_date=amz_date(int(now) - 60)),
            "long ago": of_key(door, key, "x", amz_date(int(now) - 1000)),
            "far ahead": of_key(door, key, "x", amz_date(int(now) + 1000)),
            "no time": of_key(door, key, "x", x_amz_date="now"),
        }
        for what, data in forged.items():
            generally = len(warmed.generally)
            status = (await warmed.send(data)).status
            assert status in (400, 403), what
            assert len(warmed.generally) == generally + 1, what
        assert len(door.upstream.requests) == 5
        for event in (await settled(door, 5 + len(forged)))[5:]:
            assert event.decision.value == "deny"
        await warmed.client.close()


async def test_headers_that_are_signed_may_differ_if_the_signature_says_so() -> None:
    """SDKs sign the id of each call; a value that is not signed must not be taken for theirs."""
    async with opened(serving(b"content")) as door:
        key = door.key("reader")
        warmed = Warm(door, await door.connect())

        def calling(name: str, signed_id: str, sent_id: str) -> bytes:
            date = amz_date(int(time()))
            authorization = SigningKey(key.access_key_id, key.secret_access_key, REGION).authorization(
                "GET",
                door.address,
                FOLDER + name,
                "",
                (("amz-sdk-invocation-id", signed_id),),
                "UNSIGNED-PAYLOAD",
                date,
                key.session_token,
            )
            headers = signed(door, key, "GET", FOLDER + name)
            headers |= {"amz-sdk-invocation-id": sent_id, "Authorization": authorization, "x-amz-date": date}
            return request("GET", FOLDER + name, who=None, headers=headers)

        for number in range(5):
            assert (await warmed.send(calling(f"{number}", f"call {number}", f"call {number}"))).status == 200
        assert len(warmed.generally) == 2
        assert (await warmed.send(calling("x", "call 6", "call 7"))).status == 403
        assert (await warmed.send(calling("y", "call  8", "call  8"))).status == 403
        assert (await warmed.send(calling("z", "call 8", "call  8"))).status == 200
        assert len(warmed.generally) == 5
        await warmed.client.close()


async def test_a_token_in_an_sdk_s_session_token_is_known_again() -> None:
    """SDKs that cannot send a bearer token sign around one; what they sign with proves nothing."""
    async with opened(serving(b"content")) as door:
        warmed = Warm(door, await door.connect())

        def asked(name: str, who: str, end: str = "") -> bytes:
            headers = {
                "Authorization": SigningKey("any", "thing", REGION).authorization(
                    "GET", "h", FOLDER + name, "", (), "UNSIGNED-PAYLOAD", amz_date(int(time())), token_of(who)
                )
                + end,
                "x-amz-date": amz_date(int(time())),
                "x-amz-content-sha256": "UNSIGNED-PAYLOAD",
                "x-amz-security-token": token_of(who),
            }
            return request("GET", FOLDER + name, who=None, headers=headers)

        for number in range(4):
            assert (await warmed.send(asked(f"{number}", "reader"))).status == 200
        assert len(warmed.generally) == 2
        assert (await warmed.send(asked("x", "nobody"))).status == 403
        assert (await warmed.send(asked("x", "reader", "0"))).status == 400
        assert len(door.upstream.requests) == 4
        await warmed.client.close()


async def test_a_real_sdk_is_served_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What only clients of tests send alike helps no real client: SDKs name, date and sign each of their calls."""
    async with opened(serving(b"content", 'ETag: "x"\r\n')) as door:
        warmed = Warm(door, await door.connect())
        key = door.key("reader")
        # Where a proxy is set for the machine, loopback is not its business.
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")

        def read() -> list[bytes]:
            client = boto3.client(
                "s3",
                endpoint_url=f"http://{door.address}",
                region_name=REGION,
                aws_access_key_id=key.access_key_id,
                aws_secret_access_key=key.secret_access_key,
                aws_session_token=key.session_token,
                config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
            )
            got = [client.get_object(Bucket="data", Key=f"wh/t1/data/{n}.parquet")["Body"].read() for n in range(10)]
            got += [
                client.get_object(Bucket="data", Key=f"wh/t1/data/{n}", Range=f"bytes={n}-{n + 6}")["Body"].read()
                for n in range(10)
            ]
            for denied in ("wh/t2/data/a.parquet", "wh/t1/metadata/v1.metadata.json"):
                with pytest.raises(ClientError, match="AccessDenied"):
                    client.get_object(Bucket="data", Key=denied)
            return got

        assert await asyncio.to_thread(read) == [b"content"] * 20
        # Two of each kind, until it is seen that they are alike, and what is refused.
        assert len(warmed.generally) == 6
        assert [received.header("range") for received in door.upstream.requests[10:]] == [
            f"bytes={n}-{n + 6}" for n in range(10)
        ]
        assert len(door.upstream.requests) == 20
        keys = [event.key for event in await settled(door, 22)]
        assert keys[:20] == [f"wh/t1/data/{n}.parquet" for n in range(10)] + [f"wh/t1/data/{n}" for n in range(10)]
        await warmed.client.close()


# -- what changes meanwhile --------------------------------------------------------------------------------------------


async def test_a_policy_that_takes_something_away_holds_from_the_next_request_on() -> None:
    """A connection that is never idle would keep what was revoked for ever."""
    async with warm() as warmed:
        door = warmed.door
        assert (await warmed.ask("a")).status == 200
        text = (POLICY % door.upstream.port).replace(
            "role: reader, namespace: ns, table: t1", "role: reader, namespace: ns, table: t2"
        )
        door.product.state = MemoryPolicySource(text, single_issuer=True).load(2)
        assert (await warmed.ask("b")).status == 403
        assert len(door.upstream.requests) == 3


async def test_an_idle_connection_keeps_no_policy_that_was_replaced() -> None:
    """A million tables would stay in memory for each reload, as long as a client is connected."""
    async with warm() as warmed:
        product = warmed.door.product
        (guest,) = warmed.door.service._listener.guests._open  # type: ignore[union-attr]
        assert isinstance(guest, S3Connection)
        assert guest.sequels is not None
        replaced = ref(product.state)
        product.state = MemoryPolicySource(POLICY % warmed.door.upstream.port, single_issuer=True).load(2)
        product.source = cast("Any", None)
        # What the gate itself remembers goes with the next request of the same caller.
        assert (await warmed.door.ask("GET", f"{FOLDER}a", who="reader")).status == 200
        gc.collect()
        assert replaced() is None
        assert guest.sequels is not None
        assert (await warmed.ask("b")).status == 200
        assert len(warmed.generally) == 2


async def test_a_caller_that_is_not_vouched_for_any_more_is_refused() -> None:
    """Tokens end, and issuers are thrown out, while their connections live on."""
    async with warm() as warmed:
        authenticator = warmed.door.product.authenticator
        assert (await warmed.ask("a")).status == 200
        authenticator.commit(authenticator.prepare((), None, None))
        assert (await warmed.ask("b")).status in (400, 403)
        assert len(warmed.door.upstream.requests) == 3


async def test_other_settings_hold_from_the_next_request_on() -> None:
    """What was switched off would stay on for connected clients."""
    async with warm() as warmed:
        assert (await warmed.ask("a")).status == 200
        assert warmed.generally == []
        warmed.door.reload(warmed.door.settings.s3)
        assert (await warmed.ask("b")).status == 200
        assert len(warmed.generally) == 1


async def test_limits_hold() -> None:
    """A caller on a warm connection would have no limits at all."""
    async with warm(callers=LimitSettings(requests_per_second=1, burst=4)) as warmed:
        assert (await warmed.ask("a")).status == 200
        assert (await warmed.ask("b")).status == 200
        assert warmed.generally == []
        assert (await warmed.ask("c")).status == 503
        assert len(warmed.generally) == 1

    async with warm(limits=S3LimitSettings(in_flight=1)) as warmed:
        transfers = warmed.door.service.handler.transfers
        transfers.begin("static/reader")
        assert (await warmed.ask("a")).status == 503
        transfers.end("static/reader")
        assert (await warmed.ask("b")).status == 200
        assert len(warmed.generally) == 1


async def test_nothing_is_served_that_the_trail_has_no_place_for() -> None:
    """What was read would stand nowhere."""
    async with warm() as warmed:
        trail = warmed.door.product.trail
        assert (await warmed.ask("a")).status == 200
        room, trail._room = trail._room, 0
        trail._problem = "the disk is full"
        assert (await warmed.ask("b")).status == 503
        assert len(warmed.door.upstream.requests) == 3
        trail._problem, trail._room = "", room


# -- what stores do ----------------------------------------------------------------------------------------------------


def then(*answers: Callable[[Talk], Any]) -> Script:
    """Return a script that answers two requests, then one in each of these ways, and then as before."""

    async def script(talk: Talk) -> None:
        for _ in range(2):
            await talk.request()
            await talk.answer(b"content")
        for answer in answers:
            await talk.request()
            await answer(talk)
        while True:
            await talk.request()
            await talk.answer(b"content")

    return script


async def in_pieces(talk: Talk) -> None:
    whole = b"HTTP/1.1 200 OK\r\nx-amz-request-id: UP2\r\nContent-Length: 6000\r\n\r\n" + b"x" * 6000
    last = 0
    for at in (10, 30, 66, 67, 100, 5000, len(whole)):
        await talk.send(whole[last:at])
        last = at
        await asyncio.sleep(0.01)


async def test_an_answer_that_comes_in_pieces_is_one() -> None:
    """Heads and bodies come as the network cuts them."""
    async with warm(then(in_pieces)) as warmed:
        answer = await warmed.ask("a")
        assert (answer.status, answer.body) == (200, b"x" * 6000)
        assert (await warmed.ask("b")).body == b"content"
        assert warmed.generally == []
        assert [event.upstream_request_id for event in await settled(warmed.door, 4)] == ["UP1", "UP1", "UP2", "UP1"]


LARGE = SMALL + 1


@pytest.mark.parametrize(
    "answer",
    (
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % LARGE + b"x" * LARGE,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
    ),
    ids=("large", "chunked", "interim"),
)
async def test_what_is_no_small_answer_is_gone_on_with_the_general_way(answer: bytes) -> None:
    """It is asked for once: a second request to the store would be an access that was not made."""
    async with warm(then(lambda talk: talk.send(answer))) as warmed:
        await warmed.client.send(asking("a"))
        head = await warmed.client.reader.readuntil(b"\r\n\r\n")
        assert b" 200 " in head
        if b"chunked" in answer:
            assert await warmed.client.reader.readuntil(b"0\r\n\r\n") == b"3\r\nabc\r\n0\r\n\r\n"
        else:
            body = answer.rpartition(b"\r\n\r\n")[2]
            assert await warmed.client.reader.readexactly(len(body)) == body
        assert warmed.generally == [f"{FOLDER}a"]
        assert (await warmed.ask("b")).body == b"content"
        assert [received.target[-1] for received in warmed.door.upstream.requests[2:]] == ["a", "b"]
        assert warmed.door.upstream.connections == 1
        events = await settled(warmed.door, 4)
        assert [event.decision.value for event in events] == ["allow"] * 4


@pytest.mark.parametrize(
    "answer", (b"no HTTP at all\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", b"x" * 40_000)
)
async def test_an_answer_that_is_none_is_the_store_s_fault(answer: bytes) -> None:
    """It must not be told as signproxy's own, nor be waited for."""
    async with warm(then(lambda talk: talk.send(answer)), serving(b"content")) as warmed:
        assert (await warmed.ask("a")).status == 502
        assert (await settled(warmed.door, 3))[-1].decision.value == "error"
        assert (await warmed.ask("b")).body == b"content"


async def test_a_connection_that_died_meanwhile_costs_no_client_its_answer() -> None:
    """Stores close what was idle, now and then with the next request under way."""

    async def dies(talk: Talk) -> None:
        talk.reset()

    async with warm(then(dies), serving(b"again")) as warmed:
        assert (await warmed.ask("a")).body == b"again"
        assert (await warmed.ask("b")).body == b"again"
        assert [event.http_status for event in await settled(warmed.door, 4)] == [200] * 4


async def test_a_store_that_closes_within_its_answer_has_not_answered() -> None:
    """Half an object would be taken for all of it."""

    async def half(talk: Talk) -> None:
        await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        talk.writer.close()

    async with warm(then(half), serving(b"content")) as warmed:
        await warmed.client.send(asking("a"))
        assert (await answer_of(warmed.client)).status == 502
        assert (await settled(warmed.door, 3))[-1].reason == "store_invalid"


async def test_a_connection_that_says_it_ends_is_not_used_again() -> None:
    """The next request on it would be lost."""

    async def last(talk: Talk) -> None:
        await talk.answer(b"last", headers="Connection: close\r\n")
        talk.writer.close()

    async with warm(then(last), serving(b"content")) as warmed:
        answer = await warmed.ask("a")
        assert (answer.status, answer.body) == (200, b"last")
        assert "Connection" not in answer.headers
        assert (await warmed.ask("b")).body == b"content"
        assert warmed.door.upstream.connections == 2


async def test_what_stands_behind_an_answer_belongs_to_no_client() -> None:
    """A store, or a server that speaks for it, could answer the next caller in advance."""

    async def more(talk: Talk) -> None:
        await talk.send(
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
        )

    async with warm(then(more), serving(b"content")) as warmed:
        assert (await warmed.ask("a")).body == b"abc"
        assert (await warmed.ask("b")).body == b"content"
        assert warmed.door.upstream.connections == 2


async def test_a_slow_answer_is_waited_for_the_general_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only there each phase has its limit."""
    monkeypatch.setattr(module, "PATIENCE", 0.05)

    async def slow(talk: Talk) -> None:
        await asyncio.sleep(0.3)
        await talk.answer(b"at last")

    async with warm(then(slow)) as warmed:
        assert (await warmed.ask("a")).body == b"at last"
        assert warmed.generally == [f"{FOLDER}a"]
        assert len(warmed.door.upstream.requests) == 3
        event = (await settled(warmed.door, 3))[-1]
        assert event.total_us > 250_000
        # The ordinary way that goes on with it records it by the id that the store has seen.
        assert (event.stamped, event.upstream_repeats) == (True, 0)
        assert warmed.door.upstream.requests[-1].stamp == event.event_id


async def test_without_a_stamp_each_is_asked_for_by_its_name_alone() -> None:
    """A store that refuses what it does not know would serve the first two objects of a connection, and no more."""
    policy = POLICY.replace("buckets: [data, other]", "buckets: [data, other]\n    stamp: 'off'")
    async with warm(policy=policy) as warmed:
        assert (await warmed.ask("a")).status == 200
        assert warmed.generally == []
        assert {received.stamped_target for received in warmed.door.upstream.requests} == {
            f"{FOLDER}{name}" for name in ("first.parquet", "second.parquet", "a")
        }
        assert not any(event.stamped for event in await settled(warmed.door, 3))


# -- whatever happens, there is an answer, an event and no slot that stays taken ---------------------------------------


async def test_a_quick_get_that_is_handed_on_after_an_idle_sweep_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller would wait for ever, no event would tell of it, and one of its slots would be gone."""
    monkeypatch.setattr(module, "PATIENCE", 0.05)

    async def slow(talk: Talk) -> None:
        # As by the sweep that a thousand other callers set off.
        warmed.door.service.handler.limits._forget_idle(2**63)
        await asyncio.sleep(0.3)
        await talk.answer(b"at last")

    async with warm(then(slow)) as warmed:
        assert (await warmed.ask("a")).body == b"at last"
        assert warmed.generally == [f"{FOLDER}a"]
        assert (await settled(warmed.door, 3))[-1].http_status == 200
        assert (await warmed.ask("b")).status == 200


async def test_a_fault_while_a_quick_answer_is_written_leaves_the_request_to_the_general_way(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The caller would wait for ever, and its slots and the connection to the store would be lost to all."""

    def faulty(*_: object) -> bytes:
        raise ValueError("a fault of ours")

    async with warm() as warmed:
        monkeypatch.setattr(module, "head_of", faulty)
        assert (await warmed.ask("a")).body == b"content"
        assert warmed.generally == [f"{FOLDER}a"]
        event = (await settled(warmed.door, 3))[-1]
        assert (event.key, event.http_status) == ("wh/t1/data/a", 200)
        # Both requests that the store has logged are this one's.
        assert event.upstream_repeats == 1
        assert [sent.stamp for sent in warmed.door.upstream.requests[2:]] == [event.event_id] * 2
        assert "a fault of ours" in capfd.readouterr().err
        assert warmed.door.product.trail._reserved == 0, "a place in the trail is still kept"


async def test_a_fault_before_the_store_is_asked_leaves_the_request_to_the_general_way(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nothing of it was sent, so it can still be answered."""

    def faulty(*_: object) -> bool:
        raise ValueError("a fault of ours")

    async with warm() as warmed:
        (guest,) = warmed.door.service._listener.guests._open  # type: ignore[union-attr]
        assert isinstance(guest, S3Connection)
        assert guest.sequels is not None
        monkeypatch.setattr(guest.sequels, "_ask", faulty)
        assert (await warmed.ask("a")).status == 200
        assert warmed.generally == [f"{FOLDER}a"]
        assert len(await settled(warmed.door, 3)) == 3
        assert "a fault of ours" in capfd.readouterr().err
        assert warmed.door.product.trail._reserved == 0


# -- an event names the policy that judged -----------------------------------------------------------------------------


def revoke(door: Door) -> None:
    """Put a policy in force that allows the reader nothing."""
    text = (POLICY % door.upstream.port).replace(
        "role: reader, namespace: ns, table: t1", "role: reader, namespace: ns, table: t2"
    )
    door.product.state = MemoryPolicySource(text, single_issuer=True).load(2)


async def test_a_quick_get_names_the_policy_that_judged_it() -> None:
    """A read that was under way would be proof of a right that no caller has."""

    async def revoked(talk: Talk) -> None:
        revoke(warmed.door)
        await talk.answer(b"content")

    async with warm(then(revoked)) as warmed:
        before = warmed.door.product.state.rev
        assert (await warmed.ask("a")).status == 200
        assert warmed.generally == []
        assert (await warmed.ask("b")).status == 403
        old, new = (await settled(warmed.door, 4))[2:]
        assert (old.decision.value, old.policy_rev, old.policy_epoch) == ("allow", before, 1)
        assert (new.decision.value, new.policy_epoch) == ("deny", 2)
        assert new.policy_rev != before


async def test_what_is_refused_after_the_store_was_asked_is_stamped_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The store's log would have an id that no event says it gave: the sign of a stolen key."""
    monkeypatch.setattr(module, "PATIENCE", 0.05)

    async def slow(talk: Talk) -> None:
        revoke(warmed.door)
        await talk.stall()

    async with warm(then(slow)) as warmed:
        assert (await warmed.ask("a")).status == 403
        event = (await settled(warmed.door, 3))[-1]
        assert (event.decision.value, event.stamped) == ("deny", True)
        assert warmed.door.upstream.requests[-1].stamp == event.event_id


async def test_a_transfer_that_is_open_over_a_reload_names_the_policy_that_judged_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pipeline would count it as served after the revoke, by a policy in which the grant does not exist."""
    monkeypatch.setattr(events_module, "_APART", 100_000_000)
    began = 0.0

    async def long(talk: Talk) -> None:
        nonlocal began
        await talk.request()
        began = time()
        await talk.send(b"HTTP/1.1 200 OK\r\nx-amz-request-id: UP1\r\nContent-Length: 200000\r\n\r\n" + b"x" * 100_000)
        await asyncio.sleep(0.2)
        revoke(door)
        await asyncio.sleep(0.1)
        await talk.send(b"x" * 100_000)

    async with opened(long) as door:
        before = door.product.state.rev
        assert (await door.ask("GET", f"{FOLDER}a", who="reader")).status == 200
        await until(lambda: len(door.events()) == 1)
        event = door.event
        assert (event.decision.value, event.policy_rev, event.policy_epoch) == ("allow", before, 1)
        assert door.product.state.rev != before
        decided, ended = datetime.fromisoformat(event.decided_at), datetime.fromisoformat(event.ts)
        assert abs(decided.timestamp() - began) < 0.1
        assert (ended - decided).total_seconds() >= 0.3


async def test_a_body_that_is_cut_off_over_a_reload_names_the_policy_that_judged_it() -> None:
    """What failed was allowed first, and by which policy is what an investigation asks."""

    async def reset(talk: Talk) -> None:
        await talk.request()
        revoke(door)
        talk.reset()

    async with opened(reset, serving(b"")) as door:
        before = door.product.state.rev
        assert (await door.ask("POST", f"{FOLDER}a?uploads", who="writer")).status == 503
        await until(lambda: len(door.events()) == 1)
        assert (door.event.decision.value, door.event.policy_rev) == ("error", before)


# -- what clients do ---------------------------------------------------------------------------------------------------


async def test_requests_that_are_sent_ahead_are_answered_in_their_order() -> None:
    """A client that does not wait would take one object for the other."""

    async def named(talk: Talk) -> None:
        while True:
            received = await talk.request()
            await talk.answer(received.target.rpartition("/")[2].encode())

    async with opened(named) as door:
        warmed = Warm(door, await door.connect())
        for number in range(3):
            assert (await warmed.ask(f"{number}")).body == b"%d" % number
        await warmed.client.send(b"".join(asking(f"n{number}") for number in range(10)))
        for number in range(10):
            assert (await answer_of(warmed.client)).body == b"n%d" % number
        for number in range(10):
            await warmed.client.send(asking(f"m{number}"))
        for number in range(10):
            assert (await answer_of(warmed.client)).body == b"m%d" % number
        await settled(door, 23)
        await warmed.client.close()


def reset(client: Client) -> None:
    """Break a connection off."""
    bare = client.writer.get_extra_info("socket")
    bare.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.writer.transport.abort()


async def test_a_client_that_goes_away_frees_the_store_and_leaves_its_event() -> None:
    """A store must not work for a client that is gone, and nothing may be missing in the trail."""
    gone = asyncio.Event()

    async def waits(talk: Talk) -> None:
        await talk.stall()
        gone.set()

    async with warm(then(waits)) as warmed:
        await warmed.client.send(asking("a"))
        await until(lambda: len(warmed.door.upstream.requests) == 3)
        reset(warmed.client)
        async with asyncio.timeout(5):
            await gone.wait()
        event = (await settled(warmed.door, 3))[-1]
        assert (event.decision.value, event.reason, event.key) == ("error", "client_gone", "wh/t1/data/a")
        assert (event.stamped, event.event_id) == (True, warmed.door.upstream.requests[-1].stamp)


@pytest.mark.parametrize("at_a_time", (1, 50))
async def test_answers_that_are_not_taken_are_not_piled_up(at_a_time: int) -> None:
    """A client that asks and never reads would have the server hold every object of the lake for it."""
    size = 48 * 1024
    async with opened(serving(b"x" * size), limits=S3LimitSettings(idle_seconds=1)) as door:
        client = await door.connect()
        warmed = Warm(door, client)
        for number in range(3):
            assert (await warmed.ask(f"{number}")).status == 200
        client.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        assert door.service._listener is not None
        (guest,) = door.service._listener.guests._open
        assert isinstance(guest, S3Connection)
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]
        most = 0
        for number in range(0, 400, at_a_time):
            client.writer.write(b"".join(asking(f"n{each}") for each in range(number, number + at_a_time)))
            await asyncio.sleep(0.002 * at_a_time)
            most = max(most, guest.unsent())
        assert 0 < most < 4 * size
        assert len(door.upstream.requests) < 400
        client.writer.transport.abort()
        await until(lambda: door.service.in_flight == 0)


async def test_a_client_that_has_said_its_last_word_is_answered() -> None:
    """Some close their side once they have asked."""
    async with warm() as warmed:
        await warmed.client.send(asking("a"))
        warmed.client.writer.write_eof()
        assert (await answer_of(warmed.client)).body == b"content"
        assert await warmed.client.ended() == b""


# -- its end -----------------------------------------------------------------------------------------------------------


async def test_what_is_under_way_is_answered_before_the_end() -> None:
    """A rollout must not cost a client its answer."""

    async def slow(talk: Talk) -> None:
        await asyncio.sleep(0.2)
        await talk.answer(b"at last")

    async with warm(then(slow)) as warmed:
        await warmed.client.send(asking("a"))
        await until(lambda: len(warmed.door.upstream.requests) == 3)
        ending = asyncio.create_task(warmed.door.service.finish(5))
        assert (await answer_of(warmed.client)).body == b"at last"
        assert await warmed.client.ended() == b""
        await ending
        await settled(warmed.door, 3)


async def test_what_is_cut_off_at_the_end_leaves_its_event() -> None:
    """Else the trail would not show that it was asked for."""

    async def never(talk: Talk) -> None:
        await talk.stall()

    async with warm(then(never)) as warmed:
        await warmed.client.send(asking("a"))
        await until(lambda: len(warmed.door.upstream.requests) == 3)
        await warmed.door.service.finish(0.1)
        event = (await settled(warmed.door, 3))[-1]
        assert (event.decision.value, event.reason, event.key) == ("error", "client_gone", "wh/t1/data/a")


async def test_with_the_last_answers_connections_say_that_they_end() -> None:
    """Clients go elsewhere before they lose a request."""
    async with warm() as warmed:
        warmed.door.service.drain()
        assert (await warmed.ask("a")).headers["Connection"] == "close"
