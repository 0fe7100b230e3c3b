"""Run the server: bring the rooms up, listen, reload on SIGHUP, and end in order on SIGTERM."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from types import FrameType

from signproxy import __version__
from signproxy.audit.budget import RefusalBudget
from signproxy.audit.trail import AuditTrail, OnError
from signproxy.config.settings import LogLevel, Loop, Settings
from signproxy.credentials.store import CredentialStore
from signproxy.errors import Finding, SettingsInvalid
from signproxy.gate.gate import Gate
from signproxy.gate.recorder import Recorder
from signproxy.inventory.resolver import PolicyResolver
from signproxy.policy.state import PolicyState
from signproxy.s3.storage import Storage
from signproxy.server import build, listener
from signproxy.server.admin import AdminHandler
from signproxy.server.app import ClientCache, Handler
from signproxy.server.policy_holder import PolicyHolder
from signproxy.signing.sign import RequestSigner
from signproxy.telemetry import log
from signproxy.telemetry.metrics import Metrics

_GC_THRESHOLD = 50_000
"""Objects that may come to be between two looks for cycles; at most some megabytes."""

ROLL_SECONDS = 5.0
"""How late aggregated refusals may be written after their window."""

AUDIT_CLOSE_SECONDS = 10.0

_log = log.get_logger("signproxy.server")


def run(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code."""
    log.configure(log.Level[settings.log.level.name] if settings.log.level is not LogLevel.INFO else log.Level.INFO)
    with asyncio.Runner(loop_factory=_loop_factory(settings.loop)) as runner:
        return runner.run(_serve(settings))


async def _serve(settings: Settings) -> int:
    stop = asyncio.Event()
    async with AsyncExitStack() as stack:
        server = await Server.start(settings, stack)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        loop.add_signal_handler(signal.SIGHUP, server.reload)
        # What was imported and loaded lives as long as the process: no collection needs to walk it.
        gc.collect()
        gc.freeze()
        # A request leaves no cycles behind, so the collector has little to find and need not look every 30 requests.
        gc.set_threshold(_GC_THRESHOLD)
        _log.info("serving", address=server.address, admin=server.admin_address, version=__version__)
        await stop.wait()
        server.draining = True
        _log.info("stopping")
        # A second signal ends at once: an orchestrator that asks twice will not wait.
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
            signal.signal(number, _end_now)
        await asyncio.sleep(settings.drain.delay_seconds)
    _log.info("stopped")
    return 0


