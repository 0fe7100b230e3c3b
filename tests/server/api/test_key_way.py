"""`POST {mount}/v1/s3-keys`: a key for callers with a bearer token, no wider than asked, never without an event."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signproxy.errors import Reason, Refused
from signproxy.identity.authenticator import Authenticator
from signproxy.identity.emulated import EmulatedKeys
from signproxy.identity.opaque import OpaqueToken, StaticTokens, hash_token
from signproxy.identity.table_token import TableTokens
from signproxy.model import KeyScope, Principal, TableScope
from signproxy.sealing import Purpose, Sealer
from signproxy.server.api.key_way import MAX_KEY_REQUEST, KeyRequest, levels_of, read_key_request
from tests.audit.sinks import MemorySink
from tests.facade.front import front
from tests.identity.keyed import SEALING, emulated
from tests.product import NAMES, Product, ServeProduct, token_of

PATH = "/v1/s3-keys"
T1_UUID = "6f1a3c5e-0000-4000-8000-000000000001"
PARTS = {"access-key-id", "secret-access-key", "session-token", "expires-at"}


class Issuing(Product):
    """A server that issues keys."""

    def __init__(self, seconds: float = 3_600, **changes: Any) -> None:
        super().__init__(**changes)
        self.keys: EmulatedKeys = emulated(self.authenticator, seconds=seconds)
        self.issue_by(self.keys)

    async def issue(
        self, asked: object = None, *, path: str = PATH, **changes: Any
    ) -> tuple[int, Mapping[str, str], Any]:
        body = asked if isinstance(asked, bytes) else b"" if asked is None else json.dumps(asked).encode()
        return await self.call("POST", path, body=body, **changes)

    def holder(self, told: Mapping[str, str]) -> Any:
        """Return whom the S3 listener takes the holder of a key for."""
        held = self.keys.open(told["access-key-id"], told.get("session-token", ""), datetime.now(UTC).timestamp())
        assert held.secret == told["secret-access-key"]
        return held.principal


async def test_a_caller_gets_a_key_of_its_own(serve_product: ServeProduct) -> None:
    """Clients that cannot sign remotely could not be given anything to sign with."""
    before = datetime.now(UTC).timestamp()
    product = await serve_product(Issuing())
    status, headers, told = await product.issue()
    assert (status, set(told)) == (200, PARTS)
    assert headers["Cache-Control"] == "no-store"
    holder = product.holder(told)
    assert (holder.name, holder.key_scope) == ("static/reader", None)
    ends = datetime.fromisoformat(told["expires-at"]).timestamp()
    assert before + 3_598 <= ends <= before + 3_660
    assert ends <= holder.expires_at
    (event,) = product.events()
    assert (event.kind.value, event.decision.value, event.principal) == ("issue", "allow", "static/reader")
    # Which key, and until when; and nothing that could be used.
    assert told["access-key-id"][-4:] in event.detail
    assert told["expires-at"] in event.detail
    for secret in (told["secret-access-key"], told["session-token"], told["access-key-id"]):
        assert secret not in repr(event)


async def test_a_client_that_takes_no_session_token_gets_a_key_of_two_parts(serve_product: ServeProduct) -> None:
    """An empty session token is sent along by some clients, and then belongs to no key."""
    product = await serve_product(Issuing())
    status, _, told = await product.issue({"catalog": "lake", "without-token": True})
    assert (status, set(told)) == (200, PARTS - {"session-token"})
    holder = product.holder(told)
    assert (holder.name, holder.key_scope) == ("static/reader", KeyScope("lake"))
    (event,) = product.events()
    assert told["access-key-id"] not in repr(event)
    assert told["access-key-id"][-4:] in event.detail


@pytest.mark.parametrize(
    ("path", "asked", "scope"),
    (
        (PATH, {"catalog": "lake"}, KeyScope("lake")),
        (PATH, {"catalog": "opaque-1"}, None),
        (PATH, {"namespace": "ns"}, KeyScope("lake", "ns")),
        (PATH, {"namespace": ["a", "b c"]}, KeyScope("lake", "a\x1fb c")),
        (PATH, {"namespace": "a\x1fb c"}, KeyScope("lake", "a\x1fb c")),
        (PATH, {"namespace": "a.b c"}, KeyScope("lake", "a\x1fb c")),
        (PATH, {"namespace": ["a.b", "c"]}, KeyScope("lake", "a.b\x1fc")),
        (PATH, {"catalog": "lake", "namespace": "ns", "table": "t1"}, KeyScope("lake", "ns", "t1", T1_UUID)),
        (PATH, {"catalog": "lake", "namespace": "ns", "table": "t2"}, KeyScope("lake", "ns", "t2")),
        (PATH, {"namespace": "ns", "table": "not there"}, KeyScope("lake", "ns", "not there")),
        ("/catalogs/located/v1/s3-keys", None, KeyScope("located")),
        ("/catalogs/located/v1/s3-keys", {"namespace": "ns"}, KeyScope("located", "ns")),
        ("/catalogs/located/v1/s3-keys", {"catalog": "located"}, KeyScope("located")),
        ("/catalogs/located/v1/s3-keys", {"catalog": "lake"}, None),
        ("/api/catalog/v1/s3-keys", {"catalog": "lake"}, KeyScope("lake")),
        ("/opaque-1/v1/s3-keys", {}, KeyScope("lake")),
    ),
)
async def test_a_key_is_good_for_what_was_asked(
    path: str, asked: object, scope: KeyScope | None, serve_product: ServeProduct
) -> None:
    """A job that asks for one table would be given the catalog, or the address of a catalog lead to another."""
    product = await serve_product(Issuing())
    status, _, told = await product.issue(asked, path=path)
    if scope is None:
        assert (status, told["error"]["type"]) == (403, "ForbiddenException")
    else:
        assert status == 200
        assert product.holder(told).key_scope == scope
    (event,) = product.events()
    if scope is not None:
        assert (event.catalog, event.namespace, event.table) == (scope.catalog, scope.namespace, scope.table)


@pytest.mark.parametrize(("asked", "lives"), ((60, 60), (10**6, 900), (1, 1)))
async def test_a_key_lives_as_long_as_was_asked_and_no_longer_than_it_may(
    asked: int, lives: int, serve_product: ServeProduct
) -> None:
    """A caller that asks for a year would have one."""
    product = await serve_product(Issuing(seconds=900))
    _, _, told = await product.issue({"seconds": asked})
    left = product.holder(told).expires_at - datetime.now(UTC).timestamp()
    assert lives - 5 < left <= lives


@pytest.mark.parametrize(
    "asked",
    (
        b"{",
        b"[]",
        b"\xff",
        b"[" * 3_000,
        {"tabel": "t1"},
        {"catalog": ""},
        {"catalog": 1},
        {"table": "t1"},
        {"catalog": "lake", "table": "t1"},
        {"namespace": []},
        {"namespace": ""},
        {"namespace": ["a", ""]},
        {"namespace": "a\x1f"},
        {"namespace": "a..b"},
        {"namespace": ".a"},
        {"namespace": "a\x1f\x1fb"},
        {"namespace": "a\nb"},
        {"namespace": "ns", "table": "t\x1f1"},
        {"catalog": "la\x00ke"},
        {"seconds": 0},
        {"seconds": -1},
        {"seconds": 1.5},
        {"seconds": "60"},
        {"seconds": 10**30},
    ),
)
async def test_what_cannot_be_understood_is_refused(asked: object, serve_product: ServeProduct) -> None:
    """A misspelt limit would be none, and the key wider than its caller meant."""
    product = await serve_product(Issuing())
    status, _, told = await product.issue(asked)
    assert (status, told["error"]["type"]) == (400, "BadRequestException")
    (event,) = product.events()
    assert (event.kind.value, event.reason, event.principal) == ("issue", "message_malformed", "static/reader")


async def test_more_than_a_scope_is_not_read(serve_product: ServeProduct) -> None:
    """Any caller with a token could make the server read a disk image."""
    product = await serve_product(Issuing())
    status, _, _ = await product.issue(b" " * (MAX_KEY_REQUEST + 1))
    assert status == 413


@pytest.mark.parametrize("headers", ({}, {"Authorization": "Bearer x"}, {"Authorization": "AWS4-HMAC-SHA256 x"}))
async def test_without_a_bearer_token_there_is_none(headers: dict[str, str], serve_product: ServeProduct) -> None:
    """A stranger could get a key, or the holder of one another that lives longer."""
    product = await serve_product(Issuing())
    status, _, told = await product.issue(who=None, headers=headers)
    assert (status, told["error"]["type"]) == (401, "NotAuthorizedException")


async def test_a_key_gets_no_key(serve_product: ServeProduct) -> None:
    """Keys that make keys would never end."""
    product = await serve_product(Issuing())
    _, _, told = await product.issue()
    bearer = {"Authorization": f"Bearer {told['session-token']}"}
    assert (await product.issue(who=None, headers=bearer))[0] == 401


@pytest.mark.parametrize(
    ("who", "catalog", "reason"),
    (
        ("reader", "nowhere", "catalog_unknown"),
        ("reader", "hidden", "principal_unknown"),
        ("reader", "dark", "remote_signing_off"),
        ("reader", "foreign", "catalog_federated"),
        ("nobody", "lake", "principal_unknown"),
        ("stranger", "lake", "principal_unknown"),
    ),
)
async def test_a_foreign_catalog_is_refused_as_anywhere(
    who: str, catalog: str, reason: str, serve_product: ServeProduct
) -> None:
    """A caller would learn of other tenants' catalogs by the answers here."""
    product = await serve_product(Issuing())
    status, _, _ = await product.issue({"catalog": catalog}, who=who)
    assert status == 403
    (event,) = product.events()
    assert event.reason == reason


