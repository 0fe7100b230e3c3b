"""Compare large objects through signproxy with nginx' plain proxy and with Envoy's signing one, in turns."""

from __future__ import annotations

import hashlib
import resource
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from bench import forward_nginx
from bench.effort import Effort
from bench.figures import Result, in_turns, ratios, result
from bench.forward_scene import LAKE, LARGE_BYTES, VAULT, Proxy, Scene, Store, get, put, scene
from bench.forward_serve import forwarding
from bench.forward_streams import GIGABYTE, Ask, Moved, move
from bench.process import SERVER_CORE, output_of

MAX_ROUNDS = 10
"""A round moves about 20 GB through each proxy."""

_NGINX = "nginx 1.22 proxy_pass, one worker, in the same run"
_ENVOY = "Envoy 1.40 aws_request_signing, one worker, in the same run"
_COST = "CPU seconds per GB"
_MOST_COST = 1.2
"""Times nginx' processor time, of every cell."""


class Cell(msgspec.Struct, frozen=True):
    """One way to move objects, and what its throughput must be of nginx'."""

    name: str
    words: str
    ask: Callable[[Proxy, Store], Ask]
    connections: int
    must: float | None = None
    goal: float | None = None

    @property
    def objects(self) -> int:
        """How many objects a burst moves: enough that the first bytes do not count."""
        return max(2, self.connections)


def _get(proxy: Proxy, store: Store) -> Ask:  # noqa: ARG001 - a cell is asked with both
    return get(proxy, LAKE, "part-0.large")


def _get_tls(proxy: Proxy, store: Store) -> Ask:  # noqa: ARG001 - see _get
    return get(proxy, VAULT, "part-0.large")


def _put(proxy: Proxy, store: Store) -> Ask:
    return put(proxy, "part-0.large", store.objects / "large")


CELLS = (
    Cell("get_c1", "GET, plain HTTP, 1 connection", _get, 1, 0.85, 1.0),
    Cell("get_c8", "GET, plain HTTP, 8 connections", _get, 8, 0.85, 1.0),
    Cell("get_tls_c1", "GET, store over TLS, 1 connection", _get_tls, 1, 0.75, 0.9),
    Cell("get_tls_c8", "GET, store over TLS, 8 connections", _get_tls, 8, 0.75, 0.9),
    Cell("put_c1", "PUT, UNSIGNED-PAYLOAD, 1 connection", _put, 1),
    Cell("put_c8", "PUT, UNSIGNED-PAYLOAD, 8 connections", _put, 8, 1.0),
)

_DECLARED_CONNECTIONS = 8

Taken = Mapping[str, Mapping[str, Sequence[Moved]]]
"""What was moved in each round, by cell and by proxy."""


def measure(effort: Effort) -> list[Result]:
    """Move objects of 256 MiB through all three, in turns and on one core."""
    with scene() as around, forwarding(around.store) as served:
        served.check(around.store)
        proxies = (served.proxy, around.nginx, around.envoy)
        rounds = min(effort.rounds, MAX_ROUNDS)
        taken = move_in_turns(around, proxies, rounds)
        declared, hashing = _move_declared(around, served.proxy, rounds)
        served.check_audited(rounds * sum(cell.objects for cell in CELLS))
    return [
        *(row for cell in CELLS for row in cell_rows(_with_libraries(cell), taken[cell.name])),
        *_declared_rows(declared, hashing, taken["put_c8"]["nginx"]),
    ]


def _with_libraries(cell: Cell) -> Cell:
    """Say of a cell over TLS by which libraries: versions of OpenSSL differ by more than a must allows."""
    if cell.ask is not _get_tls:
        return cell
    libraries = f"signproxy with {ssl.OPENSSL_VERSION}, nginx with {forward_nginx.openssl()}, Envoy with its BoringSSL"
    return msgspec.structs.replace(cell, words=f"{cell.words}; {libraries}")


def move_in_turns(around: Scene, proxies: Sequence[Proxy], rounds: int) -> dict[str, dict[str, list[Moved]]]:
    """Return what each proxy moved in each round, cell by cell."""
    by_name = {proxy.name: proxy for proxy in proxies}
    taken: dict[str, dict[str, list[Moved]]] = {cell.name: {name: [] for name in by_name} for cell in CELLS}
    for number in range(rounds):
        for cell in CELLS:
            for name in in_turns(tuple(by_name), number):
                proxy = by_name[name]
                taken[cell.name][name].append(_burst(around, proxy, cell.ask(proxy, around.store), cell))
    return taken


