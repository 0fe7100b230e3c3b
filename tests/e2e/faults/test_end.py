"""The server is told to end under load: clients are sent elsewhere in time, and no answer is lost."""

from __future__ import annotations

import json
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.faults.conftest import Deploy
from tests.e2e.faults.deployment import ROUTE, Deployment, is_alive, sign_message
from tests.e2e.faults.evidence import check_every_answer, check_numbers
from tests.e2e.faults.load import CLOSED, SIGNED, UNREACHED, load_on
from tests.e2e.stores.process import listens

pytestmark = pytest.mark.ci

DELAY = 2
"""Seconds between the warning and the end; a balancer needs as many probes."""


def test_an_ending_server_sends_its_clients_elsewhere_first(deploy: Deploy, workers: int) -> None:
    """Java does not repeat a request whose connection was closed under it: each rollout would fail running jobs."""
    deployment = deploy(workers, drain={"delay_seconds": DELAY})
    with deployment.serve() as served, load_on(deployment, clients=8) as load:
        served.signal(signal.SIGTERM)
        served.wait_until("it says so", lambda: served.status("/readyz") == 503)
        told = time.monotonic()
        assert "draining" in served.admin("/readyz")[1]
        load.wait_for(SIGNED, 50, since=told)
        # New clients are still served, and each answer asks its client to go.
        asked = [each for each in load.exchanges if each.begun > told]
        assert {(each.outcome, each.last) for each in asked} == {(SIGNED, True)}
        # A balancer has seen the probe by now.
        load.leave()
        assert served.wait() == 0
        assert load.is_over
        assert set(load.outcomes()) == {SIGNED}
    assert served.logged("stopped")
    events = served.events()
    check_every_answer(events, load.exchanges)
    assert check_numbers(events) == workers


def test_clients_that_never_leave_find_a_closed_door_and_no_broken_answer(deploy: Deploy, workers: int) -> None:
    """Where nothing stands in front, a client may connect until the last moment: in, or not in, never half."""
    deployment = deploy(workers, drain={"delay_seconds": DELAY})
    with deployment.serve() as served, load_on(deployment, clients=8) as load:
        served.signal(signal.SIGTERM)
        told = time.monotonic()
        assert served.wait() == 0
        load.wait_for(UNREACHED)
    assert set(load.outcomes()) <= {SIGNED, UNREACHED, CLOSED}
    events = served.events()
    check_every_answer(events, load.exchanges)
    # The kernel connects clients that come while the door closes. A client that was not let in was not heard.
    shut_out = [each for each in load.exchanges if each.outcome == CLOSED]
    assert len(shut_out) <= 8
    assert all(each.begun > told + DELAY * 0.9 for each in shut_out)
    assert {each.request_id for each in shut_out}.isdisjoint(event.get("request_id") for event in events)


def test_a_request_in_flight_is_finished(deploy: Deploy, workers: int) -> None:
    """The answer that a client waits for is the last thing that a server owes it."""
    deployment = deploy(workers)
    with deployment.serve() as served, _half_sent(deployment) as (client, rest):
        served.signal(signal.SIGTERM)
        served.wait_until("it listens no more", lambda: not listens(deployment.port))
        assert served.workers()
        client.sendall(rest)
        answer = _read_all(client)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"\r\nConnection: close\r\n" in answer
        assert served.wait() == 0
    assert [event["decision"] for event in served.events()] == ["allow"]


def test_a_request_that_never_ends_is_waited_for_only_so_long(deploy: Deploy, workers: int) -> None:
    """A client that hangs must not keep the pod until it is killed, with the last events unwritten."""
    deployment = deploy(workers, drain={"timeout_seconds": 1})
    with deployment.serve() as served, _half_sent(deployment):
        assert served.sign().status == 200
        served.signal(signal.SIGTERM)
        assert served.wait() == 0
    assert next(event["reason"] for event in served.events()) == "allowed"
    assert check_numbers(served.events()) >= 1


def test_a_second_signal_ends_at_once(deploy: Deploy, workers: int) -> None:
    """Who asks twice does not want to wait, and must not leave workers behind."""
    deployment = deploy(workers, drain={"delay_seconds": 600, "timeout_seconds": 600})
    with deployment.serve() as served, _half_sent(deployment):
        pids = served.workers()
        served.signal(signal.SIGTERM)
        served.wait_until("it says so", lambda: served.status("/readyz") == 503)
        served.signal(signal.SIGTERM)
        assert served.wait() == 0
        deadline = time.monotonic() + 5
        while any(map(is_alive, pids)):
            assert time.monotonic() < deadline, pids
            time.sleep(0.02)
        assert not listens(deployment.port)


@contextmanager
def _half_sent(deployment: Deployment) -> Iterator[tuple[socket.socket, bytes]]:
    """Send all of a request but the end of its body; return the connection, and what is missing."""
    body = json.dumps(sign_message("wh/t/slow")).encode()
    head = (
        f"POST {ROUTE} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {deployment.token}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", deployment.port), timeout=30) as client:
        client.sendall(head.encode() + body[:-10])
        # Until the server has read it: what lies in the kernel alone is not accepted yet.
        time.sleep(0.3)
        yield client, body[-10:]


def _read_all(client: socket.socket) -> bytes:
    content = b""
    while received := client.recv(65_536):
        content += received
    return content
