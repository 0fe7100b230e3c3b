"""Serve in one process: its rooms, wired; and its part of a reload, which changes everything or nothing."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack
from time import time
from typing import TYPE_CHECKING

import msgspec

from signproxy import __version__
from signproxy.audit.budget import RefusalBudget
from signproxy.audit.trail import AuditTrail
from signproxy.audit.trail_state import OnError
from signproxy.config.load import SettingsSource
from signproxy.config.settings import Settings
from signproxy.credentials.store import CredentialStore
from signproxy.gate.limits import Limits
from signproxy.gate.recorder import Recorder
from signproxy.identity.authenticator import Authenticator
from signproxy.sealing import SealingSecret
from signproxy.server.api.app import Api
from signproxy.server.api.listener import Listener
from signproxy.server.process import build
from signproxy.server.process.catalogs import Catalogs, learned_tables
from signproxy.server.process.changeover import KEYS_SECONDS, Changeover
from signproxy.server.process.generation import Generation, load_generation
from signproxy.server.process.lean import lasting_imports
from signproxy.server.process.process_setup import cancel
from signproxy.server.process.rooms import House, ServingProcess, assemble
from signproxy.server.process.sightings import Heard, Share
from signproxy.server.process.spool import Spool
from signproxy.server.process.tls import CertificateHolder
from signproxy.server.status.measures import show_limits, show_policy, show_rooms
from signproxy.server.status.report import CertificateReport, KeysReport, WorkerReport
from signproxy.telemetry import log
from signproxy.telemetry.metrics import Metrics
from signproxy.telemetry.process import LoopLag
from signproxy.telemetry.request_log import RequestLog

if TYPE_CHECKING:
    from signproxy.server.s3.service import S3Service

ROLL_SECONDS = 5.0
"""How late aggregated refusals may be written after their window."""

AUDIT_CLOSE_SECONDS = 10.0

AT_ONCE_SECONDS = 0.5
"""What a disk that works needs for some thousand events."""

EXPIRING_SECONDS = 60.0
"""Credentials with less life left than the shortest signature has are as good as none."""

_log = log.get_logger("signproxy.server")


class Worker:
    """The rooms of one process that serves."""

    def __init__(
        self,
        source: SettingsSource,
        generation: Generation,
        number: int,
        secret: SealingSecret,
        share: Share | None,
    ) -> None:
        settings = generation.settings
        seals = generation.seals(secret)
        self.number = number
        self._house = House(generation.state)
        self._started_at = time()
        self._draining = False
        self._listener: Listener | None = None
        self.addresses: tuple[str, ...] = ()
        self.s3_addresses: tuple[str, ...] = ()
        self._lag = LoopLag()
        self._authenticator = Authenticator(generation.issuers, generation.static_tokens, seals.table_tokens)
        self._credentials = CredentialStore(build.registry(settings))
        self.metrics = Metrics(__version__)
        self._spool = Spool(settings, generation.config_digest)
        self._trail = AuditTrail(
            self._spool.sink,
            on_error=OnError[settings.audit.on_error.name],
            limit=settings.audit.queue,
            budget=RefusalBudget(settings.audit.anonymous_per_minute),
        )
        self._log = RequestLog(allowed_sample=settings.log.allowed_sample, suppressed=self.metrics.log_suppressed)
        self._recorder = Recorder(self._trail, self.metrics, self._log)
        limits = Limits(settings.limits)
        limits.backpressure.follow(self._trail)
        learned = learned_tables(self._house.current, settings.sightings, seals.sightings)
        self._catalogs = Catalogs(learned, self._authenticator, self._recorder, self.metrics, share)
        self._certificate = CertificateHolder(settings.listen.tls) if settings.listen.tls.enabled else None
        self._s3: S3Service | None = None
        if settings.s3.enabled:
            # Only here: a sidecar that signs and does nothing else does not hold what forwards.
            with lasting_imports():
                from signproxy.server.s3.service import S3Service  # noqa: PLC0415

            self._s3 = S3Service(
                settings.s3,
                self._house,
                authenticator=self._authenticator,
                credentials=self._credentials,
                recorder=self._recorder,
                limits=limits,
            )
            self._s3.show(self.metrics)
        self._process = ServingProcess(
            self._house.current,
            self._authenticator,
            self._credentials,
            self._recorder,
            self._catalogs,
            secret,
            self._s3,
        )
        self.handler = Api(self._house, self._recorder, limits)
        changeover = Changeover(
            source, self._house, self._process, self._certificate, limits, self._trail, self.metrics
        )
        self.prepare, self.commit, self.discard = changeover.prepare, changeover.commit, changeover.discard
        self.refresh_credentials, self.roles_of = self._credentials.refresh, self._authenticator.roles_of
        self._house.swap(assemble(generation, self._process))

    @classmethod
    async def start(
        cls,
        source: SettingsSource,
        number: int,
        epoch: int,
        stack: AsyncExitStack,
        secret: SealingSecret,
        share: Share | None = None,
    ) -> Worker:
        """Bring everything up in the order of the request's way; `stack` takes it down in the reverse.

        `secret` seals where the operator configured nothing to seal with, and ends with the server; `share` lets the
        workers beside this one hear of a sighting.
        """
        worker = cls(source, load_generation(source, epoch), number, secret, share)
        generation = worker.generation
        stack.push_async_callback(worker._credentials.aclose)
        # The last segments are signed for as long as there are credentials.
        stack.push_async_callback(worker._spool.aclose)
        stack.callback(worker._close_audit)
        stack.push_async_callback(worker._authenticator.aclose)
        stack.push_async_callback(worker._catalogs.aclose)
        if worker._s3 is not None:
            stack.push_async_callback(worker._s3.aclose)
        await worker._credentials.start(generation.storages, generation.bindings)
        # A worker that takes the place of another must not begin by refusing good tokens.
        await worker._authenticator.start(KEYS_SECONDS)
        worker._catalogs.commit(await worker._catalogs.upstreams.prepare(generation.upstreams))
        worker._house.swap(assemble(generation, worker._process))
        await worker._spool.open(lambda: worker.generation.storages, worker._credentials.current_of_any)
        worker._trail.start()
        worker._spool.show(worker.metrics)
        show_rooms(
            worker.metrics, authenticator=worker._authenticator, credentials=worker._credentials, trail=worker._trail
        )
        show_limits(worker.metrics, worker.handler.limits)
        worker._lag.start()
        stack.callback(worker._lag.stop)
        show_policy(worker.metrics, generation.state)
        roll = asyncio.get_running_loop().create_task(worker._roll())
        stack.push_async_callback(cancel, roll)
        return worker

    async def listen(self, sockets: Sequence[socket.socket], s3_sockets: Sequence[socket.socket] = ()) -> None:
        """Begin to serve on bound sockets, and S3 on others. Raise SettingsInvalid."""
        self._listener = await Listener.open(
            self.handler,
            sockets,
            certificate=self._certificate,
            keepalive=float(self.settings.listen.keepalive_seconds),
        )
        self.addresses = self._listener.addresses
        if self._s3 is not None:
            self.s3_addresses = await self._s3.listen(s3_sockets)

    async def finish(self) -> None:
        """Accept nothing more, and let what is in flight be answered."""
        seconds = float(self.settings.drain.timeout_seconds)
        listeners = [each for each in (self._listener, self._s3) if each is not None]
        await asyncio.gather(*(each.finish(seconds) for each in listeners))

    def end_at_once(self) -> None:
        """Write the events that wait, as far as that takes no time; the process ends without anything else."""
        self._trail.close(AT_ONCE_SECONDS)

    async def report(self) -> WorkerReport:
        """Tell how this process is doing."""
        generation, handler = self.generation, self.handler
        return WorkerReport(
            worker=self.number,
            pid=os.getpid(),
            started_at=self._started_at,
            problems=self._problems(),
            policy_rev=generation.state.rev,
            policy_epoch=generation.state.epoch,
            config_digest=generation.config_digest,
            keys=tuple(msgspec.convert(self._authenticator.health(), list[KeysReport], from_attributes=True)),
            credentials=tuple(self._credentials.states),
            audit=self._spool.report(self._trail),
            certificates=self._certificates(),
            refusals=self._recorder.refusals(),
            connections=handler.connections,
            in_flight=handler.in_flight + (0 if self._s3 is None else self._s3.in_flight),
            lag_seconds=self._lag.worst(),
            metrics=self.metrics.snapshot(),
            upstreams=self._catalogs.reports(),
            alarms=self._catalogs.alarms,
            sightings_problem=self._catalogs.sightings_problem,
        )

    @property
    def generation(self) -> Generation:
        """The settings and the policy in force."""
        return self._house.rooms.generation

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.generation.settings

    async def hear(self, heard: tuple[Heard, ...]) -> None:
        """Take in what other workers saw."""
        self._catalogs.sightings.hear(heard)

    async def reopen(self) -> None:
        """Let the audit sink begin a new file: a tool that rotates files asks for it."""
        self._trail.reopen()

    async def drain(self) -> None:
        """Say from now on that clients should go elsewhere, and go on answering."""
        self._draining = True
        self.handler.drain()
        if self._s3 is not None:
            self._s3.drain()

    def _certificates(self) -> tuple[CertificateReport, ...]:
        own = () if self._certificate is None else (self._certificate.report("listen"),)
        return own if self._s3 is None else (*own, *self._s3.certificates)

    def _problems(self) -> dict[str, str]:
        keys = [
            f"{health.issuer}: {health.last_error or 'not fetched yet'}"
            for health in self._authenticator.health()
            if not health.usable
        ]
        soon = time() + EXPIRING_SECONDS
        missing = [
            f"{state.storage}: {state.problem or 'expiring'}"
            for state in self._credentials.states
            if state.expires_at is not None and state.expires_at < soon
        ]
        return {
            "draining": "yes" if self._draining else "",
            "token keys": "; ".join(keys),
            "credentials": "; ".join(missing),
            "audit": self._trail.state.problem,
            **self._catalogs.problems(),
        }

    async def _roll(self) -> None:
        while True:
            await asyncio.sleep(ROLL_SECONDS)
            self._trail.roll()
            self._log.roll()

    def _close_audit(self) -> None:
        """Write what is left, once nothing is served any more."""
        self._log.flush()
        lost = self._trail.close(AUDIT_CLOSE_SECONDS)
        if lost:
            _log.error("audit events were not written", count=lost)
