"""Say how many transfers one caller, and all callers, may have at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from signproxy.config.s3 import S3LimitSettings
from signproxy.errors import Reason, Refused


class Transfers:
    """Requests that are being served; in each process for itself."""

    __slots__ = ("_by_name", "_each", "_total", "in_flight")

    def __init__(self, settings: S3LimitSettings) -> None:
        self._by_name: dict[str, int] = {}
        self.in_flight = 0
        self.replace(settings)

    def replace(self, settings: S3LimitSettings) -> None:
        """Hold callers to other settings from now on; what is under way goes on."""
        self._each = settings.in_flight
        self._total = settings.total_in_flight

    @contextmanager
    def going(self, principal: str) -> Iterator[None]:
        """Count a request while it is served. Raise Refused if there are too many."""
        self.begin(principal)
        try:
            yield
        finally:
            self.end(principal)

    def begin(self, principal: str) -> None:
        """Count a request that is served from now on; `end` must follow. Raise Refused if there are too many."""
        if self.begin_at_once(principal):
            return
        mine = self._by_name.get(principal, 0)
        if mine >= self._each:
            raise Refused(Reason.IN_FLIGHT_LIMITED, f"{mine} transfers at a time")
        raise Refused(Reason.OVERLOADED, f"{self.in_flight} transfers of all callers at a time")

    def begin_at_once(self, principal: str) -> bool:
        """Count a request as `begin` does; False if there are too many."""
        mine = self._by_name.get(principal, 0)
        if mine >= self._each or self.in_flight >= self._total:
            return False
        self._by_name[principal] = mine + 1
        self.in_flight += 1
        return True

    def end(self, principal: str) -> None:
        """Count a request no longer."""
        self.in_flight -= 1
        left = self._by_name[principal] - 1
        if left:
            self._by_name[principal] = left
        else:
            del self._by_name[principal]
