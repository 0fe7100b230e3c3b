"""When the server counts as started, alive and ready."""

from __future__ import annotations

import pytest

from signproxy.diagnosis import Diagnosis
from signproxy.server.status.readiness import DISAGREEMENT_SECONDS, Readiness, disagreement_of
from signproxy.server.status.report import FleetReport
from tests.server.status.reports import fleet, worker

ILL = {"credentials": "lake: expired"}


class Clock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def started() -> Readiness:
    """Return what has seen the server ready."""
    readiness = Readiness()
    assert readiness.judge(fleet(worker(0), worker(1))).started
    return readiness


@pytest.mark.parametrize(
    ("report", "at_start", "later"),
    (
        (fleet(), True, True),
        (fleet(worker(0), worker(1)), True, True),
        # A worker is being replaced, or has not come up.
        (fleet(worker(0), wanted_workers=2), False, True),
        (fleet(worker(0), worker(1, problems={"draining": "yes"})), False, True),
        # It is there, gets half of the connections and refuses what they bring.
        (fleet(worker(0), worker(1, problems=ILL)), False, False),
        (fleet(worker(0), worker(1, policy_rev="")), False, False),
        (fleet(worker(0, problems=ILL), worker(1, problems=ILL)), False, False),
        (fleet(worker(0, problems=ILL)), False, False),
        (fleet(worker(0, policy_rev="")), False, False),
        (fleet(worker(0), draining=True), False, False),
        (fleet(worker(0, problems={"draining": "yes"}), draining=True), False, False),
    ),
)
def test_all_workers_are_needed_at_the_start_and_all_that_are_there_later(
    report: FleetReport, at_start: bool, later: bool
) -> None:
    """An engine would start before half of its requests can be served; or a pod leave because one process did."""
    fresh = Readiness().judge(report)
    assert (fresh.ready, fresh.started) == (at_start, at_start)
    seasoned = started().judge(report)
    assert (seasoned.ready, seasoned.started) == (later, True)


def test_once_started_always_started() -> None:
    """A startup probe that fails later restarts a container that is merely draining."""
    readiness = started()
    for report in (fleet(worker(0, problems=ILL)), fleet(draining=True), None):
        assert readiness.judge(report).started


@pytest.mark.parametrize(
    ("report", "starting", "later"),
    (
        (fleet(), True, True),
        # It cannot serve, and a restart would not change that.
        (fleet(worker(0, problems=ILL)), True, True),
        # A policy of a million tables takes a minute to load.
        (fleet(wanted_workers=2, workers=()), True, False),
        (fleet(wanted_workers=2, workers=(worker(1),)), True, True),
        # Workers that have finished do not come back.
        (fleet(wanted_workers=2, workers=(), draining=True), True, True),
        (None, True, False),
    ),
)
def test_it_is_alive_while_any_worker_answers(report: FleetReport | None, starting: bool, later: bool) -> None:
    """A liveness probe restarts the pod: only where nothing else would help."""
    assert Readiness().judge(report).alive is starting
    assert started().judge(report).alive is later


@pytest.mark.parametrize(
    "other",
    (
        worker(1, policy_rev="77aa77aa77aa"),
        worker(1, config_digest="77aa77aa77aa"),
    ),
)
def test_workers_may_not_serve_different_policies(other: object) -> None:
    """A revoke would bite on some connections and not on others, for as long as no operator looks."""
    clock = Clock()
    readiness = Readiness(clock)
    report = fleet(worker(0), other)  # type: ignore[arg-type]  # a worker
    readiness.judge(fleet(worker(0), worker(1)))
    # One look may fall between the commits of two workers.
    assert readiness.judge(report).ready
    clock.now = DISAGREEMENT_SECONDS - 0.1
    assert readiness.judge(report).ready
    clock.now = DISAGREEMENT_SECONDS
    judgement = readiness.judge(report)
    assert not judgement.ready
    (check,) = (check for check in judgement.failing if check.where == ("configuration",))
    assert "worker 0: policy 5f2c9d01ab34, settings c0ffee123456" in check.what
    # Over, and the next one begins anew.
    assert readiness.judge(fleet(worker(0), worker(1))).ready
    assert readiness.judge(report).ready


def test_a_worker_that_is_starting_disagrees_with_none() -> None:
    """It serves nothing yet."""
    assert disagreement_of(fleet(worker(0), worker(1, policy_rev=""))) == ""
    assert disagreement_of(fleet(worker(0), worker(1))) == ""
    assert "workers 0, 2: " in disagreement_of(fleet(worker(0), worker(1, policy_rev="x"), worker(2)))


def test_checks_name_the_worker_only_where_there_are_several() -> None:
    """`worker 0` of a sidecar is noise; of eight it is what one looks for."""
    alone = Readiness().judge(fleet(worker(0, problems=ILL)))
    assert [check.line(detail=True) for check in alone.failing] == ["credentials: lake: expired"]
    several = Readiness().judge(fleet(worker(0), worker(1, problems=ILL), wanted_workers=3))
    assert [check.line(detail=True) for check in several.failing] == [
        "workers: 2 of 3 answer",
        "worker 1 credentials: lake: expired",
    ]


def test_draining_is_told_once() -> None:
    """Of a server that drains all workers do."""
    report = fleet(*(worker(number, problems={"draining": "yes"}) for number in range(3)), draining=True)
    assert [check.line(detail=True) for check in Readiness().judge(report).failing] == ["draining: yes"]
    # One that is asked to end alone is named.
    report = fleet(worker(0), worker(1, problems={"draining": "yes"}))
    assert [check.line(detail=True) for check in Readiness().judge(report).failing] == ["worker 1 draining: yes"]


def test_a_check_without_detail_says_no_more_than_its_name() -> None:
    """Probes answer any client; errors name hosts, files and issuers."""
    failing = Diagnosis("/run/secrets/id: cannot be read", where=("credentials",))
    assert failing.line(detail=False) == "credentials: failing"
    assert Diagnosis("", where=("credentials",)).line(detail=False) == "credentials: ok"
