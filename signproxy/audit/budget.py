"""Bound what is recorded of refusals that cost their caller nothing, so that no caller can fill queue or disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from time import monotonic

from signproxy.audit.event import AuditEvent, Kind, Verdict
from signproxy.audit.ids import new_event_id
from signproxy.errors import Reason

WINDOW_SECONDS = 60.0
EVENTS_PER_WINDOW = 60
"""Enough to see who knocks and how; at 900 bytes each a flood of a day leaves 78 MB uncompressed at most."""

EVENTS_PER_CALLER = 5
"""Of each known caller in a window: enough to see what is refused, and from where it comes."""
CALLERS_PER_WINDOW = 100
"""Callers that are told apart. If all of them flood at once, a day of it leaves 1.5 GB: what one of them may have
recorded as served in minutes."""

OVER_LIMIT = frozenset(
    reason.code for reason in (Reason.RATE_LIMITED, Reason.IN_FLIGHT_LIMITED, Reason.OVERLOADED, Reason.UPSTREAM_BUSY)
)
"""What is refused because of how much was asked, and for that reason without end."""

_STATUS = {reason.code: reason.status for reason in Reason}


class RefusalBudget:
    """The first refusals of a window are events of their own, the others become one event per kind and reason.

    What is kept aside is bounded by those two enumerations. Its `count` is exact; who they were is not kept.
    """

    __slots__ = ("_aside", "_clock", "_ends", "_events", "_left", "_policy", "_window")

    def __init__(
        self,
        events: int = EVENTS_PER_WINDOW,
        window: float = WINDOW_SECONDS,
        *,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._events = self._left = events
        self._window = window
        self._clock = clock
        self._ends = clock() + window
        self._aside: Counter[tuple[Kind, str]] = Counter()
        self._policy = ("", 0)

    def take(self) -> bool:
        """Use up one event of the window; False if none is left."""
        if self._left == 0:
            return False
        self._left -= 1
        return True

    def put_aside(self, event: AuditEvent) -> None:
        """Count a refusal instead of writing it."""
        self._policy = (event.policy_rev, event.policy_epoch)
        reason = event.reason if event.reason in _STATUS else Reason.INTERNAL.code
        self._aside[event.kind, reason] += event.count

    @property
    def is_over(self) -> bool:
        """Whether the window has ended."""
        return self._clock() >= self._ends

    def settle(self) -> list[AuditEvent]:
        """Begin a new window, and return the events for what the old one put aside."""
        self._ends = self._clock() + self._window
        self._left = self._events
        events = [_aggregate(kind, reason, count, self._policy) for (kind, reason), count in self._aside.items()]
        self._aside.clear()
        return events


class CallerBudget:
    """The first refusals of each caller in a window are events of their own, the others one per caller and reason.

    So no caller's flood hides another's. What is kept aside is bounded by the callers that are told apart; its
    `count` is exact, and callers beyond these share one without a name.
    """

    __slots__ = ("_aside", "_clock", "_ends", "_left", "_policy", "_window")

    def __init__(self, window: float = WINDOW_SECONDS, *, clock: Callable[[], float] = monotonic) -> None:
        self._window = window
        self._clock = clock
        self._ends = clock() + window
        self._left: dict[str, int] = {}
        self._aside: Counter[tuple[Kind, str, str, str]] = Counter()
        self._policy = ("", 0)

    def take(self, event: AuditEvent) -> bool:
        """Use up one event of the caller's; False if none is left."""
        if not self._tells_apart(event.principal) or self._left[event.principal] == 0:
            return False
        self._left[event.principal] -= 1
        return True

    def put_aside(self, event: AuditEvent) -> None:
        """Count a refusal instead of writing it."""
        self._policy = (event.policy_rev, event.policy_epoch)
        who = (event.principal, event.issuer) if self._tells_apart(event.principal) else ("", "")
        self._aside[event.kind, event.reason, *who] += event.count

    @property
    def is_over(self) -> bool:
        """Whether the window has ended."""
        return self._clock() >= self._ends

    def settle(self) -> list[AuditEvent]:
        """Begin a new window, and return the events for what the old one put aside."""
        self._ends = self._clock() + self._window
        events = []
        for (kind, reason, principal, issuer), count in self._aside.items():
            event = _aggregate(kind, reason, count, self._policy)
            event.principal, event.issuer = principal, issuer
            events.append(event)
        self._aside.clear()
        self._left.clear()
        return events

    def _tells_apart(self, principal: str) -> bool:
        if principal not in self._left:
            if len(self._left) >= CALLERS_PER_WINDOW:
                return False
            self._left[principal] = EVENTS_PER_CALLER
        return True


def _aggregate(kind: Kind, reason: str, count: int, policy: tuple[str, int]) -> AuditEvent:
    return AuditEvent(
        event_id=new_event_id(),
        kind=kind,
        decision=Verdict.DENY if _STATUS[reason] < 500 else Verdict.ERROR,
        reason=reason,
        policy_rev=policy[0],
        policy_epoch=policy[1],
        http_status=_STATUS[reason],
        count=count,
    )
