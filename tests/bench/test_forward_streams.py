"""Hold that what moves large objects counts what it moved, and takes nothing for moved that was not."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.forward_scene import received
from bench.forward_streams import Ask, Moved, adler_of, ask_once, build, move, read_report, sink
from bench.process import BenchFailed

_BYTES = (1 << 20) + 7

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="the load of large objects is written in C")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("streams")


@pytest.fixture(scope="module")
def load(scratch: Path) -> Path:
    return build("streams", scratch)


@pytest.fixture(scope="module")
def body(scratch: Path) -> Path:
    file = scratch / "body"
    file.write_bytes(os.urandom(_BYTES))
    return file


@pytest.fixture(scope="module")
def store(scratch: Path) -> Iterator[tuple[int, Path]]:
    with sink(scratch) as listening:
        yield listening


def _put(body: Path, name: str = "part") -> Ask:
    return Ask("PUT", f"/drain/{name}", (("x-amz-content-sha256", "UNSIGNED-PAYLOAD"),), body)


_GET = Ask("GET", "/lake/part", ())


@needs_compiler
def test_uploads_are_counted_to_the_byte(load: Path, store: tuple[int, Path], body: Path, scratch: Path) -> None:
    """Gigabytes per second are these bytes."""
    moved = move(load, _put(body), store[0], (), scratch, connections=3, objects=7)
    assert moved.bytes == 7 * _BYTES
    assert moved.seconds > 0


@needs_compiler
def test_the_sink_knows_what_it_was_sent(store: tuple[int, Path], body: Path) -> None:
    """A proxy that loses or turns bytes would be as quick as any, and no figure would show it."""
    answer = ask_once(_put(body, "part.checked"), store[0])
    assert answer.status == 200
    assert int(answer.headers["etag"].strip('"'), 16) == adler_of(body)
    sent = received(store[1].read_bytes())
    assert (sent.method, sent.target) == ("PUT", "/drain/part.checked")
    assert ("x-amz-content-sha256", "UNSIGNED-PAYLOAD") in sent.headers


@needs_compiler
def test_a_changed_byte_is_another_checksum(store: tuple[int, Path], body: Path, scratch: Path) -> None:
    """The check above would pass for anything."""
    other = scratch / "other"
    content = bytearray(body.read_bytes())
    content[-1] ^= 1
    other.write_bytes(content)
    answer = ask_once(_put(other, "part.checked"), store[0])
    assert int(answer.headers["etag"].strip('"'), 16) != adler_of(body)


@needs_compiler
def test_a_stalled_upload_is_not_read(store: tuple[int, Path], body: Path) -> None:
    """Streams that are held to measure their memory would simply go through."""
    ask = _put(body, "part.stalled")
    with socket.create_connection(("127.0.0.1", store[0]), timeout=0.3) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        client.sendall(ask.head(store[0]))
        with pytest.raises(TimeoutError):
            client.sendall(bytes(64 * _BYTES))


def _serve(answers: list[bytes]) -> int:
    """Answer the requests of one connection after another with these bytes, and close each."""
    listening = socket.create_server(("127.0.0.1", 0))
    port: int = listening.getsockname()[1]

    def run() -> None:
        with listening:
            for answer in answers:
                connection, _ = listening.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(answer)

    threading.Thread(target=run, daemon=True).start()
    return port


@needs_compiler
def test_downloads_are_counted_to_the_byte(load: Path, scratch: Path) -> None:
    """What the kernel throws away must be counted all the same; heads are no objects."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\nConnection: close\r\n\r\n" + bytes(100_000)
    moved = move(load, _GET, _serve([answer] * 3), (), scratch, connections=1, objects=3)
    assert moved.bytes == 300_000


@needs_compiler
@pytest.mark.parametrize(
    "answer",
    (
        b"HTTP/1.1 403 Forbidden\r\nContent-Length: 4\r\nConnection: close\r\n\r\nnope",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\ntoo little",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nwithout its length",
    ),
)
def test_a_refused_or_broken_transfer_fails_the_run(answer: bytes, load: Path, scratch: Path) -> None:
    """Refusals and half objects are quick: a proxy of such would win every comparison."""
    with pytest.raises(BenchFailed):
        move(load, _GET, _serve([answer]), (), scratch, connections=1, objects=1)


@needs_compiler
def test_an_answer_before_the_upload_is_through_fails_the_run(load: Path, body: Path, scratch: Path) -> None:
    """A proxy that answers at once and takes nothing would be the quickest of all."""
    large = scratch / "large"
    large.write_bytes(bytes(64 << 20))
    early = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    with pytest.raises(BenchFailed):
        move(load, _put(large), _serve([early]), (), scratch, connections=1, objects=1)


_REPORT = '{"objects":%d,"received":10,"sent":0,"microseconds":5,"not_200":%d,"broken":%d}'


def test_a_clean_report_is_read() -> None:
    """The load's own report is what divides the CPU time."""
    assert read_report("\n" + _REPORT % (4, 0, 0) + "\n", 4).received == 10


@pytest.mark.parametrize("faults", ((3, 0, 0), (4, 1, 0), (4, 0, 1)))
def test_a_report_with_faults_fails_the_run(faults: tuple[int, int, int]) -> None:
    """Fewer objects than were asked for would count as a short run."""
    with pytest.raises(BenchFailed, match="of 4 objects"):
        read_report(_REPORT % faults, 4)


def test_a_load_without_a_report_fails_the_run() -> None:
    """A load that crashed would leave a figure of nothing."""
    with pytest.raises(BenchFailed, match="nothing moved"):
        read_report("nothing moved for a minute", 4)


def test_rates_and_costs_are_per_gigabyte() -> None:
    """GiB taken for GB would be seven per cent."""
    moved = Moved(2_000_000_000, 4.0, 1.0)
    assert (moved.rate, moved.cost) == (0.5, 0.5)
