"""Measure what a stalled stream holds of a proxy's memory, and how far objects of any size let it grow."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import time
from collections.abc import Callable, Iterator

from bench.effort import Effort
from bench.figures import Result, result
from bench.forward_scene import HUGE_BYTES, LAKE, LARGE_BYTES, VAULT, Proxy, Scene, get, put, scene
from bench.forward_serve import forwarding
from bench.forward_streams import Ask, ask_once, move
from bench.process import BenchFailed, memory_mib

MAX_SAMPLES = 3
"""Each of a fresh process; they hardly vary."""

STREAMS = 64
_SETTLE_SECONDS = 2.0
_STALL_SECONDS = 0.3
"""Without a byte taken, after which an upload counts as stalled."""
_PATIENCE = 30.0
_KIB_PER_MIB = 1024

_PART = "part-0.large"

MUST_KIB, GOAL_KIB = 350, 150
MUST_MIB = 64

_STALLS: dict[str, tuple[str, Callable[[Proxy, Scene], Ask]]] = {
    "get": (
        "downloads that the client stopped to read",
        lambda proxy, _: get(proxy, LAKE, _PART),
    ),
    "get_tls": (
        "the same, the store over TLS",
        lambda proxy, _: get(proxy, VAULT, _PART),
    ),
    "put": (
        "uploads that the store stopped to read",
        lambda proxy, around: put(proxy, "part-0.stalled", around.store.objects / "large"),
    ),
}


def measure(effort: Effort) -> list[Result]:
    """Hold streams, and move what is large, each time through processes that have done nothing else."""
    samples = min(effort.rounds, MAX_SAMPLES)
    stalled: dict[str, list[float]] = {name: [] for name in _STALLS}
    peers: dict[str, list[float]] = {}
    grown: list[float] = []
    for _ in range(samples):
        for name, (_, ask) in _STALLS.items():
            with scene() as around, forwarding(around.store) as served:
                stalled[name].append(per_stream(served.proxy, ask(served.proxy, around), around))
                for peer in (around.nginx, around.envoy):
                    peers.setdefault(f"{peer.name}_{name}", []).append(per_stream(peer, ask(peer, around), around))
        with scene() as around, forwarding(around.store) as served:
            grown.append(growth(served.proxy, around))
    return [
        *(
            result(
                f"forward_memory.{name}_stalled_kib",
                taken,
                unit="KiB",
                better="lower",
                must=MUST_KIB,
                goal=GOAL_KIB,
                against=f"resident memory per stream; {STREAMS} {_STALLS[name][0]}",
            )
            for name, taken in stalled.items()
        ),
        result(
            "forward_memory.growth_mib",
            grown,
            unit="MiB",
            better="lower",
            must=MUST_MIB,
            against=f"peak of resident memory above idle: {HUGE_BYTES >> 30} GiB there and back, and "
            f"{LARGE_BYTES >> 20} MiB over 8 connections, from a store with and without TLS",
        ),
        *(
            result(
                f"forward_memory.{name}_stalled_kib",
                taken,
                unit="KiB",
                better="lower",
                against="the same of a peer, as it is configured to be fast",
            )
            for name, taken in peers.items()
        ),
    ]


def per_stream(proxy: Proxy, ask: Ask, around: Scene) -> float:
    """Return the KiB of resident memory that each of many stalled streams takes."""
    # What the first of its kind needs is not what a stream needs.
    for bucket in (LAKE, VAULT):
        ask_once(get(proxy, bucket, _PART), proxy.port)
    ask_once(put(proxy, _PART, around.store.objects / "checked"), proxy.port)
    time.sleep(_SETTLE_SECONDS)
    before = resident(proxy)
    with contextlib.ExitStack() as stack:
        for _ in range(STREAMS):
            stack.enter_context(stall(ask, proxy.port))
        time.sleep(_SETTLE_SECONDS)
        return (resident(proxy) - before) * _KIB_PER_MIB / STREAMS


def resident(proxy: Proxy, field: str = "VmRSS") -> float:
    """Return a proxy's memory in MiB."""
    return sum(memory_mib(pid, field) for pid in proxy.pids)


@contextlib.contextmanager
def stall(ask: Ask, port: int) -> Iterator[None]:
    """Ask, and then read nothing of the answer but its first bytes, or send until nothing more is taken."""
    with socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE) as client:
        client.sendall(ask.head(port))
        if ask.body is None:
            start = client.recv(16)
            if b" 200" not in start:
                raise BenchFailed(f"nothing to stall: {start!r}")
        else:
            client.settimeout(_STALL_SECONDS)
            # A timed-out send says that nothing is taken; an answer would have ended the upload.
            with ask.body.open("rb") as content, contextlib.suppress(TimeoutError):
                client.sendfile(content)
                raise BenchFailed("an upload that should stall went through")
        yield


def growth(proxy: Proxy, around: Scene) -> float:
    """Return by how many MiB the peak lies above the idle process, after objects of many sizes."""
    objects, store = around.store.objects, around.store
    ask_once(get(proxy, LAKE, "part-0.parquet"), proxy.port)
    time.sleep(_SETTLE_SECONDS)
    idle = resident(proxy)
    with (objects / "large").open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    for connections, count, ask in (
        (8, 8, get(proxy, LAKE, _PART)),
        (8, 8, get(proxy, VAULT, _PART)),
        (8, 8, put(proxy, _PART, objects / "large")),
        (8, 8, put(proxy, _PART, objects / "large", digest)),
        (1, 1, get(proxy, LAKE, "part-0.huge")),
        (1, 1, get(proxy, VAULT, "part-0.huge")),
        (1, 1, put(proxy, _PART, store.objects / "huge")),
    ):
        move(around.load, ask, proxy.port, proxy.pids, around.scratch, connections=connections, objects=count)
    return resident(proxy, "VmHWM") - idle
