"""Look at a body on its way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Inspect(Protocol):
    """What looks at a body on its way, and says what of it may go on. What it raises ends the transfer."""

    def feed(self, piece: memoryview) -> Iterable[bytes | memoryview]:
        """Return what may go on now. The piece is overwritten later: what is withheld has to be copied."""
        ...

    def finish(self) -> Iterable[bytes | memoryview]:
        """Return what was withheld, as the body is complete; or raise, and it never goes on."""
        ...
