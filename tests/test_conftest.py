"""Prove that tests cannot leave the machine, from wherever they try."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable

import pytest

from tests.conftest import OutsideLoopback

# TEST-NET-1: routed nowhere, so that a broken guard times out instead of disturbing a host.
OUTSIDE = ("192.0.2.1", 80)


def _connect() -> None:
    with socket.socket() as opened:
        opened.settimeout(1)
        opened.connect(OUTSIDE)


def _connect_ex() -> None:
    with socket.socket() as opened:
        opened.settimeout(1)
        opened.connect_ex(OUTSIDE)


def _send() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.sendto(b"", OUTSIDE)


def _listen_to_all() -> None:
    with socket.socket() as opened:
        opened.bind(("0.0.0.0", 0))


def _resolve() -> None:
    socket.getaddrinfo("signproxy.invalid", 80)


@pytest.mark.parametrize("attempt", (_connect, _connect_ex, _send, _listen_to_all, _resolve))
def test_nothing_leaves_the_machine(attempt: Callable[[], None]) -> None:
    """A unit test that reaches the internet passes or fails with the network's weather."""
    with pytest.raises(OutsideLoopback):
        attempt()


def test_a_thread_is_held_back_too() -> None:
    """Synchronous libraries run in threads; a guard of the main thread alone would not see them."""
    caught: list[BaseException] = []

    def attempt() -> None:
        try:
            _connect()
        except OutsideLoopback as held:
            caught.append(held)

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    assert len(caught) == 1


async def test_the_event_loop_is_held_back_too() -> None:
    """The server's own clients connect through the loop."""
    with pytest.raises(OutsideLoopback):
        await asyncio.open_connection(*OUTSIDE)


@pytest.mark.parametrize("host", ("127.0.0.1", "localhost"))
async def test_loopback_is_open(host: str) -> None:
    """Real servers over fakes: they listen on loopback."""
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection(host, port, family=socket.AF_INET)
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
