"""Take down what reading a body costs, in place of the limits of a caller."""

from __future__ import annotations

from signproxy.catalog.call import CatalogCall
from signproxy.catalog.call_body import Pace, ReadBody, read_body
from signproxy.catalog.chosen_locations import ChosenLocations, read_chosen
from signproxy.errors import Reason, Refused
from tests.pieces import drained


class Charged:
    """`call_body.Charges` of a caller who may have so many parts and tables read."""

    def __init__(self, most: int = 10_000_000) -> None:
        self.most = most
        self.units = 0
        """What was charged in all."""

    def tables(self, count: int) -> None:
        """Charge tables of a transaction."""
        self.parts(count)

    def parts(self, count: int) -> None:
        """Charge members and elements."""
        if self.units + count > self.most:
            raise Refused(Reason.RATE_LIMITED)
        self.units += count


def read_with(charged: Charged, call: CatalogCall, content: bytes) -> tuple[ReadBody, tuple[ChosenLocations, ...]]:
    """Return a body and the places that it chooses, as they are read in one go."""
    pace = Pace(charged)
    body = drained(read_body(call, content, pace))
    return body, drained(read_chosen(call, body, pace))


def body_of(call: CatalogCall, content: bytes) -> ReadBody:
    """Return a body as it is read in one go."""
    return drained(read_body(call, content, Pace(Charged())))


def chosen_of(call: CatalogCall, content: bytes) -> tuple[ChosenLocations, ...]:
    """Return the places that a body chooses, as they are read in one go."""
    return read_with(Charged(), call, content)[1]
