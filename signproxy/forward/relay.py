"""Bring a store's answer to the client, no faster than the client takes it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

from signproxy.errors import Reason, Refused
from signproxy.forward.answer import Answer
from signproxy.forward.exchange import Broken, ReceivedHead, Side
from signproxy.forward.times import Times
from signproxy.gate.turns import in_pieces, one_at_a_time
from signproxy.s3.xml_document import PIECE
from signproxy.transfer.body import Incoming
from signproxy.transfer.channel import Channel
from signproxy.transfer.faults import MessageInvalid, SourceLost, Stalled, TargetLost, TargetStalled, Truncated
from signproxy.transfer.head import BodyFraming, ResponseHead
from signproxy.transfer.inspect import Inspect
from signproxy.transfer.pump import pump

SMALL = 64 * 1024
"""Bytes of an answer that goes out with its head in one write."""
MAX_DOCUMENT = 4 * 1024 * 1024
"""Bytes of an answer that is changed: a thousand uploads with the longest keys, escaped, need some three million."""

Change = Callable[[bytes], Generator[None, None, bytes]]
"""Returns a document in place of another one, and lets others have their turn while it works."""
Charge = Callable[[bytes], None]
"""Counts the work that a document is, before it is done; raises Refused for a caller that owes too much already."""

T = TypeVar("T")

# Looking a member up in its class calls Python code; the hot path does without.
_NONE, _SIZED = BodyFraming.NONE, BodyFraming.SIZED


class Relay:
    """Brings one answer from the store to the client."""

    __slots__ = ("_answer", "_channel", "_times", "sent")

    def __init__(self, channel: Channel, answer: Answer, times: Times) -> None:
        self._channel = channel
        self._answer = answer
        self._times = times
        self.sent = 0
        """Bytes of the body that went to the client."""

    def at_once(self, heard: ReceivedHead) -> bool:
        """Pass the answer on as it is where all of it is there and small; return whether that was so."""
        head, raw = heard
        length = head.length
        if head.body is _NONE:
            self._answer.bodiless(head, raw)
            return True
        if head.body is not _SIZED or length > SMALL or self._channel.unread() < length:
            return False
        self._answer.whole(head, raw, self._channel.take(length))
        self.sent = length
        return True

    async def pass_on(self, heard: ReceivedHead, watch: Inspect | None) -> bool:
        """Pass the answer on, as `watch` lets it; return whether it ended exactly. Raise Refused or Broken."""
        head, raw = heard
        if head.body is _NONE:
            self._answer.bodiless(head, raw)
            return True
        if head.body is _SIZED and head.length <= SMALL and watch is None:
            body = await collected(self._channel, heard.head, SMALL, self._times.idle)
            self._answer.whole(head, raw, body)
            self.sent = len(body)
            return True
        incoming = Incoming(self._channel, head.body, head.length, idle=self._times.idle)
        target = self._answer.start(head, raw)
        try:
            await pump(
                incoming,
                target,
                idle=self._times.client_idle,
                counted=self._count,
                inspect=watch,
            )
        except (TargetLost, TargetStalled) as error:
            raise Broken(Side.CLIENT, Reason.CLIENT_GONE, f"after {self.sent} bytes: {_words(error)}") from None
        except (SourceLost, Truncated, Stalled, MessageInvalid) as error:
            raise Broken(Side.UPSTREAM, _reason(error), f"after {self.sent} bytes: {_words(error)}") from None
        return incoming.ended

    async def change(self, heard: ReceivedHead, change: Change, charge: Charge | None = None) -> bool:
        """Pass the answer on with its document changed; return whether it ended exactly. Raise Refused.

        `charge` is told of the document before it is read.
        """
        head, raw = heard
        if "content-encoding" in head.fields:
            raise Refused(Reason.STORE_INVALID, "a document in a coding that was not asked for")
        document = await collected(self._channel, head, MAX_DOCUMENT, self._times.idle)
        if charge is not None:
            charge(document)
        body = await in_turn(change(document), len(document))
        self._answer.whole(head, raw, body)
        self.sent = len(body)
        return True

    def _count(self, count: int) -> None:
        self.sent += count


async def in_turn(work: Generator[None, None, T], size: int) -> T:
    """Do the work that a document of so many bytes is. A long one waits until no other long work is being done."""
    if size <= PIECE:
        return await in_pieces(work)
    async with one_at_a_time():
        return await in_pieces(work)


async def collected(channel: Channel, head: ResponseHead, most: int, idle: float) -> bytes:
    """Return the whole body of an answer; the client has not been answered yet, and can be told of any fault."""
    incoming = Incoming(channel, head.body, head.length, idle=idle)
    pieces: list[bytes] = []
    total = 0
    try:
        while piece := await incoming.read():
            total += len(piece)
            if total > most:
                raise Refused(Reason.STORE_INVALID, f"a document of more than {most} bytes")
            pieces.append(piece)
    except (ConnectionError, Truncated, TimeoutError, MessageInvalid) as error:
        raise Refused(_reason(error), f"after {total} bytes of the answer: {_words(error)}") from None
    return b"".join(pieces)


def _reason(error: BaseException) -> Reason:
    match error:
        case TimeoutError():
            return Reason.STORE_TIMEOUT
        case MessageInvalid() | Truncated():
            return Reason.STORE_INVALID
        case _:
            return Reason.STORE_UNAVAILABLE


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__
