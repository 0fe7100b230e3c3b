"""Say how a trail is doing, what it does when it cannot record, and what it leaves of those that it turned away.

accepting ──the queue is full, a write fails or takes too long──> turning away   (`on_error: deny`)
    ^                                                             letting go     (`on_error: allow`)
    └───the writer writes again; first the event of those turned away ─┘
either ──close──> closed: what was accepted is written, and nothing more is taken
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from signproxy.audit.event import AuditEvent, Kind, Verdict
from signproxy.audit.ids import new_event_id
from signproxy.errors import Reason


class OnError(Enum):
    """What happens to a request whose event cannot be recorded."""

    DENY = "deny"
    ALLOW = "allow"


class TrailState(NamedTuple):
    """What can be told of a trail at one moment; the counts only grow."""

    healthy: bool
    problem: str
    """Why it is not healthy, for the operator."""
    queued: int
    written: int
    dropped: int
    """Events that were let go with `on_error: allow`, or came when the trail was closed; each left a hole in `seq`."""
    refused: int
    """Events that were not taken with `on_error: deny`; their requests were not served."""
    errors: int
    """Writes and flushes that failed."""
    unsafe_seconds: float = 0.0
    """How old the oldest event is that a crash of the machine would lose."""


def turned_away(kind: Kind, count: int, policy: tuple[str, int]) -> AuditEvent:
    """Return the one event for requests that were refused because of the trail itself."""
    revision, epoch = policy
    return AuditEvent(
        event_id=new_event_id(),
        kind=kind,
        decision=Verdict.ERROR,
        reason=Reason.AUDIT_UNAVAILABLE.code,
        policy_rev=revision,
        policy_epoch=epoch,
        http_status=Reason.AUDIT_UNAVAILABLE.status,
        count=count,
    )
