"""Move large objects through a proxy with a load that costs little itself, and count what the proxy paid."""

from __future__ import annotations

import contextlib
import http.client
import shutil
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from bench.process import (
    CALL_TIMEOUT,
    LOAD_CORE,
    BenchFailed,
    Meter,
    answers,
    free_port,
    output_of,
    running,
    wait_until,
)

_HERE = Path(__file__).parent
_BURST_TIMEOUT = 600.0
_PIECE = 1 << 20
GIGABYTE = 1e9


class Ask(msgspec.Struct, frozen=True):
    """One request of a large object: the same for every proxy but for its port."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: Path | None = None

    def head(self, port: int) -> bytes:
        """Return the head as it is sent."""
        lines = [f"{self.method} {self.target} HTTP/1.1", f"Host: 127.0.0.1:{port}"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        if self.body is not None:
            lines.append(f"Content-Length: {self.body.stat().st_size}")
        return "\r\n".join([*lines, "", ""]).encode()


class Moved(msgspec.Struct, frozen=True):
    """What one burst moved: bytes of bodies, seconds on the wall, seconds that the proxy was on a core."""

    bytes: int
    seconds: float
    cpu_seconds: float
    kernel: float = 0.0
    """The share of it in the kernel."""

    @property
    def rate(self) -> float:
        """Gigabytes per second."""
        return self.bytes / self.seconds / GIGABYTE

    @property
    def cost(self) -> float:
        """CPU seconds of the proxy per gigabyte."""
        return self.cpu_seconds / self.bytes * GIGABYTE


class Report(msgspec.Struct):
    """What the load saw: the line that streams.c prints."""

    objects: int
    received: int
    sent: int
    microseconds: int
    not_200: int
    broken: int


def build(name: str, scratch: Path) -> Path:
    """Compile a program of this directory; it takes less than looking whether it was compiled before."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise BenchFailed("cc is missing: install it by name (apt-get install -y gcc libc6-dev)")
    program = scratch / name
    output_of([compiler, "-O2", "-o", str(program), str(_HERE / f"{name}.c")])
    return program


def move(
    load: Path, ask: Ask, port: int, pids: tuple[int, ...], scratch: Path, *, connections: int, objects: int
) -> Moved:
    """Move so many objects over so many connections; fail unless every one was moved whole."""
    head = scratch / "streams.head"
    head.write_bytes(ask.head(port))
    command = [str(load), str(port), str(head), str(ask.body or ""), str(connections), str(objects)]
    meter = Meter(pids)
    printed = output_of(["taskset", "-c", str(LOAD_CORE), *command], timeout=_BURST_TIMEOUT)
    spent, kernel = meter.read()
    report = read_report(printed, objects)
    return Moved(report.sent if ask.body else report.received, report.microseconds / 1e6, spent, kernel)


def read_report(printed: str, objects: int) -> Report:
    """Return the report at the end of an output; fail unless all objects were moved, and answered with 200."""
    try:
        report = msgspec.json.decode(printed.strip().rpartition("\n")[2], type=Report)
    except msgspec.DecodeError as error:
        raise BenchFailed(f"the load said: {printed}") from error
    if report.not_200 or report.broken or report.objects != objects:
        raise BenchFailed(f"of {objects} objects: {report}")
    return report


@contextlib.contextmanager
def sink(scratch: Path) -> Iterator[tuple[int, Path]]:
    """Run the store that discards; yield its port and the file with the head of its newest `checked` upload."""
    port = free_port()
    head, log = scratch / "sink.head", scratch / "sink.log"
    command = [str(build("sink", scratch)), str(port), str(head)]
    with running(command, core=LOAD_CORE, log=log) as process:
        wait_until(lambda: answers(f"http://127.0.0.1:{port}/"), process, log)
        yield port, head


class Whole(msgspec.Struct, frozen=True):
    """An answer of which only the checksum was kept."""

    status: int
    headers: Mapping[str, str]
    adler: int
    start: bytes
    """The first bytes of the content: an error's own words."""


def ask_once(ask: Ask, port: int) -> Whole:
    """Ask once, over a connection of its own, and read the answer to its end."""
    connection = http.client.HTTPConnection(f"127.0.0.1:{port}", timeout=CALL_TIMEOUT)
    try:
        with contextlib.ExitStack() as stack:
            body = stack.enter_context(ask.body.open("rb")) if ask.body else None
            length = {"Content-Length": str(ask.body.stat().st_size)} if ask.body else {}
            connection.request(ask.method, ask.target, body, dict(ask.headers) | length)
            answer = connection.getresponse()
            adler, start = 1, b""
            while piece := answer.read(_PIECE):
                adler = zlib.adler32(piece, adler)
                start = start or piece[:500]
        return Whole(answer.status, {name.lower(): value for name, value in answer.getheaders()}, adler, start)
    finally:
        connection.close()


def adler_of(file: Path) -> int:
    """Return the checksum of a file that the sink would answer."""
    adler = 1
    with file.open("rb") as stream:
        while piece := stream.read(_PIECE):
            adler = zlib.adler32(piece, adler)
    return adler
