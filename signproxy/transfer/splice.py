"""Let the kernel move a sized body from socket to socket, so that none of it is ever in this process."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from collections.abc import Callable, Iterator

from signproxy.transfer import pipes
from signproxy.transfer.body import Incoming, Outgoing
from signproxy.transfer.channel import Channel
from signproxy.transfer.faults import SourceLost, SourceStalled, TargetLost, TargetStalled, Truncated
from signproxy.transfer.idle import IdleWatch

AVAILABLE = hasattr(os, "splice")

_ROUNDS = 4
"""Fillings of the pipe before other connections have their turn."""
_UNSUPPORTED = frozenset((errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP))


async def splice(source: Incoming, target: Outgoing, idle: float, counted: Callable[[int], None]) -> None:
    """Move what is left of a sized body, or as much of it as can be moved like this.

    Nothing may wait to be sent on the target, nor be received and not taken on the source. Some or all of the body is
    left where no pipe is to be had, or the kernel does not splice these sockets.
    """
    pipe = pipes.shared.borrow()
    if pipe is None:
        return
    left_in_pipe = pipe.size
    try:
        with _duplicates(source.channel, target.channel) as sockets:
            if len(sockets) == 2:
                moving = _Splice(source, target, pipe, sockets, counted)
                watch = IdleWatch(idle, moving.moved, moving.stalled)
                try:
                    moving.begin()
                    await moving.done
                finally:
                    watch.stop()
                    moving.stop()
                    left_in_pipe = moving.in_pipe
            else:
                left_in_pipe = 0
    finally:
        pipes.shared.give_back(pipe, left_in_pipe)


@contextlib.contextmanager
def _duplicates(*channels: Channel) -> Iterator[tuple[int, ...]]:
    """Lend descriptors of the channels' sockets: their own belong to the event loop, and end when it likes."""
    duplicates: list[int] = []
    try:
        # Too many files are open, or a connection has just ended.
        with contextlib.suppress(OSError):
            duplicates.extend(os.dup(own) for own in (channel.descriptor() for channel in channels) if own is not None)
        yield tuple(duplicates)
    finally:
        for duplicate in duplicates:
            os.close(duplicate)


class _Splice:
    """A transfer that goes on whenever one of the two sockets is ready."""

    __slots__ = ("_counted", "_from", "_loop", "_pipe", "_source", "_target", "_to", "_waits", "done", "in_pipe")

    def __init__(
        self,
        source: Incoming,
        target: Outgoing,
        pipe: pipes.Pipe,
        sockets: tuple[int, ...],
        counted: Callable[[int], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._source = source
        self._target = target
        self._pipe = pipe
        self._from, self._to = sockets
        self._counted = counted
        self._waits = False
        self.in_pipe = 0
        self.done: asyncio.Future[None] = self._loop.create_future()

    def begin(self) -> None:
        """Take what comes."""
        self._source.channel.watchers.append(self._source_lost)
        self._target.channel.watchers.append(self._target_lost)
        self._loop.add_reader(self._from, self._readable)

    def stop(self) -> None:
        """Let go of both channels."""
        self._loop.remove_reader(self._from)
        self._loop.remove_writer(self._to)
        self._source.channel.watchers.remove(self._source_lost)
        self._target.channel.watchers.remove(self._target_lost)

    def moved(self) -> object:
        """Return what differs as long as anything moves."""
        return self._source.left, self._target.left

    def stalled(self) -> None:
        """End because nothing moves."""
        if self._waits:
            self._end(TargetStalled("nothing of the body was taken in time"))
        else:
            self._end(SourceStalled("nothing of the body came in time"))

    def _readable(self) -> None:
        for _ in range(_ROUNDS):
            taken = self._take()
            if taken == 0 or not self._give():
                return
            if taken < pipes.LEAST:
                # More is hardly there yet.
                return

    def _writable(self) -> None:
        if self._give():
            self._waits = False
            self._loop.remove_writer(self._to)
            self._loop.add_reader(self._from, self._readable)

    def _take(self) -> int:
        """Fill the pipe; return how much came, if the transfer goes on with it."""
        left = self._source.left or 0
        try:
            taken = os.splice(self._from, self._pipe.sink, min(left, self._pipe.size), flags=_FLAGS)
        except BlockingIOError:
            return 0
        except OSError as error:
            self._end(None if error.errno in _UNSUPPORTED else SourceLost(str(error)))
            return 0
        if not taken:
            self._end(Truncated("the connection ended within a body"))
            return 0
        self._source.passed(taken)
        self.in_pipe = taken
        return taken

    def _give(self) -> bool:
        """Empty the pipe; return whether the transfer goes on with the next filling."""
        while self.in_pipe:
            try:
                given = os.splice(self._pipe.source, self._to, self.in_pipe, flags=_FLAGS)
            except BlockingIOError:
                if not self._waits:
                    self._waits = True
                    self._loop.remove_reader(self._from)
                    self._loop.add_writer(self._to, self._writable)
                return False
            except OSError as error:
                self._refused(error)
                return False
            self.in_pipe -= given
            self._target.passed(given)
            self._counted(given)
        if self._source.ended:
            self._end(None)
            return False
        return True

    def _refused(self, error: OSError) -> None:
        if error.errno not in _UNSUPPORTED:
            self._end(TargetLost(str(error)))
            return
        # What was taken already goes the other way, before the rest.
        rest = os.read(self._pipe.source, self.in_pipe)
        self.in_pipe -= len(rest)
        try:
            self._target.send(rest)
        except ConnectionError as lost:
            self._end(TargetLost(str(lost)))
            return
        self._counted(len(rest))
        self._end(None)

    def _source_lost(self) -> None:
        if not self._source.ended:
            self._end(SourceLost(str(self._source.channel.lost)))

    def _target_lost(self) -> None:
        self._end(TargetLost(str(self._target.channel.lost)))

    def _end(self, error: Exception | None) -> None:
        """End; without an error, with what was moved so far."""
        self._loop.remove_reader(self._from)
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)


_FLAGS = os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK if AVAILABLE else 0
