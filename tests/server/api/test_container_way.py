"""`GET /v1/aws/container-credentials/{profile}`: keys as SDKs ask for them, for processes of this machine alone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from yarl import URL

from signproxy.answers.api_way import Message
from signproxy.audit.event import Kind
from signproxy.config.container import ContainerProfile, ContainerSettings, ProfileAccess
from signproxy.config.s3 import S3Identity, S3Settings
from signproxy.config.settings import Settings
from signproxy.errors import Reason, Refused
from signproxy.gate.request import CatalogAddress, arrived
from signproxy.identity.emulated import EmulatedKeys
from signproxy.identity.opaque import OpaqueToken, StaticTokens, hash_token
from signproxy.model import Ceiling, KeyScope
from signproxy.server.api.container_way import ContainerWay
from tests.identity.keyed import emulated
from tests.product import Product, ServeProduct, token_of

PATH = "/v1/aws/container-credentials"
T1_UUID = "6f1a3c5e-0000-4000-8000-000000000001"
PROFILES = {
    "all": ContainerProfile("lake"),
    "writes": ContainerProfile("lake", access=ProfileAccess.READ_WRITE),
    "one": ContainerProfile("lake", "ns", "t1", seconds=1_800),
    "part": ContainerProfile("lake", "ns"),
    "located": ContainerProfile("located"),
    "missing": ContainerProfile("nowhere"),
}


class Container(Product):
    """A server that gives SDKs keys."""

    def __init__(self, profiles: Mapping[str, ContainerProfile] = PROFILES, **changes: Any) -> None:
        super().__init__(**changes)
        self.keys: EmulatedKeys = emulated(self.authenticator, seconds=7_200)
        self.issue_by(self.keys, profiles)

    async def asks(
        self,
        profile: str = "all",
        *,
        authorization: str | None = "",
        method: str = "GET",
        path: str = PATH,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> tuple[int, Mapping[str, str], Any]:
        """Ask as an SDK does: the token as it stands in its variable."""
        sent = dict(headers or {})
        if authorization is not None:
            sent["Authorization"] = authorization or token_of("reader")
        async with self.client.request(method, f"{path}/{profile}", headers=sent, data=body) as found:
            told = await found.json() if method != "HEAD" else None
            return found.status, found.headers, told

    def holder(self, told: Mapping[str, str]) -> Any:
        """Return whom the S3 listener takes the holder of the keys for."""
        held = self.keys.open(told["AccessKeyId"], told["Token"], datetime.now(UTC).timestamp())
        assert held.secret == told["SecretAccessKey"]
        return held.principal


@pytest.mark.parametrize("form", ("%s", "Bearer %s", "bearer %s"))
async def test_an_sdk_gets_keys_by_the_token_as_it_stands(form: str, serve_product: ServeProduct) -> None:
    """SDKs send what their variable or file holds, and put no scheme before it."""
    product = await serve_product(Container())
    status, headers, told = await product.asks(authorization=form % token_of("reader"))
    assert (status, set(told)) == (200, {"AccessKeyId", "SecretAccessKey", "Token", "Expiration"})
    assert headers["Cache-Control"] == "no-store"
    # The form that the C++ SDK reads, and no other.
    ends = datetime.strptime(told["Expiration"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
    assert time.time() + 3_590 < ends <= time.time() + 3_600
    holder = product.holder(told)
    assert (holder.name, holder.key_scope) == ("static/reader", KeyScope("lake", ceiling=Ceiling.READ_ONLY))
    (event,) = product.events()
    assert (event.kind.value, event.decision.value, event.principal) == ("issue", "allow", "static/reader")
    assert (event.catalog, event.expires_at, event.access_key_id) == (
        "lake",
        told["Expiration"],
        told["AccessKeyId"][-4:],
    )
    assert told["SecretAccessKey"] not in repr(event)


@pytest.mark.parametrize(
    ("profile", "scope"),
    (
        ("writes", KeyScope("lake")),
        ("one", KeyScope("lake", "ns", "t1", T1_UUID, Ceiling.READ_ONLY)),
        ("part", KeyScope("lake", "ns", ceiling=Ceiling.READ_ONLY)),
        ("located", KeyScope("located", ceiling=Ceiling.READ_ONLY)),
    ),
)
async def test_a_profile_says_what_keys_are_for(profile: str, scope: KeyScope, serve_product: ServeProduct) -> None:
    """A job that reads one table would hold keys for the catalog."""
    product = await serve_product(Container())
    status, _, told = await product.asks(profile)
    assert (status, product.holder(told).key_scope) == (200, scope)
    left = product.holder(told).expires_at - time.time()
    assert left <= PROFILES[profile].seconds


async def test_a_profile_is_below_the_mounts_of_its_catalog(serve_product: ServeProduct) -> None:
    """The address of one catalog would lead to another."""
    product = await serve_product(Container())
    for mount, status in (("/api", 200), ("/api/catalog", 200), ("/catalogs/lake", 200), ("/catalogs/located", 403)):
        assert (await product.asks(path=mount + PATH))[0] == status, mount


@pytest.mark.parametrize(
    ("asked", "status", "reason"),
    (
        ({"authorization": None}, 401, "token_missing"),
        ({"authorization": "Bearer "}, 401, "token_malformed"),
        ({"authorization": "Basic dTpw"}, 401, "token_malformed"),
        ({"authorization": "not-known-at-all"}, 401, "token_malformed"),
        ({"profile": "other"}, 404, "route_unknown"),
        ({"profile": "missing"}, 403, "catalog_unknown"),
        ({"method": "POST", "body": b"x" * 200_000}, 405, "method_not_allowed"),
        ({"method": "HEAD"}, 405, "method_not_allowed"),
        ({"method": "PUT"}, 405, "method_not_allowed"),
        ({"headers": {"Host": "attacker.example"}}, 403, "host_unknown"),
        ({"headers": {"Host": "127.0.0.1.attacker.example"}}, 403, "host_unknown"),
        ({"headers": {"Host": "169.254.170.2"}}, 403, "host_unknown"),
        ({"headers": {"Host": "user@127.0.0.1"}}, 403, "host_unknown"),
        ({"headers": {"Origin": "http://127.0.0.1"}}, 403, "browser_refused"),
        ({"headers": {"Origin": "null"}}, 403, "browser_refused"),
        ({"headers": {"Sec-Fetch-Site": "none"}}, 403, "browser_refused"),
        ({"headers": {"X-Forwarded-For": "127.0.0.1"}}, 403, "peer_refused"),
        ({"headers": {"Via": "1.1 proxy"}}, 403, "peer_refused"),
        ({"headers": {"Forwarded": "for=127.0.0.1"}}, 403, "peer_refused"),
    ),
)
async def test_what_is_refused_is_told_in_the_form_of_sdks(
    asked: dict[str, Any], status: int, reason: str, serve_product: ServeProduct
) -> None:
    """A web page whose name leads to loopback, or a proxy, would bring strangers; an SDK would not show why not."""
    product = await serve_product(Container())
    found, _, told = await product.asks(**asked)
    assert found == status
    if told is not None:
        assert set(told) == {"code", "message"}
        assert all(isinstance(each, str) and each for each in told.values())
    (event,) = product.events()
    assert (event.kind.value, event.reason) == ("issue", reason)


@pytest.mark.parametrize("host", ("localhost", "127.0.0.1:8181", "[::1]:8181", "LOCALHOST:1"))
async def test_the_names_of_loopback_are_served(host: str, serve_product: ServeProduct) -> None:
    """An SDK that is told `localhost` could not be served."""
    product = await serve_product(Container())
    assert (await product.asks(headers={"Host": host}))[0] == 200


@pytest.mark.parametrize(
    ("here", "there"),
    (
        (("10.0.0.5", 8181), ("10.0.0.9", 4711)),
        (("127.0.0.1", 8181), ("10.0.0.9", 4711)),
        (("10.0.0.5", 8181), ("127.0.0.1", 4711)),
        (("fe80::1", 8181, 0, 0), ("fe80::2", 4711, 0, 0)),
        ("/run/signproxy.sock", ""),
        (None, None),
    ),
)
def test_no_process_of_another_machine_is_served(here: object, there: object) -> None:
    """Whatever reaches the port would have a pod's keys with a token that it found."""
    product = Container()
    ends = {"sockname": here, "peername": there}
    transport = None if here is None else SimpleNamespace(get_extra_info=ends.get)
    sent = {"Host": "127.0.0.1", "Authorization": token_of("reader")}
    parsed = cast("Any", SimpleNamespace(method="GET", transport=transport, headers=sent))
    request = arrived(Kind.ISSUE, "0" * 26, product.state)
    rooms = product.house.rooms.api.keys
    assert rooms is not None
    way = ContainerWay(request, Message(sent, parsed=parsed), product.handler.limits, rooms, CatalogAddress())
    way.name = "all"
    with pytest.raises(Refused) as refused:
        way.identify()
    assert refused.value.reason is Reason.PEER_REFUSED