async def test_an_issuer_speaks_for_its_catalogs_alone(serve_product: ServeProduct) -> None:
    """Its tokens could be exchanged for keys of another catalog."""
    product = await serve_product(Issuing(catalogs=("located",)))
    assert (await product.issue({"catalog": "lake"}))[0] == 403
    _, _, told = await product.issue()
    assert product.holder(told).catalogs == ("located",)


async def test_no_caller_learns_which_tables_there_are(serve_product: ServeProduct) -> None:
    """A caller that asks for keys by name would have a list of what it may not see."""
    product = await serve_product(Issuing())
    known = await product.issue({"namespace": "ns", "table": "t2"}, who="data-only")
    unknown = await product.issue({"namespace": "ns", "table": "no such"}, who="data-only")
    assert known[0] == unknown[0] == 200
    assert abs(len(known[2]["session-token"]) - len(unknown[2]["session-token"])) < 12


async def test_a_table_token_gets_keys_for_its_table_alone(serve_product: ServeProduct) -> None:
    """A caller that was handed one table would get the whole catalog."""
    tokens = TableTokens(Sealer((SEALING,), Purpose.TABLE_TOKEN), 600)
    digests = StaticTokens({hash_token(token_of(name)): OpaqueToken(name) for name in NAMES})
    by = Authenticator((), digests, tokens)
    scope = TableScope("lake", "ns", "t1", T1_UUID)
    reader = by.authenticate(token_of("reader"))
    assert isinstance(reader, Principal)
    limited = by.table_token(reader, token_of("reader"), scope)
    product = await serve_product(Issuing(authenticator=by))
    shown: dict[str, Any] = {"who": None, "headers": {"Authorization": f"Bearer {limited}"}}
    assert (await product.issue({"namespace": "ns", "table": "t2"}, **shown))[0] == 403
    _, _, told = await product.issue(**shown)
    holder = product.holder(told)
    assert (holder.scope, holder.key_scope) == (scope, None)
    event = product.events()[-1]
    # Else the trail does not say who got keys for the table.
    assert (event.kind.value, event.catalog, event.namespace, event.table) == ("issue", "lake", "ns", "t1")


