"""The disk of the audit trail is full, under load: nothing is served without evidence, and all heals by itself."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.e2e.faults.conftest import ONE_ON_EVERY_CHANGE, Deploy
from tests.e2e.faults.deployment import Served, events_of
from tests.e2e.faults.evidence import check_every_answer, check_numbers, holes
from tests.e2e.faults.load import SIGNED, Load, load_on

UNAVAILABLE = "503 ServiceUnavailableException"
UNLIMITED = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)

CLIENTS = 12
"""The kernel gives each a worker by a hash: of four, all would meet the same one in every eighth run."""

OUTAGE_SECONDS = 1.5
DISK_BYTES = 1_500_000
"""Of a file system that is there to be filled."""


@pytest.mark.ci
def test_a_full_disk_denies_until_there_is_room(deploy: Deploy, workers: int) -> None:
    """What the operator cannot prove was never allowed; and nothing has to be restarted when there is room."""
    deployment = deploy(workers)
    with deployment.serve() as served, load_on(served.deployment, clients=CLIENTS) as load:
        with _file_size_limit(served, deployment.audit_file):
            load.wait_for(UNAVAILABLE)
            _check_told(served)
            outage = time.monotonic()
            time.sleep(OUTAGE_SECONDS)
            # Not one slipped through once it was known, on whichever worker.
            assert set(load.outcomes(outage)) == {UNAVAILABLE}
            assert served.status("/livez") == 200
        _wait_for_recovery(served, load)
        assert not load.lost()
    _check_complete(served, load)


@ONE_ON_EVERY_CHANGE
def test_a_full_disk_stops_no_caller_where_the_operator_says_so(deploy: Deploy, workers: int) -> None:
    """`on_error: allow` is a promise too: no request fails, and what is lost is counted and leaves a visible hole."""
    deployment = deploy(workers, audit={"on_error": "allow", "queue": 100})
    with deployment.serve() as served, load_on(served.deployment, clients=CLIENTS) as load:
        with _file_size_limit(served, deployment.audit_file):
            served.wait_until("events are dropped", lambda: served.metric("signproxy_audit_dropped_total") > 0)
            assert served.metric("signproxy_audit_errors_total") > 0
            time.sleep(OUTAGE_SECONDS)
        _wait_for_recovery(served, load)
        assert set(load.outcomes()) == {SIGNED}
        dropped = served.metric("signproxy_audit_dropped_total")
    events = served.events()
    boots = {event["boot_id"] for event in events}
    assert len(boots) == workers
    missing = sum(len(holes([event["seq"] for event in events if event["boot_id"] == boot])) for boot in boots)
    assert missing == dropped == len(load.exchanges) - len(events)


def test_a_file_system_without_room_denies_until_there_is_some(deploy: Deploy, workers: int) -> None:
    """The same with a real file system, whose errors come from elsewhere: as writes, and as flushes."""
    deployment = deploy(workers)
    volume = deployment.directory / "volume"
    volume.mkdir()
    deployment.set("audit", {"path": str(volume / "audit.ndjson")})
    mount = f'mount -t tmpfs -o size={DISK_BYTES} none "$0" && exec "$@"'
    with deployment.serve(before=("unshare", *_as_root(), "--mount", "sh", "-c", mount, str(volume))) as served:
        # Mounted in its own name space, so that nothing is left behind; seen from here through the process.
        inside = Path(f"/proc/{served.pid}/root{volume}")
        with load_on(served.deployment, clients=CLIENTS) as load:
            _fill(inside / "ballast")
            load.wait_for(UNAVAILABLE)
            _check_told(served)
            outage = time.monotonic()
            time.sleep(OUTAGE_SECONDS)
            assert set(load.outcomes(outage)) == {UNAVAILABLE}
            (inside / "ballast").unlink()
            _wait_for_recovery(served, load)
            assert not load.lost()
        served.wait_until("the trail is written", lambda: _evidence_of(inside / "audit.ndjson", load))
        events = events_of(inside / "audit.ndjson")
    check_every_answer(events, load.exchanges)
    assert check_numbers(events) == workers


@contextmanager
def _file_size_limit(served: Served, file: Path) -> Iterator[None]:
    """Let no process write beyond what is in the file, as on a disk without room; needs no right and no mount."""
    served.wait_until("the file is the largest", lambda: file.exists() and file.stat().st_size > 100_000)
    pids = {served.pid, *served.workers()}
    limit = file.stat().st_size
    for pid in pids:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        for pid in pids:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, UNLIMITED)


def _check_told(served: Served) -> None:
    """Assert that the operator sees it everywhere."""
    # Each worker finds out by its own next write.
    served.wait_until("it is not ready", lambda: served.status("/readyz") == 503)
    assert "audit" in served.admin("/readyz")[1]
    assert served.metric("signproxy_audit_errors_total") > 0
    assert served.metric("signproxy_audit_refused_total") > 0
    served.wait_until("the log tells", lambda: bool(served.logged("audit write failed")))


def _wait_for_recovery(served: Served, load: Load) -> None:
    workers = len(served.workers())
    served.wait_until("all are ready", lambda: served.metric("signproxy_workers_ready") == workers)
    assert served.status("/readyz") == 200
    healed = time.monotonic()
    load.wait_for(SIGNED, 50, since=healed)
    assert set(load.outcomes(healed)) == {SIGNED}


def _check_complete(served: Served, load: Load) -> None:
    events = served.events()
    check_every_answer(events, load.exchanges)
    assert check_numbers(events) == len({event["boot_id"] for event in events})


def _evidence_of(file: Path, load: Load) -> bool:
    written = [event for event in events_of(file) if event["reason"] == "allowed"]
    return len(written) >= load.outcomes()[SIGNED]


def _as_root() -> tuple[str, ...]:
    """Return what lets any user mount: the user of a name space of its own is root there."""
    return () if os.geteuid() == 0 else ("--user", "--map-root-user")


def _fill(file: Path) -> None:
    """Write until there is no room for a single byte."""
    with file.open("wb", buffering=0) as ballast:
        for size in (65_536, 1):
            with suppress(OSError):
                while True:
                    ballast.write(b"\0" * size)
