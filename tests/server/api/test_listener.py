"""Listeners: TCP and Unix sockets, and an end in steps that loses no request."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from aiohttp import web

from signproxy.answers.reply import Reply
from signproxy.config.fields import TlsSettings
from signproxy.errors import SettingsInvalid
from signproxy.server.api import listener as module
from signproxy.server.api.listener import Listener
from signproxy.server.process import accepting
from signproxy.server.process.sockets import bind_tcp, bind_unix
from signproxy.server.process.tls import CertificateHolder
from tests.authority import Authority
from tests.server.api.rig import Client, Slow, listen, serving


def test_a_unix_socket_is_served_beside_the_port(run: Callable[[Awaitable[None]], None], tmp_path: Path) -> None:
    """A pod's containers could not meet without a port; and behind TLS the socket must stay what it is."""
    certificate = CertificateHolder(
        TlsSettings(
            *(str(Authority().issue().write(tmp_path) / name) for name in ("tls.crt", "tls.key")),
        )
    )

    async def scenario() -> None:
        with TemporaryDirectory(prefix="s") as name:
            unix = bind_unix(Path(name) / "s.sock", 0o600)
            for tls in (None, certificate):
                async with serving(certificate=tls, unix=unix) as listener:
                    assert listener.addresses[1] == f"unix:{name}/s.sock"
                    client = await Client.connect(listener.addresses[1])
                    assert await client.post("/at-once", b"a") == b"at once a"
                    assert await client.post("/", b"b") == b"read b"
                    assert listener.connections == 1
                    await client.close()
                unix.close()
                unix = bind_unix(Path(name) / "s.sock", 0o600)
            unix.close()

    run(scenario())


def test_two_processes_may_accept_from_one_unix_socket(run: Callable[[Awaitable[None]], None]) -> None:
    """The first worker that ends would take the socket from the others."""

    async def scenario() -> None:
        with TemporaryDirectory(prefix="s") as name:
            path = Path(name) / "s.sock"
            unix = bind_unix(path, 0o600)
            # What a worker inherits is a descriptor of its own.
            first = await Listener.open(Slow(), [unix.socket.dup()])
            second = await Listener.open(Slow(), [unix.socket.dup()])
            await first.finish(0)
            for _ in range(4):
                client = await Client.connect(f"unix:{path}")
                assert await client.post() == b"read x"
                await client.close()
            await second.finish(0)
            assert path.exists()
            unix.close()

    run(scenario())


def test_a_port_that_is_taken_between_binding_and_listening_is_told(run: Callable[[Awaitable[None]], None]) -> None:
    """The commonest fault of a start would be a stack trace now and then."""

    async def scenario() -> None:
        (ours,) = bind_tcp("127.0.0.1", 0)
        port = ours.getsockname()[1]
        with socket.socket() as theirs:
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            theirs.bind(("127.0.0.1", port))
            theirs.listen()
            with pytest.raises(SettingsInvalid) as caught:
                await Listener.open(Slow(), [ours], section="admin")
        (finding,) = caught.value.findings
        assert (finding.path, finding.problem) == (
            "admin",
            f"cannot listen on 127.0.0.1:{port}: Address already in use",
        )
        assert ours.fileno() == -1

    run(scenario())


def test_the_end_is_in_steps(run: Callable[[Awaitable[None]], None]) -> None:
    """A balancer needs time to notice; who is connected must be answered until then, and who is not must go away."""
    handler = Slow()

    async def scenario() -> None:
        async with serving(handler) as listener:
            address = listener.addresses[0]
            connected = await Client.connect(address)
            assert await connected.post("/at-once") == b"at once x"
            listener.stop_accepting()
            with pytest.raises(ConnectionRefusedError):
                await Client.connect(address)
            assert await connected.post("/at-once") == b"at once x"
            assert await connected.post() == b"read x"
            await listener.finish(20)
            assert await connected.ended() == b""
            assert listener.connections == 0
            await connected.close()

    run(scenario())


def test_requests_in_flight_are_answered_before_the_end(run: Callable[[Awaitable[None]], None]) -> None:
    """A connection that is closed without an answer is an error that Java clients do not repeat."""
    handler = Slow()
    handler.released.clear()

    async def scenario() -> None:
        async with serving(handler) as listener:
            waiting = await Client.connect(listener.addresses[0])
            request = asyncio.create_task(waiting.post())
            await handler.begun.wait()
            # One whose body is on its way has begun as well.
            handler.begun.clear()
            sending = await Client.connect(listener.addresses[0])
            await sending.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n01234")
            await handler.begun.wait()
            idle = await Client.connect(listener.addresses[0])
            assert await idle.post("/at-once") == b"at once x"
            ending = asyncio.create_task(listener.finish(20))
            await asyncio.sleep(0.1)
            await sending.send(b"56789")
            await asyncio.sleep(0.1)
            assert not ending.done()
            # Until then, connected clients are served.
            assert await idle.post("/at-once") == b"at once x"
            handler.released.set()
            assert await request == b"read x"
            assert await sending.answer() == b"read 0123456789"
            await ending
            for client in (waiting, sending, idle):
                assert await client.ended() == b""
                await client.close()
        assert handler.cancelled == 0

    run(scenario())


