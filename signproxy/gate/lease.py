"""Hold what one request has of what all requests share, and give it back once, whatever becomes of the request."""

from __future__ import annotations

from typing import Protocol

from signproxy.gate.limits import Hold


class PlaceKeeper(Protocol):
    """Keeps places of which each caller, and all callers together, may have so many at a time."""

    def begin(self, principal: str) -> None:
        """Take one; `end` must follow. Raise Refused where there is none."""
        ...

    def end(self, principal: str) -> None:
        """Give it back."""
        ...


class Lease:
    """The place of one request. It is taken when the request has to wait for the first time, or is transferred."""

    # Nearly every request holds nothing: these are the class's own until it does.
    places: PlaceKeeper | None = None
    """Those of which it holds one."""
    late: Hold | None = None
    """How long its answer is held back, because it came early."""
    _principal = ""

    def take(self, places: PlaceKeeper, principal: str) -> None:
        """Take a place, unless there is one already. Raise Refused where there is none."""
        if self.places is None:
            places.begin(principal)
            self.places, self._principal = places, principal

    def close(self) -> None:
        """Give back what is held; once is enough, and more do nothing."""
        places, self.places = self.places, None
        if places is not None:
            places.end(self._principal)
