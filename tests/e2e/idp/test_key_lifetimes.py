"""What takes a minute to see of a real identity provider: the pause between fetches, and the end of a token."""

from __future__ import annotations

import time

from signproxy.identity.claims import LEEWAY
from signproxy.identity.jwks import COOL_DOWN
from tests.e2e.faults.deployment import Deployment
from tests.e2e.idp.provider import IdentityProvider, made_up_tokens

ROUNDS = 5
"""Floods of made-up key ids within one pause."""

MARGIN = 3.0
"""Seconds before and after a moment at which nothing is asserted: the machine may be busy."""


def test_a_lasting_flood_costs_one_fetch_a_minute(deployment: Deployment, provider: IdentityProvider) -> None:
    """One fetch for each of a flood's waves would still be a flood. And a key that is withdrawn goes with the next."""
    old = provider.token()
    with deployment.serve() as served:
        assert served.sign(old).status == 200
        before = provider.fetches()
        begun = time.monotonic()
        for number in range(ROUNDS):
            time.sleep(max(0.0, begun + number * (COOL_DOWN - 2 * MARGIN) / (ROUNDS - 1) - time.monotonic()))
            assert {served.sign(token).status for token in made_up_tokens(provider.issuer, 20)} <= {401, 429}
            if number == 0:
                provider.rotate()
                provider.withdraw()
        assert time.monotonic() < begun + COOL_DOWN
        assert provider.fetches() == before.plus(1)
        # No request has come since, so the old key is still believed and the new one is not.
        assert [served.sign(token).status for token in (old, provider.token())] == [200, 401]
        time.sleep(begun + COOL_DOWN + MARGIN - time.monotonic())
        assert [served.sign(token).status for token in (provider.token(), old)] == [200, 401]
        assert provider.fetches() == before.plus(2)


def test_a_token_ends_with_its_life_and_the_leeway(deployment: Deployment, provider: IdentityProvider) -> None:
    """A remembered verification must not outlive what was verified; and the caller is told to renew its token."""
    life = 5
    with deployment.serve() as served:
        asked = time.time()
        token = provider.token(seconds=life)
        end = asked + life + LEEWAY
        while time.time() < end - MARGIN:
            assert served.sign(token).status == 200
            time.sleep(2)
        time.sleep(end + MARGIN - time.time())
        answer = served.sign(token)
        assert (answer.status, "expired" in answer.message) == (401, True), answer
        assert served.sign(provider.token(seconds=life)).status == 200
