"""Run versitygw's public S3 tests against any endpoint, and read which of them pass."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.forward.signer import Endpoint
from tests.e2e.stores import install

TIMEOUT = 1200.0
"""Seconds for all of them; they take 35 on two idle cores in front of their own store."""
CASE_TIMEOUT = 60.0

_LINE = re.compile(r"(?:\x1b\[[0-9;]*m)*(RUN|PASS|FAIL|SKIP) +(?:\x1b\[[0-9;]*m)*([A-Za-z0-9_]+)(?:: (.*))?")


@dataclass(frozen=True, slots=True)
class Flow:
    """What became of each case."""

    passed: frozenset[str]
    failed: Mapping[str, str] = field(default_factory=dict)
    """Why, in the test's own words."""
    crashed: bool = False
    """Whether the client itself ended before it was through."""

    @property
    def names(self) -> frozenset[str]:
        return self.passed | self.failed.keys()


def run_all(endpoint: Endpoint, home: Path) -> Flow:
    """Run every case in one process, several at a time."""
    text, code = _run(endpoint, home, TIMEOUT, "full-flow", "--parallel")
    flow = read(text)
    return Flow(flow.passed, flow.failed, crashed=code == _PANIC or "\nRAN: " not in text)


def run_cases(endpoint: Endpoint, home: Path, names: Collection[str], tidy: Callable[[], None]) -> Flow:
    """Run cases one by one, each in a process of its own: some of them crash on a store that they were not made for.

    All of them call their bucket by the same name, so that `tidy` has to remove what a failed one left behind.
    """
    passed, failed = set(), {}
    tidy()
    for name in sorted(names):
        try:
            flow = read(_run(endpoint, home, CASE_TIMEOUT, name)[0])
        except subprocess.TimeoutExpired:
            flow = Flow(frozenset(), {name: "not done in time"})
        if name in flow.passed:
            passed.add(name)
        else:
            failed[name] = flow.failed.get(name, "crashed")
            tidy()
    return Flow(frozenset(passed), failed)


def read(text: str) -> Flow:
    """Read what the tests print: a case that both passes and fails has failed."""
    passed, failed, begun = set(), {}, set()
    for kind, name, why in _lines(text):
        if kind == "PASS":
            passed.add(name)
        elif kind == "FAIL":
            failed[name] = why
        elif kind == "RUN":
            begun.add(name)
    for name in begun - passed - failed.keys():
        failed[name] = "never ended"
    return Flow(frozenset(passed) - failed.keys(), failed)


def _lines(text: str) -> Iterator[tuple[str, str, str]]:
    for line in text.splitlines():
        if found := _LINE.match(line):
            yield found[1], found[2], found[3] or ""


_PANIC = 2


def _run(endpoint: Endpoint, home: Path, timeout: float, *case: str) -> tuple[str, int]:
    binary = install.versitygw()
    home.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        # Some cases call it by this name, to look at the gateway from within.
        (home / "versitygw").symlink_to(binary)
    where = ("--access", endpoint.access_key, "--secret", endpoint.secret, "--endpoint", endpoint.origin)
    done = subprocess.run(
        (str(binary), "--region", endpoint.region, "test", *where, *case),
        cwd=home,
        # The machine's settings for AWS are not the test's.
        env={"PATH": "/usr/bin:/bin", "HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=timeout,
        check=False,
    )
    return done.stdout.decode(errors="replace"), done.returncode
