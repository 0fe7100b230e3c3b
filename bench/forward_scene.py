"""Set up what stands around the forward way: a store in memory behind it, and nginx and Envoy beside it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench import forward_envoy, forward_nginx
from bench.forward_nginx import Upstream
from bench.forward_streams import Ask, adler_of, ask_once, build, sink
from bench.policy_files import REGION, location_of
from bench.process import LOAD_CORE, SERVER_CORE, BenchFailed, free_port
from bench.serve import ACCESS_KEY_ID, SECRET_ACCESS_KEY
from bench.sign_request import COUNTER
from tests.authority import Authority
from tests.verifier import WireHttp, verify

LAKE, VAULT, SINK = "lake", "vault", "drain"
"""Buckets: objects over plain HTTP, the same objects over TLS, and the one that takes uploads and forgets them."""

TABLES = {LAKE: 7, VAULT: 8, SINK: 9}
"""The table whose files are asked for in each bucket, by its number in the policy."""

LARGE_BYTES = 256 << 20
SMALL_BYTES = 4096
HUGE_BYTES = 5 << 30
"""The largest object that one PUT may make; a file of nothing but a hole, which takes no memory."""

CHECKED_BYTES = 24 << 20
"""What is sent to see that every byte comes through."""

_MEMORY = Path("/dev/shm")  # noqa: S108 - objects must come from memory, and a directory of its own is made there
_MEMORY_NEEDED = LARGE_BYTES + CHECKED_BYTES + (64 << 20)

_SDK = (
    ("User-Agent", "Boto3/1.40.0 md/Botocore#1.44.3 ua/2.1 os/linux#6.1.0 md/arch#x86_64 lang/python#3.11.7"),
    ("Accept-Encoding", "identity"),
    ("amz-sdk-invocation-id", f"8f14e45f-ceea-467f-a0e6-{COUNTER}"),
    ("amz-sdk-request", "attempt=1"),
)
"""What an SDK sends besides its authentication; it names each of its calls."""


class Store(msgspec.Struct, frozen=True):
    """The running stores: where they listen, and the files that objects are made of."""

    objects: Path
    plain: int
    tls: int
    sink: int
    sink_head: Path

    @property
    def upstreams(self) -> tuple[Upstream, ...]:
        """Where each bucket is."""
        return Upstream(LAKE, self.plain), Upstream(VAULT, self.tls, "https"), Upstream(SINK, self.sink)

    @property
    def ca_file(self) -> Path:
        """The authority of the store's certificate."""
        return self.objects / "ca.crt"


class Proxy(msgspec.Struct, frozen=True):
    """What stands in front of the store: its name, its port, the processes that pay for it, and its callers' token."""

    name: str
    port: int
    pids: tuple[int, ...]
    token: str = ""


class Scene(msgspec.Struct, frozen=True):
    """Everything that is alive in one run but for signproxy."""

    scratch: Path
    store: Store
    load: Path
    nginx: Proxy
    envoy: Proxy


@contextlib.contextmanager
def scene() -> Iterator[Scene]:
    """Run the stores beside the load, and both peers on the core of the servers."""
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="signproxy-bench-")))
        store = stack.enter_context(stores(scratch))
        port = free_port()
        servers = forward_nginx.proxy_servers(port, store.upstreams, store.ca_file)
        nginx = stack.enter_context(forward_nginx.nginx("nginx-proxy", servers, port, scratch, core=SERVER_CORE))
        envoy_port = free_port()
        bootstrap = forward_envoy.configuration(
            port=envoy_port,
            admin_port=free_port(),
            upstreams=store.upstreams,
            ca_file=store.ca_file,
            region=REGION,
            keys=(ACCESS_KEY_ID, SECRET_ACCESS_KEY),
        )
        envoy = stack.enter_context(forward_envoy.envoy(bootstrap, envoy_port, scratch, core=SERVER_CORE))
        yield Scene(
            scratch,
            store,
            build("streams", scratch),
            Proxy("nginx", port, nginx),
            Proxy("envoy", envoy_port, envoy),
        )


