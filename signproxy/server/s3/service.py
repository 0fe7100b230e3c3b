"""Wire the transparent mode of one process: its listener, what answers there, and its part of a reload."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from signproxy.config.s3 import S3Settings
from signproxy.credentials.store import CredentialStore
from signproxy.forward.addresses import StorageAddresses
from signproxy.forward.forward import Forwarder
from signproxy.forward.pool import Pool, Times
from signproxy.forward.uploads import UploadIds
from signproxy.gate.gate import Gate
from signproxy.gate.limits import Limits, Places
from signproxy.gate.recorder import Recorder
from signproxy.identity.authenticator import Authenticator
from signproxy.identity.emulated import EmulatedKeys
from signproxy.server.process.build import s3_callers
from signproxy.server.process.generation import Generation
from signproxy.server.process.rooms import House
from signproxy.server.process.seals import Seals
from signproxy.server.process.tls import CertificateHolder, PreparedCertificate
from signproxy.server.s3.handler import S3Handler
from signproxy.server.s3.listener import SECTION, S3Listener
from signproxy.server.s3.s3_way import S3Rooms
from signproxy.server.status.report import CertificateReport
from signproxy.telemetry.families import Labels
from signproxy.telemetry.metrics import Metrics

_MIB = 1024 * 1024


class S3Prepared(NamedTuple):
    """What was read and checked for other settings."""

    settings: S3Settings
    addresses: StorageAddresses
    certificate: PreparedCertificate | None

    @property
    def digest(self) -> str:
        """What tells the listener's certificate from others; empty where it has none."""
        return "" if self.certificate is None else self.certificate.digest


class S3Service:
    """The transparent mode of one process: what lasts of it, whichever rooms answer."""

    def __init__(
        self,
        settings: S3Settings,
        house: House,
        *,
        authenticator: Authenticator,
        credentials: CredentialStore,
        recorder: Recorder,
        limits: Limits,
    ) -> None:
        """Raise SettingsInvalid for files that cannot be used."""
        self._authenticator = authenticator
        self._credentials = credentials
        self._certificate = CertificateHolder(settings.tls, section=SECTION) if settings.tls.enabled else None
        self._in_force = S3Prepared(settings, StorageAddresses(settings.upstream.ca_file), None)
        self._pool = _pool(settings)
        self._listener: S3Listener | None = None
        each, total = settings.limits.in_flight, settings.limits.total_in_flight
        self._transfers = Places("transfers at a time", each, total)
        self.handler = S3Handler(house, recorder, limits, self._transfers)

    def show(self, metrics: Metrics) -> None:
        """Let the metrics read how many connections to stores there are."""

        def connections() -> Mapping[Labels, float]:
            return {("open",): self._pool.open, ("idle",): self._pool.idle}

        metrics.forward.pool.read_from(connections)

    async def listen(self, sockets: Sequence[socket.socket]) -> tuple[str, ...]:
        """Begin to serve on bound sockets; return their addresses. Raise SettingsInvalid."""
        self._listener = await S3Listener.open(
            self.handler,
            sockets,
            certificate=self._certificate,
            keepalive=float(self._in_force.settings.keepalive_seconds),
        )
        return self._listener.addresses

    @property
    def in_flight(self) -> int:
        """Requests that are being served."""
        return self._transfers.taken

    @property
    def certificates(self) -> tuple[CertificateReport, ...]:
        """The listener's certificate, if it has one."""
        return () if self._certificate is None else (self._certificate.report(SECTION),)

    def prepare(self, settings: S3Settings) -> S3Prepared:
        """Read and check the files of other settings; nothing that serves changes. Raise SettingsInvalid."""
        certificate = None if self._certificate is None else self._certificate.prepare(settings.tls)
        return S3Prepared(settings, StorageAddresses(settings.upstream.ca_file), certificate)

    def commit(self, prepared: S3Prepared) -> Pool | None:
        """Have the next rooms made of what was prepared; return the connections that are not used any more."""
        if self._certificate is not None and prepared.certificate is not None:
            self._certificate.commit(prepared.certificate)
        replaced: Pool | None = None
        if _pooled(prepared.settings) != _pooled(self._in_force.settings):
            # Here and not before: a pool belongs to the loop that serves, and settings are read beside it.
            replaced, self._pool = self._pool, _pool(prepared.settings)
        self._in_force = prepared
        self._transfers.replace(prepared.settings.limits.in_flight, prepared.settings.limits.total_in_flight)
        return replaced

    def rooms(self, generation: Generation, keys: EmulatedKeys | None, seals: Seals, gate: Gate) -> S3Rooms:
        """Return what answers requests by a generation; the gate's own policy is the former one until then."""
        settings = generation.settings.s3
        return S3Rooms(
            settings=settings,
            callers=s3_callers(settings, keys, self._authenticator, generation.state),
            gate=gate,
            forwarder=Forwarder(
                # The gate let the request pass: also to a bucket that clients made.
                self._credentials.current_of_any,
                self._in_force.addresses,
                self._pool,
                UploadIds(seals.upload_ids),
                _times(settings),
                max_body=settings.limits.max_object_mib * _MIB,
            ),
            base_domains=frozenset(settings.base_domains),
        )

    def drain(self) -> None:
        """Let every connection end with its next answer."""
        if self._listener is not None:
            self._listener.drain()

    async def finish(self, seconds: float) -> None:
        """Accept nothing more, and let what is in flight be answered."""
        if self._listener is not None:
            await self._listener.finish(seconds)

    async def aclose(self) -> None:
        """Let go of the stores."""
        await self._pool.aclose()


def _pool(settings: S3Settings) -> Pool:
    upstream = settings.upstream
    return Pool(_times(settings), connections=upstream.connections, idle=upstream.idle_connections)


def _pooled(settings: S3Settings) -> tuple[object, ...]:
    """Return what a pool is made of, and whom it believes."""
    upstream = settings.upstream
    return _times(settings), upstream.connections, upstream.idle_connections, upstream.ca_file


def _times(settings: S3Settings) -> Times:
    upstream = settings.upstream
    return Times(
        connect=upstream.connect_seconds,
        answer=upstream.answer_seconds,
        slow_answer=upstream.slow_answer_seconds,
        idle=upstream.idle_seconds,
        client_idle=settings.limits.idle_seconds,
        keepalive=upstream.keepalive_seconds,
    )
