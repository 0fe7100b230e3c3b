"""Leave requests unread while the audit trail is behind, so that none is refused because the server is busy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice

from signproxy.audit.trail import AuditTrail
from signproxy.telemetry.log import get_logger

_log = get_logger("signproxy.server")

LOOK_SECONDS = 0.005
"""Between two looks at the trail. Without requests the writer has the interpreter to itself, and soon catches up."""

MOST_SECONDS = 5.0
"""How long requests are left unread. After that `audit.on_error` says what becomes of them: the disk stands still."""

_AT_A_TIME = 256
"""Connections that go on in one round of the loop: what else it has to do must not wait for all of them."""


class Backpressure:
    """Whether requests are left unread, and what goes on once they are not."""

    __slots__ = ("_trail", "_until", "_waiting", "is_on", "total")

    def __init__(self) -> None:
        self._trail: AuditTrail | None = None
        self._until = 0.0
        self._waiting: dict[object, Callable[[], None]] = {}
        self.is_on = False
        self.total = 0
        """How often it began."""

    def follow(self, trail: AuditTrail) -> None:
        """Begin whenever a trail falls behind."""
        self._trail = trail
        trail.fell_behind = self.begin

    def begin(self) -> None:
        """Leave requests unread from now on, until the trail has caught up, fails, or takes too long."""
        if self.is_on:
            return
        loop = asyncio.get_running_loop()
        self.is_on = True
        self.total += 1
        self._until = loop.time() + MOST_SECONDS
        loop.call_later(LOOK_SECONDS, self._look)

    def wait(self, connection: object, go_on: Callable[[], None]) -> None:
        """Have a connection go on once requests are read again."""
        self._waiting[connection] = go_on

    def forget(self, connection: object) -> None:
        """Take back a `wait`."""
        self._waiting.pop(connection, None)

    async def over(self) -> None:
        """Return once requests are read again."""
        while self.is_on:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.wait(turn, lambda turn=turn: turn.done() or turn.set_result(None))  # type: ignore[misc]  # bound here
            try:
                await turn
            finally:
                self.forget(turn)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        if self._trail is not None and self._trail.is_behind and loop.time() < self._until:
            loop.call_later(LOOK_SECONDS, self._look)
            return
        self.is_on = False
        self._release()

    def _release(self) -> None:
        for connection in tuple(islice(self._waiting, _AT_A_TIME)):
            if self.is_on:
                # Those before it were enough to fill half of the queue again.
                return
            go_on = self._waiting.pop(connection, None)
            if go_on is not None:
                try:
                    go_on()
                except Exception:  # noqa: BLE001 - one that fails must not leave all others waiting for good
                    _log.exception("connection failed once it was read again")
        if self._waiting and not self.is_on:
            asyncio.get_running_loop().call_soon(self._release)
