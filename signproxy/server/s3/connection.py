"""Answer one request after the other on a connection of the S3 listener, in the one task that it has."""

from __future__ import annotations

import asyncio
from time import perf_counter_ns
from typing import Protocol

from signproxy.config.addresses import is_loopback
from signproxy.gate.limits import Hold, Limits
from signproxy.identity.pod_caller import Peer
from signproxy.server.api.direct import HEAD_SECONDS, STRANGER_SECONDS
from signproxy.server.guests import Guests
from signproxy.server.s3.answers import not_http
from signproxy.server.s3.sequels import Handover, Sequels
from signproxy.telemetry.log import get_logger
from signproxy.transfer.body import Incoming
from signproxy.transfer.channel import Channel
from signproxy.transfer.faults import MessageFault, MessageInvalid, Stalled, Truncated
from signproxy.transfer.head import BodyFraming, RequestHead
from signproxy.transfer.heads import RequestHeads
from signproxy.transfer.refusal import HEAD_LIMIT

LINGER_SECONDS = 2.0
"""For what is left of a refused body: the refusal reaches only a client that was heard out."""
LINGER_STRANGER = 64 * 1024
LINGER_KNOWN = 16 * 1024 * 1024
"""Bytes of it that are read and forgotten: an unknown caller cannot make the server read more than a message."""

_log = get_logger("signproxy.s3")

_OFTEN = 64
"""Requests that are alike, after which they are looked at in any case."""

NO_REQUEST = frozenset({MessageFault.START_LINE, MessageFault.VERSION})
"""What is no HTTP at all: a scanner's bytes. It is counted, and has no event: there is nothing to say of it."""


class Serves(Protocol):
    """The handler that answers requests."""

    limits: Limits

    async def serve(self, guest: S3Connection, head: RequestHead, handover: Handover | None = None, /) -> bool:
        """Answer one; True where the next may follow on the connection.

        `handover` is what it holds already, where the store was sent it. The caller closes it.
        """
        ...

    async def serve_malformed(self, guest: S3Connection, invalid: MessageInvalid) -> None:
        """Answer one whose head can be read in two ways."""
        ...


