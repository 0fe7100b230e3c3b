"""Keys for a path: for the table that owns it, for what is to be done there, and for how long they may be kept."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signproxy.errors import Reason, Refused
from signproxy.identity.opaque import OpaqueToken, StaticTokens, hash_token
from signproxy.vending.resolve_way import MAX_RESOLVE_REQUEST, RENEW_SECONDS, read_resolve_request
from tests.catalog.scripted import Asked, Line, answer, error
from tests.facade.front import Front, front, loaded
from tests.product import token_of
from tests.vending.mint import Mint, minting
from tests.vending.rig import BOTH, LISTENER, POLICY, RESOLVE, U1, U2, Vended, vending

FILE = "/wh/t1/data/f.parquet"
NESTED = POLICY.replace("  lake: {storages", "  lake: {overlap: allowed, storages").replace(
    "s3://data/wh/t2", "s3://data/wh/t1/inner"
)


async def test_a_path_is_answered_with_keys_and_for_which_paths_they_may_be_kept() -> None:
    """A reader that knows paths alone would ask for each file, or use one table's keys for another."""
    async with vending() as server:
        before = time.time()
        told = await server.resolves(FILE)
        assert (told.status, told.headers["Cache-Control"]) == (200, "no-store")
        said = dict(told.body)
        secrets = [said.pop(name) for name in ("access-key-id", "secret-access-key", "session-token")]
        ends = said.pop("expiration-ms") / 1000
        assert before + 3_598 < ends <= time.time() + 3_600
        assert datetime.fromisoformat(said.pop("expiration")).timestamp() == int(ends)
        cache = said.pop("cache")
        assert datetime.fromisoformat(cache.pop("until")).timestamp() == pytest.approx(ends - RENEW_SECONDS, abs=1)
        assert cache == {"match": "longest-segments", "other-paths": "ask"}
        assert said == {
            "mode": "READ",
            "policy-locations": [{"bucket": "data", "prefix": "wh/t1/"}],
            "config": {
                "client.region": "us-east-1",
                "s3.region": "us-east-1",
                "s3.endpoint": LISTENER,
                "s3.path-style-access": "true",
            },
        }
        event = server.door.event
        assert (event.kind.value, event.call, event.method) == ("vend", "resolve_credentials", "POST")
        assert (event.principal, event.catalog, event.namespace, event.table) == ("static/writer", "lake", "ns", "t1")
        assert (event.table_uuid, event.access, event.access_key_id) == (U1, "read", secrets[0][-4:])
        assert event.prefixes == ("s3://data/wh/t1/",)
        assert not any(secret in repr(event) for secret in secrets)
        assert (
            'signproxy_vended_keys_total{access="read",kind="issued"} 1'
            in server.product.metrics.render().body.decode()
        )


async def test_keys_do_what_they_were_asked_for_and_no_more() -> None:
    """A scan would hold keys that write, or a reader's request for some be answered with keys that fail later."""
    async with vending() as server:
        reads, writes = (await server.resolves(FILE)).resolved, (await server.resolves(FILE, "WRITE")).resolved
        for key, status in ((reads, 403), (writes, 200)):
            assert (await server.uses(key, "GET", "data/wh/t1/data/f")).status == 200
            assert (await server.uses(key, "PUT", "data/wh/t1/data/f", b"x")).status == status
            for place in ("data/wh/t2/data/f", "data/wh/t10/f", "data/wh/f", "other/raw/f"):
                assert (await server.uses(key, "GET", place)).status == 403
        refused = await server.resolves(FILE, "WRITE", who="reader")
        assert (refused.status, refused.body["error"]["message"]) == (403, "Insufficient privileges")
        assert server.door.events()[-1].reason == "no_write_data"
        assert (await server.resolves(FILE, who="reader")).status == 200


@pytest.mark.parametrize(
    "route",
    (
        "/v1/credentials/resolve",
        "/lake/v1/credentials/resolve",
        "/api/v1/credentials/resolve",
        "/api/catalog/v1/credentials/resolve",
        "/api/catalog/lake/v1/credentials/resolve",
        "/catalogs/lake/v1/credentials/resolve",
        "/catalogs/lake/lake/v1/credentials/resolve",
    ),
)
async def test_paths_are_resolved_below_every_mount(route: str) -> None:
    """A client is configured with the URL of its catalog."""
    async with vending() as server:
        assert (await server.resolves(FILE, route=route)).status == 200


