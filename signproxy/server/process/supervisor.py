"""Run several workers: start them, keep them in step, replace the one that dies, and end them in order.

The supervisor carries no client's traffic. Workers are interpreters of their own, not forks: nothing that a thread or
a library holds is shared by accident.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from time import monotonic
from typing import Any

from signproxy.config.load import SettingsSource
from signproxy.config.settings import Loop, Settings
from signproxy.errors import Invalid
from signproxy.sealing import SealingSecret
from signproxy.server.process.conversation import Conversation, Duty, Listen, Start, T, Telling, Ts
from signproxy.server.process.fleet import Fleet, WorkerFailed, WorkerGone
from signproxy.server.process.relay import SightingRelay
from signproxy.server.process.sightings import Heard
from signproxy.server.status.report import WorkerReport
from signproxy.telemetry import log
from signproxy.telemetry.metrics import Metrics

REFRESH_SECONDS = 60.0
"""Above what a provider is given to answer."""
START_SECONDS = 600.0
"""A policy of a million tables takes a minute to load, and the cores are shared by all workers."""
PREPARE_SECONDS = 600.0
CALL_SECONDS = 10.0
"""A worker that has not answered by then hangs; preparing goes on in a thread and holds up no answer."""
HEARTBEAT_SECONDS = 1.0
"""How often workers are asked how they are: the counts of one that dies are as old as this."""
REPORT_SECONDS = 0.5
"""How long a scrape or a probe waits for a worker; a kubelet waits a second by default."""
FIRST_PAUSE = 0.1
LAST_PAUSE = 30.0
"""Pauses before a worker is started again, for one that dies at once, doubling from the first to the last."""
STEADY_SECONDS = 60.0
"""A worker that lived this long did not die of its start."""
END_SECONDS = 15.0
"""Beyond the drain's own limit: to write the last audit events and to leave."""

_log = log.get_logger("signproxy.workers")


def _asked(
    method: Callable[[Any, *Ts], Awaitable[T]], patience: float = CALL_SECONDS
) -> Callable[[RemoteWorker, *Ts], Coroutine[Any, Any, T]]:
    """Return a method of a worker, done where the worker is."""

    async def ask(worker: RemoteWorker, *arguments: *Ts) -> T:
        return await worker.ask(patience, method, *arguments)

    return ask


