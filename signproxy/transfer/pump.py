"""Move a body from one connection to another, all of it or with the reason why not."""

from __future__ import annotations

from collections.abc import Callable

from signproxy.transfer import splice
from signproxy.transfer.body import Incoming, Outgoing
from signproxy.transfer.faults import TargetLost
from signproxy.transfer.head import BodyFraming
from signproxy.transfer.inspect import Inspect
from signproxy.transfer.relay import relay

__all__ = ["Inspect", "pump"]

SPLICED_FROM = 256 * 1024
"""Bytes still to come: for fewer the way through memory is quicker than its preparation."""


async def pump(
    source: Incoming,
    target: Outgoing,
    *,
    idle: float,
    counted: Callable[[int], None],
    inspect: Inspect | None = None,
) -> None:
    """Move a body and end it at the target. Both connections can be used afterwards, or an exception is raised.

    `counted` is told of bytes as they are sent. With nothing moving on either side for `idle` seconds SourceStalled or
    TargetStalled is raised; SourceLost or TargetLost for a connection that broke; Truncated and BodyInvalid for a body
    that is not what was announced; and whatever `inspect` raises, with at least the last byte withheld. Both
    connections have to be ended then, as after a cancellation.
    """
    try:
        if inspect is None and _can_splice(source, target):
            await _spliced(source, target, idle, counted)
        if not source.ended or not target.ended:
            await relay(source, target, idle, counted, inspect)
    except BaseException:
        source.give_up()
        raise


def _can_splice(source: Incoming, target: Outgoing) -> bool:
    return (
        splice.AVAILABLE
        and source.body is BodyFraming.SIZED
        and target.body is BodyFraming.SIZED
        and source.left == target.left
        and target.left - source.channel.unread() >= SPLICED_FROM
        # What is known to have ended is told apart by the code that reads what is left of it.
        and not source.channel.has_ended
        and source.channel.descriptor() is not None
        and target.channel.descriptor() is not None
    )


async def _spliced(source: Incoming, target: Outgoing, idle: float, counted: Callable[[int], None]) -> None:
    origin, sink = source.channel, target.channel
    origin.hold()
    try:
        if early := origin.take(origin.unread()):
            source.decode(memoryview(early))
            target.send(early)
            counted(len(early))
        await sink.flushed(idle)
    except ConnectionError as error:
        raise TargetLost(str(error)) from error
    await splice.splice(source, target, idle, counted)
    origin.release()
    if source.ended:
        target.finish()
