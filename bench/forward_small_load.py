"""Ask for small objects with wrk, each time for another one: with a token, or signed in advance with a key."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import msgspec

from bench import load
from bench.forward_scene import Proxy, headers, small_target
from bench.forward_serve import IssuedKey
from bench.policy_files import REGION
from bench.process import LOAD_CORE, Meter, start
from bench.sign_request import COUNTER
from signproxy.s3.sigv4 import SigningKey, amz_date

SIGNATURE = "0" * 64
"""Stands in a head for the signature that goes with its number."""

_EMPTY = hashlib.sha256(b"").hexdigest()
_SIGNED_IN_ADVANCE = 50_000
"""Numbers that have a signature; they come round again within a few seconds, and nothing remembers so many."""

_LIFETIME = 600
"""Seconds after which requests are signed anew; S3 takes them for 15 minutes."""

_NUMBERS_PER_BURST = 10_000_000


class Load(msgspec.Struct):
    """What wrk sends to a proxy: a head in which the number stands, and the signatures that go with the numbers."""

    name: str
    proxy: Proxy
    head: Path
    signatures: Path | None = None
    bursts: int = 0

    def burst(self, scratch: Path, *, connections: int, seconds: int) -> load.Burst:
        """Load the proxy for some seconds; fail if a single answer was not 200."""
        meter = Meter(self.proxy.pids)
        report = load.finish(self.launch(scratch, connections=connections, seconds=seconds))
        spent, kernel = meter.read()
        return load.Burst(report.requests, report.microseconds / 1e6, spent, report.p50, report.p99, kernel)

    def launch(self, scratch: Path, *, connections: int, seconds: int, core: int | None = LOAD_CORE) -> load.Running:
        """Start wrk against the proxy; `load.finish` collects the report."""
        self.bursts += 1
        log = scratch / f"{self.name}.wrk"
        command = (
            *(load.require_wrk(), "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout=30s", "--latency"),
            *(f"--script={Path(__file__).with_name('forward.lua')}", f"http://127.0.0.1:{self.proxy.port}/", "--"),
            *(str(self.head), str(self.bursts * _NUMBERS_PER_BURST), str(self.signatures or "")),
        )
        return load.Running(self.name, start(command, core=core, log=log), log)


def plain(proxy: Proxy, scratch: Path) -> Load:
    """Return the load of a caller with a token, or of one who has to show nothing."""
    head = scratch / f"{proxy.name}.head"
    head.write_text(_head(proxy.port, small_target(), headers(proxy)))
    return Load(proxy.name, proxy, head)


class SignedLoad:
    """The load of an SDK that holds a key of signproxy's: the same requests, each with a signature of its own."""

    def __init__(self, name: str, proxy: Proxy, key: IssuedKey, scratch: Path) -> None:
        self._load = Load(name, proxy, scratch / f"{name}.head", scratch / f"{name}.signatures")
        self._key = key
        self._signed_at = 0.0

    def burst(self, scratch: Path, *, connections: int, seconds: int) -> load.Burst:
        """Load the proxy for some seconds, with requests that were signed not long ago."""
        if time.time() - self._signed_at > _LIFETIME:
            self._signed_at = time.time()
            head, signatures = sign(self._key, self._load.proxy, int(self._signed_at), _SIGNED_IN_ADVANCE)
            self._load.head.write_text(head)
            assert self._load.signatures is not None
            self._load.signatures.write_text(signatures)
        return self._load.burst(scratch, connections=connections, seconds=seconds)


def sign(key: IssuedKey, proxy: Proxy, now: int, count: int) -> tuple[str, str]:
    """Return the head of all requests, and the signatures of the first numbers one behind the other."""
    date, target, host = amz_date(now), small_target(), f"127.0.0.1:{proxy.port}"
    signing = SigningKey(key.access_key_id, key.secret_access_key, REGION)

    def authorization(path: str) -> str:
        return signing.authorization("GET", host, path, "", (), _EMPTY, date, key.session_token)

    before, _, after = target.partition(COUNTER)
    width = len(COUNTER)
    signatures = "".join(authorization(f"{before}{number:0{width}d}{after}")[-64:] for number in range(count))
    shown = authorization(target)[:-64] + SIGNATURE
    anonymous = msgspec.structs.replace(proxy, token="")
    return (
        _head(
            proxy.port,
            target,
            headers(
                anonymous,
                ("X-Amz-Date", date),
                ("X-Amz-Security-Token", key.session_token),
                ("X-Amz-Content-SHA256", _EMPTY),
                ("Authorization", shown),
            ),
        ),
        signatures,
    )


def _head(port: int, target: str, lines: tuple[tuple[str, str], ...]) -> str:
    return "\r\n".join(
        [f"GET {target} HTTP/1.1", f"Host: 127.0.0.1:{port}", *(f"{name}: {value}" for name, value in lines), "", ""]
    )
