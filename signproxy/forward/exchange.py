"""Hold one conversation with a store: ask, upload, hear the answer, and give the connection back if all ended well."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from sys import maxsize
from time import perf_counter_ns

import msgspec

from signproxy.errors import Reason, Refused, SignproxyError
from signproxy.forward.addresses import Address
from signproxy.forward.pool import Pool, Times
from signproxy.forward.underway import Underway
from signproxy.gate.outcome import StoreOutcome
from signproxy.transfer.body import Incoming, Inspect, Outgoing
from signproxy.transfer.channel import Channel
from signproxy.transfer.faults import MessageInvalid, SourceLost, SourceStalled, Stalled, TargetLost, Truncated
from signproxy.transfer.head import ResponseHead
from signproxy.transfer.pump import pump

HEAD_LIMIT = 32 * 1024
"""Bytes of the head of an answer: user metadata has 2 KiB at most, a policy in a header not much more."""
MOST_INTERIM = 16
"""Answers of 1xx before the answer; each is a head to read, and a store could send them for ever."""

_SENDING = 7 * 86_400.0
"""For the head of an answer while the body is sent: only idleness ends an upload that goes on."""
_LAST_WORD = 1.0
"""For an answer that was sent together with the end of the connection, or with the last bytes of the body."""


class Side(Enum):
    """Who ended a conversation in its middle; the value is what the audit trail calls it."""

    CLIENT = "client"
    UPSTREAM = "upstream"


class Broken(SignproxyError):
    """Raise where a conversation ended in its middle; before the answer began, a store's end is a refusal instead."""

    def __init__(self, side: Side, reason: Reason, detail: str) -> None:
        super().__init__(side, reason, detail)
        self.side = side
        self.reason = reason
        self.detail = detail


class ReceivedHead(msgspec.Struct, frozen=True, gc=False):
    """The head of an answer, its bytes, and the connection that the body follows on."""

    head: ResponseHead
    raw: bytes
    channel: Channel


