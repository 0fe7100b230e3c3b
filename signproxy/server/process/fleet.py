"""Keep the processes that serve in step: every one of them has a new configuration, or none of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from time import time
from typing import Protocol

import msgspec

from signproxy import __version__
from signproxy.errors import Finding, Invalid, Reason, Refused, SettingsInvalid
from signproxy.server.process.generation import Scope
from signproxy.server.status.report import CertificateReport, FleetReport, ReloadReport, WorkerReport
from signproxy.telemetry import log

READINGS = 3
"""How often workers read anew where files changed between two of their readings."""

_log = log.get_logger("signproxy.reload")


class Candidate(msgspec.Struct, frozen=True):
    """What a worker would take over: enough to see that all workers read the same, and to tell the operator."""

    revision: str
    fingerprint: str
    changes: tuple[str, ...]
    needs_restart: tuple[str, ...]


class WorkerGone(Exception):
    """A worker ended before it answered; the one that takes its place reads everything anew."""


class WorkerFailed(Exception):
    """The other end met a fault of its own; its log has the trace."""


class Member(Protocol):
    """A process that serves, seen from the one that keeps order; the two may be the same."""

    async def prepare(self, epoch: int, scope: Scope) -> Candidate:
        """Read everything anew without using it yet. Raise Invalid, or WorkerGone."""

    async def commit(self) -> None:
        """Use what was prepared."""

    async def discard(self) -> None:
        """Forget what was prepared."""

    async def refresh_credentials(self) -> None:
        """Ask every credential provider now."""

    async def reopen(self) -> None:
        """Let the audit sink begin a new file."""

    async def report(self) -> WorkerReport:
        """Tell how it is doing. Raise WorkerGone."""

    async def roles_of(self, token: str) -> tuple[str, ...]:
        """Return the roles of the caller that a token stands for. Raise Refused, or WorkerGone."""


class Fleet:
    """All members, and what is true of them together."""

    def __init__(self, wanted: int, members: Callable[[], Sequence[Member]]) -> None:
        self.draining = False
        self.restarts = 0
        self.epoch = 1
        """Of the configuration in force; a worker that is started later begins with it."""
        self.last_reload: ReloadReport | None = None
        self.certificates: Callable[[], tuple[CertificateReport, ...]] = tuple
        """Tells of listeners that no worker has."""
        self._wanted = wanted
        self._members = members
        self._started_at = time()
        self._accepted_at = time()
        self._reloading = asyncio.Lock()

    async def reload(self, scope: Scope = Scope.ALL, told: tuple[str, ...] = ()) -> ReloadReport:
        """Bring what files say now into force on every worker, or on none; say what happened.

        `told` are findings that the log has already: what is tried again and again is not told again and again.
        """
        async with self._reloading:
            began = time()
            try:
                candidate = await self._prepared(scope)
            except Invalid as invalid:
                findings = tuple(str(finding) for finding in invalid.findings)
                self.last_reload = ReloadReport(began, False, time() - began, findings=findings)
                for finding in findings if findings != told else ():
                    _log.error("reload not accepted", finding=finding)
                return self.last_reload
            except Exception:  # noqa: BLE001 - the outermost wrapper: a fault of ours must leave in force what is
                _log.exception("reload failed")
                findings = ("a fault in signproxy; the log has the trace",)
                self.last_reload = ReloadReport(began, False, time() - began, findings=findings)
                return self.last_reload
            await _of_all(member.commit() for member in self._members())
            self.epoch += 1
            self._accepted_at = time()
            self.last_reload = ReloadReport(
                began, True, time() - began, candidate.changes, needs_restart=candidate.needs_restart
            )
            for change in candidate.changes:
                _log.info("changed", change=change)
            for change in candidate.needs_restart:
                _log.warning("needs a restart", change=change)
            _log.info("reload accepted", revision=candidate.revision, epoch=self.epoch, changes=len(candidate.changes))
            return self.last_reload

    async def join(self, member: Member, epoch: int, add: Callable[[], None]) -> None:
        """Add a worker that began with an epoch once it has caught up with whatever was reloaded meanwhile.

        It does not hold up a reload, which may be a revoke. Raise Invalid where it cannot read what is there now.
        """
        while True:
            async with self._reloading:
                if epoch == self.epoch:
                    add()
                    return
                epoch = self.epoch
            await member.prepare(epoch, Scope.ALL)
            await member.commit()

    async def refresh_credentials(self) -> None:
        """Let every worker ask its credential providers now."""
        await _of_all(member.refresh_credentials() for member in self._members())

    async def reopen(self) -> None:
        """Let every worker begin a new audit file."""
        await _of_all(member.reopen() for member in self._members())

    async def report(self) -> FleetReport:
        """Tell how all of it is doing; a worker that does not answer is left out."""
        reports = await asyncio.gather(*(member.report() for member in self._members()), return_exceptions=True)
        return FleetReport(
            version=__version__,
            draining=self.draining,
            started_at=self._started_at,
            wanted_workers=self._wanted,
            workers=tuple(report for report in reports if isinstance(report, WorkerReport)),
            restarts=self.restarts,
            last_reload=self.last_reload,
            certificates=self.certificates(),
            last_accepted_at=self._accepted_at,
        )

    async def roles_of(self, token: str) -> tuple[str, ...]:
        """Return the roles of the caller that a bearer token stands for. Raise Refused."""
        for member in self._members():
            try:
                return await member.roles_of(token)
            except WorkerGone:
                continue
        raise Refused(Reason.KEYS_UNAVAILABLE, "no worker answers")

    async def _prepared(self, scope: Scope) -> Candidate:
        """Let every worker prepare until all of them read the same. Raise Invalid: then none of them holds anything."""
        for _ in range(READINGS):
            members = self._members()
            results = await asyncio.gather(
                *(member.prepare(self.epoch + 1, scope) for member in members), return_exceptions=True
            )
            candidates = [result for result in results if isinstance(result, Candidate)]
            # One that ended meanwhile is replaced by one that reads what is there then.
            faults = [result for result in results if not isinstance(result, Candidate | WorkerGone)]
            if candidates and not faults and len({candidate.fingerprint for candidate in candidates}) == 1:
                return candidates[0]
            await _of_all(member.discard() for member in members)
            for fault in faults:
                if isinstance(fault, Exception):
                    raise fault
        raise SettingsInvalid([Finding("", "", f"files changed during each of {READINGS} readings")])


async def _of_all(calls: Iterable[Awaitable[None]]) -> None:
    """Wait for a call to every member; one that is gone needs nothing anymore."""
    for result in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(result, BaseException) and not isinstance(result, WorkerGone):
            raise result
