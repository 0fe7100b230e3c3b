"""Keys for a table: what is told of them, how far they reach, how long they live, and what a revoke does to them."""

from __future__ import annotations

import time

import pytest

from signproxy.config.s3 import S3KeySettings
from signproxy.config.storage import StorageBinding, Vend
from signproxy.errors import Reason, Refused
from signproxy.gate.request import AskedFor, CatalogAddress
from signproxy.identity.emulated import IssuedKey
from signproxy.identity.opaque import OpaqueToken, StaticTokens, hash_token
from signproxy.model import NamedTable, Principal, Subject
from signproxy.policy.location import Location
from signproxy.policy.table import MetadataLevel
from signproxy.vending.vended import VendAccess
from signproxy.vending.vending import find_vendable
from tests.product import token_of
from tests.vending.mint import Mint, minting
from tests.vending.rig import BOTH, LISTENER, POLICY, U1, U2, path_of, vending
from tests.vending.scopes import resembled

REFUSED = {403, 404}


async def test_a_refresh_has_one_entry_with_everything_in_it() -> None:
    """Iceberg Java throws on two entries, on none, and on each of the four keys that is missing."""
    async with vending() as server:
        before = time.time()
        told = await server.asks()
        assert (told.status, told.headers["Cache-Control"]) == (200, "no-store")
        (credential,) = told.body["storage-credentials"]
        assert set(told.body) == {"storage-credentials"}
        assert credential["prefix"] == "s3://data/wh/t1/"
        config = dict(credential["config"])
        ends = int(config.pop("s3.session-token-expires-at-ms")) / 1000
        assert before + 3_598 < ends <= time.time() + 3_600
        secrets = {name: config.pop(name) for name in ("s3.access-key-id", "s3.secret-access-key", "s3.session-token")}
        assert all(secrets.values())
        assert config == {
            "client.region": "us-east-1",
            "s3.region": "us-east-1",
            "s3.endpoint": LISTENER,
            "s3.path-style-access": "true",
            "client.refresh-credentials-enabled": "true",
            "client.refresh-credentials-endpoint": "v1/lake/namespaces/ns/tables/t1/credentials",
            "credentials.uri": "https://sign.example/base/catalogs/lake/v1/lake/namespaces/ns/tables/t1/credentials",
        }
        (event,) = server.door.events()
        assert (event.kind.value, event.call, event.method) == ("vend", "load_credentials", "GET")
        assert (event.decision.value, event.principal, event.catalog) == ("allow", "static/writer", "lake")
        assert (event.namespace, event.table, event.table_uuid) == ("ns", "t1", U1)
        assert (event.access, event.access_key_id) == ("read-write", secrets["s3.access-key-id"][-4:])
        assert event.rule_id == "writer@namespace:lake.ns"
        assert event.prefixes == ("s3://data/wh/t1/",)
        assert event.expires_at == time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(ends)))
        assert not any(secret in repr(event) for secret in secrets.values())


@pytest.mark.parametrize(
    "path",
    (
        path_of(),
        path_of(prefix=""),
        path_of(mount="/api/catalog"),
        path_of(mount="/api/catalog", prefix=""),
        path_of(mount="/api"),
        path_of(mount=""),
        path_of(mount="", prefix=""),
    ),
)
async def test_keys_are_handed_out_below_every_mount(path: str) -> None:
    """A client whose `uri` ends otherwise would lose its keys in the middle of a job."""
    async with vending() as server:
        assert (await server.asks(path=path)).status == 200


async def test_a_key_reaches_its_table_and_no_other() -> None:
    """A job that was given keys for one table would read its neighbour's, which its principal may read as well."""
    async with vending() as server:
        key = (await server.asks()).key
        for method, status in (("PUT", 200), ("GET", 200), ("HEAD", 200), ("DELETE", 200)):
            body = b"x" if method == "PUT" else None
            assert (await server.uses(key, method, "data/wh/t1/data/f", body)).status == status, method
        for place in ("data/wh/t2/data/f", "data/wh/t10/f", "data/wh/t1", "data/wh/f", "other/raw/f", "made-1/f"):
            for method in ("GET", "PUT", "DELETE"):
                found = await server.uses(key, method, place, b"x" if method == "PUT" else None)
                assert found.status in REFUSED, (method, place)
        # It is not for want of rights: without a key for a table the principal does it.
        assert (await server.door.ask("GET", "/data/wh/t2/data/f")).status == 200
        assert (await server.asks("t2")).key.access_key_id != key.access_key_id


