"""Run the server: alone or with workers; reload when files change or on SIGHUP, and end in order on SIGTERM."""

from __future__ import annotations

import asyncio
import signal
import socket
from contextlib import AsyncExitStack
from typing import Protocol

from signproxy import __version__
from signproxy.config.advice import advice
from signproxy.config.settings import Settings
from signproxy.config.source import SettingsSource
from signproxy.server.api.listener import Listener
from signproxy.server.process.fleet import Fleet
from signproxy.server.process.group import Group
from signproxy.server.process.process import bind, cancel, loop_factory, on_end, prepare_process, settle
from signproxy.server.process.reloads import Reloads
from signproxy.server.process.sockets import Sharing
from signproxy.server.process.supervisor import Supervisor
from signproxy.server.process.tls import CertificateHolder
from signproxy.server.process.worker import Worker
from signproxy.server.status.admin import AdminHandler
from signproxy.telemetry import log
from signproxy.telemetry.metrics import Metrics

ADMIN_SECONDS = 1.0
"""For probes that are being answered when everything else has ended."""

_log = log.get_logger("signproxy.server")


def run(source: SettingsSource, settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code."""
    prepare_process(settings)
    for finding in advice(settings, source.file):
        _log.warning("advice", finding=str(finding))
    with asyncio.Runner(loop_factory=loop_factory(settings.loop)) as runner:
        return runner.run(_serve(source, settings))


class Crew(Protocol):
    """What answers the requests: this process, or workers beside it."""

    fleet: Fleet
    metrics: Metrics

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where clients reach them."""
        ...

    @property
    def s3_addresses(self) -> tuple[str, ...]:
        """Where they speak S3."""
        ...

    async def drain(self) -> None:
        """Ask clients to go elsewhere, and go on answering."""
        ...

    async def stop(self) -> None:
        """Accept nothing more, and finish what is in flight."""
        ...

    def kill(self) -> None:
        """End at once, but for the process itself."""
        ...


async def _serve(source: SettingsSource, settings: Settings) -> int:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    async with AsyncExitStack() as stack:
        # Before anything is loaded: what changes from now on is a change.
        reloads = Reloads(source, settings)
        crew = await (_alone if settings.workers == 1 else _with_workers)(source, settings, stack)
        certificate = CertificateHolder(settings.admin.tls, section="admin") if settings.admin.tls.enabled else None
        if certificate is not None:
            crew.fleet.certificates = lambda: (certificate.report("admin"),)
        admin = await _admin(settings, crew, certificate, stack)
        on_end(stop.set, crew.kill)
        loop.add_signal_handler(signal.SIGHUP, reloads.request)
        watching = loop.create_task(reloads.run(crew.fleet, crew.metrics, certificate))
        stack.push_async_callback(cancel, watching)
        settle()
        _log.info(
            "serving",
            address=next(iter(crew.addresses), ""),
            addresses=crew.addresses,
            s3=crew.s3_addresses,
            admin=next(iter(admin), ""),
            workers=settings.workers,
            version=__version__,
        )
        await stop.wait()
        crew.fleet.draining = True
        _log.info("stopping")
        await crew.drain()
        await asyncio.sleep(settings.drain.delay_seconds)
        await crew.stop()
    _log.info("stopped")
    return 0


async def _alone(source: SettingsSource, settings: Settings, stack: AsyncExitStack) -> Crew:
    worker = await Worker.start(source, 0, 1, stack, Group.alone())
    sharing = Sharing.PROCESSES if settings.listen.reuse_port else Sharing.ALONE
    sockets = bind(stack, settings.listen, "listen", sharing)
    await worker.listen(sockets, _bind_s3(stack, settings, sharing))
    return _Alone(worker)


class _Alone:
    """The crew of a sidecar: this process."""

    def __init__(self, worker: Worker) -> None:
        self.fleet = Fleet(1, lambda: (worker,))
        self.metrics = Metrics(__version__)
        self._worker = worker

    @property
    def addresses(self) -> tuple[str, ...]:
        return self._worker.addresses

    @property
    def s3_addresses(self) -> tuple[str, ...]:
        return self._worker.s3_addresses

    async def drain(self) -> None:
        self._worker.drain()

    async def stop(self) -> None:
        await self._worker.finish()

    def kill(self) -> None:
        self._worker.end_at_once()


async def _with_workers(source: SettingsSource, settings: Settings, stack: AsyncExitStack) -> Crew:
    listen = settings.listen
    # Held and not listened on: the port stays the workers' own, and 0 becomes the same one for all of them.
    sockets = bind(stack, listen, "listen", Sharing.PROCESSES)
    s3_sockets = _bind_s3(stack, settings, Sharing.PROCESSES)
    supervisor = Supervisor(source, settings, sockets, Metrics(__version__), s3_sockets)
    await supervisor.start(stack)
    return supervisor


def _bind_s3(stack: AsyncExitStack, settings: Settings, sharing: Sharing) -> tuple[socket.socket, ...]:
    return bind(stack, settings.s3, "s3", sharing) if settings.s3.enabled else ()


async def _admin(
    settings: Settings, crew: Crew, certificate: CertificateHolder | None, stack: AsyncExitStack
) -> tuple[str, ...]:
    admin = settings.admin
    if not admin.enabled:
        return ()
    handler = AdminHandler(crew.fleet.report, crew.metrics, crew.fleet.roles_of, role=admin.role)
    sockets = bind(stack, admin, "admin", Sharing.PROCESSES if settings.listen.reuse_port else Sharing.ALONE)
    listener = await Listener.open(handler, sockets, certificate=certificate, section="admin")
    stack.push_async_callback(listener.finish, ADMIN_SECONDS)
    return listener.addresses
