"""Send the messages of many connections together."""

from __future__ import annotations

import asyncio
from typing import Protocol
from weakref import WeakKeyDictionary


class Sender(Protocol):
    """A connection that has something to send."""

    def send_now(self) -> None:
        """Send it."""


class Outbox:
    """What the connections of an event loop send at the end of its round, one behind the other.

    Sent in between, each message would wake its receiver from a sleep of its own, which costs more than sending it.
    """

    __slots__ = ("_senders",)

    def __init__(self) -> None:
        self._senders: list[Sender] = []

    def add(self, sender: Sender, loop: asyncio.AbstractEventLoop) -> None:
        """Have something sent."""
        if not self._senders:
            loop.call_soon(self._empty)
        self._senders.append(sender)

    def _empty(self) -> None:
        senders, self._senders = self._senders, []
        for sender in senders:
            sender.send_now()


# A loop is kept by the code that runs it.
_outboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, Outbox] = WeakKeyDictionary()


def outbox_of(loop: asyncio.AbstractEventLoop) -> Outbox:
    """Return the one outbox of a loop."""
    box = _outboxes.get(loop)
    if box is None:
        box = _outboxes[loop] = Outbox()
    return box
