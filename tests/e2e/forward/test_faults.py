"""Let stores and clients misbehave: nothing hangs, nothing leaks, and each request has its one event."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.forward.capture import Behaviour, Capture
from tests.e2e.forward.door import Door
from tests.e2e.forward.signer import UNSIGNED, Endpoint, Payload, Shape, sign, upload
from tests.e2e.forward.test_bytes import BUCKET, open_capture
from tests.e2e.wire import Answer, BrokenAnswer, Wire
from tests.verifier import WireHttp

pytestmark = pytest.mark.ci

TARGET = f"/{BUCKET}/object"
IDLE = 2.0
"""Seconds that either side may be silent here."""
BOUND = 15.0
"""Seconds within which every case has to be over."""
LARGE = 4 * 1024 * 1024

Opened = tuple[Capture, Door, Endpoint]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    upstream = {"answer_seconds": IDLE, "idle_seconds": IDLE, "connect_seconds": IDLE}
    directory = tmp_path_factory.mktemp("faults")
    with open_capture(directory, upstream=upstream, limits={"idle_seconds": IDLE}) as made:
        yield made


@pytest.fixture
def trail(opened: Opened) -> Iterator[Callable[[], dict[str, object]]]:
    """Return what gives the one event of the one request of a test."""
    capture, door, _endpoint = opened
    _settle(opened)
    before = len(door.events())

    def event() -> dict[str, object]:
        deadline = time.monotonic() + BOUND
        while len(found := door.events()[before:]) < 1 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(found) == 1, found
        return found[0]

    yield event
    capture.behaviour, capture.content = Behaviour.ANSWERS, b"content"


def _settle(opened: Opened) -> None:
    """Wait until the trail has all that was answered so far: it is written in the order of the answers."""
    capture, door, endpoint = opened
    capture.behaviour, capture.content = Behaviour.ANSWERS, b"content"
    answer = _send(endpoint, sign(endpoint, "GET", TARGET).wire())
    assert answer is not None
    door.event(answer.headers["x-signproxy-event-id"])
    capture.take()


def _send(endpoint: Endpoint, wire: WireHttp) -> Answer | None:
    """Return the answer; None where the connection ended within it."""
    begun = time.monotonic()
    try:
        with Wire(endpoint.port) as connection:
            return connection.send(wire)
    except (BrokenAnswer, ConnectionError):
        return None
    finally:
        assert time.monotonic() - begun < BOUND


def _works(opened: Opened) -> None:
    """Check that what went before has left nothing behind that a later request stumbles upon."""
    capture, _door, endpoint = opened
    capture.behaviour, capture.content = Behaviour.ANSWERS, b"after"
    for _ in range(3):
        answer = _send(endpoint, sign(endpoint, "GET", TARGET).wire())
        assert answer is not None
        assert (answer.status, answer.body) == (200, b"after")


@pytest.mark.parametrize(
    ("behaviour", "statuses"),
    (
        (Behaviour.RESETS_BEFORE_ANSWER, {503, 502}),
        (Behaviour.CLOSES_BEFORE_ANSWER, {503, 502}),
        (Behaviour.GARBLED, {502}),
        (Behaviour.TWO_LENGTHS, {502}),
        (Behaviour.SILENT, {504}),
    ),
)
@pytest.mark.parametrize("method", ("GET", "PUT"))
def test_a_store_that_never_answers_rightly_is_told(
    opened: Opened, trail: Callable[[], dict[str, object]], behaviour: Behaviour, statuses: set[int], method: str
) -> None:
    """Clients try a 503 again, and take a cut connection for the end of an object."""
    capture, _door, endpoint = opened
    capture.behaviour = behaviour
    body = b"x" * LARGE if method == "PUT" else None
    wire = (
        upload(endpoint, "PUT", TARGET, body=body, shape=Shape(Payload.UNSIGNED))
        if body
        else sign(endpoint, "GET", TARGET).wire()
    )
    answer = _send(endpoint, wire)
    assert answer is not None
    assert answer.status in statuses
    assert b"<Code>" in answer.body
    event = trail()
    assert event["decision"] != "deny"
    assert str(event["reason"]).startswith("store_")
    _works(opened)


@pytest.mark.parametrize("content", (b"content", b"c" * LARGE), ids=("small", "large"))
@pytest.mark.parametrize("behaviour", (Behaviour.RESETS_IN_BODY, Behaviour.SHORT, Behaviour.STALLS))
def test_an_object_that_breaks_off_is_not_taken_for_a_whole_one(
    opened: Opened, trail: Callable[[], dict[str, object]], behaviour: Behaviour, content: bytes
) -> None:
    """A shorter object with a good end is data that is silently wrong."""
    capture, _door, endpoint = opened
    capture.behaviour, capture.content = behaviour, content
    answer = _send(endpoint, sign(endpoint, "GET", TARGET).wire())
    # As long as nothing was written, it can still be said.
    assert answer is None or (answer.status in {502, 503, 504} and len(content) < LARGE)
    event = trail()
    assert event["upstream_status"] == 200
    assert str(event["reason"]).startswith("store_")
    _works(opened)


def test_what_a_store_sends_beyond_its_answer_answers_nothing(
    opened: Opened, trail: Callable[[], dict[str, object]]
) -> None:
    """The rest of one answer would be taken for the next one, which is another caller's."""
    capture, _door, endpoint = opened
    capture.behaviour = Behaviour.LONG
    answer = _send(endpoint, sign(endpoint, "GET", TARGET).wire())
    assert answer is not None
    assert answer.body == b"content"
    trail()
    _works(opened)