@pytest.mark.parametrize("path", ("wh/t1", "/wh/t1", "wh/t1/", "/wh/t1/", "wh/t1/data", "wh/t1/%2e%2e/t2/f"))
async def test_a_table_s_root_and_its_folders_are_in_the_table(path: str) -> None:
    """A job that lists a table before it reads it would have no keys. No text is decoded: a path is a key."""
    async with vending() as server:
        told = await server.resolves(path)
        assert told.body["policy-locations"] == [{"bucket": "data", "prefix": "wh/t1/"}]
        assert (await server.uses(told.resolved, "GET", "data/wh/t2/data/f")).status == 403


@pytest.mark.parametrize(
    ("bucket", "path", "status", "reason"),
    (
        ("data", "wh/t10/f", 403, "location_unowned"),
        ("data", "wh/T1/f", 403, "location_unowned"),
        ("data", "wh", 403, "location_unowned"),
        ("data", "wh%2Ft1/f", 403, "location_unowned"),
        ("other", "wh/t1/f", 403, "location_unowned"),
        ("DATA", "wh/t1/f", 403, "location_unowned"),
        ("unknown", "wh/t1/f", 403, "location_unowned"),
        ("data/wh", "t1/f", 403, "location_unowned"),
        ("data", "", 400, "key_empty_segment"),
        ("data", "/", 400, "key_empty_segment"),
        ("data", "//", 400, "key_empty_segment"),
        ("data", "//wh/t1/f", 400, "key_empty_segment"),
        ("data", "wh//t1/f", 400, "key_empty_segment"),
        ("data", "wh/t1/../t2/f", 400, "key_dot_segment"),
        ("data", "wh/t1/.. /t2", 400, "key_dot_segment"),
        ("data", "wh/t1/..", 400, "key_dot_segment"),
        ("data", "./wh/t1/f", 400, "key_dot_segment"),
        ("data", "wh\\t1\\f", 400, "key_character"),
        ("data", "wh/t1/\0", 400, "key_character"),
        ("data", "wh/t1/" + "ä" * 600, 400, "key_too_long"),
    ),
)
async def test_a_path_in_no_table_has_no_keys(bucket: str, path: str, status: int, reason: str) -> None:
    """A neighbour's path, a bucket's root and paths that some store reads as others would open what is not asked."""
    async with vending() as server:
        told = await server.resolves(path, bucket=bucket)
        assert (told.status, server.door.event.reason) == (status, reason)
        assert set(told.body) == {"error"}
        assert server.door.event.kind.value == "vend"


async def test_a_volume_is_refused_by_name_to_the_operator_alone() -> None:
    """Its owner would look for a table; a stranger would learn that there is a volume."""
    async with vending() as server:
        owned = await server.resolves("raw/f", bucket="other")
        unknown = await server.resolves("raw/f", bucket="elsewhere")
        assert owned.status == unknown.status == 403
        assert owned.body["error"]["message"] == unknown.body["error"]["message"] == "Insufficient privileges"
        assert "volume 'lake/raw'" in server.door.events()[0].detail


async def test_who_may_not_read_a_table_learns_nothing_of_its_path() -> None:
    """An answer of its own would tell where other tenants' tables lie."""
    async with vending() as server:
        for who in ("reader", "maker", "nobody", "stranger"):
            hidden, missing = await server.resolves("wh/t2/f", who=who), await server.resolves("wh/t9/f", who=who)
            for told in (hidden, missing):
                told.body["error"].pop("request_id")
            assert (hidden.status, hidden.body) == (403, missing.body)
            assert hidden.status == missing.status


async def test_a_path_in_two_tables_has_no_keys() -> None:
    """The keys would be those of one owner, where both have to allow."""
    async with vending(NESTED) as server:
        for path in ("wh/t1/inner/f", "wh/t1/inner"):
            assert (await server.resolves(path)).status == 403
            assert server.door.events()[-1].reason == "location_unowned"


async def test_keys_are_not_kept_for_a_place_that_another_table_shares() -> None:
    """A client would use them for the other's paths, which they do not open, and never ask for the right ones."""
    async with vending(NESTED) as server:
        told = await server.resolves("wh/t1/data/f")
        assert (told.status, server.door.event.reason) == (403, "scope_not_vendable")
    apart = NESTED.replace('location: "s3://data/wh/t1",', 'location: "s3://data/wh/t1", locations: ["s3://data/d1"],')
    async with vending(apart) as server:
        told = await server.resolves("d1/f")
        assert told.body["policy-locations"] == [{"bucket": "data", "prefix": "d1/"}]


