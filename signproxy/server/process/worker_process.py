"""Be a worker: do what the supervisor asks for over a socket pair, and end when it is no more."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from contextlib import AsyncExitStack

from signproxy.config.s3 import S3Settings
from signproxy.config.settings import ListenSettings, Loop
from signproxy.config.source import SettingsSource
from signproxy.server.process.lean import lean_imports

with lean_imports():
    from signproxy.sealing import SealingSecret
    from signproxy.server.process import control
    from signproxy.server.process.conversation import Conversation
    from signproxy.server.process.group import Group
    from signproxy.server.process.heard import Heard
    from signproxy.server.process.process import loop_factory, on_end, prepare_process, settle
    from signproxy.server.process.sockets import Sharing, bind_tcp
    from signproxy.server.process.worker import Worker
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
        duty.conversation = conversation = await Conversation.begin(end, duty.act)
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

    async def act(self, call: control.Call) -> control.Answer:
        """Do what is asked, and answer. Raise Invalid or Refused as the rooms do."""
        if isinstance(call, control.Start):
            return await self._start(call)
        worker = self._worker
        if worker is None:
            return control.Failed("not started")
        if isinstance(call, control.Listen):
            return await self._listen(worker, call)
        if isinstance(call, control.Stop):
            return await self._stop(worker)
        return await _answer(worker, call)

    async def end(self) -> None:
        """End in order, unless the supervisor has seen to that."""
        worker = self._worker
        if worker is not None and not self._finished:
            worker.drain()
            await asyncio.sleep(worker.settings.drain.delay_seconds)
            await self._finish(worker)

    def end_at_once(self) -> None:
        """Write the events that wait."""
        if self._worker is not None:
            self._worker.end_at_once()

    async def _stop(self, worker: Worker) -> control.Answer:
        await self._finish(worker)
        report = await worker.report()
        self._asked.set()
        return control.Reported(report)

    async def _finish(self, worker: Worker) -> None:
        self._finished = True
        await worker.finish()

    async def _start(self, call: control.Start) -> control.Answer:
        source = SettingsSource(call.file, call.overrides)
        prepare_process(source.load())
        group = Group(SealingSecret(call.secret), self._tell)
        self._worker = await Worker.start(source, call.number, call.epoch, self._stack, group)
        return control.Done()

    async def _tell(self, heard: Heard) -> None:
        """Let the other workers hear of it."""
        if self.conversation is not None:
            await self.conversation.ask(control.Tell(heard), control.Done, TELL_SECONDS)

    async def _listen(self, worker: Worker, call: control.Listen) -> control.Answer:
        listen, s3 = worker.settings.listen, worker.settings.s3
        sockets = _sockets(listen, call.port, call.socket_fd, "listen")
        await worker.listen(sockets, _sockets(s3, call.s3_port, call.s3_socket_fd, "s3") if s3.enabled else ())
        settle()
        return control.Listening(worker.addresses, worker.s3_addresses)


def _sockets(where: ListenSettings | S3Settings, port: int, socket_fd: int, section: str) -> tuple[socket.socket, ...]:
    """Return a listener's sockets: the port that is held for all workers, and the Unix socket that they inherited."""
    sockets: tuple[socket.socket, ...] = ()
    if where.tcp:
        sockets += bind_tcp(where.host, port, sharing=Sharing.PROCESSES, section=section)
    if socket_fd >= 0:
        sockets += (socket.socket(fileno=socket_fd),)
    return sockets


async def _answer(worker: Worker, call: control.Call) -> control.Answer:
    match call:
        case control.Prepare():
            return control.ReadyToCommit(await worker.prepare(call.epoch, call.scope))
        case control.Report():
            return control.Reported(await worker.report())
        case control.RolesOf():
            return control.Roles(await worker.roles_of(call.token))
        case control.CommitPrepared():
            await worker.commit()
        case control.Discard():
            await worker.discard()
        case control.RefreshCredentials():
            await worker.refresh_credentials()
        case control.Reopen():
            await worker.reopen()
        case control.Drain():
            worker.drain()
        case control.Hear():
            worker.sightings.hear(call.heard)
        case control.Start() | control.Listen() | control.Stop() | control.Tell():
            return control.Failed("not now")
    return control.Done()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