async def test_without_profiles_there_is_no_such_endpoint(serve_product: ServeProduct) -> None:
    """Every process of the machine could try tokens there, on servers that never meant to have it."""
    product = await serve_product(Container({}))
    status, _, told = await product.asks()
    assert (status, told["code"]) == (404, "NotFoundException")
    plain = Product()
    await serve_product(plain)
    async with plain.client.get(f"{PATH}/all", headers={"Authorization": token_of("reader")}) as found:
        assert found.status == 404


@pytest.mark.parametrize("name", ("%61ll", "a%2Fll", "..", "all/", "all%00", "", "x" * 5_000))
async def test_a_name_is_read_once(name: str, serve_product: ServeProduct) -> None:
    """Two readers of a path would find two profiles."""
    product = await serve_product(Container())
    where = URL(f"{product.client.make_url('/')}{PATH[1:]}/{name}", encoded=True)
    async with product.client.session.get(where, headers={"Authorization": token_of("reader")}) as found:
        assert found.status in ((200,) if name == "%61ll" else (400, 404))


@pytest.mark.parametrize(("left", "status"), ((5.0, 401), (355.0, 401), (400.0, 200), (1_000.0, 200)))
async def test_keys_end_with_the_token_and_none_are_given_that_end_at_once(
    left: float, status: int, serve_product: ServeProduct
) -> None:
    """A token of a minute would be worth an hour; and SDKs ask again for keys that end, with each of their requests."""
    product = await serve_product(Container())
    ends = time.time() + left
    held = {hash_token(token_of("reader")): OpaqueToken("reader", expires_at=ends)}
    product.authenticator.commit(product.authenticator.prepare((), StaticTokens(held)))
    found, _, told = await product.asks()
    assert found == status
    if status == 200:
        assert product.holder(told).expires_at <= ends
    else:
        assert product.events()[0].reason == "token_ends_soon"


