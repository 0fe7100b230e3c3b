"""The trail in segments, under load: whatever happens to disk and process, what was answered can be proved."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from signproxy.audit.segment import SealedBy
from signproxy.audit.trailer import trailer_of
from tests.audit.segment_rig import content, faults, findings
from tests.audit.sinks import segment_files
from tests.e2e.faults.conftest import ONE_ON_EVERY_CHANGE, Deploy
from tests.e2e.faults.deployment import Deployment, Served
from tests.e2e.faults.evidence import check_every_answer, check_numbers
from tests.e2e.faults.load import SIGNED, Load, load_on

UNAVAILABLE = "503 ServiceUnavailableException"
CLIENTS = 12
"""The kernel gives each a worker by a hash: of four, all would meet the same one in every eighth run."""

OUTAGE_SECONDS = 1.5
DISK_BYTES = 50_000_000
UNWRITTEN_SECONDS = 0.05 + 0.25
"""What a killed process may not have written yet: a batch is that old at most, and the machine is busy."""


def deployed(deploy: Deploy, workers: int, **audit: Any) -> tuple[Deployment, Path]:
    deployment = deploy(workers)
    directory = deployment.directory / "trail"
    wanted = {"sink": "segments", "path": "", "directory": str(directory), "segment_seconds": 1} | audit
    deployment.set("audit", wanted)
    return deployment, directory


def events(directory: Path) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in content(directory).splitlines()]


@pytest.mark.ci
def test_a_server_that_ends_leaves_a_whole_trail(deploy: Deploy, workers: int) -> None:
    """After each rollout an auditor would have to believe that the last minute holds what it should."""
    deployment, directory = deployed(deploy, workers)
    with deployment.serve() as served:
        with load_on(served.deployment, clients=CLIENTS) as load:
            load.wait_for(SIGNED, 500)
            served.wait_until("segments are sealed", lambda: served.metric("signproxy_audit_segments_sealed_total") > 1)
        assert served.metric("signproxy_audit_lag_seconds") < 5
        served.signal(signal.SIGTERM)
        assert served.wait() == 0
    assert findings(directory) == []
    check_every_answer(events(directory), load.exchanges)
    assert check_numbers(events(directory)) == workers
    ends = [trailer_of(path)[0] for path in segment_files(directory)]
    assert [end.end.sealed_by for end in ends if end is not None].count(SealedBy.CLOSE) == workers
    verified = subprocess.run(
        [sys.executable, "-m", "signproxy", "audit", "verify", "--json", str(directory)],
        capture_output=True, check=False, timeout=60, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert verified.returncode == 0
    assert json.loads(verified.stdout)["events"] == len(events(directory))


@ONE_ON_EVERY_CHANGE
def test_a_killed_server_leaves_all_but_the_last_moment(deploy: Deploy, workers: int) -> None:
    """`kill -9` under load: what was written is sealed by the next start, and nothing before it is missing."""
    deployment, directory = deployed(deploy, workers)
    for _ in range(4):
        with deployment.serve() as served, load_on(served.deployment, clients=CLIENTS) as load:
            load.wait_for(SIGNED, 200)
            time.sleep(random.uniform(0, 0.3))
            killed = time.monotonic()
            for pid in {served.pid, *served.workers()}:
                os.kill(pid, signal.SIGKILL)
            served.wait()
        told = {event.get("request_id") for event in events(directory)}
        lost = [each for each in load.exchanges if each.outcome == SIGNED and each.request_id not in told]
        assert all(each.ended > killed - UNWRITTEN_SECONDS for each in lost), (killed, lost)
    with deployment.serve() as served:
        served.wait_until(
            "orphans are sealed", lambda: len(served.logged("audit segment of a former process sealed")) >= 4
        )
    assert faults(directory) == set()
    assert not list(directory.rglob(".pod*"))
    check_numbers(events(directory))


@ONE_ON_EVERY_CHANGE
def test_a_full_disk_denies_and_nothing_is_missing_afterwards(deploy: Deploy, workers: int) -> None:
    """What the operator cannot prove was never allowed; and the chain goes on where it stopped."""
    deployment, directory = deployed(deploy, workers, segment_seconds=3600)
    with deployment.serve() as served:
        with load_on(served.deployment, clients=CLIENTS) as load:
            with _file_size_limit(served, directory):
                load.wait_for(UNAVAILABLE)
                served.wait_until("it is not ready", lambda: served.status("/readyz") == 503)
                # Each worker has a segment of its own, which is full in its own time.
                served.wait_until("no worker is", lambda: served.metric("signproxy_workers_ready") == 0)
                outage = time.monotonic()
                time.sleep(OUTAGE_SECONDS)
                assert set(load.outcomes(outage)) == {UNAVAILABLE}
            _wait_for_recovery(served, load)
        served.signal(signal.SIGTERM)
        assert served.wait() == 0
    assert findings(directory) == []
    check_every_answer(events(directory), load.exchanges)


def test_a_read_only_volume_denies_until_it_is_mended(deploy: Deploy, workers: int) -> None:
    """What a kernel makes of a disk that fails: requests that are served meanwhile would leave no trace."""
    deployment, directory = deployed(deploy, workers, segment_seconds=1)
    directory.mkdir()
    mount = f'mount -t tmpfs -o size={DISK_BYTES} none "$0" && exec "$@"'
    as_root = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    with deployment.serve(before=("unshare", *as_root, "--mount", "sh", "-c", mount, str(directory))) as served:
        inside = Path(f"/proc/{served.pid}/root{directory}")
        # The kernel makes no volume read-only on which a file is open for writing: between two segments none is.
        answers = [served.sign().status]
        served.wait_until("it is read-only", lambda: _remount(served, directory, "ro"))

        def asked() -> int:
            answers.append(served.sign().status)
            return answers[-1]

        def all_refuse() -> bool:
            asked()
            return served.metric("signproxy_workers_ready") == 0

        served.wait_until("all refuse", all_refuse)
        assert {asked() for _ in range(50)} == {503}
        assert _remount(served, directory, "rw")
        served.wait_until("all serve", lambda: served.metric("signproxy_workers_ready") == workers)
        assert {asked() for _ in range(50)} == {200}
        served.wait_until("it is written", lambda: _allowed(inside) >= answers.count(200))
        assert _allowed(inside) == answers.count(200)
        assert faults(inside) <= {"OPEN"}


def _remount(served: Served, directory: Path, mode: str) -> bool:
    entered = ["nsenter", f"--target={served.pid}", "--mount"]
    command = [*entered, "mount", "-o", f"remount,{mode}", str(directory)]
    return subprocess.run(command, capture_output=True, check=False, timeout=30).returncode == 0


def _allowed(directory: Path) -> int:
    return len([event for event in events(directory) if event["reason"] == "allowed"])


@contextmanager
def _file_size_limit(served: Served, directory: Path) -> Iterator[None]:
    """Let no process write beyond what the largest segment has."""

    def largest() -> int:
        return max((path.stat().st_size for path in segment_files(directory)), default=0)

    served.wait_until("a segment has grown", lambda: largest() > 20_000)
    pids = {served.pid, *served.workers()}
    limit = largest()
    for pid in pids:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        for pid in pids:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def _wait_for_recovery(served: Served, load: Load) -> None:
    workers = len(served.workers())
    served.wait_until("all are ready", lambda: served.metric("signproxy_workers_ready") == workers)
    healed = time.monotonic()
    load.wait_for(SIGNED, 50, since=healed)
    assert set(load.outcomes(healed)) == {SIGNED}
