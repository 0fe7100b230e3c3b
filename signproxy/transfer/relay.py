"""Move a body through memory: over any two channels, whatever their framing, with something to look at it or not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from signproxy.transfer.body import Incoming, Outgoing
from signproxy.transfer.faults import SourceLost, SourceStalled, TargetLost, TargetStalled
from signproxy.transfer.idle import IdleWatch
from signproxy.transfer.inspect import Inspect


async def relay(
    source: Incoming, target: Outgoing, idle: float, counted: Callable[[int], None], inspect: Inspect | None
) -> None:
    """Move a body to its end."""
    moving = _Relay(source, target, counted, inspect)
    watch = IdleWatch(idle, moving.moved, moving.stalled)
    try:
        moving.begin()
        await moving.done
    finally:
        watch.stop()
        moving.stop()


class _Relay:
    """A transfer that goes on as pieces arrive, without a task being woken for each."""

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
        origin.watch(self._source_lost)
        sink.watch(self._target_lost)
        sink.when_writable(self._go_on)
        if self._source.ended:
            self._finish()
            return
        early = origin.take(origin.unread())
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
        origin.unwatch(self._source_lost)
        sink.unwatch(self._target_lost)
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