class S3Connection(Channel):
    """A client's connection."""

    __slots__ = (
        "_alike", "_awaits", "_backpressure", "_guests", "_handler", "_handover", "_heads", "_idle", "_idle_limit",
        "_keepalive", "_pausing", "_shape", "_task", "facts", "no_body", "sequels",
    )  # fmt: skip

    def __init__(self, handler: Serves, guests: Guests[S3Connection], keepalive: float) -> None:
        super().__init__()
        self._handler = handler
        self._backpressure = handler.limits.backpressure
        self._heads = RequestHeads()
        self._guests = guests
        self._keepalive = keepalive
        self._idle_limit = min(STRANGER_SECONDS, keepalive)
        self._idle = True
        self._pausing: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._awaits = False
        self._handover: Handover | None = None
        self._shape: tuple[object, ...] = ()
        self._alike = 0
        self.sequels: Sequels | None = None
        """Serves requests that are like the last one; None where there was none that others can be like."""
        self.facts = Peer()
        """What the connection itself says of the caller."""
        self.no_body = Incoming(self, BodyFraming.NONE)
        """The body of every request that has none."""

    # -- what the event loop calls -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to listen, if there is room."""
        super().connection_made(transport)
        here, there = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
        is_tcp = isinstance(there, tuple)
        is_local = is_tcp and isinstance(here, tuple) and is_loopback(here[0]) and is_loopback(there[0])
        self.facts = Peer(is_unix=not is_tcp, is_loopback=is_local, is_tls=self.is_tls, uid=self.peer_uid)
        if self._guests.arrive(self):
            self._task = asyncio.get_running_loop().create_task(self._converse())

    def buffer_updated(self, nbytes: int) -> None:
        """Take what arrived: a request that is like the one before is served at once."""
        sequels = self.sequels
        if (
            sequels is None
            or not self._awaits
            or self._held
            or self.is_full
            or sequels.is_busy
            or self._guests.ending
            or self._backpressure.is_on
            or not sequels.begin(bytes(self._scratch[:nbytes]))
        ):
            super().buffer_updated(nbytes)

    def connection_lost(self, exc: Exception | None) -> None:
        """Uncount it."""
        super().connection_lost(exc)
        self._leave_to_ordinary_way()
        self._guests.leave(self)
        self._release()

    # -- what a handler needs ----------------------------------------------------------------------------------------

    @property
    def ending(self) -> bool:
        """Whether the connection is to end with its next answer."""
        return self._guests.ending

    def known(self) -> None:
        """Keep the connection as long as those of callers."""
        if self._idle_limit != self._keepalive:
            self._idle_limit = self._keepalive
            self._handler.limits.connections.known(self)

    def repeats(self, head: RequestHead) -> bool:
        """Whether it is time to look at what the last requests have in common: same folder, same headers.

        Soon, and then less and less often: where nothing holds for all of them, that stays so.
        """
        shape = head.method, head.names, head.target[: head.target.rfind("/")]
        self._alike = self._alike + 1 if shape == self._shape else 1
        self._shape = shape
        alike = self._alike
        return alike > 1 and (not alike & (alike - 1) or not alike % _OFTEN)

    def served(self) -> None:
        """Take note that a request that came while another was waited for is answered."""
        self._arrival.limit(self._idle_limit)
        if self._held or self._ended or self._guests.ending or self.is_full:
            self._arrival.wake()

    def go_on(self, data: bytes, handover: Handover) -> None:
        """Serve a request the ordinary way, with all that it holds."""
        self.sequels = None
        self._alike = 0
        self._handover = handover
        self.put_back(data)
        self._arrival.wake()

    async def hold_back(self, hold: Hold) -> bool:
        """Wait so long, and read nothing meanwhile; False, at once, where too many wait already."""
        if not hold.among.begin():
            return False
        loop = asyncio.get_running_loop()
        self._pausing = loop.create_future()
        timer = loop.call_later(hold.seconds, self._release)
        try:
            if not self.closed and not self.ending:
                await self._pausing
        finally:
            timer.cancel()
            self._pausing = None
            hold.among.end()
        return True

    # -- what the listener needs -------------------------------------------------------------------------------------

    def wind_down(self) -> None:
        """End now if nothing is in flight, else with the next answer."""
        if self._idle and not self.unread() and not self._is_busy:
            self.close()
        else:
            self._release()

    def cancel(self) -> None:
        """End whatever is under way."""
        if self._task is not None:
            self._task.cancel()
        self.abort()

    # -- the task ----------------------------------------------------------------------------------------------------

    async def _converse(self) -> None:
        goes_on = True
        try:
            while goes_on and not self._guests.closing:
                goes_on = await self._exchange()
            if not self.closed:
                is_stranger = self._idle_limit != self._keepalive
                await self.linger(LINGER_SECONDS, LINGER_STRANGER if is_stranger else LINGER_KNOWN)
        except Stalled:
            if self.unread():
                self._handler.limits.connections.slow += 1
            if self.unsent():
                # A client that does not take its answer would not take the end of it either.
                self.abort()
            self.close()
        except (ConnectionError, Truncated):
            self.abort()
        except Exception:  # noqa: BLE001 - the supervisor of this task: a connection without one would stay for ever
            _log.exception("connection failed")
            self.abort()
        finally:
            # However the task ends, what the store was sent has its event.
            self._leave_to_ordinary_way()
            if self._handover is not None:
                self._handover.close()

    async def _exchange(self) -> bool:
        """Wait for a request and answer it; False where none may follow."""
        if not await self._comes():
            return False
        if self._handover is None and self._backpressure.is_on:
            await self._backpressure.over()
        try:
            data = await self.head(HEAD_LIMIT, HEAD_SECONDS)
            if data is None:
                return False
            head = self._heads.read(data)
        except MessageInvalid as invalid:
            if invalid.fault in NO_REQUEST:
                await self._not_http()
            else:
                await self._handler.serve_malformed(self, invalid)
            return False
        handover, self._handover = self._handover, None
        if handover is None:
            return await self._handler.serve(self, head)
        try:
            return await self._handler.serve(self, head, handover)
        finally:
            handover.close()

    async def _comes(self) -> bool:
        """Return whether a request has begun to come; those that are like the one before are served meanwhile."""
        self._idle = self._awaits = True
        self._arrival.limit(self._idle_limit)
        try:
            while self._is_busy or not self._held:
                over = self._ended or self._guests.closing
                if self.lost is not None or (over and not self._is_busy):
                    return False
                self.release()
                await self._arrival.happened()
            if self.is_full and self.lost is None and self._handover is None:
                # A client that does not take its answers gets no more of them, but for what the store was asked for.
                await self.drained(self._idle_limit)
        except Stalled:
            if not self._is_busy:
                raise
            self._leave_to_ordinary_way()
        finally:
            self._idle = self._awaits = False
        return True

    @property
    def _is_busy(self) -> bool:
        return self.sequels is not None and self.sequels.is_busy

    def _leave_to_ordinary_way(self) -> None:
        if self.sequels is not None and self.sequels.is_busy:
            self.sequels.hand_on()

    async def _not_http(self) -> None:
        limits = self._handler.limits
        limits.connections.unread += 1
        hold = limits.stranger(perf_counter_ns())
        if hold is None or await self.hold_back(hold):
            self.write(not_http())

    def _release(self) -> None:
        if self._pausing is not None and not self._pausing.done():
            self._pausing.set_result(None)
