"""Keep connections to stores for the next request, and open no more of them than allowed."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from signproxy.errors import Reason, Refused
from signproxy.forward.addresses import Address
from signproxy.transfer.channel import Channel
from signproxy.transfer.heads import ResponseHeads
from signproxy.transfer.tls_channel import TlsChannel

Connect = Callable[[Address], Awaitable[Channel]]

_HOSTS_KEPT = 256
"""Hosts without a connection that are remembered; a reload may bring others, and each costs some hundred bytes."""

_MOMENT = 0.1
"""Seconds until a connection that was refused is tried again, once."""


class Times(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Seconds for each phase, counted from the end of the one before."""

    connect: float = 5.0
    """For a connection to a store to be there, its turn in the pool and TLS included."""
    answer: float = 60.0
    """From the end of a request to the head of its answer."""
    slow_answer: float = 600.0
    """The same for copies and for completing a multipart upload: stores work while the head waits."""
    idle: float = 60.0
    """Without a byte of a body to or from the store."""
    client_idle: float = 60.0
    """Without a byte of a body to or from the client."""
    keepalive: float = 4.0
    """How long an idle connection is kept: less than the store keeps it, or requests meet its end."""


class _Host:
    """The connections to one address."""

    __slots__ = ("idle", "open", "waiting")

    def __init__(self) -> None:
        # The newest is used first, so that what a burst left behind grows old; the oldest stand in front.
        self.idle: dict[Channel, float] = {}
        self.open = 0
        self.waiting: deque[asyncio.Future[None]] = deque()


class Pool:
    """Connections to stores, those in use and those that wait for use; one pool per process."""

    __slots__ = ("_closed", "_connect", "_hosts", "_limit", "_loop", "_most_idle", "_sweeper", "_times", "heads")

    def __init__(
        self, times: Times, *, connections: int = 1024, idle: int = 128, connect: Connect | None = None
    ) -> None:
        self._times = times
        self._limit = connections
        self._most_idle = idle
        self._connect = _open if connect is None else connect
        self._loop = asyncio.get_running_loop()
        self._hosts: dict[Address, _Host] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False
        self.heads = ResponseHeads()
        """What the stores answered last: what they answer next is much like it."""

    @property
    def open(self) -> int:
        """Connections to all stores."""
        return sum([host.open for host in self._hosts.values()])

    @property
    def idle(self) -> int:
        """Those among them that nothing uses."""
        return sum([len(host.idle) for host in self._hosts.values()])

    def take(self, address: Address) -> Channel | None:
        """Return a connection that was used before; None if there is none to trust."""
        host = self._hosts.get(address)
        if host is None:
            return None
        idle = host.idle
        while idle:
            channel, _ = idle.popitem()
            # What came unasked would be taken for the next answer.
            if channel.unpark():
                return channel
            channel.abort()
        return None

    async def connect(self, address: Address) -> Channel:
        """Return a connection as soon as there may be one more, or one is given back; raise Refused."""
        host = self._hosts.get(address)
        if host is None:
            host = self._add(address)
        try:
            async with asyncio.timeout(self._times.connect):
                while host.open >= self._limit:
                    await self._turn(host)
                    kept = self.take(address)
                    if kept is not None:
                        return kept
                host.open += 1
                try:
                    channel = await self._connected(address)
                except BaseException:
                    self._gone(host)
                    raise
        except TimeoutError:
            raise Refused(Reason.STORE_UNAVAILABLE, f"no connection to {address} in time") from None
        except OSError as error:
            raise Refused(Reason.STORE_UNAVAILABLE, f"no connection to {address}: {_words(error)}") from None
        channel.on_lost = partial(self._lost, host, channel)
        if channel.closed:
            channel.on_lost = None
            self._gone(host)
            raise Refused(Reason.STORE_UNAVAILABLE, f"{address} closed the connection at once")
        return channel

    async def _connected(self, address: Address) -> Channel:
        try:
            return await self._connect(address)
        except ConnectionRefusedError:
            # Nothing was sent, and a store that is being restarted is often there the next moment.
            await asyncio.sleep(_MOMENT)
            return await self._connect(address)

    def give_back(self, address: Address, channel: Channel) -> None:
        """Keep a connection whose last request and answer both ended exactly."""
        host = self._hosts.get(address)
        if host is None or self._closed or (len(host.idle) >= self._most_idle and not host.waiting):
            channel.abort()
            return
        if not channel.park():
            return
        host.idle[channel] = self._loop.time()
        if host.waiting:
            self._wake(host)
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(self._times.keepalive / 2, self._sweep)

    async def aclose(self) -> None:
        """Close what is idle, now, and what is in use once it is given back."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for host in self._hosts.values():
            for channel in list(host.idle):
                channel.abort()
        # A transport that was aborted ends with the loop's next turn.
        await asyncio.sleep(0)

    def _add(self, address: Address) -> _Host:
        if len(self._hosts) >= _HOSTS_KEPT:
            self._hosts = {where: host for where, host in self._hosts.items() if host.open or host.waiting}
        host = self._hosts[address] = _Host()
        return host

    async def _turn(self, host: _Host) -> None:
        """Wait until there may be one more connection."""
        turn: asyncio.Future[None] = self._loop.create_future()
        host.waiting.append(turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                # The turn came together with the end: it goes to the next one that waits.
                self._wake(host)
            raise
        finally:
            if turn in host.waiting:
                host.waiting.remove(turn)

    def _lost(self, host: _Host, channel: Channel) -> None:
        host.idle.pop(channel, None)
        self._gone(host)

    def _gone(self, host: _Host) -> None:
        host.open -= 1
        self._wake(host)

    def _wake(self, host: _Host) -> None:
        while host.waiting:
            turn = host.waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def _sweep(self) -> None:
        """Close what was idle for too long."""
        self._sweeper = None
        before = self._loop.time() - self._times.keepalive
        for host in self._hosts.values():
            for channel, since in list(host.idle.items()):
                if since > before:
                    break
                channel.abort()
        if self.idle:
            self._sweeper = self._loop.call_later(self._times.keepalive / 2, self._sweep)


async def _open(address: Address) -> Channel:
    loop = asyncio.get_running_loop()
    context = address.context
    if context is None:
        return (await loop.create_connection(Channel, address.host, address.port))[1]
    _, channel = await loop.create_connection(partial(TlsChannel, context, address.host), address.host, address.port)
    try:
        await channel.secured()
    except BaseException:
        channel.abort()
        raise
    return channel


def _words(error: OSError) -> str:
    """Say what went wrong in words that a store did not choose."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason}"
    return error.strerror or type(error).__name__