async def test_each_request_with_a_key_is_in_the_trail() -> None:
    """What was done with keys that were handed out would be known to the store alone, and not by whom."""
    async with vending() as server:
        key = (await server.asks()).key
        await server.uses(key, "GET", "data/wh/t1/data/f")
        event = server.door.events()[-1]
        assert (event.kind.value, event.principal, event.table_uuid, event.key) == (
            "forward",
            "static/writer",
            U1,
            "wh/t1/data/f",
        )


async def test_a_key_that_reads_writes_nothing_even_where_its_caller_may() -> None:
    """The key of a reader, stolen, would write once its caller is promoted."""
    async with vending() as server:
        told = await server.asks(who="reader")
        key = told.key
        assert server.door.events()[-1].access == "read"
        promoted = ("reader: {roles: [readers]}", "reader: {roles: [readers, writers]}")
        for changes in ((), (promoted,)):
            server.policy(*changes)
            assert (await server.uses(key, "GET", "data/wh/t1/data/f")).status == 200
            for method in ("PUT", "DELETE"):
                found = await server.uses(key, method, "data/wh/t1/data/f", b"x" if method == "PUT" else None)
                assert (found.status, found.code) == (403, "AccessDenied")
        assert server.door.events()[-1].reason == "ceiling"
        renewed = (await server.asks(who="reader")).key
        assert (await server.uses(renewed, "PUT", "data/wh/t1/data/f", b"x")).status == 200


async def test_a_key_that_reads_writes_nothing_while_its_caller_is_only_observed() -> None:
    """To be watched is no way past what a key is for."""
    watched = POLICY.replace("reader: {roles: [readers]}", "reader: {roles: [readers], mode: observe}")
    async with vending(watched) as server:
        key = (await server.asks(who="reader")).key
        assert (await server.uses(key, "GET", "data/wh/t1/data/f")).status == 200
        assert (await server.uses(key, "PUT", "data/wh/t1/data/f", b"x")).status == 403
        assert (await server.uses(key, "GET", "data/wh/t2/data/f")).status == 403


async def test_a_revoke_ends_the_refreshes_and_the_keys_that_are_out() -> None:
    """A caller would go on for the rest of an hour."""
    async with vending() as server:
        key = (await server.asks()).key
        assert (await server.asks()).status == 200
        server.policy(("writer: {roles: [writers]}", "writer: {roles: []}"))
        refused = await server.asks()
        assert (refused.status, refused.body["error"]["type"]) == (403, "ForbiddenException")
        assert (await server.uses(key, "GET", "data/wh/t1/data/f")).status == 403
        assert [event.kind.value for event in server.door.events()] == ["vend", "vend", "vend", "forward"]
        server.policy()
        assert (await server.uses(key, "GET", "data/wh/t1/data/f")).status == 200


async def test_a_key_is_not_good_for_what_takes_its_table_s_name() -> None:
    """A table that was dropped and made anew is another owner's."""
    async with vending() as server:
        key = (await server.asks()).key
        server.policy((U1, U2))
        assert (await server.uses(key, "GET", "data/wh/t1/data/f")).status == 403
        assert server.door.events()[-1].reason == "not_in_scope"
        server.policy(("name: t1, namespace: ns,", "name: renamed, namespace: ns,"), ("table: t1,", "table: renamed,"))
        assert (await server.uses(key, "GET", "data/wh/t1/data/f")).status == 403
        assert (await server.asks()).status == 403


async def test_the_parts_of_a_key_belong_together() -> None:
    """The token of one table's key beside the id of another's would open both."""
    async with vending() as server:
        one, other = (await server.asks()).key, (await server.asks("t2")).key
        mixed = IssuedKey(one.access_key_id, one.secret_access_key, other.session_token, one.expires_at)
        for key in (mixed, IssuedKey(one.access_key_id, one.secret_access_key, "", 0.0)):
            assert (await server.uses(key, "GET", "data/wh/t2/data/f")).status == 403


