"""Put objects into a bucket with signproxy's own credentials, and prove that they are there."""

from __future__ import annotations

import asyncio
import hashlib
import os
import ssl
import stat
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from time import time
from typing import BinaryIO
from urllib.parse import quote

import aiohttp
import msgspec
from yarl import URL

from signproxy.credentials.credentials import Credentials
from signproxy.errors import Finding, Refused, SettingsInvalid, SignproxyError
from signproxy.outbound.client import PoolLimits, Timeouts, http_client
from signproxy.outbound.tls import client_tls, no_tls
from signproxy.s3.outbound import outbound_of
from signproxy.s3.sigv4 import SigningKey, amz_date
from signproxy.s3.storage import Storage
from signproxy.s3.xml_document import error_code, read_beginning

CONNECT_SECONDS = 10.0
IDLE_SECONDS = 60.0
"""A store that says nothing for so long is given up."""
TOTAL_SECONDS = 900.0
"""For the largest segment on the slowest line that is of use."""
CONNECTIONS = 2
KEEP_SECONDS = 15.0

_EMPTY = hashlib.sha256(b"").hexdigest()
_ERROR_BYTES = 8192
_EXISTS = (409, 412)
_NOT_IMPLEMENTED = 501
_SEGMENT_TYPE = "application/gzip"
_PIECE = 1024 * 1024
_NOTHING: tuple[tuple[str, str], ...] = ()


class Sums(msgspec.Struct, frozen=True):
    """Size and digests of a file's content."""

    size: int
    sha256: str
    md5: str

    @property
    def checksum(self) -> str:
        """The SHA-256 as S3's checksum headers have it."""
        return b64encode(bytes.fromhex(self.sha256)).decode()

    def proved_by(self, headers: Mapping[str, str]) -> bool:
        """Whether a store's answer proves that it has exactly this.

        An ETag that is another proves nothing: that of an object encrypted with KMS is no digest.
        """
        return headers.get("x-amz-checksum-sha256") == self.checksum or headers.get("ETag", "").strip('"') == self.md5


