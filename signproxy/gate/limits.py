"""Say how much of the server one caller may use up, so that the others do not notice; hold what a request has of it."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from signproxy.errors import Reason, Refused
from signproxy.gate.backpressure import Backpressure
from signproxy.gate.begun import waited

T = TypeVar("T")

_SECOND = 1_000_000_000

LONGEST_WAIT = 0.1
"""Seconds that a request may come early: its answer waits that long. PyIceberg gives up at the first 429, and a pool
of a hundred connections at the default rate waits for 50 ms, so an honest client is slowed down and never refused."""

HOLD_SECONDS = 1.0
"""How long a refusal for too many requests is held back, on average: a client that waits for it asks once a second."""
HELD_PER_SECOND = 256
"""Where more are held, each is held longer, so that answering them takes some hundredths of a core at most."""
_SPREAD = 0.5
"""Answers that were held back together go out within half a second before and after, or they would come back so."""
_GOLDEN = 0.6180339887498949
"""Its multiples, without their whole parts, lie evenly however many there are."""

SHARE_OF_HELD = 2
"""One connection in two may wait for a held answer; callers and strangers are counted apart."""

_SWEEP_AT = 1024
"""Names that are kept before the idle ones among them are looked for."""


class Rates(Protocol):
    """What the operator lets callers use up; see the settings `limits`."""

    @property
    def requests_per_second(self) -> int:
        """Of each principal."""

    @property
    def burst(self) -> int:
        """Requests that may come at once."""

    @property
    def unauthenticated_per_second(self) -> int:
        """Refusals of all strangers together."""

    @property
    def in_flight(self) -> int:
        """Requests of each principal that are waited for."""

    @property
    def total_in_flight(self) -> int:
        """Requests of all of them that are waited for."""

    @property
    def connections(self) -> int:
        """Connections of all listeners."""


class Places:
    """The places of one kind of request: those that wait, or those that are transferred; in each process for itself."""

    __slots__ = ("_by_name", "_each", "_total", "_what", "taken")

    def __init__(self, what: str, each: int, total: int) -> None:
        """`what` is told of requests that find no place."""
        self._by_name: dict[str, int] = {}
        self._what = what
        self.taken = 0
        self.replace(each, total)

    def replace(self, each: int, total: int) -> None:
        """Hold callers to other settings from now on; what is under way goes on."""
        self._each = each
        self._total = total

    def begin(self, principal: str) -> None:
        """Count a request that is under way from now on; `end` must follow. Raise Refused if there are too many."""
        if self.begin_at_once(principal):
            return
        mine = self._by_name.get(principal, 0)
        if mine >= self._each:
            raise Refused(Reason.IN_FLIGHT_LIMITED, f"{mine} {self._what}")
        raise Refused(Reason.OVERLOADED, f"{self.taken} {self._what} of all callers")

    def begin_at_once(self, principal: str) -> bool:
        """Count a request as `begin` does; False if there are too many."""
        mine = self._by_name.get(principal, 0)
        if mine >= self._each or self.taken >= self._total:
            return False
        self._by_name[principal] = mine + 1
        self.taken += 1
        return True

    def end(self, principal: str) -> None:
        """Count a request no longer."""
        self.taken -= 1
        left = self._by_name[principal] - 1
        if left:
            self._by_name[principal] = left
        else:
            del self._by_name[principal]


class Held:
    """The answers of one kind of caller that are held back: so many at a time, and no more."""

    __slots__ = ("_turn", "limit", "now", "total")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.now = 0
        self.total = 0
        self._turn = 0.0

    def begin(self) -> bool:
        """Take a place; False if there is none."""
        if self.now >= self.limit:
            return False
        self.now += 1
        self.total += 1
        return True

    def end(self) -> None:
        """Give the place back."""
        self.now -= 1

    def penalty(self) -> Hold:
        """Return how long the next refusal is to be held back."""
        self._turn = (self._turn + _GOLDEN) % 1.0
        return Hold(max(1.0, self.now / HELD_PER_SECOND) * (HOLD_SECONDS + _SPREAD * (2 * self._turn - 1)), self)


class Hold(NamedTuple):
    """How long an answer is held back, and among which ones."""

    seconds: float
    among: Held


class Ended(Protocol):
    """A connection that can be ended."""

    def abort(self) -> None:
        """End it."""


class Connections:
    """The connections of all listeners."""

    __slots__ = ("draining", "limit", "open", "slow", "strangers", "surplus", "unread")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.draining = False
        """Whether each connection of the API is to end with its next answer."""
        self.open = 0
        self.strangers: dict[Ended, None] = {}
        """Those that have shown no token yet, of all listeners, the oldest first."""
        self.surplus = 0
        """Closed because there were too many."""
        self.slow = 0
        """Ended because the head of a request did not arrive in time."""
        self.unread = 0
        """Ended because what came was no HTTP."""

    def known(self, connection: Ended) -> None:
        """Take note that a connection is a caller's, or is no more."""
        self.strangers.pop(connection, None)


