"""Set what every test runs under: no network beyond this machine, and properties that can be repeated."""

from __future__ import annotations

import ipaddress
import os
import sys

from hypothesis import HealthCheck, settings

# No deadline: machines differ, and no test asserts an absolute time.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, max_examples=200, derandomize=True, database=None)
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
