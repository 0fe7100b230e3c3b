"""Which token an upstream is shown, and what it costs to get it."""

from __future__ import annotations

import asyncio
import pickle
import time
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qs

import msgspec
import pytest

from signproxy.catalog.upstream import Upstream, open_upstream
from signproxy.catalog.upstream_spec import CallTimeouts, ExchangedToken, Secret, ServiceToken, UpstreamSpec
from signproxy.errors import Reason, Refused
from tests.catalog.scripted import Asked, Line, Scripted, answer, scripted
from tests.waiting import never, turns

LATER = time.time() + 3600


def issued(token: str = "exchanged") -> bytes:
    return answer(200, {"access_token": token, "token_type": "Bearer", "expires_in": 300})


@asynccontextmanager
async def exchanging(*, seconds: float = 20.0, **changes: object) -> AsyncIterator[tuple[Scripted, Upstream]]:
    async with scripted() as server:
        settings = ExchangedToken(f"{server.url}/token", "sign proxy", Secret("pass:word/"), "catalog", "a b")
        forwarding = msgspec.structs.replace(settings, **changes)
        times = CallTimeouts(connect=seconds, load=seconds)
        upstream = await open_upstream(UpstreamSpec("lake", "http://127.0.0.1:1", forwarding=forwarding, times=times))
        try:
            yield server, upstream
        finally:
            await upstream.aclose()


async def refusal(upstream: Upstream, bearer: str = "caller") -> Refused:
    with pytest.raises(Refused) as caught:
        await upstream.authorization(bearer, LATER)
    return caught.value


