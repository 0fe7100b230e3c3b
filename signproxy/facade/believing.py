"""Name what the facade tells of the tables that it saw."""

from __future__ import annotations

from typing import Protocol

from signproxy.inventory.learned.learned import SightingRefusal
from signproxy.inventory.learned.sighting import Sighting


class Believes(Protocol):
    """Takes in what was seen, here and in the workers beside."""

    async def tell(
        self, sighting: Sighting, *, asked: float | None = None, sent: float | None = None
    ) -> SightingRefusal | None:
        """Take in a sighting; return what of it is not believed. The times are `time.monotonic()`'s."""
        ...
