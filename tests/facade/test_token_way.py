"""`POST /v1/oauth/tokens`: the one call of a client that has no token yet."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from typing import Any
from urllib.parse import quote_plus

import pytest

from signproxy.config.settings import LimitSettings
from tests.audit.sinks import MemorySink
from tests.catalog.scripted import Asked, Line, answer, error
from tests.facade.front import Front, ServeFront, loaded, only
from tests.product import token_of
from tests.waiting import never

FORM = b"grant_type=client_credentials&client_id=me&client_secret=geheim&scope=PRINCIPAL_ROLE%3AALL"
ISSUED = {"access_token": "ey.secret.token", "token_type": "bearer", "expires_in": 3600}
URLENCODED = {"Content-Type": "application/x-www-form-urlencoded"}


async def tokens(product: Front, body: bytes = FORM, path: str = "/v1/oauth/tokens", **headers: str) -> Any:
    return await product.ask("POST", path, who=None, body=body, headers={**URLENCODED, **headers})


async def test_it_passes_without_a_token(serve_front: ServeFront) -> None:
    """A client that is configured with `credential` alone could not begin."""
    product = await serve_front()
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
async def test_it_is_found_below_every_mount(path: str, serve_front: ServeFront) -> None:
    """Java's default for the token endpoint is below whatever `uri` it was given."""
    product = await serve_front()
    product.upstream.says(answer(200, ISSUED))
    assert (await tokens(product, path=path)).status == 200


@pytest.mark.parametrize("path", ("//catalogs/declared/v1/oauth/tokens", "//catalogs/none/v1/oauth/tokens"))
async def test_where_no_tokens_are_given_there_is_no_such_call(path: str, serve_front: ServeFront) -> None:
    """Secrets would be sent to whichever upstream there is, or strangers learn which catalogs there are."""
    product = await serve_front()
    assert (await tokens(product, path=path)).status == 404
    assert not product.upstream.asked


async def test_what_a_caller_shows_goes_along(serve_front: ServeFront) -> None:
    """Clients refresh a token by showing the old one."""
    product = await serve_front(table_tokens=True)
    product.upstream.says(answer(200, ISSUED))
    await tokens(product, Authorization="Basic bWU6Z2VoZWlt")
    assert product.upstream.last.headers["authorization"] == "Basic bWU6Z2VoZWlt"
    await tokens(product, Authorization="Bearer old")
    assert product.upstream.last.headers["authorization"] == "Bearer old"


def _presented(text: str) -> dict[str, tuple[bytes, dict[str, str]]]:
    """Return every way in which a client can show a text to a token endpoint."""
    sent, basic = quote_plus(text), b64encode(f"{quote_plus(text)}:x".encode()).decode()
    exchange = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange"
    return {
        "bearer": (FORM, {"Authorization": f"Bearer {text}"}),
        "bearer in other letters": (FORM, {"Authorization": f"bEARER   {text} "}),
        "client id": (FORM, {"Authorization": f"Basic {basic}"}),
        "client secret": (FORM, {"Authorization": f"basic {b64encode(f'x:{text}'.encode()).decode()}"}),
        "subject": (f"{exchange}&subject_token={sent}".encode(), {}),
        "subject, encoded whole": (
            f"{exchange}&subject_token={''.join(f'%{ord(one):02X}' for one in text)}".encode(),
            {},
        ),
        "second subject": (f"{exchange}&subject_token=mine&subject_token={sent}".encode(), {}),
        "actor": (f"{exchange}&subject_token=mine&actor_token={sent}".encode(), {}),
        "refresh": (f"grant_type=refresh_token&refresh_token={sent}".encode(), {}),
        "assertion": (f"grant_type=client_credentials&client_assertion=+{sent}".encode(), {}),
        "id in the form": (f"grant_type=client_credentials&client_id={sent}&client_secret=x".encode(), {}),
        "secret in the form": (f"grant_type=client_credentials&client_id=x&client_secret={sent}".encode(), {}),
    }


@pytest.mark.parametrize("way", _presented(""))
async def test_a_table_token_is_exchanged_for_nothing(way: str, serve_front: ServeFront) -> None:
    """The upstream was shown the owner's own token, and gave a client with the table's token one for everything."""
    product = await serve_front(table_tokens=True)
    product.upstream.says(loaded())
    token = (await product.load()).body["config"]["token"]
    asked = len(product.upstream.asked)
    body, headers = _presented(token)[way]
    found = await tokens(product, body, **headers)
    assert (found.status, found.error["type"]) == (401, "NotAuthorizedException")
    assert len(product.upstream.asked) == asked
    event = product.events()[-1]
    assert (event.decision.value, event.reason) == ("deny", "credential_scoped")
    assert event.principal.endswith("writer")


