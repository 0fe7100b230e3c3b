"""Be a worker: do what the supervisor asks for over a socket pair, and end when it is no more."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial

from signproxy.config.load import SettingsSource
from signproxy.config.s3 import S3Settings
from signproxy.config.settings import ListenSettings, Loop
from signproxy.server.process.lean import lean_imports

with lean_imports():
    from signproxy.sealing import SealingSecret
    from signproxy.server.process.conversation import Conversation, Duty, Listen, Listening, Start, Telling
    from signproxy.server.process.fleet import WorkerFailed
    from signproxy.server.process.process_setup import loop_factory, on_end, prepare_process, settle
    from signproxy.server.process.sightings import Heard
    from signproxy.server.process.sockets import Sharing, bind_tcp
    from signproxy.server.process.worker import Worker
    from signproxy.server.status.report import WorkerReport
    from signproxy.telemetry import log

TELL_SECONDS = 10.0
"""A supervisor that has not answered by then hangs; no caller waits that long for it."""

_log = log.get_logger("signproxy.workers")


def main(arguments: list[str]) -> int:
    """Serve the supervisor at the other end of an inherited socket; the second argument names the event loop."""
    fd, loop = arguments
    with asyncio.Runner(loop_factory=loop_factory(Loop(loop))) as runner:
        return runner.run(_work(socket.socket(fileno=int(fd))))


async def _work(end: socket.socket) -> int:
    asked = asyncio.Event()
    # The supervisor asks all of them to reload; an operator who signals a worker means no harm.
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, lambda: None)
    async with AsyncExitStack() as stack:
        duty = _Duty(stack, asked)
        # One worker that is asked to end does so in order; the supervisor starts another in its place.
        on_end(asked.set, duty.end_at_once)
        duty.conversation = conversation = await Conversation.begin(end, Duty, duty.find)
        stack.push_async_callback(conversation.aclose)
        waiting = tuple(asyncio.create_task(event.wait()) for event in (conversation.ended, asked))
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for each in waiting:
            each.cancel()
        if conversation.ended.is_set():
            _log.error("the supervisor is gone", pid=os.getpid())
        await duty.end()
    return 0


class _Duty:
    """What the supervisor may ask for."""

    def __init__(self, stack: AsyncExitStack, asked: asyncio.Event) -> None:
        self._stack = stack
        self._asked = asked
        self._worker: Worker | None = None
        self._finished = False
        self.conversation: Conversation | None = None

    def find(self, name: str) -> Callable[..., Awaitable[object]]:
        """Return what does a call: what begins and ends the worker, and the worker itself for all others."""
        worker = self._worker
        match name:
            case "start":
                return self._start
            case _ if worker is None:
                raise WorkerFailed("not started")
            case "listen":
                return partial(self._listen, worker)
            case "stop":
                return partial(self._stop, worker)
            case _:
                done: Callable[..., Awaitable[object]] = getattr(worker, name)
                return done

    async def end(self) -> None:
        """End in order, unless the supervisor has seen to that."""
        worker = self._worker
        if worker is not None and not self._finished:
            await worker.drain()
            await asyncio.sleep(worker.settings.drain.delay_seconds)
            await self._finish(worker)

    def end_at_once(self) -> None:
        """Write the events that wait."""
        if self._worker is not None:
            self._worker.end_at_once()

    async def _start(self, start: Start) -> None:
        source = SettingsSource(start.file, start.overrides)
        prepare_process(source.load())
        secret = SealingSecret(start.secret)
        self._worker = await Worker.start(source, start.number, start.epoch, self._stack, secret, self._tell)

    async def _listen(self, worker: Worker, where: Listen) -> Listening:
        listen, s3 = worker.settings.listen, worker.settings.s3
        sockets = _sockets(listen, where.port, where.socket_fd, "listen")
        await worker.listen(sockets, _sockets(s3, where.s3_port, where.s3_socket_fd, "s3") if s3.enabled else ())
        settle()
        return Listening(worker.addresses, worker.s3_addresses)

    async def _stop(self, worker: Worker) -> WorkerReport:
        await self._finish(worker)
        report = await worker.report()
        self._asked.set()
        return report

    async def _finish(self, worker: Worker) -> None:
        self._finished = True
        await worker.finish()

    async def _tell(self, heard: Heard) -> None:
        """Let the other workers hear of it."""
        if self.conversation is not None:
            await self.conversation.ask(TELL_SECONDS, Telling.tell, heard)


def _sockets(where: ListenSettings | S3Settings, port: int, socket_fd: int, section: str) -> tuple[socket.socket, ...]:
    """Return a listener's sockets: the port that is held for all workers, and the Unix socket that they inherited."""
    sockets: tuple[socket.socket, ...] = ()
    if where.tcp:
        sockets += bind_tcp(where.host, port, sharing=Sharing.PROCESSES, section=section)
    if socket_fd >= 0:
        sockets += (socket.socket(fileno=socket_fd),)
    return sockets


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