@pytest.mark.parametrize("left", (370.0, 600.0, 1e6))
async def test_keys_never_outlive_the_token_that_was_shown_for_them(left: float) -> None:
    """A token that ends in a minute would be worth an hour."""
    async with vending() as server:
        ends = time.time() + left
        held = {hash_token(token_of("writer")): OpaqueToken("writer", expires_at=ends)}
        authenticator = server.product.authenticator
        authenticator.commit(authenticator.prepare((), StaticTokens(held)))
        expires_at = (await server.asks(query="?seconds=99999&expires-at=4e12")).key.expires_at
        assert expires_at <= min(ends, time.time() + 3_600)
        assert expires_at > min(ends, time.time() + 3_600) - 5


@pytest.mark.parametrize("left", (5.0, 300.0, 355.0))
async def test_a_token_that_is_about_to_end_gets_no_keys_that_are_renewed_without_pause(left: float) -> None:
    """Iceberg Java asked for the next keys some hundred times a second, for the last five minutes of each token."""
    async with vending() as server:
        held = {hash_token(token_of("writer")): OpaqueToken("writer", expires_at=time.time() + left)}
        authenticator = server.product.authenticator
        authenticator.commit(authenticator.prepare((), StaticTokens(held)))
        told = await server.asks()
        assert (told.status, told.body["error"]["type"]) == (401, "NotAuthorizedException")
        assert told.headers["WWW-Authenticate"] == 'Bearer realm="signproxy"'
        assert server.door.event.reason == "token_ends_soon"


async def test_the_settings_say_how_long_keys_live() -> None:
    """An operator who wants short lives would have long ones."""
    for binding, most, lives in (
        (StorageBinding("store", (), vend=Vend.ISSUED, vend_seconds=400), 3_600, 400),
        (StorageBinding("store", (), vend=Vend.ISSUED, vend_seconds=7_200), 900, 900),
    ):
        async with vending(binding=binding, keys=S3KeySettings(max_seconds=most)) as server:
            left = (await server.asks()).key.expires_at - time.time()
            assert lives - 5 < left <= lives


@pytest.mark.parametrize(
    ("table", "who", "status", "reason"),
    (
        ("t1", "nobody", 403, "principal_unknown"),
        ("t1", "stranger", 403, "principal_unknown"),
        ("t2", "reader", 403, "no_remote_sign"),
        ("t9", "writer", 403, "table_unknown"),
        ("t1", "maker", 403, "no_remote_sign"),
    ),
)
async def test_who_may_not_read_a_table_gets_no_keys(table: str, who: str, status: int, reason: str) -> None:
    """No caller learns from the answer whether there is such a table."""
    async with vending() as server:
        told = await server.asks(table, who=who)
        assert (told.status, told.body["error"]["code"]) == (status, status)
        assert "storage-credentials" not in told.body
        (event,) = server.door.events()
        assert (event.kind.value, event.reason, event.table) == ("vend", reason, table)
        if status == 403:
            assert told.body["error"]["message"] == "Insufficient privileges"


@pytest.mark.parametrize(
    ("offered", "role", "reason"),
    (
        ("remote-signing", "", "delegation_refused"),
        ("", "", "delegation_refused"),
        (BOTH, "delegation: {writers: {lake: [remote-signing]}}", "delegation_refused"),
        (BOTH, "delegation: {writers: {lake: []}}", "delegation_refused"),
        (BOTH, "delegation: {writers: {}, readers: {lake: []}}", "allowed"),
        ("", "delegation: {writers: {lake: [vended-credentials]}}", "allowed"),
    ),
)
async def test_keys_are_for_those_to_whom_the_policy_offers_them(offered: str, role: str, reason: str) -> None:
    """Partners would have keys because a catalog's own jobs do."""
    async with vending(POLICY.replace(BOTH, offered) + role) as server:
        assert (await server.asks()).status == (200 if reason == "allowed" else 403)
        assert server.door.events()[-1].reason == reason


