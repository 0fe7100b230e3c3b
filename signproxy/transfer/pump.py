"""Move a body from one connection to another, all of it or with the reason why not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from signproxy.transfer import splice
from signproxy.transfer.body import Incoming, Inspect, Outgoing
from signproxy.transfer.faults import SourceLost, SourceStalled, TargetLost, TargetStalled
from signproxy.transfer.head import BodyFraming
from signproxy.transfer.idle import IdleWatch

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
            await _relayed(_Relay(source, target, counted, inspect), idle)
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
        if early := origin.take():
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


async def _relayed(moving: _Relay, idle: float) -> None:
    watch = IdleWatch(idle, moving.moved, moving.stalled)
    try:
        moving.begin()
        await moving.done
    finally:
        watch.stop()
        moving.stop()


class _Relay:
    """A transfer through memory, over any two channels, whatever their framing, with something to look at it or not.

    It goes on as pieces arrive, without a task being woken for each.
    """

    __slots__ = ("_counted", "_inspect", "_received", "_source", "_target", "done")

    def __init__(
        self, source: Incoming, target: Outgoing, counted: Callable[[int], None], inspect: Inspect | None
    ) -> None:
        self._source = source
        self._target = target
        self._counted = counted
        self._inspect = inspect
        self._received = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def begin(self) -> None:
        """Take what is there already, and then what comes."""
        origin, sink = self._source.channel, self._target.channel
        origin.watchers.append(self._source_lost)
        sink.watchers.append(self._target_lost)
        sink.when_writable(self._go_on)
        if self._source.ended:
            self._finish()
            return
        early = origin.take()
        origin.divert(self._arrived)
        if early:
            self._arrived(memoryview(early))
        if self.done.done():
            return
        if sink.lost is not None:
            self._target_lost()
        elif origin.has_ended:
            self._arrived(memoryview(b""))
        elif origin.lost is not None:
            self._source_lost()
        else:
            self._go_on()

    def stop(self) -> None:
        """Let go of both channels."""
        origin, sink = self._source.channel, self._target.channel
        origin.restore()
        origin.watchers.remove(self._source_lost)
        sink.watchers.remove(self._target_lost)
        sink.when_writable(None)
        origin.release()

    def moved(self) -> object:
        """Return what differs as long as anything moves."""
        return self._received, self._target.channel.unsent()

    def stalled(self) -> None:
        """End because nothing moves."""
        if self._target.channel.is_full:
            self._fail(TargetStalled("nothing of the body was taken in time"))
        else:
            self._fail(SourceStalled("nothing of the body came in time"))

    def _arrived(self, view: memoryview) -> None:
        if self.done.done():
            # It failed, and with it the connection.
            return
        try:
            if not len(view):
                self._source.end_of_connection()
            else:
                self._received += len(view)
                for piece in self._source.decode(view):
                    self._send((piece,) if self._inspect is None else self._inspect.feed(piece))
        except Exception as error:  # noqa: BLE001 - whatever keeps a body from going on is what became of it
            self._fail(error)
            return
        if self._source.ended:
            self._finish()
        elif self._target.channel.is_full:
            self._source.channel.hold()

    def _finish(self) -> None:
        # What follows is the next message.
        self._source.channel.restore()
        try:
            if self._inspect is not None:
                self._send(self._inspect.finish())
            self._target.finish()
        except Exception as error:  # noqa: BLE001 - see above
            self._fail(error)
            return
        if not self._target.channel.is_full:
            self.done.set_result(None)

    def _send(self, pieces: Iterable[bytes | memoryview]) -> None:
        for piece in pieces:
            try:
                self._target.send(piece)
            except ConnectionError as error:
                raise TargetLost(str(error)) from error
            self._counted(len(piece))

    def _go_on(self) -> None:
        if not self._source.ended:
            self._source.channel.release()
        elif not self.done.done():
            self.done.set_result(None)

    def _source_lost(self) -> None:
        if not self._source.ended:
            self._fail(SourceLost(str(self._source.channel.lost)))

    def _target_lost(self) -> None:
        self._fail(TargetLost(str(self._target.channel.lost)))

    def _fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)