class RemoteWorker:
    """A worker process, as the supervisor has it."""

    prepare = _asked(Duty.prepare, PREPARE_SECONDS)
    discard = _asked(Duty.discard)
    refresh_credentials = _asked(Duty.refresh_credentials, REFRESH_SECONDS)
    reopen = _asked(Duty.reopen)
    roles_of = _asked(Duty.roles_of)
    drain = _asked(Duty.drain)

    def __init__(self, number: int, process: subprocess.Popen[bytes], conversation: Conversation) -> None:
        self.number = number
        self.process = process
        self.addresses: tuple[str, ...] = ()
        self.s3_addresses: tuple[str, ...] = ()
        self.last: WorkerReport | None = None
        self.began = monotonic()
        self._conversation = conversation

    @classmethod
    async def spawn(cls, number: int, loop: Loop, inherited: Iterable[int], relay: SightingRelay) -> RemoteWorker:
        """Start an interpreter that waits for its first call; what it tells is for `relay`."""
        ours, theirs = socket.socketpair()
        with theirs:
            fds = (theirs.fileno(), *inherited)
            # A group of its own: Ctrl-C in a terminal is the supervisor's, which then asks for an orderly end.
            process = await asyncio.to_thread(
                subprocess.Popen,
                [sys.executable, "-m", "signproxy.server.process.worker_process", str(theirs.fileno()), loop.value],
                stdin=subprocess.DEVNULL,
                pass_fds=fds,
                process_group=0,
            )
        told = partial(relay.tell, number)
        return cls(number, process, await Conversation.begin(ours, Telling, lambda _: told))

    async def start(self, start: Start) -> None:
        """Let it load. Raise Invalid, or WorkerGone."""
        await self._conversation.ask(START_SECONDS, Duty.start, start)

    async def listen(self, where: Listen) -> None:
        """Let it serve. Raise Invalid, or WorkerGone."""
        listening = await self.ask(CALL_SECONDS, Duty.listen, where)
        self.addresses, self.s3_addresses = listening.addresses, listening.s3_addresses

    async def commit(self) -> None:
        """Let it use what it prepared."""
        try:
            await self.ask(CALL_SECONDS, Duty.commit)
        except WorkerFailed:
            # It must not go on serving what the others no longer serve.
            _log.exception("a worker could not take over what it prepared and is ended", worker=self.number)
            self.kill()
            raise WorkerGone from None

    async def report(self) -> WorkerReport:
        """Ask how it is doing; what it said last stands for one that takes long to answer."""
        asked = asyncio.ensure_future(self.hear())
        done, _ = await asyncio.wait((asked,), timeout=REPORT_SECONDS)
        if not done and self.last is not None:
            # Nothing waits for it any more, however it ends.
            asked.add_done_callback(lambda late: late.cancelled() or late.exception())
            return self.last
        return await asked

    async def hear(self) -> WorkerReport:
        """Ask how it is doing, and wait for it. Raise WorkerGone."""
        self.last = await self.ask(CALL_SECONDS, Duty.report)
        return self.last

    async def tell(self, heard: tuple[Heard, ...]) -> None:
        """Let it take in what another one saw. Raise WorkerGone; that it hangs is for others to find out."""
        await self._conversation.ask(CALL_SECONDS, Duty.hear, heard)

    async def stop(self, patience: float) -> None:
        """Let it finish and end."""
        self.last = await self._conversation.ask(patience, Duty.stop)

    async def ended(self) -> int:
        """Wait until the process has ended; return its exit code."""
        # By what it leaves open: a thread that waits for each process would leave none for looking at files.
        await self._conversation.ended.wait()
        return await asyncio.to_thread(self.process.wait)

    def kill(self) -> None:
        """End it at once."""
        if self.process.poll() is None:
            self.process.kill()

    async def aclose(self) -> None:
        """Let go of it."""
        await self._conversation.aclose()

    async def ask(self, patience: float, method: Callable[[Any, *Ts], Awaitable[T]], *arguments: *Ts) -> T:
        """Have something done there; end a worker that does not answer in time. Raise what it raised, or WorkerGone."""
        try:
            return await self._conversation.ask(patience, method, *arguments)
        except WorkerGone:
            if self.process.poll() is None:
                _log.error("a worker does not answer and is ended", worker=self.number, call=method.__name__)
                self.kill()
            raise