async def test_a_caller_without_a_token_is_asked_for_one() -> None:
    """Iceberg Java renews its token on 401, and on nothing else."""
    async with vending() as server:
        told = await server.asks(who=None)
        assert (told.status, told.headers["WWW-Authenticate"]) == (401, 'Bearer realm="signproxy"')
        assert (server.door.event.kind.value, server.door.event.reason) == ("vend", "token_missing")


async def test_a_storage_of_which_the_settings_say_nothing_has_no_keys() -> None:
    """Editing the policy would have keys made for a store that the operator never meant."""
    async with vending(binding=StorageBinding("store", ())) as server:
        told = await server.asks()
        assert (told.status, server.door.event.reason) == (403, "vend_off")
        assert "storage-credentials" not in told.body


async def test_where_nothing_is_signed_no_keys_are_handed_out() -> None:
    """They would open nothing: the S3 listener serves none of the catalog's tables."""
    async with vending(POLICY.replace("remote_signing: true, d", "d")) as server:
        assert (await server.asks()).status == 403
        assert server.door.event.reason == "remote_signing_off"


@pytest.mark.parametrize(
    ("query", "status"),
    (
        ("?planId=p-1", 200),
        ("?referenced-by=n%1Fv", 200),
        ("?referenced-by=n%1Fa%2Cb,m%1Fn%1Fw&planId=x", 200),
        ("?unknown=1", 200),
        ("?planId=", 400),
        ("?planId=a&planId=b", 400),
        ("?referenced-by=", 400),
        ("?referenced-by=v", 400),
        ("?referenced-by=n%1Fv,", 400),
        ("?referenced-by=n%1Fv&referenced-by=n%1Fw", 400),
        ("?referenced-by=%1Fv", 400),
        ("?referenced-by=n%1F", 400),
        ("?referenced-by=n%1Fa%2Fb", 400),
        ("?referenced-by=n%1F%ff", 400),
        ("?referenced-by=n%1F%zz", 400),
        ("?referenced-by=n%1Fv;planId=x", 400),
        ("?referenced-by=" + ",".join(["n%1Fv"] * 65), 400),
        ("?planId=" + "x" * 1025, 400),
    ),
)
async def test_what_a_query_names_is_well_formed_and_changes_nothing(query: str, status: int) -> None:
    """A chain of views that was dropped in silence would be taken for one that counted."""
    async with vending() as server:
        told = await server.asks(query=query)
        assert told.status == status
        if status == 400:
            assert told.body["error"]["type"] == "BadRequestException"
            assert server.door.event.reason == "route_malformed"


async def test_only_get_asks_for_keys() -> None:
    """A POST would be a call that no client makes."""
    async with (
        vending() as server,
        server.product.client.post(path_of(), headers={"Authorization": f"Bearer {token_of('writer')}"}) as found,
    ):
        assert found.status == 405


async def test_keys_of_a_store_s_own_are_asked_for_what_was_decided() -> None:
    """They would be made for what a client says, or be told with an address at which they are worth nothing."""
    async with vending() as server:
        mint = Mint()
        minting(server.product, mint)
        told = await server.asks(who="reader")
        (scope,) = mint.asked
        assert (scope.storage, scope.locations, scope.access) == ("main", (Location("data", "wh/t1"),), VendAccess.READ)
        assert (scope.metadata, scope.principal) == (MetadataLevel.PROTECTED, "static/reader")
        event = server.door.event
        assert scope.event_id == event.event_id
        assert told.config["s3.session-token"] == "minted-token"
        assert told.config["s3.endpoint"] == f"http://127.0.0.1:{server.door.upstream.port}"
        assert (event.session_name, event.policy_sha256, event.access) == ("sp-writer-1", "d" * 64, "read")
        assert event.access_key_id == "MINT"


async def test_the_tables_of_every_catalog_are_looked_at() -> None:
    """Keys for a table would open the one of another catalog that a store takes for the same."""
    beside = "volumes:\n"
    policy = POLICY.replace("catalogs:\n", "catalogs:\n  pond: {storages: [main], remote_signing: true}\n").replace(
        beside, f'  - {{catalog: pond, name: t9, namespace: ns, location: "s3://data/WH/T1"}}\n{beside}'
    )
    async with vending(policy) as server:
        mint = Mint()
        minting(server.product, mint)
        await server.asks()
        (scope,) = mint.asked
        assert resembled(scope.others, scope.locations[0]) == "table pond.ns.t9"
        assert scope.others.meets(scope.locations[0]) == ""


