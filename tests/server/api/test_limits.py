"""What a caller may not do to the server: form, routes, faults; each answered, none a 500."""

from __future__ import annotations

import asyncio
import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from signproxy.audit.trail_state import OnError
from signproxy.config.settings import LimitSettings
from signproxy.errors import Reason, Refused
from signproxy.gate.bearer_way import read_bearer
from signproxy.gate.request import read_request_id
from signproxy.server.api.routes import Endpoint, find_route
from signproxy.signing.sign_way import read_message
from tests.product import SIGN_T1, Product, sign_message

_BAD_MESSAGES: list[bytes] = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"1",
    b'"x"',
    b"{}",
    b'{"method":"GET"}',
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"a":' * 30_000 + b"1",
    json.dumps(sign_message() | {"uri": 1}).encode(),
    json.dumps(sign_message() | {"uri": None}).encode(),
    json.dumps(sign_message() | {"method": None}).encode(),
    json.dumps(sign_message() | {"region": None}).encode(),
    json.dumps(sign_message() | {"headers": None}).encode(),
    json.dumps(sign_message() | {"headers": {"a": "b"}}).encode(),
    json.dumps(sign_message() | {"headers": {"a": [1]}}).encode(),
    json.dumps(sign_message() | {"headers": []}).encode(),
    json.dumps(sign_message() | {"body": 1}).encode(),
    json.dumps(sign_message() | {"properties": []}).encode(),
    json.dumps(sign_message() | {"properties": {"a": 1}}).encode(),
    json.dumps(sign_message() | {"provider": 1}).encode(),
    json.dumps(sign_message() | {"uri": "\ud800"}).encode(),
]


@pytest.mark.parametrize("raw", _BAD_MESSAGES, ids=lambda raw: repr(raw[:40]))
async def test_a_message_that_is_none_is_a_400(raw: bytes) -> None:
    """A stack trace or a 500 for a typo sends the caller to the wrong place."""
    async with Product().running() as product:
        status, _, answer = await product.call("POST", SIGN_T1, body=raw)
        assert (status, answer["error"]["code"], answer["error"]["type"]) == (400, 400, "BadRequestException")
        event = product.events()[0]
    assert (event.reason, event.principal) == ("message_malformed", "static/reader")
    assert event.detail


_TOLERATED: list[dict[str, object]] = [
    {},
    {"body": None, "properties": None, "provider": None},  # DuckDB
    {"properties": {}},
    {"properties": {"a": "b", "c": None}},
    {"provider": "s3"},
    {"provider": "S3"},
    {"unknown": {"deep": [1, 2]}, "another": 1},
    {"body": ""},
]


@pytest.mark.parametrize("extra", _TOLERATED, ids=str)
async def test_what_clients_add_is_tolerated(extra: dict[str, object]) -> None:
    """Java 1.12, DuckDB and PyIceberg each send another set of optional fields."""
    async with Product().running() as product:
        status, _, answer = await product.call("POST", SIGN_T1, body=json.dumps(sign_message() | extra).encode())
        assert status == 200, answer


async def test_another_provider_is_told() -> None:
    """A table on another cloud would get a signature that no store knows."""
    async with Product().running() as product:
        status, answer = await product.sign(provider="gcs")
        assert (status, answer["error"]["message"]) == (400, "Only the provider s3 is supported")


