"""Write down what is learned of places beside the loop, in order, and go on without where it cannot be written."""

from __future__ import annotations

import asyncio

from signproxy.errors import SettingsInvalid
from signproxy.inventory.learned.registry import Change
from signproxy.server.process.sightings_file import SightingsFile
from signproxy.telemetry.log import get_logger

_log = get_logger("signproxy.sightings")

AGAIN_SECONDS = 5.0
"""Before a file that could not be written is tried again."""

WAITING_AT_MOST = 100_000
"""Changes that wait for a volume that takes none; some 500 bytes each. The oldest are given up first."""


class SightingsJournal:
    """What one process adds to the file."""

    def __init__(self, file: SightingsFile) -> None:
        self.problem = ""
        """Why changes are not written; empty where they are."""
        self._file = file
        self._waiting: list[Change] = []
        self._writing: asyncio.Task[None] | None = None

    def note(self, change: Change) -> None:
        """Have a change written soon."""
        self._waiting.append(change)
        if len(self._waiting) > WAITING_AT_MOST:
            del self._waiting[0]
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write())

    async def aclose(self) -> None:
        """Write what waits, once."""
        if self._writing is not None:
            if self.problem:
                self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)
        if self._waiting:
            await self._append()

    async def _write(self) -> None:
        while self._waiting:
            if not await self._append():
                await asyncio.sleep(AGAIN_SECONDS)

    async def _append(self) -> bool:
        """Write what waits now; return whether it is done with."""
        batch, self._waiting = self._waiting, []
        try:
            taken = await asyncio.to_thread(self._file.append, batch)
        except (OSError, SettingsInvalid) as error:
            self._waiting[:0] = batch
            self._tell(f"the file of sightings cannot be written: {error}")
            return False
        self._tell("" if taken else "the file of sightings is full (`sightings.max_mib`): new tables are not kept")
        return True

    def _tell(self, problem: str) -> None:
        if problem != self.problem:
            self.problem = problem
            if problem:
                _log.error("sightings not kept", problem=problem)
            else:
                _log.info("sightings kept again")