async def test_the_keys_themselves_ask_for_no_others(serve_product: ServeProduct) -> None:
    """Keys that make keys would never end."""
    product = await serve_product(Container())
    _, _, told = await product.asks()
    for part in ("Token", "AccessKeyId", "SecretAccessKey"):
        assert (await product.asks(authorization=told[part]))[0] == 401


@pytest.mark.parametrize(("who", "status"), (("writer", 200), ("nobody", 403), ("stranger", 403), ("half", 403)))
async def test_who_may_nothing_in_the_catalog_of_a_profile_gets_no_keys(
    who: str, status: int, serve_product: ServeProduct
) -> None:
    """After a revoke an SDK would go on with keys that open nothing, and its user look for the fault in them."""
    product = await serve_product(Container())
    found, _, told = await product.asks(authorization=token_of(who))
    assert found == status
    if status == 403:
        assert told["message"] == "Insufficient privileges"
        assert product.events()[0].reason == "principal_unknown"


@pytest.mark.parametrize(
    "request_line",
    (
        "GET http://attacker.example/v1/aws/container-credentials/all HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        "GET http://127.0.0.1/v1/aws/container-credentials/all HTTP/1.1\r\nHost: attacker.example\r\n",
        "GET /v1/aws/container-credentials/all HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: attacker.example\r\n",
        "GET /v1/aws/container-credentials/all HTTP/1.1\r\nHost: 127.0.0.1, attacker.example\r\n",
        "GET /v1/aws/container-credentials/all HTTP/1.1\r\nHost:\r\n",
        "GET /v1/aws/container-credentials/all HTTP/1.0\r\n",
        "GET /v1/aws/container-credentials/all?host=127.0.0.1 HTTP/1.0\r\n",
        "OPTIONS /v1/aws/container-credentials/all HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://127.0.0.1\r\n",
    ),
)
async def test_a_request_that_names_another_host_is_answered_with_no_key(
    request_line: str, serve_product: ServeProduct
) -> None:
    """A page whose name leads to loopback would read the keys, by whichever spelling of a request."""
    product = await serve_product(Container())
    url = product.client.make_url("/")
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(f"{request_line}Authorization: {token_of('reader')}\r\nConnection: close\r\n\r\n".encode())
    async with asyncio.timeout(20):
        answer = await reader.read()
    writer.close()
    assert answer.split(b" ")[1][:1] == b"4"
    assert b"AccessKeyId" not in answer


async def test_the_body_of_a_request_is_not_waited_for(serve_product: ServeProduct) -> None:
    """A caller would have the server keep what it never reads."""
    product = await serve_product(Container())
    assert (await product.asks(body=b"x" * 1_000_000))[0] == 200


async def test_a_profile_takes_effect_with_a_reload(serve_product: ServeProduct) -> None:
    """One that is taken out would be served until the next restart."""
    settings = Settings(s3=S3Settings(enabled=True, identities=(S3Identity.EMULATED,)))
    product = await serve_product(Product(settings=settings))
    sent = {"Authorization": token_of("reader")}
    for profiles, status in (({}, 404), (PROFILES, 200), ({}, 404)):
        changed = msgspec.structs.replace(settings, container_credentials=ContainerSettings(profiles))
        product.generation = msgspec.structs.replace(product.generation, settings=changed)
        product.assemble()
        async with product.client.get(f"{PATH}/all", headers=sent) as found:
            assert found.status == status
