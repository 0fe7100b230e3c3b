"""Count the instructions of a process under callgrind: of all its threads, request by request."""

from __future__ import annotations

import shutil
import socket
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.process import BenchFailed, output_of
from tests.e2e.stores import debian
from tests.e2e.stores.install import PrerequisiteMissing

_LOOP_THREAD = "01"
"""The first thread of a process is the one of its event loop; the audit writer is another."""

_PATIENCE = 60.0


class Plan(NamedTuple):
    """How many requests there are before anything is counted, before the count begins anew, and in each count."""

    warm_up: int
    switched_on: int
    counted: int
    counts: int
    """Of each thread the smallest is taken: what it does now and then, by the clock, is in the others. The audit writer
    makes more and smaller batches on a machine that is busy with other work."""


MANY = Plan(500, 200, 200, 5)
FEW = Plan(5, 2, 5, 1)


class Count(msgspec.Struct, frozen=True):
    """Instructions of the counted requests."""

    requests: int
    by_library: dict[str, int]
    """Of all threads: what one hands to another is not done by that."""

    @property
    def instructions(self) -> int:
        """Those of all requests."""
        return sum(self.by_library.values())

    @property
    def per_request(self) -> float:
        """Those of one request."""
        return self.instructions / self.requests


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


class Tools(NamedTuple):
    """The commands of valgrind, and what they have to find in their environment."""

    valgrind: str
    control: str
    environment: dict[str, str]


def valgrind() -> Tools:
    """Return the commands on the path; where there are none, those of Debian's package, fetched by its name."""
    found, control = shutil.which("valgrind"), shutil.which("callgrind_control")
    if found and control:
        return Tools(found, control, {})
    try:
        package = debian.unpacked("valgrind") / "usr"
    except PrerequisiteMissing as missing:
        raise BenchFailed(f"valgrind is missing, and cannot be fetched: {missing}") from None
    # `valgrind` is a script that asks for a system that it is installed in.
    commands = package / "bin"
    environment = {"VALGRIND_LIB": str(package / "libexec" / "valgrind")}
    return Tools(str(commands / "valgrind.bin"), str(commands / "callgrind_control"), environment)


class Counting:
    """A count of one process, which runs under callgrind."""

    def __init__(self, directory: Path, tree: Path) -> None:
        """`tree` holds the packages that the process runs."""
        self.directory = directory
        tools = valgrind()
        self.command = (
            *("setarch", "-R", tools.valgrind, "--tool=callgrind", "--instr-atstart=no"),
            *("--separate-threads=yes", f"--callgrind-out-file={directory}/counted"),
        )
        self._control = tools.control
        # Equal runs place equal objects: no random hashes, and no addresses that differ.
        self.environment = {
            "PYTHONPATH": str(tree), "PYTHONSAFEPATH": "1", "PYTHONHASHSEED": "0", **tools.environment
        }  # fmt: skip

    def requests(self, pid: int, port: int, message: Callable[[int], bytes], plan: Plan = MANY) -> Count:
        """Count the instructions of requests over one connection."""
        line = Line(port)
        counts = ((plan.counted, "--dump"),) * plan.counts
        numbers = count()
        try:
            for requests, then in ((plan.warm_up, "--instr=on"), (plan.switched_on, "--zero"), *counts):
                for number in islice(numbers, requests):
                    line.ask(message(number))
                output_of([self._control, then, str(pid)])
        finally:
            line.close()
        return read(self.directory, plan.counted)


def read(directory: Path, requests: int) -> Count:
    """Return what callgrind counted of so many requests; of each count it wrote one file for each thread."""
    threads: defaultdict[str, list[dict[str, int]]] = defaultdict(list)
    for path in directory.glob("counted.*-*"):
        threads[path.name.rpartition("-")[2]].append(libraries_of(path))
    if _LOOP_THREAD not in threads:
        raise BenchFailed(f"callgrind wrote nothing of the first thread: {sorted(directory.glob('counted*'))}")
    total: Counter[str] = Counter()
    for counts in threads.values():
        total.update(min(counts, key=lambda each: sum(each.values())))
    return Count(requests, dict(total))


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
