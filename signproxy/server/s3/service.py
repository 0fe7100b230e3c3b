"""Wire the transparent mode of one process: its listener, what answers there, and its part of a reload."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence

import msgspec

from signproxy.config.s3 import S3Settings
from signproxy.config.settings import Settings
from signproxy.credentials.store import CredentialStore
from signproxy.forward.addresses import StorageAddresses
from signproxy.forward.forward import Forwarder
from signproxy.forward.pool import Pool
from signproxy.forward.times import Times
from signproxy.forward.uploads import UploadIds
from signproxy.gate.gate import Gate
from signproxy.gate.recorder import Recorder
from signproxy.identity.authenticator import Authenticator
from signproxy.server.callers import emulated_keys, s3_callers
from signproxy.server.limits import Limits
from signproxy.server.report import CertificateReport
from signproxy.server.s3.handler import S3Handler, S3Rooms
from signproxy.server.s3.listener import SECTION, S3Listener
from signproxy.server.seals import Seals
from signproxy.server.tls import CertificateHolder, PreparedCertificate
from signproxy.telemetry.families import Labels
from signproxy.telemetry.metrics import Metrics

_MIB = 1024 * 1024


class S3Prepared(msgspec.Struct, frozen=True):
    """What was read and checked for other settings."""

    addresses: StorageAddresses
    certificate: PreparedCertificate | None

    @property
    def digest(self) -> str:
        """What tells the listener's certificate from others; empty where it has none."""
        return "" if self.certificate is None else self.certificate.digest


class S3Service:
    """The transparent mode of one process."""

    def __init__(
        self,
        settings: Settings,
        seals: Seals,
        gate: Gate,
        *,
        authenticator: Authenticator,
        credentials: CredentialStore,
        recorder: Recorder,
        limits: Limits,
    ) -> None:
        """Raise SettingsInvalid for files that cannot be used."""
        s3 = settings.s3
        self._authenticator = authenticator
        self._credentials = credentials
        self._settings = s3
        self._certificate = CertificateHolder(s3.tls, section=SECTION) if s3.tls.enabled else None
        self._pool = _pool(s3)
        self._listener: S3Listener | None = None
        rooms = self._rooms(settings, seals, gate, StorageAddresses(s3.upstream.ca_file))
        self.handler = S3Handler(rooms, recorder, limits)

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
            keepalive=float(self._settings.keepalive_seconds),
        )
        return self._listener.addresses

    @property
    def in_flight(self) -> int:
        """Requests that are being served."""
        return self.handler.in_flight

    @property
    def certificates(self) -> tuple[CertificateReport, ...]:
        """The listener's certificate, if it has one."""
        return () if self._certificate is None else (self._certificate.report(SECTION),)

    def prepare(self, settings: Settings) -> S3Prepared:
        """Read and check the files of other settings; nothing that serves changes. Raise SettingsInvalid."""
        certificate = None if self._certificate is None else self._certificate.prepare(settings.s3.tls)
        return S3Prepared(StorageAddresses(settings.s3.upstream.ca_file), certificate)

    def commit(self, prepared: S3Prepared, settings: Settings, seals: Seals, gate: Gate) -> Pool | None:
        """Answer by other settings from the next request on; return the connections that are not used any more."""
        if self._certificate is not None and prepared.certificate is not None:
            self._certificate.commit(prepared.certificate)
        replaced: Pool | None = None
        if _pooled(settings.s3) != _pooled(self._settings):
            replaced, self._pool = self._pool, _pool(settings.s3)
        self._settings = settings.s3
        self.handler.reconfigure(self._rooms(settings, seals, gate, prepared.addresses))
        return replaced

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

    def _rooms(self, settings: Settings, seals: Seals, gate: Gate, addresses: StorageAddresses) -> S3Rooms:
        s3 = settings.s3
        keys = emulated_keys(s3, seals, self._authenticator)
        return S3Rooms(
            settings=s3,
            callers=s3_callers(s3, keys, self._authenticator, gate.state),
            gate=gate,
            forwarder=Forwarder(
                _OfAnyBucket(self._credentials),
                addresses,
                self._pool,
                UploadIds(seals.upload_ids),
                _times(s3),
                max_body=s3.limits.max_object_mib * _MIB,
            ),
            base_domains=frozenset(s3.base_domains),
        )


class _OfAnyBucket:
    """The credentials of requests that the gate let pass, also to buckets that clients made."""

    def __init__(self, store: CredentialStore) -> None:
        self.current = store.current_of_any


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