@pytest.mark.parametrize("issued", (True, False))
async def test_a_token_that_ended_within_the_leeway_makes_no_keys(issued: bool) -> None:
    """It is accepted for a minute more, and a session made of it would be good for twelve hours."""
    async with vending() as server:
        mint = Mint()
        if not issued:
            minting(server.product, mint, bound=False)
        api, now = server.product.house.rooms.api, time.time()
        caller = Principal("static/writer", "static", "writer", now - 10)
        asked = AskedFor(CatalogAddress("lake"), NamedTable("ns", "t1"))
        vendable = await find_vendable(api.gate, Subject.of(caller), asked, U1)
        with pytest.raises(Refused) as caught:
            await api.vending.vending.vend(vendable, None, caller, "", "e", now)
        assert caught.value.reason is Reason.TOKEN_EXPIRED
        assert not mint.asked


@pytest.mark.parametrize(
    ("change", "status", "reason"),
    (
        (("writer: {roles: [writers]}", "writer: {roles: []}"), 403, "principal_unknown"),
        (("TABLE_WRITE_DATA", "TABLE_READ_DATA"), 503, "sessions_unavailable"),
        (("s3://data/wh/t1", "s3://data/wh/t4"), 503, "sessions_unavailable"),
    ),
)
async def test_what_is_revoked_while_a_session_is_made_is_not_handed_out(
    change: tuple[str, str], status: int, reason: str
) -> None:
    """A session service that is slow, or is kept so, would hand out hours of access after the revoke."""
    async with vending() as server:
        mint = Mint()
        minting(server.product, mint)
        mint.meanwhile = lambda: server.policy(change)
        told = await server.asks()
        assert (told.status, server.door.event.reason) == (status, reason)
        assert "storage-credentials" not in told.body
        assert not server.door.event.access_key_id


@pytest.mark.parametrize(
    ("reason", "status"), ((Reason.CREDENTIALS_UNAVAILABLE, 503), (Reason.VEND_OFF, 403), (Reason.INTERNAL, 503))
)
async def test_a_store_that_makes_no_keys_is_an_error_and_never_an_empty_list(reason: Reason, status: int) -> None:
    """The client would say that its credentials are empty, and look for the fault in itself."""
    async with vending() as server:
        mint = Mint()
        mint.refuses = Refused(reason, "throttled")
        minting(server.product, mint)
        told = await server.asks()
        assert (told.status, set(told.body)) == (status, {"error"})
        assert ("Retry-After" in told.headers) is (reason is Reason.CREDENTIALS_UNAVAILABLE)
        assert server.door.event.reason == reason.code


async def test_sessions_that_a_store_makes_too_short_are_not_blamed_on_the_token() -> None:
    """The client would renew its token again and again, and log its user in each time."""
    async with vending() as server:
        mint = Mint()
        mint.life = 300.0
        minting(server.product, mint)
        told = await server.asks()
        assert (told.status, server.door.event.reason) == (503, "sessions_unavailable")
        assert "Retry-After" in told.headers


async def test_keys_are_counted() -> None:
    """An operator would not see that keys are handed out where none were meant."""
    async with vending() as server:
        await server.asks()
        await server.asks(who="reader")
        await server.asks(who="nobody")
        text = server.product.metrics.render().body.decode()
        assert 'signproxy_vended_keys_total{access="read-write",kind="issued"} 1' in text
        assert 'signproxy_vended_keys_total{access="read",kind="issued"} 1' in text
        assert 'op="vend",reason="principal_unknown"} 1' in text


async def test_a_session_is_charged_before_it_is_asked_for() -> None:
    """It takes as long as many signatures, and a caller would have thousands made a second."""
    async with vending() as server:
        mint = Mint()
        minting(server.product, mint)
        assert (await server.asks()).status == 200
        (scope,) = mint.asked

        def spend() -> None:
            for _ in range(100_000):
                scope.charge()

        with pytest.raises(Refused) as caught:
            spend()
        assert caught.value.reason is Reason.RATE_LIMITED
        assert (await server.asks(who="reader")).status == 200