_ROUTES: list[tuple[str, str, int, str]] = [
    ("POST", "/", 404, "route_unknown"),
    ("POST", "/v1/aws/s3/sign/", 404, "route_unknown"),
    ("POST", "//v1/aws/s3/sign", 400, "route_malformed"),
    ("POST", "/api/catalog", 404, "route_unknown"),
    ("POST", "/catalogs", 404, "route_unknown"),
    ("POST", "/catalogs/lake", 404, "route_unknown"),
    ("POST", "/api/v1/aws/s3/sign/x", 404, "route_unknown"),
    ("POST", "/catalogs/v1/aws/s3/sign", 404, "route_unknown"),
    ("POST", "/s3-sign/v1/api/namespaces/ns/tables/t1", 404, "route_unknown"),
    ("POST", "/s3-sign/v1/catalogs/namespaces/ns/tables/t1", 404, "route_unknown"),
    ("POST", "/s3-sign/v2/lake/namespaces/ns/tables/t1", 404, "route_unknown"),
    ("POST", "/s3-sign/v1/lake/namespaces/ns/views/t1", 404, "route_unknown"),
    ("GET", SIGN_T1, 405, "method_not_allowed"),
    ("PUT", SIGN_T1, 405, "method_not_allowed"),
    ("POST", "/v1/config", 405, "method_not_allowed"),
    ("POST", "/s3-sign/v1/lake/namespaces//tables/t1", 400, "route_malformed"),
    ("POST", "/s3-sign/v1/lake/namespaces/ns/tables/", 400, "route_malformed"),
    ("POST", "/s3-sign/v1//namespaces/ns/tables/t1", 400, "route_malformed"),
    ("POST", "/s3-sign/v1/lake/namespaces/a%1F%1Fb/tables/t1", 400, "route_malformed"),
    ("POST", "/s3-sign/v1/lake/namespaces/%1Fa/tables/t1", 400, "route_malformed"),
    ("POST", "/s3-sign/v1/lake/namespaces/a%1F/tables/t1", 400, "route_malformed"),
    ("POST", "/s3-sign/v1/lake/namespaces/ns/tables/t%1F1", 400, "route_malformed"),
    ("POST", "/s3-sign/v1/lake%1F/namespaces/ns/tables/t1", 400, "route_malformed"),
    ("POST", "/s3-sign/v1/lake/namespaces/ns/tables/%FF", 400, "route_malformed"),
    ("POST", "/s3-sign/v1/lake/namespaces/ns/tables/%00", 400, "route_malformed"),
    ("POST", "/s3-sign/v1/lake/namespaces/ns/tables/%0A", 400, "route_malformed"),
    ("POST", "/s3-sign/v1/lake/namespaces/ns/tables/" + "a" * 4097, 400, "route_malformed"),
    ("POST", "/s3-sign/v1/lake/namespaces/ns/tables/" + "a" * 4096, 403, "table_unknown"),
    # The decoded name is a name: a slash in it is no new segment.
    ("POST", "/s3-sign/v1/lake/namespaces/ns%2Ftables%2Ft1/tables/t1", 403, "table_unknown"),
    # Static routes win over a prefix of the same spelling.
    ("POST", "/v1/aws/s3/sign", 200, "allowed"),
]


@pytest.mark.parametrize(("method", "path", "status", "reason"), _ROUTES)
async def test_a_path_is_one_route_or_none(method: str, path: str, status: int, reason: str) -> None:
    """A path with two readings is a table that another one's check was asked for."""
    body = msgspec.json.encode(sign_message())
    async with Product().running() as product:
        got, _, answer = await product.call(method, path, body=None if method == "GET" else body)
        assert (got, product.events()[0].reason) == (status, reason)
        if status != 200:
            assert answer["error"]["code"] == status


