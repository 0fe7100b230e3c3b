"""Run a command, wait for all that it leaves behind, and write down what they cost together.

A JVM outlives the Python that started it: waiting for that one alone counts the smaller half. So this process
adopts what loses its parent. Standard library only, for it runs beside any Python.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path
from types import FrameType

_PR_SET_CHILD_SUBREAPER = 36


def main() -> int:
    """Run `argv[2:]`, and write to `argv[1]`."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    began = time.monotonic()
    child = os.fork()
    if not child:
        os.setpgid(0, 0)
        os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606 - the bench's own commands

    def pass_on(number: int, _frame: FrameType | None) -> None:
        os.killpg(child, number)

    signal.signal(signal.SIGTERM, pass_on)
    status = 1
    while True:
        try:
            ended, how = os.wait()
        except ChildProcessError:
            break
        if ended == child:
            status = os.waitstatus_to_exitcode(how)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = {
        "cpu": used.ru_utime + used.ru_stime,
        "wall": time.monotonic() - began,
        "peak_mib": used.ru_maxrss / 1024,
        "status": status,
    }
    Path(sys.argv[1]).write_text(json.dumps(spent))
    return 0


if __name__ == "__main__":
    sys.exit(main())
