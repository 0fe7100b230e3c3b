"""Keep count of how an upstream answers, and say so in the log when that changes."""

from __future__ import annotations

from enum import Enum

import msgspec

from signproxy.telemetry.log import get_logger

_log = get_logger("signproxy.upstream")


class CallResult(Enum):
    """How a call to an upstream ended; the label of its metric."""

    OK = "ok"
    REFUSED = "refused"
    """4xx: the upstream works, and said no."""
    FAILED = "failed"
    """5xx."""
    UNREACHABLE = "unreachable"
    LATE = "late"
    LOST = "lost"
    INVALID = "invalid"


class UpstreamHealth(msgspec.Struct, frozen=True):
    """How an upstream is doing."""

    catalog: str
    uri: str
    last_success_at: float
    """Unix time of the last answer below 500; 0 before the first."""
    last_failure_at: float
    problem: str
    """Of the last failure; empty once there was a success after it."""
    in_flight: int
    results: dict[str, int]


class Health:
    """The counts of one upstream."""

    __slots__ = ("_catalog", "_last_failure_at", "_last_success_at", "_problem", "_results", "_uri")

    def __init__(self, catalog: str, uri: str) -> None:
        self._catalog = catalog
        self._uri = uri
        self._last_success_at = 0.0
        self._last_failure_at = 0.0
        self._problem = ""
        self._results = dict.fromkeys(CallResult, 0)

    def answered(self, status: int, now: float) -> None:
        """Count an answer."""
        if status >= 500:
            self.failed(CallResult.FAILED, f"status {status}", now)
            return
        self._results[CallResult.REFUSED if status >= 400 else CallResult.OK] += 1
        self._last_success_at = now
        if self._problem:
            self._problem = ""
            _log.info("upstream answers again", catalog=self._catalog)

    def failed(self, result: CallResult, problem: str, now: float) -> None:
        """Count a failure; the first one after a success is logged."""
        self._results[result] += 1
        self._last_failure_at = now
        if not self._problem:
            _log.warning("upstream fails", catalog=self._catalog, problem=problem)
        self._problem = problem

    def report(self, in_flight: int) -> UpstreamHealth:
        """Return how it is at this moment."""
        return UpstreamHealth(
            self._catalog,
            self._uri,
            self._last_success_at,
            self._last_failure_at,
            self._problem,
            in_flight,
            {result.value: count for result, count in self._results.items()},
        )