def test_routes_do_not_grow_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller who walks through made-up tables must not fill the memory."""
    from signproxy.server.api import routes

    monkeypatch.setattr(routes, "_routes", {})
    monkeypatch.setattr(routes, "_ROUTES_KEPT", 3)
    for number in range(10):
        assert find_route(f"/v1/namespaces/ns/tables/t{number}/sign").endpoint is Endpoint.SIGN
        assert len(routes._routes) <= 3
    for length, kept in ((512, True), (513, False)):
        path = f"/v1/namespaces/ns/tables/{'t' * (length - len('/v1/namespaces/ns/tables//sign'))}/sign"
        assert find_route(path).endpoint is Endpoint.SIGN
        assert (path in routes._routes) is kept


def test_a_path_without_a_slash_is_no_path() -> None:
    """An absolute-form request line names a host, which does not matter here."""
    for raw in ("http://evil/v1/config", "", "*", "v1/config"):
        with pytest.raises(Refused) as refused:
            find_route(raw)
        assert refused.value.reason is Reason.ROUTE_MALFORMED


_BEARERS = [("Bearer abc", "abc"), ("bearer abc", "abc"), ("BEARER  abc ", "abc")]


@pytest.mark.parametrize(("header", "token"), _BEARERS)
def test_the_scheme_is_read_in_any_case(header: str, token: str) -> None:
    """HTTP says so, and clients differ."""
    assert read_bearer(header) == token


_IDS = [
    ("abc", "abc"),
    ("a" * 128, "a" * 128),
    ("a" * 129, "own"),
    ("a b", "own"),
    ("", "own"),
    (None, "own"),
    ("a\n", "own"),
    ("\u00e9", "own"),
]


@pytest.mark.parametrize(("given", "used"), _IDS)
def test_a_request_id_is_echoed_only_if_it_cannot_end_a_line(given: str | None, used: str) -> None:
    """It is written into a header, a log line and an event."""
    assert read_request_id(given, "own") == used


async def test_the_callers_request_id_is_everywhere() -> None:
    """Support begins with an id that both sides can see."""
    async with Product().running() as product:
        _, headers, _ = await product.call(
            "POST", SIGN_T1, headers={"X-Request-ID": "job-7"}, body=msgspec.json.encode(sign_message())
        )
        _, _, refused = await product.call("POST", SIGN_T1, headers={"X-Request-ID": "job-8"}, body=b"{}")
        assert headers["X-Request-ID"] == "job-7"
        assert refused["error"]["request_id"] == "job-8"
        assert [event.request_id for event in product.events()] == ["job-7", "job-8"]


async def test_nothing_is_served_that_the_trail_did_not_take() -> None:
    """`audit.on_error: deny`: a signature without an event is an access that cannot be accounted for."""
    product = Product()
    async with product.running():
        product.trail.close(1.0)
        status, answer = await product.sign()
        assert (status, answer["error"]["type"]) == (503, "ServiceUnavailableException")
        _, headers, _ = await product.call("POST", SIGN_T1, body=msgspec.json.encode(sign_message()))
        assert headers["Retry-After"] == "1"


async def test_with_allow_the_request_is_served_and_the_loss_counted() -> None:
    """An operator who prefers service to proof has to say so, and to see what it costs."""
    product = Product(on_error=OnError.ALLOW)
    async with product.running():
        product.trail.close(1.0)
        assert (await product.sign())[0] == 200
        assert product.trail.state.dropped == 1


async def test_missing_credentials_are_a_503_that_clients_repeat() -> None:
    """Java repeats 503 only with Retry-After, and fails the task otherwise."""
    async with Product().running() as product:
        product.credentials.refusal = Refused(Reason.CREDENTIALS_UNAVAILABLE, "expired")
        status, headers, answer = await product.call("POST", SIGN_T1, body=msgspec.json.encode(sign_message()))
        assert (status, headers["Retry-After"], answer["error"]["code"]) == (503, "1", 503)
        assert product.events()[0].decision.value == "error"


async def test_a_fault_of_ours_is_no_500_and_leaves_an_event(capfd: pytest.CaptureFixture[str]) -> None:
    """Java gives up on 500; and a fault without an event could be provoked unseen."""

    class Broken:
        def resolve(self, *_: object) -> tuple[()]:
            raise ZeroDivisionError

    async with Product(resolver=Broken()).running() as product:
        status, headers, answer = await product.call("POST", SIGN_T1, body=msgspec.json.encode(sign_message()))
        assert (status, answer["error"]["message"]) == (503, "The request could not be served, try again")
        # It would fail again, so the client is not asked to repeat it.
        assert "Retry-After" not in headers
        assert product.events()[0].reason == "internal"
    assert "ZeroDivisionError" in capfd.readouterr().err


async def test_anonymous_floods_become_a_few_events() -> None:
    """Without a token any client could fill the disk with refusals."""
    async with Product().running() as product:
        product.handler.limits.replace(LimitSettings(unauthenticated_per_second=1_000))
        for _ in range(100):
            assert (await product.call("POST", SIGN_T1, who=None, body=b"{}"))[0] == 401
        assert len(product.events()) == 60
        await asyncio.to_thread(product.trail.close, 5.0)
        events = product.events()
    assert sum(event.count for event in events) == 100
    assert len(events) == 61


@settings(max_examples=300)
@given(st.binary(max_size=400))
def test_no_bytes_are_more_than_a_refusal(raw: bytes) -> None:
    """Whatever arrives, the parser answers with a reason."""
    # No bytes at random are a whole sign request.
    with pytest.raises(Refused) as refused:
        read_message(raw)
    assert refused.value.reason is Reason.MESSAGE_MALFORMED
