"""Notice that files changed, or that the operator says so, and have them brought into force."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from math import inf
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from signproxy.config.advice import NamedFile, files_of
from signproxy.config.load import SettingsSource
from signproxy.config.settings import Settings
from signproxy.documents.watch import FileWatch
from signproxy.errors import Invalid
from signproxy.inventory.declared.snapshot import files_of as files_of_policy
from signproxy.server.process.fleet import Fleet
from signproxy.server.process.generation import Scope
from signproxy.server.process.tls import CertificateHolder
from signproxy.telemetry import log
from signproxy.telemetry.declared_metrics import Result
from signproxy.telemetry.metrics import Metrics

_log = log.get_logger("signproxy.reload")

AGAIN_SECONDS = 15.0
"""After a reload that was not accepted."""

_NOT_RELOADED = ("policy.path", "audit.ship.ca_file", "s3.pod.token_file")
"""The first is watched with all that it includes, the second read by a start alone, the third whenever it is used."""


class _Due(NamedTuple):
    """What a reload has to read."""

    scope: Scope
    secrets: bool
    """Whether credential providers are to be asked now."""


_EVERYTHING = _Due(Scope.ALL, secrets=True)
_ONCE_MORE = _Due(Scope.ALL, secrets=False)


class Reloads:
    """Asks the fleet for a reload whenever there is something to load."""

    def __init__(self, source: SettingsSource, settings: Settings) -> None:
        """Take note of the files as they are now: to be made before anything is loaded from them."""
        self._source = source
        self._settings = settings
        self._policy_files = files_of_policy(Path(settings.policy.path))
        self._asked = asyncio.Event()
        self._again_at = inf
        self._watch = FileWatch(self._files)
        self._watch.changed()

    def request(self) -> None:
        """Reload everything, changed or not: what SIGHUP asks for."""
        self._asked.set()

    async def run(self, fleet: Fleet, metrics: Metrics, admin: CertificateHolder | None) -> None:
        """Look and reload until cancelled; `admin` is the certificate of the listener that no worker has."""
        pause = self._settings.reload.poll_seconds or None
        while True:
            asked = True
            try:
                async with asyncio.timeout(pause):
                    await self._asked.wait()
            except TimeoutError:
                asked = False
            self._asked.clear()
            try:
                if asked:
                    await fleet.reopen()
                due = _EVERYTHING if asked else await self._look()
                if due is not None:
                    await self._reload(fleet, metrics, due)
                    if admin is not None:
                        await asyncio.to_thread(_renew, admin, self._settings)
            except Exception:  # noqa: BLE001 - the outermost wrapper: a fault in one look must not end all others
                _log.exception("looking for changed files failed")

    async def _look(self) -> _Due | None:
        """Return what has to be read anew, if anything."""
        changed = await asyncio.to_thread(self._watch.changed)
        if changed:
            _log.info("files changed", files=[str(path) for path in changed])
            # What was refused before is still due: a revoke must not be forgotten because another file mends the fault.
            refused = self._again_at < inf
            policy = refused or _touches(changed, self._policy_files)
            secrets = refused or _touches(changed, _credential_files(self._settings))
            return _Due(Scope.ALL if policy else Scope.KEEP_POLICY, secrets=secrets)
        # What was refused may have been refused for something that passes, such as a provider that was down.
        return _ONCE_MORE if monotonic() >= self._again_at else None

    async def _reload(self, fleet: Fleet, metrics: Metrics, due: _Due) -> None:
        told = fleet.last_reload.findings if due is _ONCE_MORE and fleet.last_reload is not None else ()
        report = await fleet.reload(due.scope, told)
        metrics.reloaded(Result.SUCCESS if report.accepted else Result.FAILURE, report.seconds)
        self._again_at = inf if report.accepted else monotonic() + AGAIN_SECONDS
        if due.secrets:
            await fleet.refresh_credentials()
        await asyncio.to_thread(self._settle)

    def _settle(self) -> None:
        """Watch the files that the settings name now; while they are faulty, those of before."""
        try:
            self._settings = self._source.load()
        except Invalid:
            _log.debug("still watching the files of the settings in force")
        # Also with the same settings: a policy may name other inventories now.
        self._policy_files = files_of_policy(Path(self._settings.policy.path))

    def _files(self) -> Iterator[Path]:
        if self._source.file:
            yield Path(self._source.file)
        yield from self._policy_files
        yield from (named.file for named in watched_files(self._settings))


def _renew(certificate: CertificateHolder, settings: Settings) -> None:
    """Serve the admin listener's new certificate. It is no part of what workers share, and holds up no revoke."""
    try:
        certificate.commit(certificate.prepare(settings.admin.tls))
    except Invalid as invalid:
        for finding in invalid.findings:
            _log.error("certificate not accepted", listener="admin", finding=str(finding))


def watched_files(settings: Settings) -> Iterator[NamedFile]:
    """Yield the files that settings name, and whose change is a reload's; those of the policy are known to its room."""
    for named in files_of(settings):
        if named.path not in _NOT_RELOADED and (settings.s3.enabled or not named.path.startswith("s3.")):
            yield named


def _credential_files(settings: Settings) -> Iterator[Path]:
    return (named.file for named in watched_files(settings) if named.path.startswith("credentials."))


def _touches(changed: Iterable[Path], watched: Iterable[Path]) -> bool:
    roots = tuple(watched)
    return any(path == root or root in path.parents for path in changed for root in roots)
