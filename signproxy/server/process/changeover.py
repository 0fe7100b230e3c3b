"""Take up another generation of settings and policy: everything of it, or nothing, between two requests."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import msgspec

from signproxy.audit.event import AuditEvent, Kind, Verdict
from signproxy.audit.ids import new_event_id
from signproxy.audit.trail import AuditTrail
from signproxy.catalog.upstreams import PreparedUpstreams
from signproxy.config.difference import difference as settings_difference
from signproxy.config.load import SettingsSource
from signproxy.credentials.store import PreparedCredentials
from signproxy.errors import Reason, Refused
from signproxy.gate.limits import Limits
from signproxy.identity.authenticator import PreparedIssuers
from signproxy.inventory.changes.difference import difference as policy_difference
from signproxy.server.process.fleet import Candidate
from signproxy.server.process.generation import Generation, Scope, load_generation, yielding
from signproxy.server.process.rooms import House, ServingProcess, assemble
from signproxy.server.process.tls import CertificateHolder, PreparedCertificate
from signproxy.server.status.measures import show_policy
from signproxy.telemetry import log
from signproxy.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from signproxy.server.s3.service import S3Prepared

KEYS_SECONDS = 5.0
"""How long a start or a reload waits for keys that were never fetched; an issuer that is down must not hold it up."""

_log = log.get_logger("signproxy.server")


class Prepared(msgspec.Struct, frozen=True):
    """A checked generation with all that it needs to serve."""

    generation: Generation
    credentials: PreparedCredentials
    issuers: PreparedIssuers
    upstreams: PreparedUpstreams
    certificate: PreparedCertificate | None
    s3: S3Prepared | None
    candidate: Candidate


class Changeover:
    """The generation that this process would serve with next, until all workers have it and it is taken up."""

    def __init__(
        self,
        source: SettingsSource,
        house: House,
        process: ServingProcess,
        certificate: CertificateHolder | None,
        limits: Limits,
        trail: AuditTrail,
        metrics: Metrics,
    ) -> None:
        self._source = source
        self._house = house
        self._process = process
        self._certificate = certificate
        self._limits = limits
        self._trail = trail
        self._metrics = metrics
        self._prepared: Prepared | None = None

    async def prepare(self, epoch: int, scope: Scope) -> Candidate:
        """Read and build everything anew; nothing that serves changes. Raise Invalid if anything is wrong with it."""
        await self.discard()
        process, old = self._process, self._house.rooms.generation
        new = await asyncio.to_thread(load_generation, self._source, epoch, old, scope)
        certificate = None
        if self._certificate is not None:
            certificate = await asyncio.to_thread(self._certificate.prepare, new.settings.listen.tls)
        s3 = None if process.s3 is None else await asyncio.to_thread(process.s3.prepare, new.settings.s3)
        digests = ("" if certificate is None else certificate.digest, "" if s3 is None else s3.digest)
        candidate = await asyncio.to_thread(_candidate, old, new, "/".join(digests))
        async with contextlib.AsyncExitStack() as failure:
            sealed = new.seals(process.secret).table_tokens
            issuers = process.authenticator.prepare(new.issuers, new.static_tokens, sealed)
            failure.push_async_callback(process.authenticator.discard, issuers)
            for missing in await issuers.warm(KEYS_SECONDS):
                _log.warning("keys not fetched yet", problem=missing)
            credentials = await process.credentials.prepare(
                new.storages, new.bindings, modules=new.settings.credentials.modules
            )
            failure.push_async_callback(process.credentials.discard, credentials)
            upstreams = await process.catalogs.upstreams.prepare(new.upstreams)
            self._prepared = Prepared(new, credentials, issuers, upstreams, certificate, s3, candidate)
            failure.pop_all()
        return candidate

    async def commit(self) -> None:
        """Take over what was prepared."""
        prepared, self._prepared = self._prepared, None
        if prepared is None:
            return
        process, generation = self._process, prepared.generation
        # Nothing else runs before the first `await`: a request sees all of the old or all of the new.
        process.authenticator.commit(prepared.issuers)
        replaced = process.credentials.commit(prepared.credentials)
        if self._certificate is not None and prepared.certificate is not None:
            self._certificate.commit(prepared.certificate)
        process.catalogs.commit(prepared.upstreams)
        unused = None if process.s3 is None or prepared.s3 is None else process.s3.commit(prepared.s3)
        self._limits.replace(generation.settings.limits)
        self._house.swap(assemble(generation, process))
        show_policy(self._metrics, generation.state)
        self._record(prepared)
        await replaced
        await process.authenticator.aclose_retired()
        if unused is not None:
            await unused.aclose()

    async def discard(self) -> None:
        """Forget what was prepared: another worker could not prepare it, or it is prepared anew."""
        prepared, self._prepared = self._prepared, None
        if prepared is not None:
            await self._process.authenticator.discard(prepared.issuers)
            await self._process.credentials.discard(prepared.credentials)
            await self._process.catalogs.upstreams.discard(prepared.upstreams)

    def _record(self, prepared: Prepared) -> None:
        """Leave an event where the new policy begins: the sequence then says which requests came before."""
        state = prepared.generation.state
        event = AuditEvent(
            event_id=new_event_id(),
            kind=Kind.RELOAD,
            decision=Verdict.ALLOW,
            reason=Reason.ALLOWED.code,
            detail="; ".join(prepared.candidate.changes),
            policy_rev=state.rev,
            policy_epoch=state.epoch,
            http_status=0,
        )
        with contextlib.suppress(Refused):  # a trail that is down holds up requests, and not the policy
            self._trail.accept(event)


def _candidate(old: Generation, new: Generation, certificate: str) -> Candidate:
    """Return the difference of two configurations; beside a serving loop, in a thread."""
    with yielding():
        changes = [change.text for change in settings_difference(old.settings, new.settings)]
        changes += policy_difference(old.state, new.state)
        unread = [change.text for change in settings_difference(new.settings, new.asked)]
    return Candidate(new.revision, f"{new.fingerprint}/{certificate}", tuple(changes), tuple(unread))
