"""signproxy before a real identity provider: its tokens, its key rotations, and each way in which it can fail."""

from __future__ import annotations

import base64
import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jwt
import pytest

from tests.e2e.faults.deployment import CLOSED_ROUTE, Deployment, Served
from tests.e2e.idp.provider import CLIENT, Address, Fetches, IdentityProvider, made_up_tokens, run_identity_provider

pytestmark = pytest.mark.ci

STORM = 500
"""Tokens with made-up key ids; any client can make as many."""
CROWD = 25
"""Callers at a time."""

HANGS = 60.0
"""Seconds after which a hanging provider would answer: longer than any client waits for it."""


# -- tokens --------------------------------------------------------------------------------------------------------


def test_access_tokens_are_accepted_as_the_provider_makes_them(
    deployment: Deployment, provider: IdentityProvider
) -> None:
    """RFC 9068 gives access tokens a type of their own; a verifier that knows only `JWT` refuses every one of them."""
    with deployment.serve() as served:
        for algorithm in ("RS256", "ES256"):
            token = provider.token(algorithm=algorithm)
            header = jwt.get_unverified_header(token)
            assert (header["typ"], header["alg"]) == ("at+jwt", algorithm)
            assert served.sign(token).status == 200
            assert served.sign(token, route=CLOSED_ROUTE, key="wh/closed/f").status == 403
        assert served.sign(provider.token(client="stranger")).status == 403
        assert served.sign(deployment.token).status == 200
    principals = Counter(event["principal"] for event in served.events())
    assert principals == {f"idp/{CLIENT}": 4, "idp/stranger": 1, "static/alice": 1}


def test_a_token_with_anything_changed_is_refused(deployment: Deployment, provider: IdentityProvider) -> None:
    """Everything that a token says rests on its signature."""
    header, claims, signature = provider.token().split(".")
    stranger = json.loads(base64.urlsafe_b64decode(claims + "==")) | {"sub": CLIENT, "exp": 4_000_000_000}
    forged = base64.urlsafe_b64encode(json.dumps(stranger).encode()).decode().rstrip("=")
    nobody = base64.urlsafe_b64encode(b'{"alg":"none","typ":"at+jwt"}').decode().rstrip("=")
    with deployment.serve() as served:
        assert served.sign(f"{header}.{claims}.{signature}").status == 200
        for token in (
            f"{header}.{forged}.{signature}",
            f"{nobody}.{claims}.",
            f"{header}.{claims}.",
            f"{header}.{claims}.{signature[:-4]}{'AAAA' if signature[-4:] != 'AAAA' else 'BBBB'}",
        ):
            assert served.sign(token).status == 401, token


# -- rotation ------------------------------------------------------------------------------------------------------


def test_a_new_key_is_fetched_once_and_old_tokens_live_on(
    deployment: Deployment, provider: IdentityProvider, workers: int
) -> None:
    """A provider rotates whenever it likes: neither running jobs nor new ones may notice."""
    with deployment.serve() as served:
        old, unseen = provider.token(), provider.token()
        assert served.sign(old).status == 200
        before = provider.fetches()
        provider.rotate()
        new = [provider.token(algorithm=algorithm) for algorithm in ("RS256", "ES256")] * CROWD
        assert new[0] != old
        # All at once: the crowd that meets a new key shares one fetch for each process.
        assert _statuses(served, new) == {200: len(new)}
        assert provider.fetches() == before.plus(workers)
        assert served.sign(old).status == 200
        # This one was never seen before, so its key must still be there.
        assert served.sign(unseen).status == 200
        assert provider.fetches() == before.plus(workers)


def test_made_up_key_ids_cost_one_fetch(deployment: Deployment, provider: IdentityProvider) -> None:
    """Otherwise any client can have signproxy run down the company's identity provider."""
    with deployment.serve() as served:
        good = provider.token()
        before = provider.fetches()
        refused = _statuses(served, made_up_tokens(provider.issuer, STORM))
        assert set(refused) <= {401, 429}
        assert refused[401] > 0
        assert provider.fetches() == before.plus(1)
        assert served.sign(good).status == 200
        # A flood of strangers leaves a bounded trail: so many single events a minute, and the sum of the others.
        assert sum(event["reason"] == "token_key_unknown" for event in served.events()) < STORM / 2


# -- failures ------------------------------------------------------------------------------------------------------


def test_a_provider_that_is_down_at_the_start_stops_no_other(tmp_path: Path) -> None:
    """After a power cut everything starts at once; what needs no provider works, and the rest heals by itself."""
    address = Address()
    deployment = Deployment(tmp_path / "signproxy")
    deployment.trust(address.issuer)
    with deployment.serve(ready=False) as served:
        status, text = served.admin("/readyz")
        assert (status, "idp" in text) == (503, True), text
        assert served.status("/livez") == 200
        assert served.sign().status == 200
        answer = served.sign(made_up_tokens(address.issuer, 1)[0])
        assert (answer.status, answer.message) == (503, "Token keys are not available, try again")
        with run_identity_provider(tmp_path / "idp", address) as provider:
            served.wait_until("it is ready", lambda: served.status("/readyz") == 200)
            assert served.sign(provider.token()).status == 200


