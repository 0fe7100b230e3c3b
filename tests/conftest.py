"""Set what tests run under, no network beyond this machine and properties that are repeatable; hold shared fixtures."""

from __future__ import annotations

import io
import ipaddress
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.authority import Authority

# No deadline: machines differ, and no test asserts an absolute time.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None)
# Thousands of runs, one per mutant: few examples, always the same ones.
settings.register_profile(
    "mutants",
    deadline=None,
    max_examples=15,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "default"))


class OutsideLoopback(RuntimeError):
    """A test reached for the network beyond this machine."""


def _is_loopback(host: object) -> bool:
    if isinstance(host, bytes | bytearray):
        host = host.decode("ascii", "replace")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(str(host).partition("%")[0]).is_loopback
    except ValueError:
        return False


def _only_loopback(event: str, arguments: tuple[object, ...]) -> None:
    """Refuse every way out of a socket, in every thread and every phase, also those of synchronous libraries."""
    match event, arguments:
        case (("socket.getaddrinfo" | "socket.gethostbyname"), (host, *_)) if host:
            allowed = _is_loopback(host)
        case (("socket.connect" | "socket.bind" | "socket.sendto"), (_, (host, int(), *_))):
            allowed = _is_loopback(host)
        case _:
            allowed = True
    if not allowed:
        raise OutsideLoopback(f"{event} {arguments!r}: tests use 127.0.0.1, ::1 and unix sockets only")


# An audit hook sees what a patched socket class misses (connect_ex, sendto, resolution, fixtures' tear-down)
# and cannot be taken off. Event loops written in C are the exception: tests run on asyncio's own.
sys.addaudithook(_only_loopback)


@pytest.fixture(scope="session")
def authority() -> Authority:
    """One authority for certificates of all tests: its key takes time to make."""
    from tests.authority import Authority

    return Authority()


@pytest.fixture
def quiet_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the machine that runs the tests is read."""
    for name in [name for name in os.environ if name.startswith("SIGNPROXY")]:
        monkeypatch.delenv(name)


@pytest.fixture
def short_directory() -> Iterator[Path]:
    """A directory whose name leaves room for a socket's; those of pytest are long."""
    with TemporaryDirectory(prefix="s") as name:
        yield Path(name)


@pytest.fixture
def log_lines() -> Iterator[io.StringIO]:
    """Log to memory, and to standard error again afterwards."""
    from signproxy.telemetry.log import LogThreshold, configure

    written = io.StringIO()
    configure(LogThreshold.DEBUG, written)
    yield written
    configure()