def open_segment(path: Path) -> BinaryIO:
    """Open a file of the spool. Raise OSError for a link, which may lead to what is not to be sent, and for a pipe."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(22, "no regular file", path.name)
    return os.fdopen(fd, "rb")


def sums_of(path: Path) -> Sums:
    """Read a file whole. Raise OSError."""
    sha256, md5, size = hashlib.sha256(), hashlib.md5(usedforsecurity=False), 0
    with open_segment(path) as file:
        while piece := file.read(_PIECE):
            sha256.update(piece)
            md5.update(piece)
            size += len(piece)
    return Sums(size, sha256.hexdigest(), md5.hexdigest())


class Target(msgspec.Struct, frozen=True):
    """Where objects go."""

    storage: str
    bucket: str
    prefix: str = ""
    ca_file: str = ""


class ShippingFailed(SignproxyError):
    """An object could not be put, or not be proved to be there. Nothing was deleted."""

    def __init__(self, problem: str, *, of_object: bool = False) -> None:
        super().__init__(problem)
        self.of_object = of_object
        """Another object may fare better."""


class SegmentStore:
    """A bucket, as the policy describes its storage at the moment."""

    def __init__(
        self,
        target: Target,
        storages: Callable[[], Iterable[Storage]],
        credentials: Callable[[Storage, str], Credentials],
        *,
        clock: Callable[[], float] = time,
    ) -> None:
        """Raise SettingsInvalid for a file that holds no certificate authorities."""
        self._target = target
        self._storages = storages
        self._credentials = credentials
        self._clock = clock
        self._guards = True
        self._session: aiohttp.ClientSession | None = None
        # Read now, so that a wrong file is an error of the start.
        self._context = _context(target.ca_file) if target.ca_file else None

    async def put(self, name: str, path: Path, sums: Sums) -> None:
        """Store a file under a name, unless it is there already; return once it is proved to be. Raise ShippingFailed.

        What another one stored under the name is never replaced.
        """
        try:
            await self._put(self._target.prefix + name, path, sums)
        except Refused as refused:
            raise ShippingFailed(refused.detail or refused.reason.code) from None
        except TimeoutError:
            raise ShippingFailed("the store did not answer in time") from None
        except (aiohttp.ClientError, ssl.SSLError, OSError) as error:
            raise ShippingFailed(_words(error)) from None

    async def aclose(self) -> None:
        """Close the connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _put(self, key: str, path: Path, sums: Sums) -> None:
        headers = [("x-amz-checksum-sha256", sums.checksum), ("content-type", _SEGMENT_TYPE)]
        guard = [("if-none-match", "*")] if self._guards else []
        with open_segment(path) as body:
            async with await self._send("PUT", key, (*headers, *guard), sums.sha256, body) as response:
                if response.status == _NOT_IMPLEMENTED and guard:
                    # A store that knows no conditions. The name holds an id that is drawn anew for each process.
                    self._guards = False
                elif response.status not in _EXISTS:
                    await _succeeded(response)
                    if sums.proved_by(response.headers):
                        return
        if guard and not self._guards:
            await self._put(key, path, sums)
        else:
            await self._prove(key, sums)

    async def _prove(self, key: str, sums: Sums) -> None:
        """Ask what is there; read it where the store does not say it in a way that can be compared."""
        async with await self._send("HEAD", key, (("x-amz-checksum-mode", "ENABLED"),)) as response:
            await _succeeded(response)
            if response.headers.get("Content-Length") != str(sums.size):
                raise ShippingFailed(f"another object is there under the name {key!r}", of_object=True)
            if sums.proved_by(response.headers):
                return
        digest = hashlib.sha256()
        async with await self._send("GET", key) as response:
            await _succeeded(response)
            async for piece in response.content.iter_any():
                digest.update(piece)
        if digest.hexdigest() != sums.sha256:
            raise ShippingFailed(f"another object is there under the name {key!r}", of_object=True)

    async def _send(
        self,
        method: str,
        key: str,
        headers: Iterable[tuple[str, str]] = _NOTHING,
        payload: str = _EMPTY,
        body: BinaryIO | None = None,
    ) -> aiohttp.ClientResponse:
        storage = self._storage()
        credentials = self._credentials(storage, self._target.bucket)
        outbound = outbound_of(storage, self._target.bucket)
        path = outbound.path(self._target.bucket, quote(key, safe="/-._~"))
        signed = [*headers]
        if storage.bucket_owner:
            signed.append(("x-amz-expected-bucket-owner", storage.bucket_owner))
        token = credentials.session_token
        date = amz_date(int(self._clock()))
        signing = SigningKey(credentials.access_key_id, credentials.secret_access_key, storage.region)
        authorization = signing.authorization(method, outbound.host, path, "", signed, payload, date, token)
        sent = [*signed, ("Host", outbound.host), ("x-amz-content-sha256", payload), ("x-amz-date", date)]
        sent += [("x-amz-security-token", token)] if token else []
        session = await self._opened(outbound.scheme)
        return await session.request(
            method,
            URL(f"{outbound.scheme}://{outbound.authority}{path}", encoded=True),
            headers=[*sent, ("Authorization", authorization)],
            data=body,
            allow_redirects=False,
        )

    def _storage(self) -> Storage:
        name = self._target.storage
        for storage in self._storages():
            if storage.name == name:
                return storage
        raise ShippingFailed(f"no catalog of the policy has the storage {name!r}")

    async def _opened(self, scheme: str) -> aiohttp.ClientSession:
        if self._context is None and scheme == "https":
            # Reading the system's certificates takes milliseconds, during which the loop would serve no client.
            context = await asyncio.to_thread(_context, "")
            if self._context is None:
                self._context = context
                # One that was opened while the storage was plain believes no authority.
                await self.aclose()
        if self._session is None:
            self._session = http_client(
                self._context or no_tls(),
                Timeouts(CONNECT_SECONDS, IDLE_SECONDS, TOTAL_SECONDS),
                PoolLimits(CONNECTIONS, KEEP_SECONDS),
                unsent=("Accept", "Accept-Encoding"),
            )
        return self._session


async def _succeeded(response: aiohttp.ClientResponse) -> None:
    if response.status < 300:
        return
    code = error_code(read_beginning(await response.content.read(_ERROR_BYTES)))
    raise ShippingFailed(f"the store answered {response.status}{f' {code}' if code else ''} to {response.method}")


def _context(ca_file: str) -> ssl.SSLContext:
    try:
        return client_tls(ca_file)
    except (OSError, ssl.SSLError) as error:
        problem = error.strerror or "not readable as PEM"
        raise SettingsInvalid([Finding("", "audit.ship.ca_file", f"{ca_file!r} cannot be used: {problem}")]) from None


def _words(error: BaseException) -> str:
    """Say what went wrong in words that a store did not choose."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError | ssl.SSLError):
        return "the store's certificate is not believed"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__
