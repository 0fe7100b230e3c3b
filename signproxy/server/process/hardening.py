"""Keep what the process holds in memory from other processes and out of core files."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from enum import IntEnum

from signproxy.telemetry import log

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