def test_a_provider_that_goes_down_leaves_its_keys_in_use(tmp_path: Path) -> None:
    """An outage of the provider must not become one of every job, and must be seen."""
    address = Address()
    deployment = Deployment(tmp_path / "signproxy")
    deployment.trust(address.issuer)
    with run_identity_provider(tmp_path / "first", address) as provider:
        seen, unseen = provider.token(), provider.token()
        with deployment.serve() as served:
            assert served.sign(seen).status == 200
            provider.process.stop()
            assert [served.sign(token).status for token in (seen, unseen)] == [200, 200]
            # Only a caller with an unknown key finds out, and at once.
            assert served.sign(made_up_tokens(address.issuer, 1)[0]).status == 401
            assert [served.sign(token).status for token in (seen, unseen)] == [200, 200]
            assert served.status("/readyz") == 200
            assert served.metric('signproxy_jwks_refresh_total{result="failure"}') > 0

            def told() -> list[str]:
                return [line["level"] for line in served.logged() if address.issuer in json.dumps(line)]

            served.wait_until("the log tells", lambda: bool(told()))
            assert told() == ["warning"]
            with run_identity_provider(tmp_path / "second", address) as successor:
                # It has lost its keys, as such test installations do: its tokens are believed once it was asked.
                assert served.sign(unseen).status == 200
                assert successor.token() != seen


def test_a_hanging_provider_makes_only_those_wait_who_need_it(
    deployment: Deployment, provider: IdentityProvider
) -> None:
    """A caller with a key that is known must not pay for a stranger's question."""
    good = provider.token()
    with deployment.serve() as served, ThreadPoolExecutor(CROWD) as crowd:
        assert served.sign(good).status == 200
        provider.answer_late(HANGS)
        waiting = [crowd.submit(served.sign, token) for token in made_up_tokens(provider.issuer, CROWD)]
        time.sleep(0.2)
        assert [served.sign(token).status for token in [good, deployment.token] * 20] == [200] * 40
        assert served.sign(provider.token()).status == 200
        assert not any(future.done() for future in waiting)
        # They wait for as long as a fetch may take, not for as long as the provider likes.
        assert {future.result(HANGS / 2).status for future in waiting} == {401}


GARBAGE = (
    pytest.param(200, "<html>maintenance</html>", id="a page"),
    pytest.param(200, '{"keys": [{"kty": "RSA", "n', id="cut short"),
    pytest.param(200, '{"keys": {}}', id="another shape"),
    pytest.param(200, '{"keys": [' + "0," * 200_000 + "0]}", id="far too long"),
    pytest.param(500, '{"error": "server_error"}', id="a fault"),
)


@pytest.mark.parametrize(("status", "body"), GARBAGE)
def test_a_garbled_key_set_changes_nothing(
    deployment: Deployment, provider: IdentityProvider, status: int, body: str
) -> None:
    """A broken deployment of the provider must neither lock every caller out nor let a stranger in."""
    old, unseen = provider.token(), provider.token(algorithm="ES256")
    with deployment.serve() as served:
        assert served.sign(old).status == 200
        provider.rotate()
        provider.answer_instead(status, body)
        before = provider.fetches()
        assert served.sign(provider.token()).status == 401
        assert provider.fetches() == Fetches(before.discovery + 1, before.jwks)
        assert [served.sign(token).status for token in (old, unseen)] == [200, 200]
        assert served.status("/readyz") == 200


@pytest.mark.parametrize(("status", "body"), GARBAGE)
def test_a_garbled_key_set_at_the_start_heals(
    deployment: Deployment, provider: IdentityProvider, status: int, body: str
) -> None:
    """No operator may have to restart signproxy because the provider was slow to come up."""
    provider.answer_instead(status, body)
    with deployment.serve(ready=False) as served:
        assert served.status("/readyz") == 503
        assert served.sign(provider.token()).status == 503
        assert served.sign().status == 200
        provider.mend()
        served.wait_until("it is ready", lambda: served.status("/readyz") == 200)
        assert served.sign(provider.token()).status == 200


def test_a_provider_that_withdraws_all_keys_is_obeyed(deployment: Deployment, provider: IdentityProvider) -> None:
    """An emptied key set is the provider's word after a break-in, not a garbled document."""
    old = provider.token()
    with deployment.serve() as served:
        assert served.sign(old).status == 200
        # Discovery and key set in one: the answer stands for both documents.
        emptied = {"issuer": provider.issuer, "jwks_uri": f"{provider.issuer}/jwks", "keys": []}
        provider.answer_instead(200, json.dumps(emptied))
        assert served.sign(made_up_tokens(provider.issuer, 1)[0]).status == 401
        assert served.sign(old).status == 401
        assert served.sign().status == 200


def _statuses(served: Served, tokens: list[str]) -> Counter[int]:
    """Ask with each token, many at a time, and count the answers."""
    with ThreadPoolExecutor(CROWD) as crowd:
        return Counter(answer.status for answer in crowd.map(served.sign, tokens))