class Exchange:
    """One request to a store and its answer, on a connection that is this request's until `end`."""

    __slots__ = (
        "_address",
        "_channel",
        "_client",
        "_method",
        "_outcome",
        "_pool",
        "_seconds",
        "_times",
        "early",
        "is_last",
        "most",
    )

    def __init__(
        self, pool: Pool, address: Address, client: Channel, times: Times, method: str, outcome: StoreOutcome
    ) -> None:
        """`outcome` is told how many requests were sent, how long the store took, and how much of a body went on."""
        self._pool = pool
        self._address = address
        self._client = client
        self._times = times
        self._method = method
        self._seconds = times.answer
        self._channel: Channel | None = None
        self._outcome = outcome
        self.most = maxsize
        """Bytes that the body may have, where its length was not announced."""
        self.early = False
        """Whether the store answered before it had the whole body: neither connection can be used again."""
        self.is_last = False
        """Whether no other request may follow on the connection to the store."""
        # A client that goes away frees the store from its request at once, wherever that is.
        client.watchers.append(self._client_lost)

    def be_patient(self) -> None:
        """Wait longer for the head of the answer: the store works before it sends it."""
        self._seconds = self._times.slow_answer

    @property
    def uploaded(self) -> int:
        """Bytes of the body, as far as it went on."""
        return self._outcome.bytes_in

    async def ask(self, message: bytes, *, repeatable: bool, underway: Underway | None = None) -> ReceivedHead:
        """Send a whole request and return the head of its answer; raise Refused or Broken.

        A request that may be repeated is asked once more where a connection that was kept turns out to be dead: the
        store closed it meanwhile, and never saw the request. One that is under way is not sent again.
        """
        channel = None if underway is None else underway.taken(self._pool, self._address)
        sent = channel is not None
        if channel is None:
            channel = self._pool.take(self._address)
        if channel is None:
            channel = await self._connected()
            repeatable = False
        self._channel = channel
        if sent and self._client.closed:
            # It went away before it was watched.
            raise self._fault(_Silent())
        try:
            if not sent:
                self._outcome.requests += 1
                channel.write_soon(message)
            return await self._hear(channel, self._seconds)
        except (_Silent, ConnectionError) as silent:
            channel.abort()
            if not repeatable or self._client.closed:
                raise self._fault(silent) from None
        except (MessageInvalid, Truncated, TimeoutError) as error:
            raise self._fault(error) from None
        self._channel = None
        channel = self._channel = await self._connected()
        self._outcome.requests += 1
        try:
            channel.write(message)
            return await self._hear(channel, self._seconds)
        except (_Silent, ConnectionError, MessageInvalid, Truncated, TimeoutError) as error:
            raise self._fault(error) from None

    async def upload(
        self,
        message: bytes,
        body: Incoming,
        outgoing: Callable[[Channel], Outgoing],
        inspect: Inspect | None,
        invite: Callable[[], None],
    ) -> ReceivedHead:
        """Send a head and stream the body behind it, listening all the while; raise Refused or Broken."""
        channel = self._pool.take(self._address) or await self._connected()
        self._channel = channel
        self._outcome.requests += 1
        try:
            channel.write(message)
        except ConnectionError as error:
            raise self._fault(error) from None
        invite()
        loop = asyncio.get_running_loop()
        sending = loop.create_task(
            pump(body, outgoing(channel), idle=self._times.idle, counted=self.count, inspect=inspect)
        )
        hearing = loop.create_task(self._hear(channel, _SENDING))
        try:
            await asyncio.wait((sending, hearing), return_when=asyncio.FIRST_COMPLETED)
            is_early, taken = not (sending.done() or body.ended), self.uploaded
            if not sending.done() and (body.ended or _is_success(hearing)):
                # The answer and the news that the last bytes are gone came in the wrong order; or the store read the
                # end of the chunks that S3 knows, and the end of the message around them is still on its way.
                await asyncio.wait((sending,), timeout=_LAST_WORD)
            if sending.done() and not (is_early and (self.uploaded > taken or sending.exception() is not None)):
                return await self._sent(sending, hearing)
            return self._answered_early(hearing)
        except (_Silent, ConnectionError, MessageInvalid, Truncated, TimeoutError) as error:
            raise self._fault(error) from None
        finally:
            await _ended(sending, hearing)

    async def _sent(self, sending: asyncio.Task[None], hearing: asyncio.Task[ReceivedHead]) -> ReceivedHead:
        """Return the answer after the last byte of the body; raise what ended the sending."""
        error = sending.exception()
        if error is None:
            async with asyncio.timeout(self._seconds):
                return await hearing
        if isinstance(error, TargetLost) and not self._client.closed:
            # A store that refuses an upload answers and hangs up, and the answer may lie there already.
            await asyncio.wait((hearing,), timeout=_LAST_WORD)
            if hearing.done() and hearing.exception() is None:
                return self._answered_early(hearing)
        raise self.upload_fault(error) if isinstance(error, Exception) else error

    def _answered_early(self, hearing: asyncio.Task[ReceivedHead]) -> ReceivedHead:
        heard = hearing.result()
        self.early = True
        if heard.head.status < 300:
            # The store would have an object that it never got.
            raise Refused(Reason.STORE_INVALID, f"status {heard.head.status} before the end of the body")
        return heard

    def end(self, *, reusable: bool) -> None:
        """Give the connection back, or end it; call it exactly once, whatever happened."""
        self._client.watchers.remove(self._client_lost)
        channel, self._channel = self._channel, None
        if channel is None:
            return
        if reusable and not (self.early or self.is_last):
            self._pool.give_back(self._address, channel)
        else:
            channel.abort()

    async def _connected(self) -> Channel:
        started = perf_counter_ns()
        channel = await self._pool.connect(self._address)
        self._outcome.connect_us += (perf_counter_ns() - started) // 1000
        if self._client.closed:
            channel.abort()
            raise Broken(Side.CLIENT, Reason.CLIENT_GONE, "the client went away while the store was called")
        return channel

    async def _hear(self, channel: Channel, seconds: float) -> ReceivedHead:
        """Return the head of the answer; what comes before it is for this connection alone."""
        started = perf_counter_ns()
        for _ in range(MOST_INTERIM):
            raw = await channel.head(HEAD_LIMIT, seconds)
            if raw is None:
                raise _Silent
            head = self._pool.heads.read(raw, self._method)
            if head.status >= 200:
                self._outcome.first_byte_us = (perf_counter_ns() - started) // 1000
                return ReceivedHead(head, raw, channel)
        raise Refused(Reason.STORE_INVALID, f"more than {MOST_INTERIM} interim answers")

    def count(self, count: int) -> None:
        """Take note of bytes of the body that went on, or that are kept to go on. Raise Refused for too many."""
        self._outcome.bytes_in += count
        if self.uploaded > self.most:
            raise Refused(Reason.ENTITY_TOO_LARGE, f"more than {self.most} bytes")

    def _client_lost(self) -> None:
        if self._channel is not None:
            self._channel.abort()

    def _fault(self, error: BaseException) -> SignproxyError:
        """Return what a fault before the answer means."""
        if self._client.closed:
            return Broken(Side.CLIENT, Reason.CLIENT_GONE, "the client went away before the answer")
        match error:
            case TimeoutError():
                return Refused(Reason.STORE_TIMEOUT, f"{self._address} did not answer in {self._seconds:g} s")
            case MessageInvalid():
                return Refused(Reason.STORE_INVALID, f"{self._address}: {error}")
            case Truncated():
                return Refused(Reason.STORE_INVALID, f"{self._address} closed the connection within a head")
            case _:
                return Refused(Reason.STORE_UNAVAILABLE, f"{self._address} closed the connection without an answer")

    def collect_fault(self, error: Exception) -> Exception:
        """Return what it means that a body did not come, of which nothing was sent on."""
        return (
            Broken(Side.CLIENT, Reason.CLIENT_GONE, str(error))
            if isinstance(error, ConnectionError)
            else self.upload_fault(error)
        )

    def upload_fault(self, error: Exception) -> Exception:
        """Return what it means that a body did not get to the store."""
        match error:
            case _ if self._client.closed or isinstance(error, SourceLost):
                return Broken(Side.CLIENT, Reason.CLIENT_GONE, "the client went away within its body")
            case SourceStalled():
                return Refused(Reason.BODY_STALLED, f"nothing of the body came; {self.uploaded} bytes were there")
            case Stalled():
                return Refused(Reason.STORE_TIMEOUT, f"{self._address} takes nothing of the body")
            case Truncated():
                return Refused(Reason.CHUNK_INCOMPLETE, f"the connection ended after {self.uploaded} bytes")
            case MessageInvalid():
                return Refused(Reason.HTTP_INVALID, str(error))
            case TargetLost():
                return Refused(Reason.STORE_UNAVAILABLE, f"{self._address} closed the connection within the body")
            case _:
                return error


def _is_success(hearing: asyncio.Task[ReceivedHead]) -> bool:
    return hearing.done() and hearing.exception() is None and hearing.result().head.status < 300


class _Silent(Exception):
    """The store closed the connection before the first byte of an answer."""


async def _ended(*tasks: asyncio.Task[object]) -> None:
    """Cancel what still runs and wait for it; what it raised was either seen or is moot."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.exception()