class Server:
    """The rooms of one process, wired."""

    def __init__(self, settings: Settings, holder: PolicyHolder, rooms: Rooms) -> None:
        self.draining = False
        self.address = ""
        self.admin_address = ""
        self._settings = settings
        self._holder = holder
        self._rooms = rooms

    @classmethod
    async def start(cls, settings: Settings, stack: AsyncExitStack) -> Server:
        """Bring everything up in the order of the request's way; `stack` takes it down in the reverse."""
        source = build.policy_source(settings)
        state = source.load(1)
        rooms = Rooms(settings)
        bindings = build.bindings(settings)

        async def bring_up_credentials(new: PolicyState) -> None:
            await rooms.credentials.start(_storages(new), bindings)

        holder = PolicyHolder(source, state, bring_up_credentials)
        stack.callback(rooms.close_audit)
        stack.push_async_callback(rooms.credentials.aclose)
        stack.push_async_callback(rooms.authenticator.aclose)
        await bring_up_credentials(state)
        await rooms.authenticator.start()
        rooms.trail.start()
        stack.push_async_callback(holder.aclose)
        server = cls(settings, holder, rooms)
        server._watch(state)
        roll = asyncio.get_running_loop().create_task(server._roll())
        stack.push_async_callback(_cancel, roll)
        await server._listen(stack)
        return server

    def reload(self) -> None:
        """Load the policy anew and let the audit sink begin a new file: what SIGHUP asks for."""
        self._holder.request_reload()
        self._rooms.trail.reopen()

    def problems(self) -> dict[str, str]:
        """Return what keeps this server from being ready, by name; empty text where all is well."""
        trail = self._rooms.trail.state
        keys = [
            f"{health.issuer}: {health.last_error or 'not fetched yet'}"
            for health in self._rooms.authenticator.health()
            if not health.usable
        ]
        missing = [
            f"{state.storage}: {state.problem}" for state in self._rooms.credentials.states if state.expires_at == 0.0
        ]
        return {
            "draining": "yes" if self.draining else "",
            "token keys": "; ".join(keys),
            "credentials": "; ".join(missing),
            "audit": trail.problem,
        }

    def _watch(self, state: PolicyState) -> None:
        rooms = self._rooms
        metrics = rooms.metrics
        self._holder.on_swap(self._swapped)
        self._show(state)
        metrics.jwks_age_seconds.read_from(
            lambda: {(health.issuer,): health.age for health in rooms.authenticator.health()}
        )
        metrics.audit_queue_depth.read_from(lambda: {(): rooms.trail.state.queued})
        metrics.audit_written.read_from(lambda: {(): rooms.trail.state.written})
        metrics.audit_dropped.read_from(lambda: {(): rooms.trail.state.dropped})
        metrics.audit_refused.read_from(lambda: {(): rooms.trail.state.refused})
        metrics.audit_errors.read_from(lambda: {(): rooms.trail.state.errors})
        metrics.credentials_expiry.read_from(lambda: rooms.credentials.expiries)

    def _swapped(self, state: PolicyState) -> None:
        self._rooms.authenticator.forget()
        self._show(state)

    def _show(self, state: PolicyState) -> None:
        metrics = self._rooms.metrics
        metrics.policy_revision.replace((state.rev,), 1)
        metrics.policy_epoch.labels().set(state.epoch)

    async def _roll(self) -> None:
        while True:
            await asyncio.sleep(ROLL_SECONDS)
            self._rooms.trail.roll()

    async def _listen(self, stack: AsyncExitStack) -> None:
        listen, admin = self._settings.listen, self._settings.admin
        keepalive, shutdown = float(listen.keepalive_seconds), float(self._settings.drain.timeout_seconds)
        if admin.enabled:
            probes = AdminHandler(self.problems, self._rooms.metrics.render)
            self.admin_address = await listener.listen(
                stack, probes, admin.host, admin.port, reuse_port=listen.reuse_port
            )
        self.address = await listener.listen(
            stack,
            self._handler(),
            listen.host,
            listen.port,
            reuse_port=listen.reuse_port,
            keepalive=keepalive,
            shutdown=shutdown,
        )

    def _handler(self) -> Handler:
        settings, rooms = self._settings, self._rooms
        return Handler(
            gate=Gate(self._holder.current, PolicyResolver(), settings.accepted_unsafe, settings.accepted_unhashed),
            authenticator=rooms.authenticator,
            credentials=rooms.credentials,
            signer=RequestSigner(settings.signing.signature_ttl_seconds),
            recorder=Recorder(rooms.trail, rooms.metrics, self._holder.current),
            public_url=settings.advertised_url,
            client_cache=ClientCache(reads=settings.signing.client_cache),
        )


class Rooms:
    """What a server is made of, before it is wired."""

    def __init__(self, settings: Settings) -> None:
        self.authenticator = build.authenticator(settings)
        self.credentials = CredentialStore(build.registry(settings))
        self.metrics = Metrics(__version__)
        self.trail = AuditTrail(
            build.audit_sink(settings),
            on_error=OnError[settings.audit.on_error.name],
            limit=settings.audit.queue,
            budget=RefusalBudget(settings.audit.anonymous_per_minute),
        )

    def close_audit(self) -> None:
        """Write what is left; the last thing that happens."""
        lost = self.trail.close(AUDIT_CLOSE_SECONDS)
        if lost:
            _log.error("audit events were not written", count=lost)


def _storages(state: PolicyState) -> list[Storage]:
    storages: dict[str, Storage] = {}
    for catalog in state.catalogs.values():
        storages |= catalog.storages
    return list(storages.values())


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _end_now(_number: int, _frame: FrameType | None) -> None:
    sys.exit(0)


def _loop_factory(loop: Loop) -> Callable[[], asyncio.AbstractEventLoop] | None:
    if loop is Loop.ASYNCIO:
        return None
    try:
        import uvloop  # noqa: PLC0415 - not there on every platform
    except ImportError:
        if loop is Loop.UVLOOP:
            raise SettingsInvalid([Finding("", "loop", "uvloop is not installed")]) from None
        return None
    return uvloop.new_event_loop
