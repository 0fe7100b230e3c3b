"""Log requests: every refusal for which the disk has room, and a sample of what is served.

The audit trail is the proof, and complete; these lines are for operators who ask a pod's log what it refuses.
A flood of refusals must not fill the disk that they are written to, so lines come out of two budgets: callers without
an identity cannot use up the one of known callers. What is beyond is counted by reason, and told in one line.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable
from time import monotonic

import msgspec

from signproxy.telemetry.families import Counter
from signproxy.telemetry.log import get_logger

LINES_PER_SECOND = 10.0
"""Of known callers; at 400 bytes a line a flood of a day is 350 MB, which any log rotation outruns."""
BURST = 100
"""A job whose hundred tasks fail together is seen whole."""

UNKNOWN_PER_SECOND = 2.0
UNKNOWN_BURST = 20
"""Of callers without an identity: enough to see who knocks and how."""

SUMMARY_SECONDS = 10.0
"""Between two lines that tell what was not logged one by one."""

MAX_NAME_CHARACTERS = 256
"""Names in a path are a caller's to choose, up to what a request line holds."""

_log = get_logger("signproxy.requests")


class RequestLine(msgspec.Struct, frozen=True, gc=False):
    """What a line says of a request; the words are those of the audit event."""

    request_id: str
    event_id: str
    principal: str
    """Empty while the caller is not known."""
    table: str
    op: str
    decision: str
    reason: str
    status: int
    ms: float


class RequestLog:
    """Write lines within their budgets."""

    def __init__(
        self, *, allowed_sample: int = 0, suppressed: Counter | None = None, clock: Callable[[], float] = monotonic
    ) -> None:
        """`allowed_sample`: one of so many served requests is logged; none where it is 0."""
        self._clock = clock
        self._known = _Budget(LINES_PER_SECOND, BURST, clock())
        self._unknown = _Budget(UNKNOWN_PER_SECOND, UNKNOWN_BURST, clock())
        self._suppressed = Counter() if suppressed is None else suppressed
        self._aside: Tally[str] = Tally()
        self._since = clock()
        self._every = allowed_sample
        # The first one is logged: an operator who switches it on wants to see that it works.
        self._until_next = 1

    @property
    def samples(self) -> bool:
        """Whether any served request is logged."""
        return self._every > 0

    def takes(self) -> bool:
        """Count a served request; return whether it is one to log."""
        self._until_next -= 1
        if self._until_next:
            return False
        self._until_next = self._every
        return True

    def allowed(self, line: RequestLine) -> None:
        """Log a served request that `takes` has chosen."""
        _log.info("request served", **msgspec.structs.asdict(line))

    def refused(self, line: RequestLine) -> None:
        """Log a refusal or failure, or count it where there have been too many."""
        now = self._clock()
        budget = self._known if line.principal else self._unknown
        if not budget.take(now):
            if not self._aside:
                self._since = now
            self._aside[line.reason] += 1
            self._suppressed.inc()
        elif line.status >= 500:
            _log.error("request failed", **_cut(line))
        else:
            _log.warning("request refused", **_cut(line))
        self.roll()

    def roll(self) -> None:
        """Tell what was counted, once that is due. A timer calls it, so that it is told after a flood as well."""
        if self._aside and self._clock() - self._since >= SUMMARY_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Tell what was counted, due or not: the last thing before an end."""
        if not self._aside:
            return
        reasons = dict(self._aside.most_common())
        seconds = round(self._clock() - self._since, 1)
        self._aside.clear()
        _log.warning("requests not logged one by one", count=sum(reasons.values()), reasons=reasons, seconds=seconds)


class _Budget:
    """So many lines at once, and so many a second."""

    def __init__(self, rate: float, burst: int, now: float) -> None:
        self._rate = rate
        self._burst = burst
        self._left = float(burst)
        self._at = now

    def take(self, now: float) -> bool:
        self._left = min(self._left + (now - self._at) * self._rate, self._burst)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


def _cut(line: RequestLine) -> dict[str, object]:
    fields = msgspec.structs.asdict(line)
    for name in ("principal", "table"):
        fields[name] = fields[name][:MAX_NAME_CHARACTERS]
    return fields
