"""Keep the connections of a listener: how many there may be, whose they are, and how they end."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from signproxy.gate.limits import Connections

STRANGERS_SHARE = 2
"""Of all connections one in two may be a stranger's; for one more the oldest of them ends, so that callers get in."""


class Guest(Protocol):
    """A connection, as `Guests`, which keeps all of them, has it."""

    def wind_down(self) -> None:
        """End now if nothing is in flight, else with the next answer."""
        ...

    def abort(self) -> None:
        """End the connection."""
        ...

    def cancel(self) -> None:
        """End the connection, and whatever is under way on it."""
        ...


G = TypeVar("G", bound=Guest)


class Guests(Generic[G]):
    """All connections of a listener. They count among those of all listeners: memory is one."""

    __slots__ = ("_counts", "_open", "closing", "ending")

    def __init__(self, counts: Connections) -> None:
        self._counts = counts
        self._open: dict[G, None] = {}
        self.ending = False
        """Whether connections end with their next answer."""
        self.closing = False
        """Whether no further request is waited for."""

    @property
    def open(self) -> int:
        """How many there are."""
        return len(self._open)

    def all(self) -> list[G]:
        """Return them, as they are now."""
        return list(self._open)

    def arrive(self, guest: G) -> bool:
        """Count a connection; False if there are too many, which ends it. The oldest stranger makes room for one."""
        counts = self._counts
        if counts.open >= counts.limit:
            counts.surplus += 1
            guest.abort()
            return False
        counts.open += 1
        self._open[guest] = None
        # Of all listeners: half of the connections for each would be all of them.
        strangers = counts.strangers
        strangers[guest] = None
        if len(strangers) > counts.limit // STRANGERS_SHARE:
            oldest = next(iter(strangers))
            del strangers[oldest]
            counts.surplus += 1
            oldest.abort()
        return True

    def leave(self, guest: G) -> None:
        """Uncount a connection."""
        self._counts.known(guest)
        if guest in self._open:
            del self._open[guest]
            self._counts.open -= 1

    def drain(self) -> None:
        """Let every connection end with its next answer."""
        self.ending = True

    def wind_down(self) -> None:
        """Close what is idle, and let everything else end with its answer."""
        self.ending = self.closing = True
        for guest in list(self._open):
            guest.wind_down()

    def end(self) -> None:
        """End all that are left, and what is under way on them."""
        for guest in list(self._open):
            guest.cancel()
