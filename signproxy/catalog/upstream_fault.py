"""Tell what a fault on the way to an upstream means for a call, and keep count of how an upstream answers."""

from __future__ import annotations

import asyncio
from enum import Enum

import aiohttp
import msgspec

from signproxy.catalog.upstream_spec import Effect
from signproxy.errors import Reason
from signproxy.telemetry.log import get_logger


class Loss(Enum):
    """How far a call came."""

    UNSENT = "unsent"
    """There was no connection, so the upstream cannot have seen it."""
    LATE = "late"
    LOST = "lost"
    """The connection ended before the answer did."""
    INVALID = "invalid"
    """There was an answer, and it is none."""


class UpstreamFault(msgspec.Struct, frozen=True):
    """What went wrong, and in words for the operator."""

    loss: Loss
    problem: str

    def reason(self, effect: Effect) -> Reason:
        """Return what the caller is told.

        Of a change that may have been made, 503 or any 4xx would say that it was not: Iceberg Java then deletes the
        files of its commit, or commits again. It keeps everything on 502 and 504.
        """
        match self.loss:
            case Loss.UNSENT:
                return Reason.UPSTREAM_UNAVAILABLE
            case Loss.INVALID:
                return Reason.UPSTREAM_INVALID
            case Loss.LATE | Loss.LOST:
                return Reason.UPSTREAM_TIMEOUT if effect is Effect.CHANGE else Reason.UPSTREAM_UNAVAILABLE


def fault_of(error: Exception) -> UpstreamFault:
    """Return the fault behind an exception of the HTTP client. Its text is left out where the upstream wrote it."""
    match error:
        case aiohttp.ConnectionTimeoutError():
            return UpstreamFault(Loss.UNSENT, "no connection in time")
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientSSLError():
            return UpstreamFault(Loss.UNSENT, f"TLS: {error.os_error or type(error).__name__!s:.200}")
        case aiohttp.ClientConnectorError():
            return UpstreamFault(
                Loss.UNSENT, f"no connection: {error.os_error.strerror or type(error.os_error).__name__}"
            )
        case aiohttp.ClientResponseError():
            return UpstreamFault(Loss.INVALID, f"no HTTP: {type(error).__name__}")
        case asyncio.TimeoutError():
            return UpstreamFault(Loss.LATE, "no answer in time")
        case _:
            return UpstreamFault(Loss.LOST, f"connection lost: {type(error).__name__}")


_AWAY = frozenset({429, 502, 503, 504})
"""What an upstream answers, or a proxy in its place, that is not there for any caller at the moment."""


def reason_of_status(status: int) -> Reason:
    """Return what it means to a caller that the upstream answered a question of ours with this status."""
    if status in (401, 419):
        return Reason.UPSTREAM_UNAUTHORIZED
    if status == 403:
        return Reason.CALL_NOT_PERMITTED
    if status in _AWAY:
        return Reason.UPSTREAM_UNAVAILABLE
    return Reason.UPSTREAM_FAILED if status >= 500 else Reason.UPSTREAM_INVALID


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


class UpstreamHealth(msgspec.Struct):
    """How an upstream is doing, counted as it answers."""

    catalog: str
    uri: str
    last_success_at: float = 0.0
    """Unix time of the last answer below 500; 0 before the first."""
    last_failure_at: float = 0.0
    problem: str = ""
    """Of the last failure; empty once there was a success after it."""
    in_flight: int = 0
    results: dict[str, int] = msgspec.field(default_factory=lambda: {result.value: 0 for result in CallResult})

    def answered(self, status: int, now: float) -> None:
        """Count an answer."""
        if status >= 500:
            self.failed(CallResult.FAILED, f"status {status}", now)
            return
        self.results[(CallResult.REFUSED if status >= 400 else CallResult.OK).value] += 1
        self.last_success_at = now
        if self.problem:
            self.problem = ""
            _log.info("upstream answers again", catalog=self.catalog)

    def failed(self, result: CallResult, problem: str, now: float) -> None:
        """Count a failure; the first one after a success is logged."""
        self.results[result.value] += 1
        self.last_failure_at = now
        if not self.problem:
            _log.warning("upstream fails", catalog=self.catalog, problem=problem)
        self.problem = problem
