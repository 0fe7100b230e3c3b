"""Tell what a fault on the way to an upstream means for a call: not sent, lost, late or not to be understood."""

from __future__ import annotations

import asyncio
from enum import Enum

import aiohttp
import msgspec

from signproxy.catalog.upstream_spec import Effect
from signproxy.errors import Reason


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
"""What an upstream answers, or a proxy in its place, that is not there for anybody at the moment."""


def reason_of_status(status: int) -> Reason:
    """Return what it means to a caller that the upstream answered a question of ours with this status."""
    if status in (401, 419):
        return Reason.UPSTREAM_UNAUTHORIZED
    if status == 403:
        return Reason.CALL_NOT_PERMITTED
    if status in _AWAY:
        return Reason.UPSTREAM_UNAVAILABLE
    return Reason.UPSTREAM_FAILED if status >= 500 else Reason.UPSTREAM_INVALID
