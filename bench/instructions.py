"""Count the instructions of one request in user space: exact to a thousandth, whatever else the machine does.

They show how the code grew, and not what it costs: how long an instruction takes, and what the kernel does, is in the
suites that measure processor time. A gate stands on both.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import socket
import tarfile
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from bench import load, sign_request
from bench.effort import Effort
from bench.figures import Result, result
from bench.floor import floor
from bench.forward_scene import VAULT, headers, key_of, small_target, stores
from bench.forward_serve import forwarding
from bench.process import BenchFailed, output_of
from bench.serve import deploy
from bench.sign_request import COUNTER

AGAINST = "SIGNPROXY_BENCH_AGAINST"
"""Names the environment variable with the commit that is compared with; `--against` sets it."""


class Plan(NamedTuple):
    """How many requests there are before anything is counted, before the count begins anew, and in the count."""

    warm_up: int
    switched_on: int
    counted: int


_MANY = Plan(500, 200, 1_000)
_FEW = Plan(5, 2, 5)
_RANGE = 4 * 1024 * 1024
"""Of a large object: 4 MiB are some 260 records of TLS."""

_NOT_OF_A_NAME = re.compile(r"[^A-Za-z0-9]+")

_LOOP_THREAD = "01"
"""The first thread of a process is the one of its event loop; the audit writer is another."""

_MOST_GROWTH = 1.01
"""A commit that makes a request longer than by this says so by missing its must."""

_ANSWER = 910
"""Bytes of a signature's answer."""

_SHARES = 4
"""Libraries that a profile tells of; all others together are the rest."""

_TREE = Path(__file__).parent.parent
_PATIENCE = 60.0


class Count(msgspec.Struct, frozen=True):
    """Instructions of the counted requests."""

    requests: int
    by_library: dict[str, int]
    """Of the thread of the event loop: the audit writer has its own, whose work comes in batches."""

    @property
    def loop(self) -> int:
        """Instructions of all of them."""
        return sum(self.by_library.values())

    @property
    def per_request(self) -> float:
        """Instructions of the event loop's thread for one request."""
        return self.loop / self.requests


