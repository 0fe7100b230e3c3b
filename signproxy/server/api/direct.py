"""Answer whole sign requests as they arrive, without a task of their own; leave everything else to aiohttp.

aiohttp makes a task, a request and a writer for each request, which costs more than the decision and the signature
together; and a parser and a task for each connection, which a flood of connections would make it pay for. A request
that came in one piece, in the plainest form of HTTP/1.1, needs none of them. Any other one goes to aiohttp, and so
does everything that follows on its connection.

    reading ──plain──> answered ──────────────> reading
       │                  ├─has to wait──> task ──> reading       (nothing is read meanwhile)
       │                  └─held back──> timer ───> reading       (nothing is read meanwhile)
       ├─trail behind──> left unread ─────────> reading           (nothing is read meanwhile)
       └─anything else──> aiohttp's, to its end
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from signproxy.answers.reply import Reply
from signproxy.gate.begun import Waiting
from signproxy.server.api.held_answer import HeldAnswer
from signproxy.server.api.plain import Heads

if TYPE_CHECKING:
    from signproxy.gate.limits import Hold
    from signproxy.server.api.connection import AtOnce, DirectServer, Parsed

MAX_UNREAD = 64 * 1024
"""Bytes of answers that a client may leave unread before it has to wait for each of them."""

AT_ONCE = 4096
"""Bytes of a message that is answered without a task: nearly all have one or two thousand, and a bulk delete of a
hundred keys takes less than a millisecond."""

HEAD_SECONDS = 10.0
"""From the first byte of a request to the last of its head; real ones come in one packet, or two."""

STRANGER_SECONDS = 10.0
"""How long a connection is kept that has shown no token yet: connections are what strangers could use up."""

# A client that gets one of these has shown a token that is believed.
_KNOWN = frozenset({200, 403, 429})


class DirectConnection(asyncio.Protocol):
    """A connection that is answered directly until it sends anything else than plain requests."""

    __slots__ = (
        "_at_once", "_backpressure", "_clock", "_connections", "_dependent", "_handler", "_head_timer", "_heads",
        "_held", "_idle_limit", "_idle_since", "_idle_timer", "_loop", "_parsed", "_remote", "_requests", "_server",
        "_soon", "_stranger", "_task", "_unread", "_wire", "_writing_paused",
    )  # fmt: skip

    def __init__(self, server: DirectServer, handler: AtOnce, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._handler = handler
        self._at_once: AtOnce | None = handler
        self._loop = loop
        self._backpressure = server.limits.backpressure
        self._connections = server.limits.connections
        # Of an answer that goes out with the end of the loop's round, and of requests that are left unread.
        self._soon = b""
        self._unread = b""
        self._clock = loop.time
        self._stranger = True
        self._remote = ""
        self._heads = Heads()
        self._idle_limit = min(STRANGER_SECONDS, server.idle_limit)
        self._idle_since = 0.0
        self._idle_timer: asyncio.TimerHandle | None = None
        self._head_timer: asyncio.TimerHandle | None = None
        self._held = HeldAnswer(loop, self.release)
        self._parsed: Parsed | None = None
        self._dependent: asyncio.Task[object] | None = None
        self._task: asyncio.Task[None] | None = None
        self._requests = 0
        self._writing_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; a connection that says nothing is closed like one that has nothing more to say."""
        # Not asked by its type: uvloop's transports are no asyncio.Transport, though they do all of it.
        self._wire = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self._remote = str(peer[0]) if isinstance(peer, tuple) else ""
        self._idle_since = self._clock()
        self._idle_timer = self._loop.call_later(self._idle_limit, self._close_if_idle)
        self._server.opened(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """End, and every timer and held answer with it."""
        self._at_once = None
        self._soon = self._unread = b""
        self._backpressure.forget(self)
        for timer in (self._idle_timer, self._head_timer):
            if timer is not None:
                timer.cancel()
        self.release()
        if self._dependent is not None:
            self._dependent.cancel()
        self._cancel_task()
        parsed, self._parsed = self._parsed, None
        if parsed is not None:
            parsed.connection_lost(exc)
        self._server.closed(self)

    def data_received(self, data: bytes) -> None:
        """Answer a plain request at once, or hand this and all that follows to aiohttp."""
        if self._task is not None:
            # Reading has stopped; it was on its way.
            self._unread += data
            return
        if self._backpressure.is_on:
            self._leave_unread(data)
            return
        handler = self._at_once
        if handler is not None:
            plain = self._heads.read(data)
            if plain is not None and len(plain[1]) <= AT_ONCE and self._wire.get_write_buffer_size() <= MAX_UNREAD:
                head, body = plain
                reply = handler.at_once(head, self._remote, body)
                if isinstance(reply, Waiting):
                    self._wait(reply)
                    return
                if reply is not None:
                    if self._stranger:
                        self.note(reply)
                    if reply.hold is None or not self._hold(reply, reply.hold):
                        self._send(reply)
                    return
            self.leave_to_aiohttp()
        parsed = self._parsed
        if parsed is None:
            # An answer is held back and nothing is read: what arrives all the same could not be answered in order.
            self._wire.abort()
            return
        parsed.data_received(data)
        if not self._requests and self._head_timer is None:
            # Whole or not: a request that is whole begins before long.
            self._head_timer = self._loop.call_later(HEAD_SECONDS, self._end_slow_head)

    def eof_received(self) -> None:
        """Let the transport close: a client that sends nothing more gets nothing more."""
        self.send_now()

    def pause_writing(self) -> None:
        """Tell aiohttp that the client does not read."""
        self._writing_paused = True
        if self._parsed is not None:
            self._parsed.pause_writing()

    def resume_writing(self) -> None:
        """Tell aiohttp that it does again."""
        self._writing_paused = False
        if self._parsed is not None:
            self._parsed.resume_writing()

    def leave_to_aiohttp(self) -> None:
        """Give aiohttp all that is received from now on."""
        self.send_now()
        self._at_once = None
        self._parsed = self._server.parsed(self)
        self._parsed.connection_made(self._wire)
        if self._writing_paused:
            self._parsed.pause_writing()

    def begin(self) -> None:
        """Take note that aiohttp, or a task, has a request in hand."""
        self._requests += 1
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def end(self) -> None:
        """Take note that it is answered."""
        self._requests -= 1
        self._idle_since = self._clock()

    @contextlib.contextmanager
    def needed(self) -> Iterator[None]:
        """Cancel the running task if the connection ends within the block: no client waits for what it does."""
        self._dependent = asyncio.current_task()
        try:
            yield
        finally:
            self._dependent = None

    def note(self, reply: Reply) -> None:
        """Keep the connection as long as those of callers once it has proved to be one."""
        if self._stranger and (reply.status in _KNOWN if reply.known is None else reply.known):
            self._stranger = False
            self._idle_limit = self._server.idle_limit
            self._server.limits.connections.known(self)

    async def hold_back(self, reply: Reply) -> None:
        """Wait as long as an answer of aiohttp's is held back."""
        hold, wire = reply.hold, self._wire
        if hold is None or wire.is_closing() or self._server.guests.ending:
            return
        # aiohttp may have stopped reading for reasons of its own, and then begins again by itself.
        reads = wire.is_reading()
        try:
            wire.pause_reading()
            await self._held.wait(reply, hold)
        finally:
            if reads and not wire.is_closing():
                wire.resume_reading()

    def release(self) -> None:
        """Send what is held back now; to a connection that is lost it only ends the waiting."""
        reply = self._held.end()
        if reply is not None and not self._wire.is_closing():
            self._at_once = self._handler
            self._send(reply)
            self._read_again()

    def wind_down(self) -> None:
        """End now if nothing is in flight, else with the next answer."""
        if self._held.reply is not None:
            self._held.reply.closes = True
        elif self._unread and self._parsed is None and self._task is None:
            # Read once the audit trail has caught up. The way through aiohttp ends with its answer.
            self.leave_to_aiohttp()
        if self._is_idle:
            self.close()
        else:
            self.release()

    def close(self) -> None:
        """End; what was not read until now is not waited for."""
        self.send_now()
        if self._wire.get_write_buffer_size():
            self._wire.abort()
        else:
            self._wire.close()

    def abort(self) -> None:
        """End whatever is under way."""
        self._cancel_task()
        self.send_now()
        self._wire.abort()

    cancel = abort

    @property
    def task(self) -> asyncio.Task[None] | None:
        """What answers a request that had to wait."""
        return self._task

    @property
    def is_left_unread(self) -> bool:
        """Whether a request came that is not read yet, or is not answered yet."""
        return bool(self._unread) or self._task is not None

    def send_now(self) -> None:
        """Send the answer that was to be sent with those of other connections."""
        data, self._soon = self._soon, b""
        if data and not self._wire.is_closing():
            self._wire.write(data)

    @property
    def _is_idle(self) -> bool:
        return not (self._requests or self._head_timer is not None or self._held.is_there or self._unread)

    def _send(self, reply: Reply) -> None:
        if self._soon:
            self.send_now()
        else:
            # Sent in between, each answer would wake its client from a sleep of its own, which costs more than it.
            self._loop.call_soon(self.send_now)
        if self._connections.draining:
            reply.closes = True
        self._soon = reply.whole()
        self._idle_since = self._clock()
        if reply.closes:
            self.send_now()
            self._wire.close()

    def _wait(self, waiting: Waiting[Reply]) -> None:
        """Let a request that has to wait go on in a task, and read nothing until it is answered."""
        self._wire.pause_reading()
        self.begin()
        self._task = self._loop.create_task(self._answer_later(waiting))

    def _cancel_task(self) -> None:
        if self._task is not None:
            # After its first turn: a task that never ran would tell nothing, and the request would have no event.
            self._loop.call_soon(self._task.cancel)

    async def _answer_later(self, waiting: Waiting[Reply]) -> None:
        reply = None
        try:
            reply = await waiting
        finally:
            self._task = None
            self.end()
            if reply is None:
                # It was cancelled, and has its event.
                self._wire.abort()
        if self._wire.is_closing():
            return
        if self._server.guests.ending:
            # Nor is it held back: the connection would be cut off before its answer.
            reply.closes, reply.hold = True, None
        self.note(reply)
        if reply.hold is None or not self._hold(reply, reply.hold):
            self._send(reply)
        if self._held.reply is None and not self._wire.is_closing():
            self._read_again()

    def _leave_unread(self, data: bytes) -> None:
        """Keep what was received until the audit trail has caught up, and receive no more."""
        self._unread += data
        if not self._wire.is_closing():
            self._wire.pause_reading()
            self._backpressure.wait(self, self._read_again)

    def _read_again(self) -> None:
        data, self._unread = self._unread, b""
        if not self._wire.is_closing():
            # Before the data is taken: whatever that makes of it may end or stop reading again.
            self._wire.resume_reading()
            if data:
                self.data_received(data)

    def _hold(self, reply: Reply, hold: Hold) -> bool:
        """Keep an answer back, and read nothing meanwhile; False if too many are kept, which ends the connection."""
        if not self._held.begin(reply, hold):
            return False
        self._at_once = None
        self._wire.pause_reading()
        return True

    def _end_slow_head(self) -> None:
        self._server.limits.connections.slow += 1
        self.close()

    def _close_if_idle(self) -> None:
        left = self._idle_since + self._idle_limit - self._clock()
        if not self._is_idle:
            # Each thing that may be under way has a time limit of its own.
            left = self._idle_limit
        if left > 0:
            self._idle_timer = self._loop.call_later(left, self._close_if_idle)
        else:
            self.close()
