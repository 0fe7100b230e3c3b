"""Bring a store's answer to the client, no faster than the client takes it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

from signproxy.errors import Reason, Refused
from signproxy.forward.answer import Answer
from signproxy.forward.exchange import Broken, ReceivedHead, Side
from signproxy.forward.pool import Times
from signproxy.gate.outcome import StoreOutcome
from signproxy.gate.turns import in_pieces, one_at_a_time
from signproxy.s3.xml_document import PIECE
from signproxy.transfer.body import Incoming, Inspect
from signproxy.transfer.faults import MessageInvalid, SourceLost, Stalled, TargetLost, TargetStalled, Truncated
from signproxy.transfer.head import BodyFraming
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
    """Brings one answer from the store to the client; what it returns is whether the store's connection goes on."""

    __slots__ = ("_answer", "_outcome", "_times")

    def __init__(self, answer: Answer, times: Times, outcome: StoreOutcome) -> None:
        """`outcome` is told how many bytes of the body went to the client."""
        self._answer = answer
        self._times = times
        self._outcome = outcome

    async def pass_on(self, heard: ReceivedHead, watch: Inspect | None = None) -> bool:
        """Pass the answer on, as `watch` lets it. Raise Refused or Broken."""
        head = heard.head
        if head.body is _NONE:
            self._answer.at_once(heard, 0)
            return not head.closes
        if head.body is _SIZED and head.length <= SMALL and watch is None:
            body = await collected(heard, SMALL, self._times.idle)
            self._answer.whole(heard, body)
            self._count(len(body))
            return not head.closes
        incoming = Incoming(heard.channel, head.body, head.length, idle=self._times.idle)
        target = self._answer.start(heard)
        try:
            await pump(
                incoming,
                target,
                idle=self._times.client_idle,
                counted=self._count,
                inspect=watch,
            )
        except (TargetLost, TargetStalled) as error:
            raise Broken(
                Side.CLIENT, Reason.CLIENT_GONE, f"after {self._outcome.bytes_out} bytes: {_words(error)}"
            ) from None
        except (SourceLost, Truncated, Stalled, MessageInvalid) as error:
            raise Broken(
                Side.UPSTREAM, _reason(error), f"after {self._outcome.bytes_out} bytes: {_words(error)}"
            ) from None
        return incoming.ended and not head.closes

    async def change(self, heard: ReceivedHead, change: Change, charge: Charge | None = None) -> bool:
        """Pass the answer on with its document changed. Raise Refused.

        `charge` is told of the document before it is read.
        """
        if "content-encoding" in heard.head.fields:
            raise Refused(Reason.STORE_INVALID, "a document in a coding that was not asked for")
        document = await collected(heard, MAX_DOCUMENT, self._times.idle)
        if charge is not None:
            charge(document)
        body = await in_turn(change(document), len(document))
        self._answer.whole(heard, body)
        self._count(len(body))
        return not heard.head.closes

    def _count(self, count: int) -> None:
        self._outcome.bytes_out += count


async def in_turn(work: Generator[None, None, T], size: int) -> T:
    """Do the work that a document of so many bytes is. A long one waits until no other long work is being done."""
    if size <= PIECE:
        return await in_pieces(work)
    async with one_at_a_time():
        return await in_pieces(work)


async def collected(heard: ReceivedHead, most: int, idle: float) -> bytes:
    """Return the whole body of an answer; the client has not been answered yet, and can be told of any fault."""
    incoming = Incoming(heard.channel, heard.head.body, heard.head.length, idle=idle)
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
