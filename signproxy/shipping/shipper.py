"""Ship what is sealed, one segment after the other, for as long as the server runs.

There is no list of what was shipped: what is sealed and still there is what is left to do, in this life or the next.
Several processes may share a directory; the one that holds the lock ships for all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import random
from collections.abc import Iterator
from pathlib import Path
from time import gmtime, strftime, time
from typing import NamedTuple, Protocol

from signproxy.audit.segment import ROOT, parse_name
from signproxy.audit.segments import sealed_below
from signproxy.shipping.store import ShippingFailed, Sums, sums_of
from signproxy.telemetry.log import get_logger

POLL_SECONDS = 5.0
"""How often the directory is looked at for what others sealed, or left there when they ended."""
FIRST_PAUSE = 1.0
LAST_PAUSE = 60.0
"""After failures, doubling from the first to the last."""
END_PAUSE = 0.2
JITTER = 0.2

_LOCK = ".shipping"
_DAY_SECONDS = 86_400.0

_log = get_logger("signproxy.shipping")


class Store(Protocol):
    """Where segments go."""

    async def put(self, name: str, path: Path, sums: Sums) -> None:
        """Return once the file is proved to be there under the name; raise ShippingFailed."""

    async def aclose(self) -> None:
        """Let go of it."""


class ShippingState(NamedTuple):
    """How shipping is doing; the counts only grow."""

    shipped: int = 0
    failures: int = 0
    waiting: int = 0
    """Sealed segments that are not shipped, of all processes that share the directory."""
    waiting_bytes: int = 0
    waiting_since: float = 0.0
    """Unix time at which the oldest of them was sealed; 0 where there are none."""
    problem: str = ""
    """Of the last attempt; empty if it succeeded."""


class Shipper:
    """Ships the sealed segments of a directory."""

    def __init__(self, directory: Path, store: Store) -> None:
        self._directory = directory
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._end = asyncio.Event()
        # Those that the store does not take, and when they are tried again: they hold up no other.
        self._later: dict[Path, float] = {}
        self._task: asyncio.Task[None] | None = None
        self.state = ShippingState()

    def start(self) -> None:
        """Begin to ship in the background."""
        self._task = self._loop.create_task(self._run())

    def sealed(self, _path: Path) -> None:
        """Look now: something was sealed. From any thread."""
        # After the loop's end there is no task left to be told.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._wake.set)

    async def finish(self, seconds: float) -> int:
        """Ship what is left, for so long at most, and end; return how many segments stay here."""
        self._end.set()
        self._wake.set()
        task, self._task = self._task, None
        if task is not None:
            await asyncio.wait((task,), timeout=seconds)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self._store.aclose()
        return len(await asyncio.to_thread(sealed_below, self._directory))

    async def _run(self) -> None:
        pause = FIRST_PAUSE
        while True:
            ending = self._end.is_set()
            self._wake.clear()
            try:
                done = await self._ship_all()
            except Exception as error:  # noqa: BLE001 - the supervisor of this task: the next attempt may fare better
                self._failed(error, pause)
                # A store that is down is not asked once more with each segment that is sealed.
                await self._rest(self._end, _spread(pause))
                pause = min(2 * pause, LAST_PAUSE)
                continue
            pause = FIRST_PAUSE
            if ending and done:
                return
            await self._rest(self._wake, POLL_SECONDS)

    async def _rest(self, until: asyncio.Event, seconds: float) -> None:
        if self._end.is_set():
            await asyncio.sleep(END_PAUSE)
        else:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await until.wait()

    async def _ship_all(self) -> bool:
        """Ship whatever is there; return whether nothing is left that could be. Raise what concerns all of it."""
        found = await asyncio.to_thread(self._look)
        now = self._loop.time()
        self._later = {path: then for path, then in self._later.items() if path in found}
        due = [path for path in found if self._later.get(path, now) <= now]
        if not due:
            return True
        with _lock(self._directory) as ours:
            if not ours:
                return False
            for path in due:
                await self._ship_or_leave(path)
        return True

    async def _ship_or_leave(self, path: Path) -> None:
        try:
            await self._ship(path)
        except FileNotFoundError:
            # Another process had it in hand when this one looked.
            return
        except (ShippingFailed, OSError) as failed:
            if isinstance(failed, ShippingFailed) and not failed.of_object:
                raise
            self._later[path] = self._loop.time() + LAST_PAUSE
            self._failed(failed, LAST_PAUSE)

    async def _ship(self, path: Path) -> None:
        sums = await asyncio.to_thread(sums_of, path)
        await self._store.put(f"{ROOT}/{path.parent.name}/{path.name}", path, sums)
        await asyncio.to_thread(_remove, path)
        state = self.state
        self.state = state._replace(
            shipped=state.shipped + 1,
            waiting=max(0, state.waiting - 1),
            waiting_bytes=max(0, state.waiting_bytes - sums.size),
            waiting_since=state.waiting_since if state.waiting > 1 else 0.0,
            problem="" if not self._later else state.problem,
        )
        _log.debug("audit segment shipped", file=path.name, bytes=sums.size)

    def _look(self) -> list[Path]:
        found, total, oldest = [], 0, 0.0
        for path in sealed_below(self._directory):
            if parse_name(path.name) is None:
                continue
            with contextlib.suppress(FileNotFoundError):
                status = path.stat(follow_symlinks=False)
                found.append(path)
                total += status.st_size
                oldest = min(oldest or status.st_mtime, status.st_mtime)
        problem = self.state.problem if found else ""
        self.state = self.state._replace(waiting=len(found), waiting_bytes=total, waiting_since=oldest, problem=problem)
        return found

    def _failed(self, error: Exception, pause: float) -> None:
        problem = str(error) if isinstance(error, ShippingFailed) else getattr(error, "strerror", "") or repr(error)
        if not isinstance(error, ShippingFailed | OSError):
            _log.exception("shipping failed")
        self.state = self.state._replace(failures=self.state.failures + 1, problem=problem)
        _log.error("audit segments cannot be shipped", problem=problem, waiting=self.state.waiting, retry_in=pause)


@contextlib.contextmanager
def _lock(directory: Path) -> Iterator[bool]:
    """Hold the directory's lock for shipping if no other process does."""
    fd = os.open(directory / ROOT / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(fd)


def _remove(path: Path) -> None:
    """Delete a segment that is proved to be elsewhere, and its day where that is over and was the last."""
    path.unlink()
    # No process begins a segment of the day before yesterday.
    if path.parent.name < strftime("dt=%Y-%m-%d", gmtime(time() - 2 * _DAY_SECONDS)):
        with contextlib.suppress(OSError):
            path.parent.rmdir()


def _spread(seconds: float) -> float:
    return seconds * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - spreads load, protects nothing
