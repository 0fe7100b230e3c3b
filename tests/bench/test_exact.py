"""Hold that waits are measured where they arise: at the server, and for every client that had to wait."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from bench import sign_request
from bench.exact import RATE, ExactCaller, Waits, ask_for
from bench.load import Signer
from bench.process import BenchFailed

_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

Serve = Callable[[Callable[[int], bytes]], Signer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start servers that answer each request of a connection as they are told to."""
    listening: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def talk(connection: socket.socket, answer: Callable[[int], bytes]) -> None:
        number = 0
        # A load ends when its time is up, with answers unread.
        with connection, contextlib.suppress(ConnectionError):
            while connection.recv(65536):
                connection.sendall(answer(number))
                number += 1

    def accept(server: socket.socket, answer: Callable[[int], bytes]) -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            thread = threading.Thread(target=talk, args=(connection, answer))
            threads.append(thread)
            thread.start()

    def start(answer: Callable[[int], bytes]) -> Signer:
        server = socket.create_server(("127.0.0.1", 0))
        listening.append(server)
        thread = threading.Thread(target=accept, args=(server, answer))
        threads.append(thread)
        thread.start()
        template = sign_request.body_template("https://s3.example", "lake", "wh/db/t", "eu-central-1")
        return Signer("stand-in", f"http://127.0.0.1:{server.getsockname()[1]}/sign", (), template)

    yield start
    for server in listening:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
    for thread in threads:
        thread.join(10)


def _ask(signer: Signer, callers: int, seconds: float) -> Waits:
    connected = [ExactCaller(signer, "token") for _ in range(callers)]
    try:
        return ask_for(connected, seconds)
    finally:
        for caller in connected:
            caller.socket.close()


def test_a_pause_of_the_server_is_seen_by_all_who_were_due_in_it(serve: Serve) -> None:
    """Who asks only when answered would miss every stall but one request of it, and the p99 would be a fiction."""

    def stalls_once(number: int) -> bytes:
        if number == 3:
            time.sleep(0.5)
        return _OK

    waits = _ask(serve(stalls_once), 1, 1.0).seconds
    # The one that met it, and those that were due meanwhile and came after it, each a little less long.
    late = [wait for wait in waits if wait > 0.1]
    assert len(late) >= 0.2 * RATE
    assert 0.5 <= max(late) < 5
    assert len(waits) >= 0.5 * RATE


def test_what_keeps_us_busy_is_not_the_servers_wait(serve: Serve) -> None:
    """The floods run on the core of the callers; their time must not be taken for the server's."""
    signer = serve(lambda _: _OK)
    caller = ExactCaller(signer, "token")
    # The kernel begins to note arrivals some time after it was asked to; a run warms up as well.
    ask_for([caller], 1.0)
    caller.ask(delayed=False)
    time.sleep(0.5)
    wait = caller.answer()
    caller.socket.close()
    assert 0 < wait < 0.4


def test_every_caller_must_be_served(serve: Serve) -> None:
    """Refusals are quick: a server that limits the wrong ones would look fair."""
    signer = serve(lambda number: _OK if number < 3 else b"HTTP/1.1 429 Too Many Requests\r\n\r\n")
    with pytest.raises(BenchFailed, match="429"):
        _ask(signer, 2, 1.0)


def test_percentiles_are_of_the_waits() -> None:
    """Off by one, the p99 of a hundred is their maximum or not."""
    waits = Waits([float(number) for number in range(100, 0, -1)])
    assert [waits.percentile(share) for share in (0.0, 0.5, 0.99, 1.0)] == [1.0, 51.0, 100.0, 100.0]
