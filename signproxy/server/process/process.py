"""Set up a process that serves, whatever it serves."""

from __future__ import annotations

import asyncio
import atexit
import gc
import os
import signal
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from signproxy.config.s3 import S3Settings
from signproxy.config.settings import AdminSettings, ListenSettings, Loop, Settings
from signproxy.errors import Finding, SettingsInvalid
from signproxy.server.process.hardening import harden
from signproxy.server.process.sockets import Sharing, bind_tcp, bind_unix
from signproxy.telemetry import log
from signproxy.telemetry.lines import LineWriter

LAST_LINES_SECONDS = 1.0
"""For the last lines of the log; a reader that stands still must not keep the process from ending."""

_STANDARD_ERROR = 2

_last_lines: list[LineWriter] = []
"""Of this process; `os._exit` runs nothing that was registered."""

_GC_THRESHOLD = 50_000
"""Objects that may come to be between two looks for cycles; at most some megabytes."""


def prepare_process(settings: Settings) -> None:
    """Do what comes before any secret is read, and before anything is logged."""
    lines = LineWriter(_STANDARD_ERROR)
    log.configure(log.LogThreshold[settings.log.level.name], lines)
    atexit.register(lines.close, LAST_LINES_SECONDS)
    _last_lines.append(lines)
    harden()


def settle() -> None:
    """Spare the garbage collector what lives as long as the process, and most of its looks."""
    gc.collect()
    gc.freeze()
    # A request leaves no cycles behind, so the collector has little to find and need not look every 30 requests.
    gc.set_threshold(_GC_THRESHOLD)


def loop_factory(loop: Loop) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes the event loop; None for asyncio's own."""
    if loop is Loop.ASYNCIO:
        return None
    try:
        import uvloop  # noqa: PLC0415 - not there on every platform
    except ImportError:
        if loop is Loop.UVLOOP:
            raise SettingsInvalid([Finding("", "loop", "uvloop is not installed")]) from None
        return None
    return uvloop.new_event_loop


def bind(
    stack: AsyncExitStack, where: ListenSettings | AdminSettings | S3Settings, section: str, sharing: Sharing
) -> tuple[socket.socket, ...]:
    """Return the sockets that a section of the settings names; a Unix socket's file goes when `stack` closes."""
    sockets: tuple[socket.socket, ...] = ()
    if isinstance(where, AdminSettings) or where.tcp:
        sockets += bind_tcp(where.host, where.port, sharing=sharing, section=section)
    if where.socket:
        unix = bind_unix(Path(where.socket), int(where.socket_mode, 8), section=section)
        stack.callback(unix.close)
        sockets += (unix.socket,)
    return sockets


async def cancel(task: asyncio.Task[None]) -> None:
    """End a task of this process, and wait for its end."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def on_end(begin: Callable[[], None], at_once: Callable[[], None]) -> None:
    """Call `begin` for the first SIGTERM or SIGINT; for the second `at_once`, and end.

    An orchestrator that asks twice will not wait. The process ends here and not by an exception: one that is raised
    while uvloop calls a connection ends that connection instead.
    """
    loop = asyncio.get_running_loop()

    def end() -> None:
        at_once()
        for lines in _last_lines:
            lines.close(LAST_LINES_SECONDS)
        os._exit(0)

    def first() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, end)
        begin()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, first)
