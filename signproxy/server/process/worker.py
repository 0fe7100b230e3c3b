"""Serve in one process: its rooms, wired; and its part of a reload, which changes everything or nothing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack
from time import time

from signproxy import __version__
from signproxy.audit.budget import RefusalBudget
from signproxy.audit.event import AuditEvent, Kind, Verdict
from signproxy.audit.ids import new_event_id
from signproxy.audit.trail import AuditTrail
from signproxy.audit.trail_state import OnError
from signproxy.config.settings import Settings
from signproxy.config.source import SettingsSource
from signproxy.credentials.store import CredentialStore
from signproxy.errors import Reason, Refused
from signproxy.gate.limits import Limits
from signproxy.gate.recorder import Recorder
from signproxy.identity.authenticator import Authenticator
from signproxy.policy.state import PolicyState
from signproxy.server.api.app import Handler
from signproxy.server.api.listener import Listener
from signproxy.server.process import build
from signproxy.server.process.candidates import candidate_of
from signproxy.server.process.catalogs import Catalogs, learned_tables
from signproxy.server.process.fleet import Candidate
from signproxy.server.process.forwarding import s3_service
from signproxy.server.process.generation import Generation, Scope, load_generation
from signproxy.server.process.group import Group
from signproxy.server.process.prepared import Prepared
from signproxy.server.process.process import cancel
from signproxy.server.process.rooms import House, ServingProcess, assemble
from signproxy.server.process.sightings import Sightings
from signproxy.server.process.spool import Spool
from signproxy.server.process.tls import CertificateHolder
from signproxy.server.status.measures import show_limits, show_rooms
from signproxy.server.status.report import CertificateReport, WorkerReport
from signproxy.server.status.rooms_report import audit_of, credentials_of, keys_of
from signproxy.telemetry import log
from signproxy.telemetry.lag import LoopLag
from signproxy.telemetry.metrics import Metrics
from signproxy.telemetry.request_log import RequestLog

ROLL_SECONDS = 5.0
"""How late aggregated refusals may be written after their window."""

AUDIT_CLOSE_SECONDS = 10.0

AT_ONCE_SECONDS = 0.5
"""What a disk that works needs for some thousand events."""

KEYS_SECONDS = 5.0
"""How long a start or a reload waits for keys that were never fetched; an issuer that is down must not hold it up."""

EXPIRING_SECONDS = 60.0
"""Credentials with less life left than the shortest signature has are as good as none."""

_log = log.get_logger("signproxy.server")


class Worker:
    """The rooms of one process that serves."""

    def __init__(self, source: SettingsSource, generation: Generation, number: int, group: Group) -> None:
        settings = generation.settings
        seals = generation.seals(group.secret)
        self.number = number
        self._group = group
        self._source = source
        self._house = House(generation.state)
        self._started_at = time()
        self._prepared: Prepared | None = None
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
        self._catalogs = Catalogs(learned, self._authenticator, self._recorder, self.metrics, group.share)
        self._certificate = CertificateHolder(settings.listen.tls) if settings.listen.tls.enabled else None
        self._s3 = s3_service(
            settings,
            self._house,
            authenticator=self._authenticator,
            credentials=self._credentials,
            recorder=self._recorder,
            limits=limits,
        )
        if self._s3 is not None:
            self._s3.show(self.metrics)
        self._process = ServingProcess(
            self._house.current,
            self._authenticator,
            self._credentials,
            self._recorder,
            self._catalogs,
            group.secret,
            self._s3,
        )
        self.handler = Handler(self._house, self._recorder, limits)
        self._house.swap(assemble(generation, self._process))

    @classmethod
    async def start(
        cls, source: SettingsSource, number: int, epoch: int, stack: AsyncExitStack, group: Group
    ) -> Worker:
        """Bring everything up in the order of the request's way; `stack` takes it down in the reverse."""
        worker = cls(source, load_generation(source, epoch), number, group)
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
        worker._catalogs.commit(await worker._catalogs.prepare(generation.upstreams))
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
        worker._show(generation.state)
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

    async def prepare(self, epoch: int, scope: Scope) -> Candidate:
        """Read and build everything anew; nothing that serves changes. Raise Invalid if anything is wrong with it."""
        await self.discard()
        old = self.generation
        new = await asyncio.to_thread(load_generation, self._source, epoch, old, scope)
        certificate = None
        if self._certificate is not None:
            certificate = await asyncio.to_thread(self._certificate.prepare, new.settings.listen.tls)
        s3 = None if self._s3 is None else await asyncio.to_thread(self._s3.prepare, new.settings.s3)
        digests = ("" if certificate is None else certificate.digest, "" if s3 is None else s3.digest)
        candidate = await asyncio.to_thread(candidate_of, old, new, "/".join(digests))
        sealed = new.seals(self._group.secret).table_tokens
        issuers = self._authenticator.prepare(new.issuers, new.static_tokens, sealed)
        try:
            for missing in await issuers.warm(KEYS_SECONDS):
                _log.warning("keys not fetched yet", problem=missing)
            credentials = await self._credentials.prepare(
                new.storages, new.bindings, modules=new.settings.credentials.modules
            )
            try:
                upstreams = await self._catalogs.prepare(new.upstreams)
            except BaseException:
                await self._credentials.discard(credentials)
                raise
        except BaseException:
            await self._authenticator.discard(issuers)
            raise
        self._prepared = Prepared(new, credentials, issuers, upstreams, certificate, s3, candidate)
        return self._prepared.candidate

    async def commit(self) -> None:
        """Take over what was prepared, between two requests."""
        prepared = self._prepared
        if prepared is None:
            return
        self._prepared = None
        generation = prepared.generation
        # Nothing else runs before the first `await`: a request sees all of the old or all of the new.
        self._authenticator.commit(prepared.issuers)
        replaced = self._credentials.commit(prepared.credentials)
        if self._certificate is not None and prepared.certificate is not None:
            self._certificate.commit(prepared.certificate)
        self._catalogs.commit(prepared.upstreams)
        unused = None if self._s3 is None or prepared.s3 is None else self._s3.commit(prepared.s3)
        self.handler.limits.replace(generation.settings.limits)
        self._house.swap(assemble(generation, self._process))
        self._show(generation.state)
        self._record_reload(prepared.candidate)
        await replaced
        await self._authenticator.aclose_retired()
        if unused is not None:
            await unused.aclose()

    async def refresh_credentials(self) -> None:
        """Ask every provider now: a file of theirs changed, or the operator said so."""
        await self._credentials.refresh()

    async def discard(self) -> None:
        """Forget what was prepared: another worker could not prepare it, or it is prepared anew."""
        prepared, self._prepared = self._prepared, None
        if prepared is not None:
            await self._authenticator.discard(prepared.issuers)
            await self._credentials.discard(prepared.credentials)
            await self._catalogs.discard(prepared.upstreams)

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
            keys=keys_of(self._authenticator),
            credentials=credentials_of(self._credentials),
            audit=audit_of(self._trail, self._spool),
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

    @property
    def sightings(self) -> Sightings:
        """Where what other workers saw is taken in."""
        return self._catalogs.sightings

    async def roles_of(self, token: str) -> tuple[str, ...]:
        """Return the roles of the caller that a bearer token stands for. Raise Refused."""
        return await self._authenticator.roles_of(token)

    async def reopen(self) -> None:
        """Let the audit sink begin a new file: a tool that rotates files asks for it."""
        self._trail.reopen()

    def drain(self) -> None:
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

    def _show(self, state: PolicyState) -> None:
        self.metrics.policy_revision.replace((state.rev,), 1)
        self.metrics.policy_epoch.labels().set(state.epoch)

    def _record_reload(self, candidate: Candidate) -> None:
        """Leave an event where the new policy begins: the sequence then says which requests came before."""
        state = self.generation.state
        event = AuditEvent(
            event_id=new_event_id(),
            kind=Kind.RELOAD,
            decision=Verdict.ALLOW,
            reason=Reason.ALLOWED.code,
            detail="; ".join(candidate.changes),
            policy_rev=state.rev,
            policy_epoch=state.epoch,
            http_status=0,
        )
        with contextlib.suppress(Refused):  # a trail that is down holds up requests, and not the policy
            self._trail.accept(event)

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
