"""Run the server: alone or with workers; reload when files change or on SIGHUP, and end in order on SIGTERM."""

from __future__ import annotations

import asyncio
import signal
import socket
from contextlib import AsyncExitStack

from signproxy import __version__
from signproxy.config.advice import advice
from signproxy.config.load import SettingsSource
from signproxy.config.settings import Settings
from signproxy.sealing import SealingSecret
from signproxy.server.api.listener import Listener
from signproxy.server.process.fleet import Fleet
from signproxy.server.process.process_setup import cancel, loop_factory, on_end, prepare_process, settle
from signproxy.server.process.reloads import Reloads
from signproxy.server.process.sockets import Sharing, bind
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


class _Alone:
    """The crew of a sidecar: this process."""

    def __init__(self, worker: Worker) -> None:
        self.fleet = Fleet(1, lambda: (worker,))
        self.metrics = Metrics(__version__)
        self.addresses, self.s3_addresses = worker.addresses, worker.s3_addresses
        self.drain, self.stop, self.kill = worker.drain, worker.finish, worker.end_at_once


Crew = Supervisor | _Alone
"""What answers the requests: workers beside this process, or itself."""


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
    worker = await Worker.start(source, 0, 1, stack, SealingSecret.random())
    sharing = Sharing.PROCESSES if settings.listen.reuse_port else Sharing.ALONE
    sockets = bind(stack, settings.listen, "listen", sharing)
    await worker.listen(sockets, _bind_s3(stack, settings, sharing))
    return _Alone(worker)


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