async def test_behind_a_facade_a_key_holds_what_the_catalog_is_asked_with(serve_product: ServeProduct) -> None:
    """The catalog knows callers by their own tokens, and would refuse callers that come with a key."""
    now = datetime.now(UTC).timestamp()
    async with front() as product:
        keys = emulated(product.authenticator)
        product.issue_by(keys)
        told = (await product.ask("POST", "/v1/s3-keys")).body
        assert keys.open(told["access-key-id"], told["session-token"], now).bearer == token_of("writer")
        assert token_of("writer") not in repr(told)
    alone = await serve_product(Issuing())
    _, _, told = await alone.issue()
    assert alone.keys.open(told["access-key-id"], told["session-token"], now).bearer == ""


@pytest.mark.parametrize("method", ("GET", "PUT", "DELETE"))
async def test_it_takes_post_alone(method: str, serve_product: ServeProduct) -> None:
    """A link could issue a key."""
    product = await serve_product(Issuing())
    assert (await product.call(method, PATH))[0] == 405


async def test_where_no_listener_takes_keys_none_are_issued(serve_product: ServeProduct) -> None:
    """Keys would be handed out that nothing takes."""
    product = await serve_product(Product())
    status, _, told = await product.call("POST", PATH, body=b"")
    assert (status, told["error"]["type"]) == (404, "NotFoundException")


