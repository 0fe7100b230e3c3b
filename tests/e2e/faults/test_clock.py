"""The wall clock steps under load: tokens, credentials and signatures follow it, everything else does not notice."""

from __future__ import annotations

import json
import time
from datetime import datetime

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.e2e.faults.clock import Clock
from tests.e2e.faults.conftest import ONE_ON_EVERY_CHANGE, Deploy
from tests.e2e.faults.deployment import Deployment, replace
from tests.e2e.faults.evidence import check_every_answer, check_numbers
from tests.e2e.faults.load import SIGNED, Load

ISSUER = "https://issuer.test"
HOURS = 3_600.0
STEPS = (2 * HOURS, -26 * HOURS, 26 * HOURS, 0.0)
"""Forward and back, over the end of a day too, of which a signing key is made."""


class Issuer:
    """Issues tokens whose keys signproxy has in a file."""

    def __init__(self, deployment: Deployment) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        file = deployment.directory / "issuer.pem"
        file.write_bytes(
            self._key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
        declared = {"issuer": ISSUER, "audiences": ["signproxy"], "algorithms": ["ES256"], "key_file": str(file)}
        deployment.set("identity", {"issuers": {"idp": declared}})

    def token(self, now: float, *, seconds: float = 600.0) -> str:
        """Return a token that is issued at this time."""
        claims = {"iss": ISSUER, "aud": "signproxy", "sub": "engineer", "iat": int(now), "exp": int(now + seconds)}
        return jwt.encode(claims, self._key, "ES256", headers={"typ": "at+jwt"})


@pytest.mark.ci
def test_signatures_and_events_follow_the_clock_and_no_request_fails(deploy: Deploy, workers: int) -> None:
    """A store refuses what is dated by another clock; and a step must not stop whatever counts time in other ways."""
    deployment = deploy(workers)
    clock = Clock(deployment.directory)
    with (
        deployment.serve(env=clock.env) as served,
        Load(deployment.port, lambda: deployment.token, deployment.keys, moments=clock.moments) as load,
    ):
        for offset in STEPS:
            clock.step(offset)
            stepped = time.monotonic()
            # Each of these is verified with the new time by `sign`, dates and key of the day included.
            for _ in range(10):
                answer = served.sign(now=clock.now)
                assert answer.status == 200
                assert abs(_date_of(answer.text) - clock.now()) < 60
            load.wait_for(SIGNED, 50, since=stepped)
        assert served.status("/readyz") == 200
        assert set(load.outcomes()) == {SIGNED}
    events = served.events()
    check_every_answer(events, load.exchanges)
    # No id comes twice although the same moments do, and the numbers count on.
    assert check_numbers(events) == workers
    hours = {round((datetime.fromisoformat(event["ts"]).timestamp() - time.time()) / HOURS) for event in events}
    assert hours == {round(offset / HOURS) for offset in STEPS}


@ONE_ON_EVERY_CHANGE
def test_tokens_end_and_begin_by_the_clock(deploy: Deploy, workers: int) -> None:
    """A verification is remembered, and must be forgotten at the token's end, however the clock came to be there."""
    deployment = deploy(workers)
    issuer = Issuer(deployment)
    clock = Clock(deployment.directory)
    with deployment.serve(env=clock.env) as served:
        here, there = issuer.token(time.time()), issuer.token(time.time() + 2 * HOURS)
        for offset, statuses in (
            (0.0, {here: 200, there: 401}),
            (2 * HOURS, {here: 401, there: 200}),
            # Of the future, and never seen; what was believed once is believed until its end.
            (-2 * HOURS, {issuer.token(time.time()): 401, issuer.token(time.time() - 2 * HOURS): 200}),
            (0.0, {here: 200, issuer.token(time.time() + 2 * HOURS): 401}),
        ):
            clock.step(offset)
            for token, status in statuses.items():
                # More often than there are workers.
                assert {served.sign(token, now=clock.now).status for _ in range(6)} == {status}, offset


@ONE_ON_EVERY_CHANGE
def test_credentials_end_by_the_clock_and_new_ones_are_taken_up(deploy: Deploy, workers: int) -> None:
    """Signing with keys that have ended sends every client into an error of the store that says nothing."""
    deployment = deploy(workers)
    clock = Clock(deployment.directory)
    _write_session(deployment, time.time() + HOURS)
    with (
        deployment.serve(env=clock.env) as served,
        Load(deployment.port, lambda: deployment.token, deployment.keys, moments=clock.moments) as load,
    ):
        clock.step(2 * HOURS)
        stepped = time.monotonic()
        load.wait_for("503 ServiceUnavailableException", 20, since=stepped)
        assert SIGNED not in load.outcomes(stepped)
        served.wait_until("it is not ready", lambda: served.status("/readyz") == 503)
        _write_session(deployment, time.time() + 4 * HOURS)
        served.wait_until("it is ready", lambda: served.status("/readyz") == 200)
        healed = time.monotonic()
        load.wait_for(SIGNED, 20, since=healed)
        assert set(load.outcomes(healed)) == {SIGNED}
        clock.step(0.0)
        back = time.monotonic()
        load.wait_for(SIGNED, 20, since=back)
        assert set(load.outcomes(back)) == {SIGNED}
        assert not load.lost()


def _write_session(deployment: Deployment, ends: float) -> None:
    key, secret = deployment.keys.new("session-token")
    session = {
        "access_key_id": key, "secret_access_key": secret, "session_token": "session-token", "expires_at": int(ends),
    }  # fmt: skip
    replace(deployment.key_file, json.dumps(session), mode=0o600)


def _date_of(answer: str) -> float:
    headers = {name.lower(): values for name, values in json.loads(answer)["headers"].items()}
    return datetime.strptime(headers["x-amz-date"][0] + "+0000", "%Y%m%dT%H%M%SZ%z").timestamp()
