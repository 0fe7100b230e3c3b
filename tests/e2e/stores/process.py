"""Run a server in a process group of its own, its output in a file, and end it in bounded time."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

READY_TIMEOUT = 90.0
"""Seconds until a server must be ready; the slowest store takes 10 on an idle machine."""
STOP_TIMEOUT = 10.0
"""Seconds that a server may take to end before it is killed; nothing that it keeps is read again."""

_LOG_SHOWN = 6000
_REPOSITORY = Path(__file__).parents[3]


class ServerFailed(Exception):
    """A server did not start, or ended too early; the message holds the end of its log."""


class Server:
    """A running server process."""

    def __init__(
        self, name: str, command: Sequence[str], directory: Path, *, env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = directory / f"{name}.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=directory,
                env={**os.environ, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @classmethod
    def of_module(cls, name: str, module: str, arguments: Sequence[str], directory: Path) -> Server:
        """Run a module of the tests, which finds its package whatever directory it runs in."""
        command = (sys.executable, "-m", module, *arguments)
        searched = (str(_REPOSITORY), os.environ.get("PYTHONPATH", ""))
        return cls(name, command, directory, env={"PYTHONPATH": os.pathsep.join(filter(None, searched))})

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until(self, ready: Callable[[], bool]) -> None:
        """Wait for readiness; fail with the log if the server ends or takes too long."""
        deadline = time.monotonic() + READY_TIMEOUT
        while not ready():
            if not self.runs():
                raise ServerFailed(f"{self.name} ended with {self._process.poll()}\n{self.tail()}")
            if time.monotonic() > deadline:
                raise ServerFailed(f"{self.name} was not ready after {READY_TIMEOUT:.0f} s\n{self.tail()}")
            time.sleep(0.05)

    def runs(self) -> bool:
        """Say whether the process is alive."""
        return self._process.poll() is None

    def tail(self) -> str:
        """Return the end of the log."""
        return self.log.read_text(errors="replace")[-_LOG_SHOWN:]

    def stop(self, timeout: float = STOP_TIMEOUT) -> None:
        """End the process, and whatever is left of its group."""
        if self.runs():
            self._process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout)
        with suppress(ProcessLookupError):
            # The group outlives its leader as long as a child of it runs.
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def free_ports(count: int) -> list[int]:
    """Return loopback ports that nothing listens on, all different."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def listens(port: int) -> bool:
    """Say whether something takes connections on a port of loopback."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def status_of(port: int, path: str) -> int:
    """Return the status of a plain GET on loopback, 0 while there is no answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()
