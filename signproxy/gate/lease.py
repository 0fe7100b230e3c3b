"""Hold what one request has of what all requests share, and give it back once, whatever becomes of the request."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol, TypeVar

import msgspec

from signproxy.gate.begun import waited
from signproxy.gate.limits import Hold, Places

T = TypeVar("T")


class EventPlaces(Protocol):
    """The recorder, which has places kept in the trail for the events of requests that are being served."""

    def give_back(self) -> None:
        """Give up a place for an event that will not come."""


class Lease(msgspec.Struct, gc=False):
    """What one request holds: a place among those that wait or are transferred, and one in the trail for its event.

    The first is taken when the request has to wait for the first time, or is transferred; the second before it is
    served.
    """

    principal: str = ""
    """The caller, once it is known."""
    places: Places | None = None
    """Those of which it holds one."""
    late: Hold | None = None
    """How long its answer is held back, because it came early."""
    event: EventPlaces | None = None
    """Where a place is kept for its event; None where there is none, or the event has taken it."""
    recorded: bool = False
    """Whether it has its event."""

    def take(self, places: Places) -> None:
        """Take a place, unless there is one already. Raise Refused where there is none."""
        if self.places is None:
            places.begin(self.principal)
            self.places = places

    async def waits_for(self, answer: Awaitable[T], among: Places) -> T:
        """Return an answer once it is there, with a place among the requests that wait. Raise Refused without one."""
        return await waited(answer, lambda: self.take(among))

    def close(self) -> None:
        """Give back what is held; once is enough, and more do nothing."""
        places, self.places = self.places, None
        event, self.event = self.event, None
        try:
            if places is not None:
                places.end(self.principal)
        finally:
            if event is not None:
                event.give_back()
