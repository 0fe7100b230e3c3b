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

_NOT_TOLD_APART = ("", "")
_STATUS = {reason.code: reason.status for reason in Reason}


class RefusalBudget:
    """The first refusals of a window are events of their own, the others become one event per kind and reason.

    Where `callers` are told apart, each of so many has events of its own, and one for the rest: no caller's flood hides
    another's. Those beyond share one event without a name. So what is kept aside is bounded, and its `count` is exact.
    """

    def __init__(
        self,
        events: int = EVENTS_PER_WINDOW,
        window: float = WINDOW_SECONDS,
        *,
        callers: int = 0,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._events = events
        self._window = window
        self._callers = callers
        self._clock = clock
        self._ends = clock() + window
        self._left: dict[tuple[str, str], int] = {}
        self._aside: Counter[tuple[Kind, str, str, str]] = Counter()
        self._policy = ("", 0)

    def take(self, event: AuditEvent) -> bool:
        """Use up one event of the window; False if none is left."""
        caller = self._caller_of(event)
        if caller is None or self._left[caller] == 0:
            return False
        self._left[caller] -= 1
        return True

    def put_aside(self, event: AuditEvent) -> None:
        """Count a refusal instead of writing it."""
        self._policy = (event.policy_rev, event.policy_epoch)
        reason = event.reason if event.reason in _STATUS else Reason.INTERNAL.code
        self._aside[event.kind, reason, *(self._caller_of(event) or _NOT_TOLD_APART)] += event.count

    @property
    def is_over(self) -> bool:
        """Whether the window has ended."""
        return self._clock() >= self._ends

    def settle(self) -> list[AuditEvent]:
        """Begin a new window, and return the events for what the old one put aside."""
        self._ends = self._clock() + self._window
        events = [
            AuditEvent(
                event_id=new_event_id(),
                kind=kind,
                principal=principal,
                issuer=issuer,
                decision=Verdict.DENY if _STATUS[reason] < 500 else Verdict.ERROR,
                reason=reason,
                policy_rev=self._policy[0],
                policy_epoch=self._policy[1],
                http_status=_STATUS[reason],
                count=count,
            )
            for (kind, reason, principal, issuer), count in self._aside.items()
        ]
        self._aside.clear()
        self._left.clear()
        return events

    def _caller_of(self, event: AuditEvent) -> tuple[str, str] | None:
        """Return for whom an event counts; None for one of too many callers."""
        caller = (event.principal, event.issuer) if self._callers else _NOT_TOLD_APART
        if caller not in self._left:
            if self._callers and len(self._left) >= self._callers:
                return None
            self._left[caller] = self._events
        return caller
