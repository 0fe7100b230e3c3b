"""The listener keeps its connections within limits, and ends them in order."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from signproxy.config.fields import TlsSettings
from signproxy.config.settings import LimitSettings
from signproxy.errors import SettingsInvalid
from signproxy.server.process.sockets import bind_tcp, bind_unix
from signproxy.server.process.tls import CertificateHolder
from signproxy.server.s3 import connection as module
from signproxy.server.s3.listener import S3Listener
from signproxy.transfer.faults import MessageFault
from tests.authority import Authority
from tests.server.s3.rig import Client, Slow, serving
from tests.waiting import until


async def test_requests_follow_each_other_on_a_connection() -> None:
    """Each of the small reads of an engine would pay for a connection of its own."""
    async with serving(Slow()) as listener:
        client = await Client.connect(listener.addresses[0])
        for number in range(3):
            assert (await client.put(f"/{number}", b"body")).endswith(b"/%d body" % number)
        # Sent together, they are answered in order.
        await client.send(b"".join(b"PUT /%d HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx" % n for n in range(3)))
        assert [(await client.answer())[-4:] for _ in range(3)] == [b"/0 x", b"/1 x", b"/2 x"]
        assert listener.guests.open == 1
        await client.close()


async def test_a_connection_knows_what_it_is(tmp_path: Path) -> None:
    """The identity of the pod would be given to callers that are not in it."""
    handler = Slow()
    unix = bind_unix(tmp_path / "s", 0o600, section="s3")
    async with serving(handler, unix=unix) as listener:
        for address in listener.addresses:
            client = await Client.connect(address)
            await client.put()
            await client.close()
    tcp, local = (guest.facts for guest in handler.guests)
    assert (tcp.is_unix, tcp.is_loopback, tcp.is_tls, tcp.uid) == (False, True, False, None)
    assert (local.is_unix, local.is_loopback, local.is_tls, local.uid) == (True, False, False, os.getuid())
    assert [guest.peer for guest in handler.guests] == ["127.0.0.1", ""]
    unix.close()


async def test_tcp_speaks_tls_with_a_certificate(tmp_path: Path) -> None:
    """Session tokens would travel in the open."""
    authority = Authority()
    directory = authority.issue().write(tmp_path)
    tls = TlsSettings(cert_file=str(directory / "tls.crt"), key_file=str(directory / "tls.key"))
    context = authority.trusting()
    context.check_hostname = False
    handler = Slow()
    async with serving(handler, certificate=CertificateHolder(tls, section="s3")) as listener:
        client = await Client.connect(listener.addresses[0], context)
        assert (await client.put("/a")).endswith(b"/a x")
        assert handler.guests[0].facts.is_tls
        await client.close()


async def test_a_port_that_is_taken_is_told() -> None:
    """A start would fail with a trace that names nothing that an operator wrote."""
    with pytest.raises(SettingsInvalid) as caught:
        await S3Listener.open(Slow(), [_Taken()], keepalive=5)  # type: ignore[list-item]
    assert [finding.path for finding in caught.value.findings] == ["s3"]


class _Taken:
    """A socket that the kernel lets no process listen on."""

    family = 2

    def listen(self, _backlog: int) -> None:
        raise OSError(98, "Address already in use")

    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", 1

    def close(self) -> None:
        pass


# -- who may stay ------------------------------------------------------------------------------------------------------


async def test_a_stranger_is_let_go_before_a_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that opens connections and proves nothing would hold them for as long as a caller may."""
    monkeypatch.setattr(module, "STRANGER_SECONDS", 0.2)
    async with serving(Slow()) as listener:
        silent, asking, caller = [await Client.connect(listener.addresses[0]) for _ in range(3)]
        await asking.put("/a")
        await caller.put("/known")
        assert await silent.ended() == await asking.ended() == b""
        assert (await caller.put("/b")).endswith(b"/b x")
        for each in (silent, asking, caller):
            await each.close()


