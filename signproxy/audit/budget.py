"""Bound what callers without an identity can make signproxy record, so that nobody can fill queue or disk."""

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
        revision, epoch = self._policy
        events = [
            AuditEvent(
                event_id=new_event_id(),
                kind=kind,
                decision=Verdict.DENY if _STATUS[reason] < 500 else Verdict.ERROR,
                reason=reason,
                policy_rev=revision,
                policy_epoch=epoch,
                http_status=_STATUS[reason],
                count=count,
            )
            for (kind, reason), count in self._aside.items()
        ]
        self._aside.clear()
        return events
