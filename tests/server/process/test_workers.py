"""Several workers on one port, as an operator sees them: one server that a dead process does not end."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from signproxy.telemetry.exposition import Exposition
from tests.product import sign_message
from tests.scrape import OPEN_METRICS, parsed
from tests.server.process.served import POLICY, WAIT, Served, Start, serve

__all__ = ["serve"]


def until(holds: Callable[[], bool], served: Served) -> None:
    """Wait until it holds."""
    deadline = time.monotonic() + WAIT
    while not holds():
        assert time.monotonic() < deadline, served.log.read_text()
        time.sleep(0.02)


def workers_of(served: Served) -> dict[int, int]:
    """Return the process of each worker."""
    started = [line for line in served.lines() if line["event"] == "worker started"]
    return {line["worker"]: line["pid"] for line in started}


def metric(served: Served, name: str) -> float:
    """Return the sum of a metric's samples."""
    text = served.request(served.wait_for("serving")["admin"], "GET", "/metrics")[1]
    samples = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return sum(float(value) for labelled, _, value in samples if labelled.partition("{")[0] == name)


def ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_workers_share_the_port_and_every_request_is_counted_once(serve: Start) -> None:
    """An operator scrapes one address, and has to be told of all the processes behind the port."""
    served = serve("--workers", "2")
    assert [served.sign() for _ in range(40)] == [200] * 40
    assert len(set(workers_of(served).values()) | {served.process.pid}) == 3
    assert metric(served, "signproxy_requests_total") == 40
    admin = served.wait_for("serving")["admin"]
    assert served.request(admin, "GET", "/readyz") == (200, "ok\n")
    assert served.stop() == 0
    boots: dict[str, list[int]] = {}
    for event in served.events():
        boots.setdefault(event["boot_id"], []).append(event["seq"])
    assert len(boots) == 2
    assert all(sorted(seqs) == list(range(1, len(seqs) + 1)) for seqs in boots.values())
    assert sum(map(len, boots.values())) == 40


def test_a_number_of_several_workers_leads_to_an_event_of_one_of_them(serve: Start) -> None:
    """An operator would see how often requests are refused, and had to search every worker's trail for one."""
    served = serve("--workers", "2")
    assert [served.sign() for _ in range(20)] == [200] * 20
    status, text = served.request(served.wait_for("serving")["admin"], "GET", "/metrics", accept=OPEN_METRICS)
    assert (status, text.endswith("# EOF\n")) == (200, True)
    shown = Exposition(f"{OPEN_METRICS};", text.encode())
    named = [
        sample.exemplar.labels["event_id"]
        for family in parsed(shown)
        for sample in family.samples
        if sample.exemplar is not None and sample.name == "signproxy_requests_total"
    ]
    assert served.stop() == 0
    # The latest of all: ids sort by time.
    assert named == [max(event["event_id"] for event in served.events() if event["kind"] == "sign")]


def test_a_worker_that_is_killed_is_replaced_and_its_counts_stay(serve: Start) -> None:
    """The kernel ends processes that use too much memory; neither requests nor counts may go with one for good."""
    served = serve("--workers", "2")
    assert [served.sign() for _ in range(20)] == [200] * 20
    until(lambda: metric(served, "signproxy_requests_total") == 20, served)
    time.sleep(1.2)  # the supervisor has heard the counts
    victim = workers_of(served)[0]
    os.kill(victim, signal.SIGKILL)
    served.wait_for("worker started", count=3)
    assert served.wait_for("worker ended")["code"] == -signal.SIGKILL
    assert [served.sign() for _ in range(20)] == [200] * 20
    assert metric(served, "signproxy_requests_total") == 40
    assert metric(served, "signproxy_worker_restarts_total") == 1
    assert served.stop() == 0


def test_a_reload_reaches_every_worker(serve: Start) -> None:
    """A revoke that half of the requests escape is none."""
    served = serve("--workers", "2")
    assert [served.sign() for _ in range(10)] == [200] * 10
    served.policy.write_text(POLICY.replace("reader: {roles: [readers]}", "reader: {roles: []}"))
    served.process.send_signal(signal.SIGHUP)
    served.wait_for("reload accepted")
    assert [served.sign() for _ in range(20)] == [403] * 20
    assert served.stop() == 0
    assert sorted(event["policy_epoch"] for event in served.events() if event["kind"] == "reload") == [2, 2]