def _burst(around: Scene, proxy: Proxy, ask: Ask, cell: Cell) -> Moved:
    return move(
        around.load,
        ask,
        proxy.port,
        proxy.pids,
        around.scratch,
        connections=cell.connections,
        objects=cell.objects,
    )


def cell_rows(cell: Cell, taken: Mapping[str, Sequence[Moved]]) -> Iterator[Result]:
    """Yield throughput and processor time of one cell, against both peers."""
    rate = {name: [moved.rate for moved in each] for name, each in taken.items()}
    cost = {name: [moved.cost for moved in each] for name, each in taken.items()}
    for peer, words in (("nginx", _NGINX), ("envoy", _ENVOY)):
        yield result(
            f"forward_large.{cell.name}_rate_vs_{peer}",
            ratios(rate["signproxy"], rate[peer]),
            unit="ratio",
            better="higher",
            must=cell.must if peer == "nginx" else 1.0,
            goal=cell.goal if peer == "nginx" else None,
            against=f"{words}; {cell.words}, GB per second",
        )
        yield result(
            f"forward_large.{cell.name}_cpu_vs_{peer}",
            ratios(cost["signproxy"], cost[peer]),
            unit="ratio",
            better="lower",
            must=_MOST_COST if peer == "nginx" else 1.0,
            against=f"{words}; {cell.words}, {_COST}",
        )
    for name, costs in cost.items():
        yield result(
            f"forward_large.{cell.name}_{name}_cpu",
            costs,
            unit="s/GB",
            better="lower",
            against=f"{cell.words}, {_COST}, of this machine",
        )
        yield result(
            f"forward_large.{cell.name}_{name}_kernel_share",
            [100 * moved.kernel for moved in taken[name]],
            unit="%",
            better="lower",
            against="of those CPU seconds, in the kernel",
        )


def _move_declared(around: Scene, proxy: Proxy, rounds: int) -> tuple[list[Moved], list[float]]:
    """Return what was moved with its hash declared, and what openssl takes for a GB, in turns."""
    body = around.store.objects / "large"
    with body.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    cell = Cell("put_sha256_c8", "", _put, _DECLARED_CONNECTIONS)
    moved, hashing = [], []
    for _ in range(rounds):
        moved.append(_burst(around, proxy, put(proxy, "part-0.large", body, digest), cell))
        hashing.append(hash_cost(body))
    return moved, hashing


def hash_cost(body: Path) -> float:
    """Return the CPU seconds per GB of `openssl sha256`, on the core of the servers."""
    before = _children_seconds()
    output_of(["taskset", "-c", str(SERVER_CORE), "openssl", "dgst", "-sha256", *(str(body),) * 2])
    return (_children_seconds() - before) / (2 * body.stat().st_size) * GIGABYTE


def _children_seconds() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def _declared_rows(moved: Sequence[Moved], hashing: Sequence[float], nginx: Sequence[Moved]) -> Iterator[Result]:
    words = f"PUT with its SHA-256 declared and verified, {_DECLARED_CONNECTIONS} connections"
    floor = [one.cost + more for one, more in zip(nginx, hashing, strict=True)]
    yield result(
        "forward_large.put_sha256_c8_cpu_vs_nginx_and_openssl",
        ratios([one.cost for one in moved], floor),
        unit="ratio",
        better="lower",
        must=_MOST_COST,
        against=f"nginx proxy_pass plus `openssl sha256` of the same bytes, in the same run; {words}, {_COST}",
    )
    yield result(
        "forward_large.put_sha256_c8_signproxy_cpu",
        [one.cost for one in moved],
        unit="s/GB",
        better="lower",
        against=f"{words}, {_COST}, of this machine",
    )
    yield result(
        "forward_large.openssl_sha256_cpu",
        hashing,
        unit="s/GB",
        better="lower",
        against=f"`openssl sha256` of an object of {LARGE_BYTES >> 20} MiB, {_COST}, of this machine",
    )