class Line:
    """One connection that is kept."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE)
        self._answers = self._socket.makefile("rb")

    def ask(self, message: bytes) -> None:
        """Send a request, and fail unless it is answered with 200 or, of a range, 206."""
        self._socket.sendall(message)
        status = self._answers.readline()
        length = 0
        while line := self._answers.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        body = self._answers.read(length)
        if not status.startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 206 ")):
            raise BenchFailed(f"answered {status!r}: {body[:500]!r}")

    def close(self) -> None:
        """End the connection."""
        self._answers.close()
        self._socket.close()


def measure(_effort: Effort) -> list[Result]:
    """Count one request of each kind, of the working tree and of the commit that it is compared with."""
    revision = os.environ.get(AGAINST, "")
    now = {name: counted(target, _TREE) for name, target in _TARGETS.items()}
    if not revision:
        return rows(now, {})
    with checked_out(revision) as tree:
        return rows(now, {name: counted(_TARGETS[name], tree) for name in now if name != "floor"}, revision)


def counted(target: Callable[[Counting], Count], tree: Path) -> Count:
    """Count a request to what a directory holds."""
    with tempfile.TemporaryDirectory(prefix="signproxy-bench-") as name:
        return target(Counting(Path(name), tree))


def rows(now: Mapping[str, Count], before: Mapping[str, Count], revision: str = "") -> list[Result]:
    """Return the rows: counts, ratios to the floor and to the other commit, and where the instructions are."""
    found: list[Result] = []
    words = f"of the event loop's thread, one connection, Python {platform.python_version()}"
    for name, count in now.items():
        found.append(_row(name, count.per_request, unit="instr", against=f"{_WORDS[name]}; {words}"))
        if name == "sign":
            over = count.per_request / now["floor"].per_request
            found.append(_row("sign_vs_floor", over, against=f"an empty aiohttp application; {words}"))
        if name in before:
            growth = count.per_request / before[name].per_request
            found.append(_row(f"{name}_vs_before", growth, must=_MOST_GROWTH, against=f"commit {revision}; {words}"))
    for name, count in now.items():
        if name == "floor":
            continue
        largest = Counter(count.by_library).most_common(_SHARES)
        rest = count.loop - sum(size for _, size in largest)
        for library, size in (*largest, ("rest", rest)):
            share, row = 100 * size / count.loop, f"profile_{name}_{_NOT_OF_A_NAME.sub('_', library)}"
            found.append(_row(row, share, unit="%", against=f"instructions of {_WORDS[name]} in {library}"))
    return found


def _row(name: str, value: float, *, unit: str = "ratio", must: float | None = None, against: str) -> Result:
    return result(f"instructions.{name}", [value], unit=unit, better="lower", must=must, against=against)


# -- what is counted ---------------------------------------------------------------------------------------------------


def _floor(counting: Counting) -> Count:
    with deploy() as deployment:
        asked = deployment.signer(())
        with floor(
            asked.template, asked.token, _ANSWER, deployment.directory, under=counting.command, env=counting.environment
        ) as plain:
            return counting.requests(plain.pids[0], _port(plain), partial(_sign_request, plain))


def _sign(counting: Counting) -> Count:
    with deploy() as deployment, deployment.serve(under=counting.command, env=counting.environment) as signer:
        return counting.requests(signer.pids[0], _port(signer), partial(_sign_request, signer))


def _get(counting: Counting) -> Count:
    return _forwarded(counting, small_target(), _MANY)


def _get_tls(counting: Counting) -> Count:
    target = f"/{VAULT}/{key_of(VAULT, f'part-{COUNTER}.large')}"
    return _forwarded(counting, target, _FEW, ("Range", f"bytes=0-{_RANGE - 1}"))


def _forwarded(counting: Counting, target: str, plan: Plan, *more: tuple[str, str]) -> Count:
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(stores(counting.directory))
        served = stack.enter_context(forwarding(store, under=counting.command, env=counting.environment))
        proxy = served.proxy
        lines = "".join(f"{field}: {value}\r\n" for field, value in headers(proxy, *more))
        head = f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{proxy.port}\r\n{lines}\r\n"
        return counting.requests(proxy.pids[0], proxy.port, partial(_numbered, head), plan)


_TARGETS: Mapping[str, Callable[[Counting], Count]] = {
    "floor": _floor,
    "sign": _sign,
    "get": _get,
    "get_tls": _get_tls,
}
_WORDS = {
    "floor": "a request to an empty aiohttp application",
    "sign": "a signature",
    "get": "a GET of 4 KiB",
    "get_tls": "a GET of 4 MiB from a store over TLS",
}


def _numbered(template: str, number: int) -> bytes:
    return template.replace(COUNTER, f"{number:0{len(COUNTER)}d}").encode()


def _sign_request(signer: load.Signer, number: int) -> bytes:
    body = sign_request.body(signer.template, number)
    target = urlsplit(signer.url)
    lines = (
        *(f"POST {target.path} HTTP/1.1", f"Host: {target.netloc}", "Content-Type: application/json"),
        *(f"Content-Length: {len(body)}", f"Authorization: Bearer {signer.token}", "", ""),
    )
    return "\r\n".join(lines).encode() + body


def _port(signer: load.Signer) -> int:
    port = urlsplit(signer.url).port
    assert port is not None
    return port


# -- how it is counted -------------------------------------------------------------------------------------------------


class Counting:
    """A count of one process, which runs under callgrind."""

    def __init__(self, directory: Path, tree: Path) -> None:
        """`tree` holds the packages that the process runs."""
        self.directory = directory
        self.command = (
            *(_tool("setarch"), "-R", _tool("valgrind"), "--tool=callgrind", "--instr-atstart=no"),
            *("--separate-threads=yes", f"--callgrind-out-file={directory}/counted"),
        )
        # Equal runs place equal objects: no random hashes, and no addresses that differ.
        self.environment = {"PYTHONPATH": str(tree), "PYTHONSAFEPATH": "1", "PYTHONHASHSEED": "0"}

    def requests(self, pid: int, port: int, message: Callable[[int], bytes], plan: Plan | None = None) -> Count:
        """Count the instructions of requests over one connection."""
        plan = plan or _MANY
        line = Line(port)
        numbers = iter(range(sum(plan)))
        try:
            for requests, then in zip(plan, ("--instr=on", "--zero", "--dump"), strict=True):
                for number in islice(numbers, requests):
                    line.ask(message(number))
                output_of([_tool("callgrind_control"), then, str(pid)])
        finally:
            line.close()
        return read(self.directory, plan.counted)


def read(directory: Path, requests: int) -> Count:
    """Return what callgrind wrote of so many requests: one file for each thread."""
    threads = {path.name.rpartition("-")[2]: libraries_of(path) for path in directory.glob("counted.1-*")}
    if _LOOP_THREAD not in threads:
        raise BenchFailed(f"callgrind wrote nothing of the first thread: {sorted(threads)}")
    return Count(requests, threads[_LOOP_THREAD])


def libraries_of(path: Path) -> dict[str, int]:
    """Return the instructions of one thread by the library that they stand in."""
    names: dict[str, str] = {}
    found: Counter[str] = Counter()
    library, is_call = "", False
    for line in path.read_text().splitlines():
        if line.startswith(("ob=", "cob=")):
            # A name is written once, where a library or one that it calls first comes up.
            kind, _, rest = line.partition("=")
            number, _, name = rest.partition(" ")
            if name:
                names[number] = Path(name).name
            if kind == "ob":
                library = names[number]
        elif line.startswith("calls="):
            # The next line has what the called function took, which is counted where it stands.
            is_call = True
        elif line[:1] in _POSITIONS:
            if not is_call:
                found[library] += int(line.split()[-1])
            is_call = False
    return dict(found)


_POSITIONS = frozenset("0123456789+-*")


@contextlib.contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """Put the packages of another commit into a directory of its own."""
    git = shutil.which("git") or "git"
    with tempfile.TemporaryDirectory(prefix="signproxy-bench-") as name:
        archive = Path(name) / "tree.tar"
        output_of([git, "-C", str(_TREE), "archive", f"--output={archive}", revision, "signproxy"])
        with tarfile.open(archive) as tar:
            tar.extractall(name, filter="data")
        yield Path(name)


def _tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise BenchFailed(f"{name} is missing: install it by name (apt-get install -y valgrind util-linux)")
    return path