def test_more_workers_than_cores_are_kept_in_step(serve: Start) -> None:
    """Watching over many processes must leave something over for looking at files: a revoke would never come."""
    served = serve("--workers", f"{(os.cpu_count() or 1) + 6}", "--set", "reload.poll_seconds=0.05")
    served.wait_for("serving")
    served.policy.write_text(POLICY.replace("reader: {roles: [readers]}", "reader: {roles: []}"))
    served.wait_for("reload accepted")
    assert [served.sign() for _ in range(20)] == [403] * 20
    assert served.stop() == 0


def test_a_policy_that_is_broken_reaches_no_worker(serve: Start) -> None:
    """A typo must not make the answer depend on which process a connection meets."""
    served = serve("--workers", "2")
    served.wait_for("serving")
    served.policy.write_text("remote_signing: maybe\n")
    served.process.send_signal(signal.SIGHUP)
    served.wait_for("reload not accepted")
    assert [served.sign() for _ in range(20)] == [200] * 20
    assert served.stop() == 0


def test_a_worker_that_starts_later_serves_the_policy_in_force(serve: Start) -> None:
    """It must know of every reload that it was not there for."""
    served = serve("--workers", "2")
    served.wait_for("serving")
    served.policy.write_text(POLICY.replace("reader: {roles: [readers]}", "reader: {roles: []}"))
    served.process.send_signal(signal.SIGHUP)
    served.wait_for("reload accepted")
    os.kill(workers_of(served)[1], signal.SIGKILL)
    served.wait_for("worker started", count=3)
    assert [served.sign() for _ in range(20)] == [403] * 20
    assert served.stop() == 0
    assert {event["policy_epoch"] for event in served.events() if event["kind"] == "sign"} == {2}


def test_settings_that_cannot_be_used_end_the_start(serve: Start) -> None:
    """A supervisor that starts workers over and over hides the typo that an operator just made."""
    served = serve("--workers", "2", "--set", "policy.path=/nowhere.yaml")
    assert served.process.wait(WAIT) == 1
    text = served.log.read_text()
    assert "/nowhere.yaml" in text
    assert "Traceback" not in text


def test_workers_end_with_a_supervisor_that_is_killed(serve: Start) -> None:
    """Orphans would hold the port against the next start, and serve a policy that is not renewed."""
    served = serve("--workers", "2")
    served.wait_for("serving")
    workers = workers_of(served).values()
    served.process.kill()
    served.process.wait(WAIT)
    until(lambda: all(map(ended, workers)), served)


def test_a_worker_that_is_asked_to_end_is_replaced(serve: Start) -> None:
    """So that one process can be renewed without an outage."""
    served = serve("--workers", "2")
    served.wait_for("serving")
    os.kill(workers_of(served)[0], signal.SIGTERM)
    assert served.wait_for("worker ended")["code"] == 0
    served.wait_for("worker started", count=3)
    assert served.sign() == 200
    assert served.stop() == 0


def test_a_second_signal_ends_the_workers_too(serve: Start) -> None:
    """An orchestrator that asks twice is about to kill, and cannot see the workers."""
    served = serve("--workers", "2", "--set", "drain.delay_seconds=600")
    served.wait_for("serving")
    served.process.terminate()
    served.wait_for("stopping")
    time.sleep(0.1)
    served.process.terminate()
    assert served.process.wait(WAIT) == 0
    until(lambda: all(map(ended, workers_of(served).values())), served)


def test_workers_share_a_unix_socket(serve: Start, tmp_path: Path) -> None:
    """A pod whose engine reaches signproxy by a shared directory needs more than one core as well."""
    named = ("--set", "public_url=http://localhost")
    served = serve("--workers", "2", "--set", "listen.tcp=false", "--set", f"listen.socket={tmp_path}/s.sock", *named)
    address = served.wait_for("serving")["address"]
    assert address.startswith("unix:")
    message = sign_message("GET", "http://127.0.0.1:9/lake/t/f", region="us-east-1")
    body = json.dumps(message).encode()
    assert [served.request_unix(address, "POST", "/v1/aws/s3/sign", body) for _ in range(10)] == [200] * 10
    assert served.stop() == 0
    assert not Path(address.removeprefix("unix:")).exists()
