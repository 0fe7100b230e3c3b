"""Say how many requests of one caller, and of all callers, may be under way at a time."""

from __future__ import annotations

from signproxy.errors import Reason, Refused


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
