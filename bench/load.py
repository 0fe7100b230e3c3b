"""Put a signer under load with wrk: a different URI in every request, every answer 200, and count what it cost."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from bench import sign_request
from bench.process import LOAD_CORE, BenchFailed, Meter, call, start

_SCRIPT = "unique.lua"
_NUMBERS_PER_BURST = 10_000_000
"""More than any burst sends: no two bursts of a run share a number, so no URI ever comes twice."""


_PATIENCE = 30
"""Seconds before wrk calls a request failed; clients of S3 wait no less."""


class Signer(msgspec.Struct):
    """A server that is asked to sign: where, with which body and token, and which processes pay for it."""

    name: str
    url: str
    pids: tuple[int, ...]
    template: str
    token: str = ""
    bursts: int = 0

    def next_number(self) -> int:
        """Return a number from which a burst may count without meeting an earlier one."""
        self.bursts += 1
        return self.bursts * _NUMBERS_PER_BURST


class Burst(msgspec.Struct, frozen=True):
    """What one stretch of load did: requests served, what the server paid, how long a caller waited."""

    requests: int
    seconds: float
    cpu_seconds: float
    p50_us: float
    p99_us: float
    kernel: float = 0.0
    """The share of the processor time that was the kernel's."""

    @property
    def cpu_us(self) -> float:
        """CPU microseconds of the server per request."""
        return self.cpu_seconds / self.requests * 1e6


class Report(msgspec.Struct):
    """What wrk saw of a load: the line that unique.lua prints."""

    requests: int
    microseconds: int
    not_200: int
    broken: int
    p50: float
    p99: float


def require_wrk() -> str:
    """Return the path of wrk, or say how to get it."""
    path = shutil.which("wrk")
    if path is None:
        raise BenchFailed("wrk is missing: install it by name (apt-get install -y wrk)")
    return path


class Running(msgspec.Struct, frozen=True):
    """A load under way."""

    name: str
    wrk: subprocess.Popen[bytes]
    log: Path


def burst(
    signer: Signer,
    scratch: Path,
    *,
    connections: int,
    seconds: int,
    core: int | None = LOAD_CORE,
    script: str = _SCRIPT,
) -> Burst:
    """Load a signer for some seconds; fail if a single answer was not 200."""
    meter = Meter(signer.pids)
    report = finish(launch(signer, scratch, connections=connections, seconds=seconds, core=core, script=script))
    spent, kernel = meter.read()
    return Burst(report.requests, report.microseconds / 1e6, spent, report.p50, report.p99, kernel)


def launch(
    signer: Signer,
    scratch: Path,
    *,
    connections: int,
    seconds: int,
    pause_ms: int = 0,
    core: int | None = LOAD_CORE,
    script: str = _SCRIPT,
) -> Running:
    """Start wrk against a signer; each connection pauses between its requests. `finish` collects the report."""
    target = urlsplit(signer.url)
    template = scratch / f"{signer.name}.body"
    template.write_text(signer.template)
    token = scratch / f"{signer.name}.token"
    token.write_text(signer.token)
    log = scratch / f"{signer.name}.wrk"
    lua = Path(__file__).with_name(script)
    command = (
        *(require_wrk(), "-t1", f"-c{connections}", f"-d{seconds}s", f"--timeout={_PATIENCE}s", "--latency"),
        *(
            f"--script={lua}",
            f"{target.scheme}://{target.netloc}/",
            "--",
            target.path,
            str(template),
        ),
        *(str(token) if signer.token else "", str(signer.next_number()), str(pause_ms)),
    )
    return Running(signer.name, start(command, core=core, log=log), log)


def finish(load: Running) -> Report:
    """Wait for a load to end; fail unless every request was answered with 200."""
    report = report_of(load)
    if report.not_200 or report.broken or not report.requests:
        raise BenchFailed(f"{load.name}: {report.not_200} answers were not 200, {report.broken} broke: {report}")
    return report


def report_of(load: Running) -> Report:
    """Wait for a load to end, and return what became of it."""
    status = load.wrk.wait()
    output = load.log.read_text(errors="replace")
    try:
        return msgspec.json.decode(output.strip().rpartition("\n")[2], type=Report)
    except msgspec.DecodeError as error:
        raise BenchFailed(f"wrk against {load.name} ended with {status}:\n{output}") from error


def sign_once(signer: Signer) -> tuple[bytes, bytes]:
    """Ask a signer once; return the request's body and the answer's."""
    content = sign_request.body(signer.template, signer.next_number())
    headers = {"Content-Type": "application/json"}
    if signer.token:
        headers["Authorization"] = f"Bearer {signer.token}"
    answer = call("POST", signer.url, headers, content)
    if answer.status != 200:
        raise BenchFailed(f"{signer.name} answered {answer.status}: {answer.content[:500]!r}")
    return content, answer.content