async def test_every_place_of_a_table_is_told() -> None:
    """A client would ask again, and hold two sets of keys, for a table whose data lies elsewhere."""
    policy = POLICY.replace("bucket: other, operations", "bucket: other, prefix: raw, operations").replace(
        'location: "s3://data/wh/t1",', 'location: "s3://data/wh/t1", locations: ["s3://other/d1"],'
    )
    async with vending(policy) as server:
        told = await server.resolves("d1/f", bucket="other")
        assert told.body["policy-locations"] == [
            {"bucket": "data", "prefix": "wh/t1/"},
            {"bucket": "other", "prefix": "d1/"},
        ]
        for place in ("data/wh/t1/f", "other/d1/f"):
            assert (await server.uses(told.resolved, "GET", place)).status == 200


async def test_a_revoke_ends_the_answers_and_the_keys_that_are_out() -> None:
    """A caller would go on for the rest of an hour."""
    async with vending() as server:
        key = (await server.resolves(FILE)).resolved
        server.policy(("writer: {roles: [writers]}", "writer: {roles: []}"))
        assert (await server.resolves(FILE)).status == 403
        assert (await server.uses(key, "GET", "data/wh/t1/data/f")).status == 403


async def test_keys_are_for_those_to_whom_the_policy_offers_them() -> None:
    """A path would be a way around what a catalog offers."""
    async with vending(POLICY.replace(BOTH, "remote-signing")) as server:
        assert (await server.resolves(FILE)).status == 403
        assert server.door.event.reason == "delegation_refused"


async def _with(server: Vended, token: str, path: str) -> tuple[int, Any]:
    sent = {"Authorization": f"Bearer {token}"}
    content = {"bucket": "data", "path": path, "mode": "READ"}
    async with server.product.client.post(RESOLVE, headers=sent, json=content) as found:
        return found.status, await found.json()


async def test_a_key_is_no_way_to_ask_for_others() -> None:
    """Keys that make keys would never end."""
    async with vending() as server:
        key = (await server.resolves(FILE)).resolved
        for token in (key.session_token, key.access_key_id, key.secret_access_key):
            assert (await _with(server, token, FILE))[0] == 401


@pytest.mark.parametrize("left", (5.0, 355.0))
async def test_a_token_that_is_about_to_end_is_to_be_renewed_first(left: float) -> None:
    """The client would be told to ask again at a time that is over."""
    async with vending() as server:
        held = {hash_token(token_of("writer")): OpaqueToken("writer", expires_at=time.time() + left)}
        authenticator = server.product.authenticator
        authenticator.commit(authenticator.prepare((), StaticTokens(held)))
        assert (await server.resolves(FILE)).status == 401
        assert server.door.event.reason == "token_ends_soon"


@pytest.mark.parametrize(
    "body",
    (
        b"",
        b"[]",
        b"\xff",
        b"[" * 3_000,
        b'{"bucket": "data", "path": "wh/t1/f"}',
        b'{"bucket": "data", "mode": "READ"}',
        b'{"path": "wh/t1/f", "mode": "READ"}',
        b'{"bucket": "", "path": "wh/t1/f", "mode": "READ"}',
        b'{"bucket": "data", "path": "wh/t1/f", "mode": "read"}',
        b'{"bucket": "data", "path": "wh/t1/f", "mode": "ANY"}',
        b'{"bucket": "data", "path": null, "mode": "READ"}',
        b'{"bucket": ["data"], "path": "wh/t1/f", "mode": "READ"}',
        b'{"bucket": "data", "path": "wh/t1/f", "mode": "READ", "table": "t2"}',
        b'{"bucket": "data", "path": "%s", "mode": "READ"}' % (b"x" * 2_000),
    ),
)
async def test_what_is_no_request_for_keys_is_told_so(body: bytes) -> None:
    """A misspelt member would be one that does not count."""
    async with vending() as server:
        told = await server.resolves("", body=body)
        assert (told.status, told.body["error"]["type"]) == (400, "BadRequestException")
        assert server.door.event.reason == "message_malformed"


async def test_a_body_is_no_longer_than_a_path() -> None:
    """Memory would be what a caller makes of it."""
    async with vending() as server:
        assert (await server.resolves("", body=b" " * (MAX_RESOLVE_REQUEST + 1))).status == 413


async def test_only_post_resolves() -> None:
    """A path in a query would stand in the logs of proxies, and an answer in their caches."""
    async with (
        vending() as server,
        server.product.client.get(RESOLVE, headers={"Authorization": f"Bearer {token_of('writer')}"}) as found,
    ):
        assert found.status == 405