async def test_a_caller_is_let_go_once_it_is_idle() -> None:
    """Connections of jobs that are over would add up."""
    async with serving(Slow(), keepalive=0.2) as listener:
        client = await Client.connect(listener.addresses[0])
        await client.put("/known")
        assert await client.ended() == b""
        await client.close()


async def test_one_connection_too_many_is_closed_at_once() -> None:
    """Memory would be as large as strangers want it."""
    handler = Slow(LimitSettings(connections=16))
    async with serving(handler) as listener:
        clients = [await Client.connect(listener.addresses[0]) for _ in range(8)]
        for client in clients:
            await client.put("/known")
        clients += [await Client.connect(listener.addresses[0]) for _ in range(8)]
        await until(lambda: listener.guests.open == 16)
        surplus = await Client.connect(listener.addresses[0])
        assert await surplus.ended() == b""
        assert handler.limits.connections.surplus == 1
        for client in (*clients, surplus):
            await client.close()


async def test_the_oldest_stranger_makes_room_for_a_new_one() -> None:
    """Strangers who stay would keep callers from connecting."""
    handler = Slow(LimitSettings(connections=16))
    async with serving(handler) as listener:
        strangers = [await Client.connect(listener.addresses[0]) for _ in range(9)]
        assert await strangers[0].ended() == b""
        assert (await strangers[-1].put("/a")).endswith(b"/a x")
        assert handler.limits.connections.open == 8
        for each in strangers:
            await each.close()
    assert handler.limits.connections.open == 0


async def test_a_head_that_comes_too_slowly_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte a second would hold a connection for hours."""
    monkeypatch.setattr(module, "HEAD_SECONDS", 0.2)
    handler = Slow()
    async with serving(handler) as listener:
        client = await Client.connect(listener.addresses[0])
        await client.send(b"GET /a HTTP/1.1\r\nHo")
        assert await client.ended() == b""
        assert handler.limits.connections.slow == 1
        assert not handler.guests
        await client.close()


@pytest.mark.parametrize(
    "noise", (b"SSH-2.0-OpenSSH_9\r\n\r\n", b"\x00\x01\r\n\r\n", b"GET /\r\n\r\n", b"GET / HTTP/2.0\r\n\r\n")
)
async def test_what_is_no_http_is_counted(noise: bytes) -> None:
    """A scanner would fill the audit trail with nothing."""
    handler = Slow()
    async with serving(handler) as listener:
        client = await Client.connect(listener.addresses[0])
        await client.send(noise)
        said = await client.ended()
        assert said.startswith(b"HTTP/1.1 400 ")
        assert b"Connection: close\r\n" in said
        assert (handler.limits.connections.unread, handler.malformed, handler.guests) == (1, [], [])
        await client.close()


async def test_much_that_is_no_http_is_answered_late() -> None:
    """Answering noise would cost what callers need."""
    handler = Slow(LimitSettings(unauthenticated_per_second=1))
    async with serving(handler) as listener:
        clients = [await Client.connect(listener.addresses[0]) for _ in range(2)]
        for client in clients:
            await client.send(b"\x01\r\n\r\n")
        await until(lambda: handler.limits.strangers.now == 1)
        for client in clients:
            assert (await client.ended()).startswith(b"HTTP/1.1 400 ")
            await client.close()
        assert handler.limits.strangers.now == 0


@pytest.mark.parametrize(
    ("head", "fault"),
    (
        (b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "LENGTH_AND_CODING"),
        (b"GET / HTTP/1.1\r\n\r\n", "HOST_MISSING"),
        (b"GET / HTTP/1.1\nHost: h\r\n\r\n", "LINE_ENDING"),
    ),
)
async def test_what_can_be_read_in_two_ways_is_a_request_that_is_refused(head: bytes, fault: str) -> None:
    """An attempt to smuggle a request would leave no trace, and the next bytes would be read as another one."""
    handler = Slow()
    async with serving(handler) as listener:
        client = await Client.connect(listener.addresses[0])
        await client.send(head + b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n")
        assert (await client.ended()).startswith(b"HTTP/1.1 400 ")
        assert handler.malformed == [MessageFault[fault]]
        assert not handler.guests
        await client.close()


async def test_a_refusal_reaches_a_client_that_is_still_sending() -> None:
    """The client would see a reset connection, repeat its upload, and never learn why."""
    async with serving(Slow()) as listener:
        client = await Client.connect(listener.addresses[0])
        await client.send(b"PUT /known/refused HTTP/1.1\r\nHost: h\r\nContent-Length: 4000000\r\n\r\n")
        client.writer.write(bytes(4_000_000))
        assert (await client.ended()).endswith(b"no")
        await client.close()


async def test_a_stranger_is_not_heard_out_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that is refused could keep the server reading for ever."""
    monkeypatch.setattr(module, "LINGER_SECONDS", 0.3)
    async with serving(Slow()) as listener:
        client = await Client.connect(listener.addresses[0])
        await client.send(b"PUT /refused HTTP/1.1\r\nHost: h\r\nContent-Length: 40000000\r\n\r\n")
        async with asyncio.timeout(5):
            with pytest.raises(ConnectionError):
                await flood(client)
        await until(lambda: listener.guests.open == 0)
        await client.close()


