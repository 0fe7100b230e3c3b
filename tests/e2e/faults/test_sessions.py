"""The session service fails under load: what it gave before goes on signing, and what it gives next is taken up."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator

import pytest

from tests.e2e.faults.clock import Clock
from tests.e2e.faults.conftest import ONE_ON_EVERY_CHANGE, Deploy
from tests.e2e.faults.deployment import Deployment
from tests.e2e.faults.load import SIGNED, Load, load_on, real_time
from tests.e2e.faults.sts import Mode, SessionService

UNAVAILABLE = "503 ServiceUnavailableException"
FAILURES = 'signproxy_credentials_refresh_total{result="failed"}'
RENEWALS = 'signproxy_credentials_refresh_total{result="renewed"}'

SHORT_SECONDS = 64.0
"""The life of a session in the long tests: more than what is left must be at least, 60, and little more."""


@pytest.fixture
def deployment(deploy: Deploy, workers: int) -> Deployment:
    return deploy(workers)


@pytest.fixture
def service(deployment: Deployment) -> Iterator[SessionService]:
    with SessionService(deployment.keys).running() as made:
        providers = {"owner": deployment.settings["credentials"]["providers"]["owner"], "role": made.provider("owner")}
        deployment.set("credentials", {"providers": providers})
        deployment.set("storages", {"store": {**deployment.settings["storages"]["store"], "credentials": "role"}})
        yield made
        assert made.refused == []


@ONE_ON_EVERY_CHANGE
@pytest.mark.parametrize("mode", [mode for mode in Mode if mode is not Mode.WELL], ids=lambda mode: mode.name.lower())
def test_sessions_that_live_outlast_the_failures_of_the_service(
    deployment: Deployment, service: SessionService, mode: Mode
) -> None:
    """A session service that is away for an hour must be noticed by the operator alone."""
    with deployment.serve() as served, _load_on(deployment) as load:
        given = len(service.given)
        service.mode = mode
        served.signal(signal.SIGHUP)
        served.wait_until("it was asked in vain", lambda: served.metric(FAILURES) > 0)
        load.wait_for(SIGNED, 20, since=time.monotonic())
        assert set(load.outcomes()) == {SIGNED}
        assert served.status("/readyz") == 200
        served.wait_until("it says so", lambda: bool(served.logged("getting credentials failed")))
        told = served.logged("getting credentials failed")[-1]
        assert told["storage"] == "store"
        assert not any(secret in json.dumps(told) for secret in deployment.keys.secrets.values())
        service.mode = Mode.WELL
        # Asked again by itself: no operator has to say that it is well again.
        served.wait_until("it is asked again", lambda: len(service.given) > given)
        served.wait_until("it says so", lambda: bool(served.logged("getting credentials works again")))
        load.wait_for(SIGNED, 20, since=time.monotonic())
        assert set(load.outcomes()) == {SIGNED}


@pytest.mark.ci
def test_a_service_that_is_down_at_the_start_is_waited_for(deployment: Deployment, service: SessionService) -> None:
    """After a power cut everything starts at once, and not in the order that one would wish."""
    service.mode = Mode.DOWN
    with deployment.serve(ready=False) as served:
        status, text = served.admin("/readyz")
        assert (status, "credentials" in text) == (503, True), text
        assert served.sign().status == 503
        service.mode = Mode.WELL
        served.wait_until("it is ready", lambda: served.status("/readyz") == 200)
        assert served.sign().status == 200


@pytest.mark.ci
def test_a_hanging_service_holds_nothing_up(deployment: Deployment, service: SessionService) -> None:
    """Requests must never wait for what is done in the background; nor may the end of the server."""
    with deployment.serve() as served, _load_on(deployment) as load:
        asked = service.asked
        service.mode = Mode.HANGING
        served.signal(signal.SIGHUP)
        served.wait_until("it is asked", lambda: service.asked > asked)
        hanging = time.monotonic()
        load.wait_for(SIGNED, 100, since=hanging)
        assert served.metric(FAILURES) == 0
        assert set(load.outcomes()) == {SIGNED}
        load.leave()
        served.signal(signal.SIGTERM)
        assert served.wait() == 0


def test_sessions_are_replaced_before_they_end(deployment: Deployment, service: SessionService) -> None:
    """A session that is used to its last second fails whatever is under way then."""
    service.seconds = SHORT_SECONDS
    with deployment.serve() as served, _load_on(deployment) as load:
        given = len(service.given)
        begun = time.monotonic()
        while time.monotonic() < begun + SHORT_SECONDS + 10:
            load.wait_for(SIGNED, 1, since=time.monotonic())
            time.sleep(1)
        assert len(service.given) >= 2 * given
        assert served.metric(RENEWALS) >= 2 * given
        assert set(load.outcomes()) == {SIGNED}


def test_sessions_that_end_are_not_used_and_the_next_are(deployment: Deployment, service: SessionService) -> None:
    """What the store would refuse must not be signed with; and no restart may be needed when there is a session."""
    service.seconds = SHORT_SECONDS
    with deployment.serve() as served, _load_on(deployment) as load:
        service.mode = Mode.DOWN
        # Not ready while they still sign: a balancer has time to go elsewhere.
        served.wait_until("it is not ready", lambda: served.status("/readyz") == 503, SHORT_SECONDS + 20)
        assert set(load.outcomes()) == {SIGNED}
        time.sleep(SHORT_SECONDS)
        over = time.monotonic()
        load.wait_for(UNAVAILABLE, 20, since=over)
        assert set(load.outcomes(over)) == {UNAVAILABLE}
        service.seconds, service.mode = 3600.0, Mode.WELL
        served.wait_until("it is ready", lambda: served.status("/readyz") == 200, 90)
        load.wait_for(SIGNED, 20, since=time.monotonic())
        assert not load.lost()


@ONE_ON_EVERY_CHANGE
def test_a_clock_that_steps_over_the_end_of_a_session_fetches_the_next(
    deployment: Deployment, service: SessionService
) -> None:
    """A laptop wakes, a machine is moved: the session has ended in between, and half of its life is a long wait."""
    clock = Clock(deployment.directory)
    with deployment.serve(env=clock.env) as served, _load_on(deployment, clock) as load:
        given = len(service.given)
        service.clock_offset = 7_200.0
        clock.step(7_200.0)
        workers = len(served.workers())
        served.wait_until("sessions are new", lambda: len(service.given) >= given + workers)
        served.wait_until("all are ready", lambda: served.metric("signproxy_workers_ready") == workers)
        healed = time.monotonic()
        load.wait_for(SIGNED, 20, since=healed)
        assert set(load.outcomes(healed)) == {SIGNED}
        assert set(load.outcomes()) <= {SIGNED, UNAVAILABLE}
        # Back again: what looked new is then of the future, and is good until it is refused.
        service.clock_offset = 0.0
        clock.step(0.0)
        back = time.monotonic()
        load.wait_for(SIGNED, 20, since=back)
        assert set(load.outcomes(back)) == {SIGNED}


def _load_on(deployment: Deployment, clock: Clock | None = None) -> Load:
    moments = real_time if clock is None else clock.moments
    return load_on(deployment, moments=moments)
