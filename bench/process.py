"""Run processes on chosen cores and read what they cost, from the kernel's own counters."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

SERVER_CORE = 0
"""Every measured server runs here, alone at any moment, so that all of them meet the same caches."""
LOAD_CORE = 1
"""Whatever makes the load, and whatever only serves as scenery, runs here."""

READY_TIMEOUT = 60.0
"""Seconds until a server must answer; a cold JVM needs 8."""
STOP_TIMEOUT = 30.0
"""Seconds that a process may take to end after SIGTERM before it is killed."""

_LOOK_SECONDS = 0.005
"""Between two looks whether a server is ready: below what any start takes."""

CALL_TIMEOUT = 60.0
"""Seconds for one answer outside a load; Nessie's first table takes a few."""

_NANOSECONDS = 1e9


class BenchFailed(Exception):
    """Something that the measurement needs is missing or misbehaves; no figure is made up for it."""


def free_port() -> int:
    """Return a loopback port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def start(
    command: Sequence[str], *, core: int | None, log: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a command on a core, its output going to `log` or nowhere."""
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(log.open("wb")) if log else subprocess.DEVNULL
        pinned = command if core is None else ["taskset", "-c", str(core), *command]
        return subprocess.Popen(
            pinned,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
        )


@contextlib.contextmanager
def running(
    command: Sequence[str], *, core: int | None, log: Path | None = None, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command for the length of a block; end that process, and no other, afterwards."""
    process = start(command, core=core, log=log, env=env)
    try:
        yield process
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process politely, then for good."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def end_children() -> None:
    """End whatever this process started and has not ended yet, and wait for it.

    An ended run leaves its blocks by an exception, and one that falls into the start of a process finds nothing that
    knows that process.
    """
    for child in children_of(os.getpid()):
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def children_of(pid: int) -> tuple[int, ...]:
    """Return the processes that a process started."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return tuple(int(child) for task in tasks for child in (task / "children").read_text().split())


def wait_until(ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path | None = None) -> None:
    """Wait until a server is ready; fail at once, with the end of its log, if it ends instead."""
    deadline = time.monotonic() + READY_TIMEOUT
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            tail = log.read_text(errors="replace")[-2000:] if log else ""
            raise BenchFailed(f"{process.args!r} did not become ready (exit {process.poll()})\n{tail}")
        time.sleep(_LOOK_SECONDS)


def answers(url: str) -> bool:
    """Say whether a URL answers, with a status below 500."""
    try:
        return call("GET", url).status < 500
    except (OSError, http.client.HTTPException):
        return False


class Answer(NamedTuple):
    """What a server answered."""

    status: int
    content: bytes


def call(method: str, url: str, headers: Mapping[str, str] | None = None, content: bytes | None = None) -> Answer:
    """Send one request over a connection of its own, without redirects or proxies."""
    target = urlsplit(url)
    connection = http.client.HTTPConnection(target.netloc, timeout=CALL_TIMEOUT)
    try:
        path = f"{target.path or '/'}{'?' if target.query else ''}{target.query}"
        connection.request(method, path, content, dict(headers or {}))
        answer = connection.getresponse()
        return Answer(answer.status, answer.read())
    finally:
        connection.close()


def output_of(command: Sequence[str], *, timeout: float = 60) -> str:
    """Run a command to its end and return what it printed; fail with that if it failed."""
    done = subprocess.run(
        command,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=timeout,
    )
    text = done.stdout.decode(errors="replace")
    if done.returncode:
        raise BenchFailed(f"{' '.join(command)} ended with {done.returncode}:\n{text[-2000:]}")
    return text


def cpu_seconds(pids: Iterable[int]) -> float:
    """Return the time on a core, in seconds, of all living threads of the processes.

    The scheduler's nanoseconds are exact where the tick counters of /proc/PID/stat are samples.
    """
    total = 0
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread may end in between
                total += int((task / "schedstat").read_text().split()[0])
    return total / _NANOSECONDS


class Meter:
    """What processes spend from its making on."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids
        self._cpu, self._ticks = cpu_seconds(pids), _ticks(pids)

    def read(self) -> tuple[float, float]:
        """Return the seconds on a core, and the share of them in the kernel."""
        user, kernel = (now - then for now, then in zip(_ticks(self._pids), self._ticks, strict=True))
        return cpu_seconds(self._pids) - self._cpu, kernel / max(1, user + kernel)


def _ticks(pids: Iterable[int]) -> tuple[int, int]:
    """Return the ticks of processes in user space and in the kernel: good for a share, too coarse for a sum."""
    user = kernel = 0
    for pid in pids:
        # The second field is a name, which may hold anything but ends with the last bracket.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        user, kernel = user + int(fields[11]), kernel + int(fields[12])
    return user, kernel


def memory_mib(pid: int, field: str) -> float:
    """Return a field of /proc/PID/status (`VmRSS`, `VmHWM`) in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) / 1024
    raise BenchFailed(f"/proc/{pid}/status has no {field}")