async def flood(client: Client) -> None:
    while True:
        await client.send(bytes(65536))


# -- the end ---------------------------------------------------------------------------------------------------------


async def test_what_is_in_flight_is_answered_before_the_end() -> None:
    """A rolling restart would lose requests."""
    handler = Slow()
    handler.released.clear()
    async with serving(handler) as listener:
        address = listener.addresses[0]
        idle, busy, sending = [await Client.connect(address) for _ in range(3)]
        await busy.send(b"GET /busy HTTP/1.1\r\nHost: h\r\n\r\n")
        await sending.send(b"PUT /sending HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbo")
        await until(lambda: len(handler.guests) == 2)
        ending = asyncio.create_task(listener.finish(10))
        assert await idle.ended() == b""
        with pytest.raises(ConnectionRefusedError):
            await Client.connect(address)
        await sending.send(b"dy")
        handler.released.set()
        answer = await busy.answer()
        assert b"Connection: close\r\n" in answer
        assert (await sending.answer()).endswith(b"/sending body")
        await ending
        assert listener.guests.open == 0
        for each in (idle, busy, sending):
            await each.close()


async def test_what_takes_too_long_is_ended() -> None:
    """One client that does not read would keep the process from ending."""
    handler = Slow()
    handler.released.clear()
    async with serving(handler) as listener:
        client = await Client.connect(listener.addresses[0])
        await client.send(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
        await until(lambda: len(handler.guests) == 1)
        await listener.finish(0.1)
        assert handler.cancelled == 1
        assert await client.ended() == b""
        await client.close()


async def test_draining_ends_connections_with_their_next_answer() -> None:
    """Clients would stay with a server that is about to end, and lose a request to it."""
    async with serving(Slow()) as listener:
        client, new = [await Client.connect(listener.addresses[0]) for _ in range(2)]
        await client.put("/known")
        listener.drain()
        for each in (client, new):
            assert b"Connection: close\r\n" in await each.put("/last")
            assert await each.ended() == b""
            await each.close()


async def test_a_client_that_connected_before_the_end_is_served() -> None:
    """The kernel connects clients before the server accepts them; closing the socket would reset those."""
    listener = await S3Listener.open(Slow(), bind_tcp("127.0.0.1", 0), keepalive=75)
    client = await Client.connect(listener.addresses[0])
    await client.send(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
    # Not accepted yet: nothing has run in between but the connecting itself.
    await listener.finish(5)
    assert b"/a" in await client.ended()
    await client.close()