def test_an_answer_before_the_end_of_an_upload_reaches_the_client(
    opened: Opened, trail: Callable[[], dict[str, object]]
) -> None:
    """A store that refuses at once says why, and the client that goes on sending has to hear it."""
    capture, _door, endpoint = opened
    capture.behaviour = Behaviour.EARLY
    answer = _send(endpoint, upload(endpoint, "PUT", TARGET, body=b"x" * 100_000, shape=Shape(Payload.UNSIGNED)))
    assert answer is not None
    assert (answer.status, answer.body[:7]) == (403, b"<Error>")
    assert trail()["upstream_status"] == 403
    _works(opened)


def test_a_store_that_closes_idle_connections_is_not_noticed(opened: Opened) -> None:
    """Each store closes its idle connections some time; the request that finds out has not failed."""
    capture, _door, endpoint = opened
    for _ in range(10):
        capture.behaviour, capture.content = Behaviour.CLOSES_IDLE, b"content"
        answer = _send(endpoint, sign(endpoint, "GET", TARGET).wire())
        assert answer is not None
        assert answer.status == 200
        put = _send(endpoint, upload(endpoint, "PUT", TARGET, body=b"x", shape=Shape(Payload.UNSIGNED)))
        assert put is not None
        # A body that is on its way is not sent twice; clients do that themselves.
        assert put.status in {200, 503}
    _works(opened)


# -- clients -------------------------------------------------------------------------------------------------------


def _head(endpoint: Endpoint, length: int) -> bytes:
    """Return the head of an upload."""
    wire = sign(endpoint, "PUT", TARGET, payload=UNSIGNED).wire()
    lines = [f"PUT {wire.target} HTTP/1.1", *(f"{name}: {value}" for name, value in wire.headers)]
    return "\r\n".join((*lines, f"Content-Length: {length}", "", "")).encode()


def _vanish_in_head(endpoint: Endpoint, link: socket.socket) -> None:
    link.sendall(_head(endpoint, 10)[:100])


def _vanish_in_body(endpoint: Endpoint, link: socket.socket) -> None:
    link.sendall(_head(endpoint, LARGE) + b"x" * 1000)
    time.sleep(0.3)


def _vanish_before_answer(endpoint: Endpoint, link: socket.socket) -> None:
    link.sendall(_head(endpoint, 4) + b"done")


def _stall_in_body(endpoint: Endpoint, link: socket.socket) -> None:
    link.sendall(_head(endpoint, LARGE) + b"x" * 1000)
    _read_to_end(link)


def _drip(endpoint: Endpoint, link: socket.socket) -> None:
    link.sendall(_head(endpoint, 4))
    for _ in range(4):
        time.sleep(1)
        link.sendall(b"x")
    assert b" 200 " in _read_to_end(link, 1)


def _too_much(endpoint: Endpoint, link: socket.socket) -> None:
    link.sendall(_head(endpoint, 4) + b"donemore\r\n\r\n")
    told = _read_to_end(link)
    assert told.startswith(b"HTTP/1.1 200 ")
    # What is beyond the end is the next request, and none.
    assert told.count(b"HTTP/1.1 ") == 2
    assert b"HTTP/1.1 400 " in told


def _read_to_end(link: socket.socket, pieces: int = 1000) -> bytes:
    link.settimeout(BOUND)
    told = b""
    with suppress(ConnectionError):
        for _ in range(pieces):
            piece = link.recv(65536)
            if not piece:
                break
            told += piece
    return told


@pytest.mark.parametrize(
    "act", (_vanish_in_head, _vanish_in_body, _vanish_before_answer, _stall_in_body, _drip, _too_much)
)
def test_a_client_that_misbehaves_is_let_go(opened: Opened, act: Callable[[Endpoint, socket.socket], None]) -> None:
    """A few hundred such clients would otherwise be the end of the process."""
    capture, door, endpoint = opened
    _settle(opened)
    begun, before = time.monotonic(), len(door.events())
    with socket.create_connection(("127.0.0.1", endpoint.port), BOUND) as link:
        act(endpoint, link)
    assert time.monotonic() - begun < BOUND
    deadline = time.monotonic() + BOUND
    while len(door.events()) == before and act is not _vanish_in_head and time.monotonic() < deadline:
        time.sleep(0.05)
    # Half a head is no request; what has no known caller is told of in sums, later.
    assert len(door.events()[before:]) == (0 if act is _vanish_in_head else 1)
    stored = [received for received in capture.take() if received.line.startswith(b"PUT")]
    assert all(received.body in (b"done", b"xxxx") for received in stored), stored
    _works(opened)


def test_nothing_is_left_of_any_of_it(opened: Opened) -> None:
    """A descriptor for each client that vanished is a server that ends with the day."""
    _capture, door, endpoint = opened
    _works(opened)
    pid = door.served.workers()[0]
    before = _open_files(pid)
    for round_ in range(60):
        with socket.create_connection(("127.0.0.1", endpoint.port), BOUND) as link:
            if round_ % 2:
                _vanish_in_body(endpoint, link) if round_ % 10 == 1 else _vanish_before_answer(endpoint, link)
            else:
                _vanish_in_head(endpoint, link)
    deadline = time.monotonic() + BOUND
    while _open_files(pid) > before + 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert _open_files(pid) <= before + 2
    _works(opened)


def _open_files(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