class Supervisor:
    """Keeps as many workers as the settings want."""

    def __init__(
        self,
        source: SettingsSource,
        settings: Settings,
        sockets: Sequence[socket.socket],
        metrics: Metrics,
        s3_sockets: Sequence[socket.socket] = (),
    ) -> None:
        """`sockets` are bound, and held for as long as workers may come: none of them is accepted on here."""
        self._source = source
        self._settings = settings
        self._sockets = tuple(sockets)
        self._s3_sockets = tuple(s3_sockets)
        self._workers: dict[int, RemoteWorker] = {}
        self._keepers: list[asyncio.Task[None]] = []
        self._relay = SightingRelay()
        self._secret = SealingSecret.random()
        self._ending = False
        self.metrics = metrics
        metrics.measure_process()
        self.fleet = Fleet(settings.workers, lambda: tuple(self._workers.values()))

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where the workers listen."""
        return next((worker.addresses for worker in self._workers.values()), ())

    @property
    def s3_addresses(self) -> tuple[str, ...]:
        """Where the workers speak S3."""
        return next((worker.s3_addresses for worker in self._workers.values()), ())

    async def start(self, stack: AsyncExitStack) -> None:
        """Start all workers. Raise Invalid if one cannot use what the operator wrote."""
        stack.push_async_callback(self._aclose)
        first = await asyncio.gather(*map(self._spawn, range(self._settings.workers)), return_exceptions=True)
        for result in first:
            if isinstance(result, BaseException):
                raise result
        loop = asyncio.get_running_loop()
        self._keepers += [loop.create_task(self._keep(number)) for number in range(self._settings.workers)]
        self._keepers.append(loop.create_task(self._listen_to_hearts()))

    async def drain(self) -> None:
        """Let every worker ask its clients to go elsewhere."""
        self.fleet.draining = True
        await asyncio.gather(*(worker.drain() for worker in self._workers.values()), return_exceptions=True)

    async def stop(self) -> None:
        """Let every worker finish and end; end for good whatever takes longer than the drain may."""
        self._ending = True
        patience = self._settings.drain.timeout_seconds + END_SECONDS
        workers = tuple(self._workers.values())
        await asyncio.gather(*(worker.stop(patience) for worker in workers), return_exceptions=True)
        ship = self._settings.audit.ship
        try:
            async with asyncio.timeout(END_SECONDS + (ship.at_end_seconds if ship.wanted else 0.0)):
                await asyncio.gather(*(worker.ended() for worker in workers))
        except TimeoutError:
            _log.error("workers did not end in time")

    def kill(self) -> None:
        """End every worker at once."""
        self._ending = True
        for worker in self._workers.values():
            worker.kill()

    async def _spawn(self, number: int) -> None:
        """Start a worker; it serves once it is among the others, so that no reload can pass it by."""
        # The ports that are held, and the Unix sockets that it inherits.
        listen = Listen(*_place(self._sockets), *_place(self._s3_sockets))
        inherited = [fd for fd in (listen.socket_fd, listen.s3_socket_fd) if fd >= 0]
        worker = await RemoteWorker.spawn(number, self._settings.loop, inherited, self._relay)
        try:
            epoch = self.fleet.epoch
            source, secret = self._source, self._secret.reveal()
            await worker.start(Start(number, epoch, source.file, source.overrides, secret))
            await self._relay.join(number, worker.tell)
            await self.fleet.join(worker, epoch, lambda: self._workers.__setitem__(number, worker))
            await worker.listen(listen)
        except BaseException:
            self._workers.pop(number, None)
            self._relay.leave(number)
            worker.kill()
            await worker.ended()
            await worker.aclose()
            raise
        _log.info("worker started", worker=number, pid=worker.process.pid)

    async def _keep(self, number: int) -> None:
        """Wait for the end of a worker, and start another in its place, for as long as the server runs."""
        pause = FIRST_PAUSE
        while True:
            worker = self._workers.get(number)
            if worker is not None:
                code = await worker.ended()
                if self._ending:
                    return
                del self._workers[number]
                self._relay.leave(number)
                await worker.aclose()
                if worker.last is not None:
                    self.metrics.retain(worker.last.metrics)
                self.fleet.restarts += 1
                _log.error("worker ended", worker=number, pid=worker.process.pid, code=code)
                if monotonic() - worker.began > STEADY_SECONDS:
                    pause = FIRST_PAUSE
            await asyncio.sleep(pause)
            pause = min(2 * pause, LAST_PAUSE)
            try:
                await self._spawn(number)
            except Invalid as invalid:
                for finding in invalid.findings:
                    _log.error("worker cannot start", worker=number, finding=str(finding), retry_in=pause)
            except (WorkerGone, WorkerFailed, OSError) as error:
                _log.error("worker cannot start", worker=number, error=repr(error), retry_in=pause)

    async def _listen_to_hearts(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            await asyncio.gather(*(worker.hear() for worker in self._workers.values()), return_exceptions=True)

    async def _aclose(self) -> None:
        self._ending = True
        for task in self._keepers:
            task.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        for worker in self._workers.values():
            worker.kill()
            await worker.ended()
            await worker.aclose()
        for bound in (*self._sockets, *self._s3_sockets):
            bound.close()


def _place(sockets: Iterable[socket.socket]) -> tuple[int, int]:
    """Return the port and the descriptor of the Unix socket among a listener's sockets."""
    port, unix = 0, -1
    for bound in sockets:
        if bound.family == socket.AF_UNIX:
            unix = bound.fileno()
        else:
            port = bound.getsockname()[1]
    return port, unix