async def test_what_the_trail_does_not_take_is_not_issued(serve_product: ServeProduct) -> None:
    """A key would be in the world that no event tells of."""
    sink = MemorySink()
    product = await serve_product(Issuing(sink=sink))
    sink.failure = OSError("no space left on device")
    # The first one is accepted before it is known that the disk is full.
    await product.issue()
    async with asyncio.timeout(10):
        while product.trail.state.healthy:  # noqa: ASYNC110 - the trail's writer is a thread
            await asyncio.sleep(0.01)
    status, _, told = await product.issue()
    assert (status, told["error"]["type"]) == (503, "ServiceUnavailableException")
    assert not PARTS & set(told)
    sink.failure = None


async def test_too_many_are_refused_as_any_other_request(serve_product: ServeProduct) -> None:
    """One caller could keep the server busy with issuing keys."""
    from signproxy.config.settings import LimitSettings

    product = await serve_product(Issuing())
    product.handler.limits.replace(LimitSettings(requests_per_second=1, burst=1))
    assert {(await product.issue())[0] for _ in range(3)} == {200, 429}


# -- for any message


_LEVEL = st.text(min_size=1, max_size=6)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "catalog": _LEVEL,
            "namespace": _LEVEL | st.lists(_LEVEL, max_size=3),
            "table": _LEVEL,
            "seconds": st.integers(),
        },
    )
)
def test_a_message_is_refused_or_says_what_it_said(asked: dict[str, Any]) -> None:
    """A key would be good for another place than the one that was asked for."""
    try:
        read = read_key_request(json.dumps(asked).encode())
    except Refused:
        with pytest.raises(Refused, match=Reason.MESSAGE_MALFORMED.code):
            read_key_request(json.dumps(asked).encode())
        return
    assert (read.catalog, read.table, read.seconds) == (asked.get("catalog"), asked.get("table"), asked.get("seconds"))
    namespace = asked.get("namespace")
    if isinstance(namespace, str):
        namespace = [namespace] if "." not in namespace else namespace.split(".")
    assert levels_of(read.namespace) == "\x1f".join(namespace or ())
    assert all(levels_of(read.namespace).split("\x1f")) or read.namespace is None


@pytest.mark.parametrize("content", (b"", b" \n", b"{}"))
def test_nothing_asked_is_a_key_without_limits_of_its_own(content: bytes) -> None:
    """`curl -X POST` would not do."""
    assert read_key_request(content) == KeyRequest()
