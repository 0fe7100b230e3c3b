"""Let one run at a time write to a warehouse."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from signproxy.errors import SignproxyError

LOCK = ".lock"


class Busy(SignproxyError):
    """Raise where another run works on the warehouse."""


@contextmanager
def alone(warehouse: Path | None) -> Iterator[None]:
    """Keep the warehouse for this run, or raise Busy; None for one on a file system that only Spark knows.

    The lock is the kernel's: it ends with the process that has it, however that ends.
    """
    with ExitStack() as stack:
        # A directory that cannot be written to is the job's to complain of; a network's file system may have no locks,
        # and there, as with an object store, the operator has to see to it.
        with suppress(OSError):
            if warehouse is not None:
                warehouse.mkdir(parents=True, exist_ok=True)
                _lock(stack.enter_context((warehouse / LOCK).open("a")))
        yield


def _lock(file: IO[str]) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        place = Path(file.name).parent
        raise Busy(f"another run works on {place}: run this one again when that has ended") from None