def test_a_request_that_never_ends_does_not_hold_up_the_end(run: Callable[[Awaitable[None]], None]) -> None:
    """Kubernetes would kill the process, and with it the last audit events."""
    handler = Slow()
    handler.released.clear()

    async def scenario() -> None:
        async with serving(handler) as listener:
            clients = [await Client.connect(listener.addresses[0]) for _ in range(2)]
            request = asyncio.create_task(clients[0].post())
            await clients[1].send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n01234")
            await handler.begun.wait()
            await asyncio.sleep(0.1)
            await listener.finish(0.1)
            with pytest.raises(asyncio.IncompleteReadError):
                await request
            for client in clients:
                assert await client.ended() == b""
                await client.close()
        assert handler.cancelled == 2

    run(scenario())


def test_a_client_that_does_not_read_does_not_hold_up_the_end(
    run: Callable[[Awaitable[None]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One stuck client would make the process wait, or leave a connection behind."""
    monkeypatch.setattr(module, "CLOSE_SECONDS", 0.2)

    async def scenario() -> None:
        async with serving() as listener:
            client = await Client.connect(listener.addresses[0])
            head = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 900000\r\n\r\n"
            for _ in range(8):
                await client.send(head + b"x" * 900_000)
            await asyncio.sleep(0.2)
            await listener.finish(0.1)
            assert listener.connections == 0
            # Cut off somewhere in the answers, and not left open.
            await client.ended()
            await client.close()

    run(scenario())


async def test_a_stack_ends_what_it_serves() -> None:
    """What embeds a server would have to know its steps."""
    async with AsyncExitStack() as stack:
        address = await listen(stack, Slow(), "127.0.0.1", 0)
        client = await Client.connect(address)
        assert await client.post() == b"read x"
    assert await client.ended() == b""
    await client.close()
    with pytest.raises(ConnectionRefusedError):
        await Client.connect(address)


async def test_a_client_that_never_shakes_hands_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A client that opens connections and says nothing would hold memory for a minute each."""
    monkeypatch.setattr(accepting, "HANDSHAKE_SECONDS", 0.2)
    directory = Authority().issue().write(tmp_path)
    tls = TlsSettings(cert_file=str(directory / "tls.crt"), key_file=str(directory / "tls.key"))
    async with serving(certificate=CertificateHolder(tls)) as listener:
        silent = await Client.connect(listener.addresses[0])
        assert await silent.ended() == b""
        await silent.close()


@pytest.mark.parametrize("answered_by", ("/at-once", "/"))
def test_a_client_that_connected_before_the_end_is_served(
    run: Callable[[Awaitable[None]], None], answered_by: str
) -> None:
    """The kernel connects clients before the server accepts them; closing the socket would reset those."""

    async def scenario() -> None:
        sockets = bind_tcp("127.0.0.1", 0)
        listener = await Listener.open(Slow(), sockets)
        host, _, port = listener.addresses[0].rpartition(":")
        # Without a step of the event loop in between: it is not accepted yet.
        client = socket.create_connection((host, int(port)), timeout=30)
        client.sendall(f"POST {answered_by} HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na".encode())
        await listener.finish(5)
        answer = await asyncio.to_thread(client.recv, 4096)
        assert answer.startswith(b"HTTP/1.1 200 OK")
        client.close()

    run(scenario())


def test_no_client_holds_all_connections_of_a_listener_for_few(
    run: Callable[[Awaitable[None]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that opens admin connections without end would take files from the callers, and probes away."""
    monkeypatch.setattr(module, "FEW", 3)

    async def scenario() -> None:
        async def answer(_: web.BaseRequest) -> web.StreamResponse:
            return Reply(200, "Content-Type: text/plain\r\n", b"ok")

        listener = await Listener.open(answer, bind_tcp("127.0.0.1", 0))
        clients = [await Client.connect(listener.addresses[0]) for _ in range(5)]
        assert await clients[-1].post("/") == b"ok"
        for evicted in clients[:2]:
            assert await evicted.ended() == b""
            await evicted.close()
        for kept in clients[2:]:
            assert await kept.post("/") == b"ok"
            await kept.close()
        await listener.finish(0)

    run(scenario())
