"""Connections of all listeners share one limit, and strangers half of it."""

from __future__ import annotations

from signproxy.gate.limits import Connections
from signproxy.server.guests import Guests


class Visitor:
    """A connection that ends at once when it has to."""

    def __init__(self, guests: Guests[Visitor]) -> None:
        self._guests = guests

    def wind_down(self) -> None:
        self.abort()

    def abort(self) -> None:
        self._guests.leave(self)

    cancel = abort


def test_strangers_of_two_listeners_leave_room_for_callers() -> None:
    """Half of the connections of each listener would be all there may be: no caller would get in."""
    counts = Connections(8)
    listeners: list[Guests[Visitor]] = [Guests(counts), Guests(counts)]
    for guests in listeners:
        for _ in range(8):
            assert guests.arrive(Visitor(guests))
    assert (counts.open, counts.surplus) == (4, 12)
    for guests in listeners:
        for _ in range(2):
            caller = Visitor(guests)
            assert guests.arrive(caller)
            counts.known(caller)
    assert sum(guests.open for guests in listeners) == counts.open
