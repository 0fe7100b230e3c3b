"""Set up a process that serves, kept from other processes, and have it end when it is asked to."""

from __future__ import annotations

import asyncio
import atexit
import errno
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from enum import IntEnum

from signproxy.config.settings import Loop, Settings
from signproxy.errors import Finding, SettingsInvalid
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


_log = log.get_logger("signproxy.hardening")


class _Prctl(IntEnum):
    """Names and numbers of https://man7.org/linux/man-pages/man2/prctl.2.html ."""

    SET_DUMPABLE = 4
    SET_NO_NEW_PRIVS = 38


def harden() -> None:
    """Do it, before any secret is read; in every process, for whatever is executed can be looked into again.

    Where a kernel or a sandbox refuses, the log says so, and serving goes on.
    """
    for problem in (*_no_core_files(), *_no_spying()):
        _log.warning("process not hardened", problem=problem)


def _no_core_files() -> Iterator[str]:
    """A crash must not leave keys and tokens on a disk."""
    try:
        import resource  # noqa: PLC0415 - not there on every platform

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, OSError, ValueError) as error:
        yield f"core files cannot be switched off: {error}"


def _no_spying() -> Iterator[str]:
    """Only root may trace the process or read its memory and environment, and nothing it starts gets more rights.

    Another process of the same user is the point: in a pod that shares processes, the engine's user code is one. A
    core limit is not enough either, for it does not hold where the kernel pipes core files into a program.
    """
    if sys.platform != "linux":
        return
    for option, value, what in (
        (_Prctl.SET_DUMPABLE, 0, "others of this user may read the memory of the process"),
        (_Prctl.SET_NO_NEW_PRIVS, 1, "what the process starts may gain rights"),
    ):
        code = _prctl(option, value)
        if code:
            yield f"{what}: {os.strerror(code)}"


def _prctl(option: int, value: int) -> int:
    """Return 0, or the error."""
    try:
        import ctypes  # noqa: PLC0415 - for this alone

        # All arguments of the kernel's call are longs, whatever the library's declaration leaves open.
        arguments = [ctypes.c_ulong(each) for each in (value, 0, 0, 0)]
        failed = ctypes.CDLL(None, use_errno=True).prctl(ctypes.c_int(option), *arguments)
        return ctypes.get_errno() if failed else 0
    except (ImportError, OSError, AttributeError):
        return errno.ENOSYS