@contextlib.contextmanager
def stores(scratch: Path, *, core: int | None = LOAD_CORE) -> Iterator[Store]:
    """Run the stores."""
    if shutil.disk_usage(_MEMORY).free < _MEMORY_NEEDED:
        raise BenchFailed(f"{_MEMORY} has less than {_MEMORY_NEEDED >> 20} MiB free: objects are served from memory")
    with contextlib.ExitStack() as stack:
        objects = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="signproxy-bench-", dir=_MEMORY)))
        for name, size in (("large", LARGE_BYTES), ("small", SMALL_BYTES), ("checked", CHECKED_BYTES)):
            # The same piece over and over would hide a piece that is sent twice.
            with (objects / name).open("wb") as file:
                for _ in range(max(1, size >> 20)):
                    file.write(os.urandom(min(size, 1 << 20)))
        with (objects / "huge").open("wb") as file:
            file.truncate(HUGE_BYTES)
        authority = Authority()
        authority.issue("localhost", "127.0.0.1").write(objects)
        (objects / "ca.crt").write_text(authority.pem)
        plain, tls = free_port(), free_port()
        servers = forward_nginx.store_servers(objects, plain=plain, tls=tls)
        stack.enter_context(forward_nginx.nginx("store", servers, plain, scratch, core=core))
        sink_port, head = stack.enter_context(sink(scratch))
        yield Store(objects, plain, tls, sink_port, head)


def key_of(bucket: str, name: str) -> str:
    """Return the key of a file of the table that is asked for in a bucket."""
    return f"{location_of(TABLES[bucket])}/data/{name}"


def small_target(bucket: str = LAKE) -> str:
    """Return the target of a small object, with `COUNTER` for its number."""
    return f"/{bucket}/{key_of(bucket, f'00007-{COUNTER}-5d1f4c1e-8a0b-4a58-9f3c-2f0a9b1c7d11-0-00001.parquet')}"


def headers(proxy: Proxy, *more: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """Return what every request carries; a caller of signproxy shows its token, the peers know no callers."""
    bearer = (("Authorization", f"Bearer {proxy.token}"),) if proxy.token else ()
    return (*_SDK, *bearer, *more)


def get(proxy: Proxy, bucket: str, name: str) -> Ask:
    """Return the GET of a file."""
    return Ask("GET", f"/{bucket}/{key_of(bucket, name)}", headers(proxy))


def put(proxy: Proxy, name: str, body: Path, payload: str = "UNSIGNED-PAYLOAD") -> Ask:
    """Return the PUT of a file, which declares its content or not."""
    more = (("Content-Type", "application/octet-stream"), ("x-amz-content-sha256", payload))
    return Ask("PUT", f"/{SINK}/{key_of(SINK, name)}", headers(proxy, *more), body)


def check(proxy: Proxy, store: Store, *, signs: bool) -> None:
    """Fail unless a proxy brings every byte of a GET and of a PUT, and signs, where it does, as S3 wants it."""
    for bucket in (LAKE, VAULT):
        answer = ask_once(get(proxy, bucket, "part-0.large"), proxy.port)
        if answer.status != 200 or answer.adler != adler_of(store.objects / "large"):
            raise BenchFailed(f"{proxy.name}: GET from {bucket}: {answer}")
    body = store.objects / "checked"
    answer = ask_once(put(proxy, "part-0.checked", body), proxy.port)
    if answer.status != 200 or int(answer.headers.get("etag", '"0"').strip('"'), 16) != adler_of(body):
        raise BenchFailed(f"{proxy.name}: PUT: {answer}")
    if signs:
        verify(
            received(store.sink_head.read_bytes()), {ACCESS_KEY_ID: SECRET_ACCESS_KEY}, now=time.time(), region=REGION
        )


def received(head: bytes) -> WireHttp:
    """Return a request as the store received it, out of its head."""
    first, *lines = head.decode("latin-1").partition("\r\n\r\n")[0].split("\r\n")
    method, target, _ = first.split(" ")
    fields = (line.partition(":") for line in lines)
    return WireHttp(method, target, tuple((name, value.strip()) for name, _, value in fields))