async def test_a_caller_without_a_token_is_asked_for_one() -> None:
    """The way would be open."""
    async with vending() as server:
        assert (await server.resolves(FILE, who=None)).status == 401


async def test_a_store_that_makes_no_keys_for_now_is_asked_again_later() -> None:
    """A reader would take an error that passes for one that stays."""
    async with vending() as server:
        mint = Mint()
        minting(server.product, mint)
        told = await server.resolves(FILE)
        assert (told.body["session-token"], mint.asked[0].access.value) == ("minted-token", "read")
        assert told.body["config"]["s3.endpoint"] == f"http://127.0.0.1:{server.door.upstream.port}"
        mint.refuses = Refused(Reason.SESSIONS_THROTTLED, "throttled")
        told = await server.resolves(FILE)
        assert (told.status, told.headers["Retry-After"], set(told.body)) == (503, "5", {"error"})


@pytest.mark.parametrize(
    ("change", "status"),
    ((("writer: {roles: [writers]}", "writer: {roles: []}"), 403), (("s3://data/wh/t1", "s3://data/wh/t4"), 403)),
)
async def test_what_is_revoked_while_a_session_is_made_is_not_handed_out(change: tuple[str, str], status: int) -> None:
    """A session service that is slow, or is kept so, would hand out hours of access after the revoke."""
    async with vending() as server:
        mint = Mint()
        minting(server.product, mint)
        mint.meanwhile = lambda: server.policy(change)
        told = await server.resolves(FILE)
        assert (told.status, set(told.body)) == (status, {"error"})


@given(st.text(max_size=60))
def test_a_path_is_a_key_or_refused(path: str) -> None:
    """What is judged would be another key than the one that the client reads."""
    content = json.dumps({"bucket": "data", "path": path, "mode": "READ"}).encode()
    try:
        found, _ = read_resolve_request(content)
    except Refused:
        return
    assert found.key == path.removeprefix("/").removesuffix("/") + "/"
    assert not {"", ".", ".."} & {segment.strip() for segment in found.key[:-1].split("/")}


async def _learned(product: Front, path: str, mode: str = "READ", who: str = "writer") -> tuple[int, str]:
    asked = {"bucket": "lakehouse", "path": path, "mode": mode}
    found = await product.ask("POST", "/v1/credentials/resolve", body=asked, who=who)
    return found.status, product.events()[-1].reason


async def _catalog(asked: Asked, _line: Line) -> bytes:
    await asyncio.sleep(0)
    name = asked.path.rpartition("/")[2]
    if asked.method == "DELETE":
        return answer(204)
    return loaded(name, uuid=U1 if name == "t1" else U2) if name in ("t1", "t2") else error(404, "NoSuchTableException")


async def test_a_table_of_an_upstream_is_found_while_it_is_known() -> None:
    """Keys would be handed out for a place that is another table's by now, or never was one."""
    async with front(vends=BOTH) as product:
        product.upstream.script = _catalog
        assert await _learned(product, "t1/data/f") == (403, "location_unowned")
        assert (await product.load()).status == 200
        for mode in ("READ", "WRITE"):
            assert await _learned(product, "t1/data/f", mode) == (200, "allowed")
        assert await _learned(product, "t10/f") == (403, "location_unowned")
        assert (await product.ask("DELETE", "/v1/lake/namespaces/ns/tables/t1")).status == 204
        # The caller that dropped it may delete its files for a while, and gets no keys for that.
        status, reason = await _learned(product, "t1/data/f", "WRITE")
        assert (status, reason in ("table_unknown", "location_unowned")) == (403, True)


async def test_a_tables_token_has_no_upstream_asked_for_another_table() -> None:
    """What its holder may ask of the upstream, in its owner's name, would be all that the owner may."""
    async with front(table_tokens=True, vends=BOTH) as product:
        product.upstream.script = _catalog
        token = (await product.load()).body["config"]["token"]
        # Known, and not yet asked for in the name of the token's owner.
        assert (await product.load("t2", who="reader")).status == 200
        asked = len(product.upstream.asked)
        for name, status in (("t2", 403), ("t1", 200)):
            content = {"bucket": "lakehouse", "path": f"{name}/f", "mode": "READ"}
            found = await product.ask("POST", "/v1/credentials/resolve", token=token, body=content)
            assert found.status == status, product.events()[-1].reason
        assert product.events()[-2].reason == "not_in_scope"
        assert not [each.path for each in product.upstream.asked[asked:] if "t2" in each.path]
