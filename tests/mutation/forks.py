"""Run work in forked processes: side by side, bounded in time, and leaving nothing behind in this one."""

from __future__ import annotations

import math
import os
import pickle
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
# What this process was started with, kept from every redirection below.
_TERMINAL = os.dup(2)

# A mutant that allocates without end must not take the machine with it.
_MEMORY = 8 << 30
# The limit counts time on the processor, so that a busy machine is no killed mutant; a hang is bounded all the same.
_WAITING = 10
_PROGRESS = 100
_UNCHANGED, _NOTICED, _BROKEN, _NOT_EXCHANGED = 0, 1, 3, 4


class Outcome(Enum):
    """What became of a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    TIMEOUT = "timeout"
    """It ran into the time limit, which a test would notice too."""
    NOT_EXCHANGED = "not exchanged"
    """The live function cannot take the changed code: to be run with a fresh import."""


class NotExchangeable(Exception):
    """The live function is wrapped away, or closes over other variables than the changed code."""


class WorkFailed(RuntimeError):
    """The work itself failed, so that nothing can be said about the tests."""


def isolated(work: Callable[[], T]) -> T:
    """Return what the work returns, done in a process of its own: what it imports and patches ends with it."""
    with tempfile.TemporaryDirectory() as directory:
        answer, output = Path(directory, "answer"), Path(directory, "output")
        pid = os.fork()
        if pid == 0:
            status = _BROKEN
            try:
                _redirect(output)
                answer.write_bytes(pickle.dumps(work()))
                status = _UNCHANGED
            except BaseException:  # noqa: BLE001  (the outermost of this process: what is raised is shown by the parent)
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        _, code = os.waitpid(pid, 0)
        if code:
            raise WorkFailed(output.read_text(errors="replace")[-6000:])
        return pickle.loads(answer.read_bytes())  # type: ignore[no-any-return]  # noqa: S301  (written just above)


def each(jobs: Iterable[tuple[int, float, Callable[[], bool]]], workers: int, until: float) -> dict[int, Outcome]:
    """Run each job (number, seconds of processor time, whether a test noticed) in a fork; start none after `until`."""
    outcomes: dict[int, Outcome] = {}
    running: dict[int, int] = {}

    def reap() -> None:
        pid, code = os.wait()
        outcomes[running.pop(pid)] = _outcome(code)
        if len(outcomes) % _PROGRESS == 0:
            os.write(_TERMINAL, f"{len(outcomes)} mutants\n".encode())

    for number, seconds, noticed in jobs:
        if time.monotonic() > until:
            break
        if len(running) >= workers:
            reap()
        pid = os.fork()
        if pid == 0:
            _run(seconds, noticed)
        running[pid] = number
    while running:
        reap()
    return outcomes


def limit(seconds: float) -> None:
    """End this process, which is a fork, where it takes more processor time than this until the next call.

    One test that never ends would otherwise take ten times what all of them take.
    """
    signal.setitimer(signal.ITIMER_PROF, seconds)


def _run(seconds: float, noticed: Callable[[], bool]) -> None:
    status = _BROKEN
    shown = os.dup(2)
    try:
        _redirect(Path(os.devnull))
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        # The signals' default action ends the process wherever it loops or hangs, in C code too.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), math.ceil(seconds)))
        signal.setitimer(signal.ITIMER_REAL, _WAITING * seconds)
        status = _NOTICED if noticed() else _UNCHANGED
    except NotExchangeable:
        status = _NOT_EXCHANGED
    except BaseException:  # noqa: BLE001  (the outermost of this process)
        os.write(shown, traceback.format_exc().encode())
    finally:
        os._exit(status)


def _outcome(code: int) -> Outcome:
    if os.WIFSIGNALED(code):
        late = os.WTERMSIG(code) in {signal.SIGALRM, signal.SIGPROF, signal.SIGXCPU, signal.SIGKILL}
        return Outcome.TIMEOUT if late else Outcome.KILLED
    match os.WEXITSTATUS(code):
        case 0:
            return Outcome.SURVIVED
        case 1:
            return Outcome.KILLED
        case 4:
            return Outcome.NOT_EXCHANGED
        case status:
            raise WorkFailed(f"a mutant could not be run: status {status}")


def _redirect(path: Path) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    opened = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(opened, 1)
    os.dup2(opened, 2)
