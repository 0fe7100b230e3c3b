"""Processes die and hang under load: the others serve on, and what is gone is replaced or takes nothing with it."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.e2e.faults.conftest import Deploy
from tests.e2e.faults.deployment import Served, is_alive
from tests.e2e.faults.evidence import check_numbers
from tests.e2e.faults.load import CLOSED, SIGNED, TORN, UNREACHED, load_on

CLIENTS = 16
"""So many that not all connections are one worker's."""

UNWRITTEN_SECONDS = 2.0
"""What a killed process had accepted in its last moments dies with it: it writes in batches of 50 ms."""

RESTARTS = "signproxy_worker_restarts_total"


@pytest.mark.ci
def test_a_killed_worker_costs_its_own_connections_and_is_replaced(deploy: Deploy) -> None:
    """The kernel's out-of-memory killer picks one; the callers of the others must not notice."""
    deployment = deploy(2)
    with deployment.serve() as served, load_on(deployment, clients=CLIENTS, pause=0.02) as load:
        victim, survivor = served.workers()
        before = {each.connection for each in load.exchanges}
        killed = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        _wait_for_replacement(served, victim)
        assert survivor in served.workers()
        replaced = time.monotonic()
        load.wait_for(SIGNED, 100, since=replaced)
        assert set(load.outcomes(replaced)) == {SIGNED}
        # A client loses the one answer that it was waiting for, or the connection that it asks on next.
        assert set(load.lost()) <= {CLOSED, TORN}
        assert load.lost().total() <= CLIENTS
        lasting = {each.connection for each in load.exchanges if each.begun > replaced} & before
        assert 0 < len(lasting) < CLIENTS
        assert served.metric(RESTARTS) == 1
        assert served.metric("signproxy_workers") == 2
        served.wait_until("the log tells", lambda: bool(served.logged("worker ended")))
        assert [line["code"] for line in served.logged("worker ended")] == [-signal.SIGKILL]
    # Before and after: only what the victim held in its hand is missing.
    told = {event.get("request_id") for event in served.events()}
    missing = [each for each in load.exchanges if each.outcome == SIGNED and each.request_id not in told]
    assert all(killed - UNWRITTEN_SECONDS < each.ended < killed + 0.1 for each in missing), missing
    assert check_numbers(served.events()) >= 2


@pytest.mark.ci
def test_a_worker_that_is_told_to_end_is_replaced_and_no_client_notices(deploy: Deploy) -> None:
    """Who ends one worker by hand, to see whether it helps, must not fail jobs."""
    deployment = deploy(2, drain={"delay_seconds": 1})
    with deployment.serve() as served, load_on(deployment, clients=CLIENTS, pause=0.02) as load:
        victim = served.workers()[0]
        os.kill(victim, signal.SIGTERM)
        _wait_for_replacement(served, victim)
        load.wait_for(SIGNED, 100, since=time.monotonic())
        assert set(load.outcomes()) == {SIGNED}
        assert served.status("/readyz") == 200
    told = {event.get("request_id") for event in served.events()}
    assert {each.request_id for each in load.exchanges} <= told
    assert check_numbers(served.events()) >= 2


@pytest.mark.ci
def test_a_killed_supervisor_leaves_no_worker_behind(deploy: Deploy) -> None:
    """Workers that are not watched would keep the port, serve the policy of yesterday, and never hear of a revoke."""
    deployment = deploy(2)
    with deployment.serve() as served, load_on(deployment, clients=CLIENTS, pause=0.02) as load:
        orphans = served.workers()
        assert len(orphans) == 2
        served.signal(signal.SIGKILL)
        served.wait()
        deadline = time.monotonic() + 30
        while any(is_alive(pid) for pid in orphans):
            assert time.monotonic() < deadline, orphans
            time.sleep(0.05)
        load.wait_for(UNREACHED)
        # Its successor finds the port free, and the clients find the successor.
        with deployment.serve() as successor:
            found = time.monotonic()
            load.wait_for(SIGNED, 100, since=found)
            assert set(load.outcomes(found)) == {SIGNED}
        assert TORN not in load.outcomes()
    events = successor.events()
    told = {event.get("request_id") for event in events}
    assert {each.request_id for each in load.exchanges if each.outcome == SIGNED} <= told
    assert check_numbers(events) >= 3


def test_a_worker_that_hangs_is_replaced(deploy: Deploy) -> None:
    """A process that neither answers nor dies keeps its share of the connections for ever."""
    deployment = deploy(2)
    with deployment.serve() as served, load_on(deployment, clients=CLIENTS, pause=0.02) as load:
        victim = served.workers()[0]
        os.kill(victim, signal.SIGSTOP)
        _wait_for_replacement(served, victim)
        replaced = time.monotonic()
        load.wait_for(SIGNED, 100, since=replaced)
        assert set(load.outcomes(replaced)) == {SIGNED}
        # No client was left hanging until its own limit ended.
        assert set(load.lost()) <= {CLOSED}
        assert load.lost().total() <= CLIENTS
        assert served.metric(RESTARTS) == 1
    assert check_numbers(served.events()) >= 2


def test_a_worker_that_dies_again_and_again_does_not_take_the_others_along(deploy: Deploy) -> None:
    """A crash loop of one costs its own connections, and is told; the pauses grow, so that it costs no core."""
    deployment = deploy(2)
    with deployment.serve() as served, load_on(deployment, clients=CLIENTS, pause=0.02) as load:
        survivor = served.workers()[1]
        for number in range(1, 4):
            victim = next(pid for pid in served.workers() if pid != survivor)
            os.kill(victim, signal.SIGKILL)
            _wait_for_replacement(served, victim)
            assert served.metric(RESTARTS) == number
        assert survivor in served.workers()
        assert load.lost().total() <= 3 * CLIENTS
        counted = served.metric("signproxy_requests_total")
        # A counter that falls looks like a restart of all; what the dead had told before is kept.
        assert counted >= load.outcomes()[SIGNED] - 3 * CLIENTS * 200


def _wait_for_replacement(served: Served, victim: int) -> None:
    served.wait_until(
        "the worker is replaced",
        lambda: victim not in served.workers() and len(served.workers()) == 2 and _ready_workers(served) == 2,
    )


def _ready_workers(served: Served) -> float:
    return served.metric("signproxy_workers_ready")