class Limits:
    """What each principal, and all strangers together, have used up of late; in each process for itself.

    A rate is kept as one number by name: the time at which all that was asked for would have been due at exactly the
    rate. Where that lies in the past the name is idle, and forgetting it changes nothing.
    """

    __slots__ = (
        "_due",
        "_interval",
        "_stranger_due",
        "_stranger_interval",
        "_sweep_at",
        "_tolerance",
        "backpressure",
        "callers",
        "connections",
        "strangers",
        "waiting",
    )

    def __init__(self, settings: Rates) -> None:
        self._due: dict[str, int] = {}
        self._sweep_at = _SWEEP_AT
        self._stranger_due = 0
        self.waiting = Places("requests in flight", settings.in_flight, settings.total_in_flight)
        """For requests that have to be waited for."""
        self.connections = Connections(settings.connections)
        self.backpressure = Backpressure()
        self.callers = Held(0)
        self.strangers = Held(0)
        self.replace(settings)

    def replace(self, settings: Rates) -> None:
        """Hold callers to other settings from now on. What they have used up stays used up."""
        self._interval = _SECOND // settings.requests_per_second
        self._tolerance = (settings.burst - 1) * self._interval
        self._stranger_interval = _SECOND // settings.unauthenticated_per_second
        self.waiting.replace(settings.in_flight, settings.total_in_flight)
        self.connections.limit = settings.connections
        self.callers.limit = self.strangers.limit = settings.connections // SHARE_OF_HELD

    def admit(self, principal: str, now: int) -> Hold | None:
        """Count a request; return how long its answer has to wait, if at all. Raise Refused if there were too many."""
        due = self._due.get(principal, 0)
        if due <= now:
            if due == 0 and len(self._due) >= self._sweep_at:
                self._forget_idle(now)
            self._due[principal] = now + self._interval
            return None
        early = due - now - self._tolerance
        if early <= 0:
            self._due[principal] = due + self._interval
            return None
        if early > LONGEST_WAIT * _SECOND:
            raise Refused(Reason.RATE_LIMITED, f"{early / _SECOND:.3f} s early")
        self._due[principal] = due + self._interval
        return Hold(early / _SECOND, self.callers)

    def admits_at_once(self, principal: str, now: int) -> bool:
        """Count a request of a principal that asked before; False, uncounted, for one that `admit` has to judge."""
        due = self._due.get(principal, 0)
        if not due or due - now > self._tolerance:
            return False
        self._due[principal] = max(due, now) + self._interval
        return True

    def give_back(self, principal: str, requests: int = 0) -> None:
        """Uncount a request, and what it was charged besides; of a name forgotten meanwhile nothing is left to it."""
        due = self._due.get(principal)
        if due is not None:
            self._due[principal] = due - (1 + requests) * self._interval

    def charge(self, principal: str, requests: int, now: int, *, own: int = 0) -> None:
        """Count work that costs as much as so many requests, before it is done.

        The request itself is counted already, and `own` is what was charged for it. However much it is, it is let
        through where nothing else is owed. Raise Refused where more is owed than may come at once: of requests of one
        caller that came together, others were charged first.
        """
        if requests <= 0:
            return
        due = max(self._due.get(principal, 0), now)
        early = due - now - self._tolerance - (1 + own) * self._interval
        if early > LONGEST_WAIT * _SECOND:
            raise Refused(Reason.RATE_LIMITED, f"{early / _SECOND:.3f} s early, and {requests} requests' worth of work")
        self._due[principal] = due + requests * self._interval

    def stranger(self, now: int) -> Hold | None:
        """Count a refusal of an unknown caller; return how long it is held back, if at all."""
        due = max(self._stranger_due, now)
        # A second's worth may come at once.
        if due - now > _SECOND - self._stranger_interval:
            return self.strangers.penalty()
        self._stranger_due = due + self._stranger_interval
        return None

    def proved(self) -> None:
        """Uncount what a stranger asked who proved to be none."""
        self._stranger_due -= self._stranger_interval

    def _forget_idle(self, now: int) -> None:
        self._due = {name: due for name, due in self._due.items() if due > now}
        # Doubling: whatever the number of names, each is looked at a few times only.
        self._sweep_at = max(_SWEEP_AT, 2 * len(self._due))


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
