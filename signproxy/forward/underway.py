"""Hand a conversation with a store from the code that began it to the code that goes on with it."""

from __future__ import annotations

from signproxy.forward.addresses import Address
from signproxy.forward.pool import Pool
from signproxy.transfer.channel import Channel


class Underway:
    """A request that a store was sent, and whose answer another exchange is to hear."""

    __slots__ = ("_address", "_channel", "_pool", "event_id", "stamped", "started_ns")

    def __init__(self, pool: Pool | None, address: Address | None, channel: Channel | None) -> None:
        """Without a channel the request is sent again: its answer is lost."""
        self._pool = pool
        self._address = address
        self._channel = channel
        self.event_id = ""
        """Its audit event's, which the store's log may have already."""
        self.stamped = False
        """Whether it carries that id."""
        self.started_ns = 0
        """When the client's request came."""

    def taken(self, pool: Pool, address: Address) -> Channel | None:
        """Return the connection, once, to an exchange that would have sent the request the same way."""
        if pool is not self._pool or address != self._address:
            return None
        channel, self._channel = self._channel, None
        return channel

    def abandon(self) -> None:
        """End the connection, unless it was taken."""
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.abort()