@pytest.mark.parametrize("way", _presented(""))
@pytest.mark.parametrize(
    "text",
    ("spk1.AAAAAAAA.AAAA", "spc1.AAAAAAAA.AAAA", "spt1.AAAAAAAA.AAAA", "SPK1ABCDEFGHIJKLMNOP", "SPK1.AAAAAAAA.AAAA"),
)
async def test_nothing_that_signproxy_handed_out_is_exchanged(text: str, way: str, serve_front: ServeFront) -> None:
    """Keys and sealed contexts would be tried at the upstream, and leave their holder there."""
    product = await serve_front(table_tokens=True)
    product.upstream.says(answer(200, ISSUED))
    body, headers = _presented(text)[way]
    assert (await tokens(product, body, **headers)).status == 401
    assert not product.upstream.asked
    event = only(product.events())
    assert (event.reason, event.principal) == ("credential_scoped", "")


@pytest.mark.parametrize("name", ("SPK1", "SPK1-service", "spt1", "my.spt1.client", "SPK1ABCDEFGHIJKLMNOPQ"))
async def test_names_that_only_look_alike_pass(name: str, serve_front: ServeFront) -> None:
    """A client would be kept out for what it is called."""
    product = await serve_front(table_tokens=True)
    product.upstream.says(answer(200, ISSUED))
    assert (await tokens(product, f"client_id={name}&client_secret=x".encode())).status == 200


async def test_the_event_names_whose_token_was_shown_or_given(serve_front: ServeFront) -> None:
    """An investigator could not tell who had got a token."""
    product = await serve_front()
    product.upstream.says(answer(200, ISSUED))
    await tokens(product, Authorization=f"Bearer {token_of('reader')}")
    await tokens(product, f"subject_token={token_of('half')}".encode())
    await tokens(product, b"subject_token=unknown", Authorization="Bearer ended")
    product.upstream.says(answer(200, {**ISSUED, "access_token": token_of("writer")}))
    await tokens(product)
    product.upstream.says(answer(401, {"error": "invalid_client"}))
    await tokens(product, Authorization=f"Bearer {token_of('reader')}")
    names = [event.principal.rpartition("/")[2] for event in product.events()]
    assert names == ["reader", "half", "", "writer", "reader"]


async def test_a_form_of_endless_fields_is_refused(serve_front: ServeFront) -> None:
    """Each field costs more to read than to send."""
    product = await serve_front()
    assert (await tokens(product, b"&".join([b"a=b"] * 65))).status == 400
    product.upstream.says(answer(200, ISSUED))
    assert (await tokens(product, b"&".join([b"a=b"] * 64))).status == 200


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
async def test_a_refusal_passes(said: bytes, status: int, body: object, serve_front: ServeFront) -> None:
    """A client could not tell a wrong secret from a catalog that is down."""
    product = await serve_front()
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
async def test_what_is_no_token_is_an_error(said: bytes, status: int, serve_front: ServeFront) -> None:
    """A login page would be taken for a token, or a secret be sent on to where it points."""
    product = await serve_front()
    product.upstream.says(said)
    found = await tokens(product)
    assert found.status == status
    assert b"html" not in found.content


async def test_a_request_is_bounded(serve_front: ServeFront) -> None:
    """Strangers could have signproxy hold and send on whatever they like."""
    product = await serve_front()
    product.upstream.says(answer(200, ISSUED))
    assert (await tokens(product, body=b"x" * 70_000)).status == 413
    assert not product.upstream.asked


async def test_an_upstream_that_hangs_is_given_up(serve_front: ServeFront) -> None:
    """Strangers could hold every place for requests that wait."""
    product = await serve_front()

    async def wait(line: Line) -> None:
        await never()

    product.upstream.does(wait)
    found = await tokens(product)
    assert found.status == 503
    assert "Retry-After" in found.headers


async def test_strangers_ask_so_often_and_no_more(serve_front: ServeFront) -> None:
    """Passwords could be tried through signproxy as fast as the upstream answers, and the disk be filled."""
    product = await serve_front()
    product.handler.limits.replace(LimitSettings(unauthenticated_per_second=1))
    product.upstream.says(answer(401, {"error": "invalid_client"}))
    assert (await tokens(product)).status == 401
    found = await asyncio.gather(*(tokens(product) for _ in range(3)))
    assert {each.status for each in found} == {429}
    assert len(product.upstream.asked) == 1


async def test_a_client_that_gets_a_token_was_no_stranger(serve_front: ServeFront) -> None:
    """A hundred executors that begin together would be refused as an attack."""
    product = await serve_front()
    product.handler.limits.replace(LimitSettings(unauthenticated_per_second=1))
    product.upstream.says(answer(200, ISSUED))
    for _ in range(5):
        assert (await tokens(product)).status == 200


async def test_refusals_do_not_fill_the_trail(serve_front: ServeFront) -> None:
    """A stranger who tries passwords would fill the disk, and with it stop every job."""
    product = await serve_front()
    product.handler.limits.replace(LimitSettings(unauthenticated_per_second=1000))
    product.upstream.says(answer(401, {"error": "invalid_client"}))
    for _ in range(80):
        assert (await tokens(product)).status == 401
    assert len(product.events()) == 60


async def test_no_secret_is_written_down(capfd: pytest.CaptureFixture[str], serve_front: ServeFront) -> None:
    """Secrets and tokens of callers would stand in the audit trail or the log."""
    product = await serve_front()

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
