"""`POST /v1/oauth/tokens`: the one call of whoever has no token yet."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from signproxy.audit.sink import MemorySink
from signproxy.config.settings import LimitSettings
from tests.catalog.scripted import Asked, Line, answer, error
from tests.server.facade import Front, front, only

FORM = b"grant_type=client_credentials&client_id=me&client_secret=geheim&scope=PRINCIPAL_ROLE%3AALL"
ISSUED = {"access_token": "ey.secret.token", "token_type": "bearer", "expires_in": 3600}
URLENCODED = {"Content-Type": "application/x-www-form-urlencoded"}


async def tokens(product: Front, body: bytes = FORM, path: str = "/v1/oauth/tokens", **headers: str) -> Any:
    return await product.ask("POST", path, who=None, body=body, headers={**URLENCODED, **headers})


async def test_it_passes_without_a_token() -> None:
    """A client that is configured with `credential` alone could not begin."""
    async with front() as product:
        product.upstream.says(answer(200, {**ISSUED, "s3.secret-access-key": "geheim"}))
        found = await tokens(product)
        assert (found.status, found.body) == (200, ISSUED)
        assert found.headers["Cache-Control"] == "no-store"
        event = only(product.events())
    asked = product.upstream.last
    assert (asked.target, asked.body) == ("/v1/oauth/tokens", FORM)
    assert asked.headers["content-type"] == URLENCODED["Content-Type"]
    assert "authorization" not in asked.headers
    assert (event.kind.value, event.call, event.catalog, event.principal) == ("catalog", "tokens", "lake", "")


@pytest.mark.parametrize(
    "path", ("//v1/oauth/tokens", "//api/catalog/v1/oauth/tokens", "//catalogs/lake/v1/oauth/tokens")
)
async def test_it_is_found_below_every_mount(path: str) -> None:
    """Java's default for the token endpoint is below whatever `uri` it was given."""
    async with front() as product:
        product.upstream.says(answer(200, ISSUED))
        assert (await tokens(product, path=path)).status == 200


@pytest.mark.parametrize("path", ("//catalogs/declared/v1/oauth/tokens", "//catalogs/none/v1/oauth/tokens"))
async def test_where_nobody_gives_tokens_there_is_no_such_call(path: str) -> None:
    """Secrets would be sent to whichever upstream there is, or strangers learn which catalogs there are."""
    async with front() as product:
        assert (await tokens(product, path=path)).status == 404
    assert not product.upstream.asked


async def test_what_a_caller_shows_goes_along() -> None:
    """Clients refresh a token by showing the old one; and the upstream does not know the tables' tokens."""
    async with front(table_tokens=True) as product:
        product.upstream.says(answer(200, ISSUED))
        await tokens(product, Authorization="Basic bWU6Z2VoZWlt")
        assert product.upstream.last.headers["authorization"] == "Basic bWU6Z2VoZWlt"
        await tokens(product, Authorization="Bearer old")
        assert product.upstream.last.headers["authorization"] == "Bearer old"
        asked = len(product.upstream.asked)
        assert (await tokens(product, Authorization="Bearer spt1.AAAAAAAA.AAAA")).status == 401
        assert len(product.upstream.asked) == asked


@pytest.mark.parametrize(
    ("said", "status", "body"),
    (
        (
            answer(401, {"error": "invalid_client", "error_description": "no", "secret": "geheim"}),
            401,
            {"error": "invalid_client", "error_description": "no"},
        ),
        (answer(400, {"error": "invalid_scope"}), 400, {"error": "invalid_scope"}),
        (
            error(403, "ForbiddenException"),
            403,
            {"error": {"message": "no", "type": "ForbiddenException", "code": 403}},
        ),
    ),
)
async def test_a_refusal_passes(said: bytes, status: int, body: object) -> None:
    """A client could not tell a wrong secret from a catalog that is down."""
    async with front() as product:
        product.upstream.says(said)
        found = await tokens(product)
        assert (found.status, found.body) == (status, body)
        event = only(product.events())
    assert (event.decision.value, event.reason) == ("deny", "upstream_unauthorized")


@pytest.mark.parametrize(
    ("said", "status"),
    (
        (answer(200, b"<html>"), 502),
        (answer(204), 502),
        (answer(302, None, {"Location": "http://127.0.0.1:1/"}), 502),
        (answer(200, {"access_token": "x" * 70_000}), 502),
        (answer(500, b"<html>"), 500),
    ),
)
async def test_what_is_no_token_is_an_error(said: bytes, status: int) -> None:
    """A login page would be taken for a token, or a secret be sent on to where it points."""
    async with front() as product:
        product.upstream.says(said)
        found = await tokens(product)
        assert found.status == status
        assert b"html" not in found.content


async def test_a_request_is_bounded() -> None:
    """Strangers could have signproxy hold and send on whatever they like."""
    async with front() as product:
        product.upstream.says(answer(200, ISSUED))
        assert (await tokens(product, body=b"x" * 70_000)).status == 413
    assert not product.upstream.asked


async def test_an_upstream_that_hangs_is_given_up() -> None:
    """Strangers could hold every place for requests that wait."""
    async with front() as product:

        async def wait(line: Line) -> None:
            await asyncio.sleep(5)

        product.upstream.does(wait)
        found = await tokens(product)
        assert found.status == 503
        assert "Retry-After" in found.headers


async def test_strangers_ask_so_often_and_no_more() -> None:
    """Passwords could be tried through signproxy as fast as the upstream answers, and the disk be filled."""
    async with front() as product:
        product.handler.limits.replace(LimitSettings(unauthenticated_per_second=1))
        product.upstream.says(answer(401, {"error": "invalid_client"}))
        assert (await tokens(product)).status == 401
        found = await asyncio.gather(*(tokens(product) for _ in range(3)))
        assert {each.status for each in found} == {429}
        assert len(product.upstream.asked) == 1


async def test_whoever_gets_a_token_was_no_stranger() -> None:
    """A hundred executors that begin together would be refused as an attack."""
    async with front() as product:
        product.handler.limits.replace(LimitSettings(unauthenticated_per_second=1))
        product.upstream.says(answer(200, ISSUED))
        for _ in range(5):
            assert (await tokens(product)).status == 200


async def test_refusals_do_not_fill_the_trail() -> None:
    """Whoever tries passwords would fill the disk, and with it stop every job."""
    async with front() as product:
        product.handler.limits.replace(LimitSettings(unauthenticated_per_second=1000))
        product.upstream.says(answer(401, {"error": "invalid_client"}))
        for _ in range(80):
            assert (await tokens(product)).status == 401
        assert len(product.events()) == 60


async def test_no_secret_is_written_down(capfd: pytest.CaptureFixture[str]) -> None:
    """Secrets and tokens of callers would stand in the audit trail or the log."""
    async with front() as product:

        async def echo(asked: Asked, line: Line) -> bytes:
            return answer(400, {"error": "invalid_grant", "error_description": asked.body.decode()})

        product.upstream.script = echo
        await tokens(product)
        product.upstream.says(answer(200, ISSUED))
        await tokens(product)
        product.events()
        assert isinstance(product.sink, MemorySink)
        written = b"".join(product.sink.lines)
    told = capfd.readouterr()
    for secret in ("geheim", "ey.secret.token"):
        assert secret not in told.out + told.err
        assert secret.encode() not in written