class TestExchange:
    """RFC 8693."""

    async def test_the_request_is_the_standards(self) -> None:
        """No authorization server would answer anything else."""
        async with exchanging() as (server, upstream):
            server.says(issued())
            assert await upstream.authorization("caller", LATER) == "Bearer exchanged"
        asked = server.last
        assert (asked.method, asked.target) == ("POST", "/token")
        assert asked.headers["authorization"] == "Basic " + b64encode(b"sign+proxy:pass%3Aword%2F").decode()
        assert asked.headers["content-type"] == "application/x-www-form-urlencoded"
        assert parse_qs(asked.body.decode()) == {
            "grant_type": ["urn:ietf:params:oauth:grant-type:token-exchange"],
            "subject_token": ["caller"],
            "subject_token_type": ["urn:ietf:params:oauth:token-type:access_token"],
            "requested_token_type": ["urn:ietf:params:oauth:token-type:access_token"],
            "audience": ["catalog"],
            "scope": ["a b"],
        }

    async def test_a_token_is_exchanged_once(self) -> None:
        """Each catalog call would cost a second one, at a server that limits them."""
        async with exchanging() as (server, upstream):
            server.says(issued())
            for _ in range(3):
                await upstream.authorization("caller", LATER)
        assert len(server.asked) == 1

    async def test_who_comes_at_the_same_time_waits_for_the_same_answer(self) -> None:
        """A job whose hundred tasks start together would ask a hundred times."""
        async with exchanging() as (server, upstream):
            told = asyncio.Event()

            async def slowly(asked: Asked, line: Line) -> bytes:
                await told.wait()
                return issued()

            server.script = slowly
            asking = [asyncio.ensure_future(upstream.authorization("caller", LATER)) for _ in range(20)]
            await server.until_asked()
            await turns()
            told.set()
            found = await asyncio.gather(*asking)
        assert set(found) == {"Bearer exchanged"}
        assert len(server.asked) == 1

    async def test_no_two_tokens_share_an_answer(self) -> None:
        """One caller would act at the upstream as another."""
        async with exchanging() as (server, upstream):

            async def each(asked: Asked, line: Line) -> bytes:
                return issued("for-" + parse_qs(asked.body.decode())["subject_token"][0])

            server.script = each
            for name in ("a", "b", "a", "A", "b"):
                assert await upstream.authorization(name, LATER) == f"Bearer for-{name}"
        assert len(server.asked) == 3

    async def test_who_asked_first_may_go_away(self) -> None:
        """One client that gives up would fail all others of its principal."""
        async with exchanging() as (server, upstream):
            told = asyncio.Event()

            async def slowly(asked: Asked, line: Line) -> bytes:
                await told.wait()
                return issued()

            server.script = slowly
            first = asyncio.ensure_future(upstream.authorization("caller", LATER))
            second = asyncio.ensure_future(upstream.authorization("caller", LATER))
            await server.until_asked()
            first.cancel()
            await turns()
            told.set()
            assert await second == "Bearer exchanged"
        assert len(server.asked) == 1

    @pytest.mark.parametrize(
        ("said", "ends"),
        (({"expires_in": 5}, LATER), ({}, time.time() - 1), ({"expires_in": 0}, LATER)),
        ids=("its own", "the caller's", "at once"),
    )
    async def test_an_answer_is_kept_until_one_of_the_tokens_ends(self, said: dict[str, int], ends: float) -> None:
        """A token that has ended, or whose caller's has, would still open the catalog; or fail there."""
        async with exchanging() as (server, upstream):
            server.says(answer(200, {"access_token": "exchanged", **said}))
            await upstream.authorization("caller", ends)
            await upstream.authorization("caller", ends)
        assert len(server.asked) == 2

    @pytest.mark.parametrize(
        ("said", "reason"),
        (
            (answer(400, {"error": "invalid_grant"}), Reason.UPSTREAM_UNAUTHORIZED),
            (answer(400, {"error": "invalid_request"}), Reason.UPSTREAM_UNAUTHORIZED),
            (answer(401, {"error": "invalid_token"}), Reason.UPSTREAM_UNAUTHORIZED),
            # Faults of the settings are no reason for a caller to get another token.
            (answer(401, {"error": "invalid_client"}), Reason.UPSTREAM_UNAVAILABLE),
            (answer(400, {"error": "unsupported_grant_type"}), Reason.UPSTREAM_UNAVAILABLE),
            (answer(401, b"<html>"), Reason.UPSTREAM_UNAVAILABLE),
            (answer(503, b""), Reason.UPSTREAM_UNAVAILABLE),
            (answer(302, b"", {"Location": "http://127.0.0.1:1/"}), Reason.UPSTREAM_INVALID),
            (answer(200, b"<html>"), Reason.UPSTREAM_INVALID),
            (answer(200, {"token": "x"}), Reason.UPSTREAM_INVALID),
            (answer(200, {"access_token": "a\r\nX-Admin: 1"}), Reason.UPSTREAM_INVALID),
            (answer(200, {"access_token": "a b"}), Reason.UPSTREAM_INVALID),
            (answer(200, {"access_token": "x" * 70_000}), Reason.UPSTREAM_INVALID),
            (answer(200, b"[" * 20_000), Reason.UPSTREAM_INVALID),
        ),
    )
    async def test_a_failure_says_whose_it_is_and_is_not_kept(self, said: bytes, reason: Reason) -> None:
        """Clients would refresh good tokens for a wrong secret here, or wait for one that is refused for good."""
        async with exchanging() as (server, upstream):
            server.says(said)
            assert (await refusal(upstream)).reason is reason
            server.says(issued())
            assert await upstream.authorization("caller", LATER) == "Bearer exchanged"

    async def test_a_server_that_hangs_is_given_up(self) -> None:
        """Every call to the catalog would hang with it."""
        async with exchanging(seconds=0.5) as (server, upstream):

            async def hang(line: Line) -> None:
                await never()

            server.does(hang)
            refused = await refusal(upstream)
        assert refused.reason is Reason.UPSTREAM_UNAVAILABLE
        assert "caller" not in refused.detail


async def test_the_caller_s_own_token_is_the_default() -> None:
    """The upstream could not tell callers apart."""
    upstream = await open_upstream(UpstreamSpec("lake", "http://127.0.0.1:1"))
    assert await upstream.authorization("caller", LATER) == "Bearer caller"
    await upstream.aclose()


@pytest.mark.parametrize(("token", "header"), ((Secret("own"), "Bearer own"), (None, None)))
async def test_a_service_token_hides_the_caller_s(token: Secret | None, header: str | None) -> None:
    """Callers' tokens would reach an upstream that they are not meant for."""
    upstream = await open_upstream(UpstreamSpec("lake", "http://127.0.0.1:1", forwarding=ServiceToken(token)))
    assert await upstream.authorization("caller", LATER) == header
    await upstream.aclose()


def test_a_secret_does_not_show() -> None:
    """The settings that are logged at a reload would tell it."""
    secret = Secret("geheim")
    assert "geheim" not in f"{secret!r} {secret} {UpstreamSpec('lake', 'u', forwarding=ServiceToken(secret))!r}"
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    assert secret == Secret("geheim")
    assert secret != Secret("anders")
    assert hash(secret) == hash(Secret("geheim"))
