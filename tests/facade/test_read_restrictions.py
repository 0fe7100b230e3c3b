"""A catalog that keeps rows or columns from a caller, as its clients see it through the facade."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from signproxy.catalog.upstream_spec import Secret, ServiceToken
from signproxy.config.container import ContainerProfile
from signproxy.inventory.learned.sighting import Answered
from tests.catalog.scripted import Asked, Line, answer, error
from tests.facade.front import POLICY, SIGN, T1, UUID, Front, by_path, front, loaded, metadata, table
from tests.identity.keyed import emulated
from tests.product import token_of

FILTER = {"required-row-filter": {"type": "eq", "term": "region", "value": "EU"}}
MASK = {"required-column-projections": [{"field-id": 3, "action": "sha-256-global"}]}
TABLES = "/v1/lake/namespaces/ns/tables"
CHOSEN_ANYWHERE = 'tables: upstream\n    caller_locations: ["s3://lakehouse"]\n    authorizer'
COMMIT: dict[str, object] = {"requirements": [], "updates": []}
AUTHORIZERS = ("policy", "catalog", "both")


def kept(name: str = "t1", restrictions: object = FILTER, **more: Any) -> bytes:
    """Return an answer with a table of which a part is kept from the caller that asked."""
    return answer(200, {**table(name, **more), "read-restrictions": restrictions})


def restricting(*who: str, name: str = "t1") -> Any:
    """Return a script that keeps a part of a table from these principals, and lets all others load it whole."""
    tokens = {f"Bearer {token_of(each)}" for each in who}

    async def script(asked: Asked, line: Line) -> bytes:
        await asyncio.sleep(0)
        if asked.path.rpartition("/")[2] != name:
            return error(404, "NoSuchTableException")
        return kept(name) if asked.headers.get("authorization") in tokens else loaded(name)

    return script


@pytest.mark.parametrize("authorizer", AUTHORIZERS)
@pytest.mark.parametrize("restrictions", (FILTER, MASK, {**FILTER, **MASK}, {"later": 1}, [], "all"))
async def test_a_table_that_is_kept_from_its_reader_is_loaded_and_not_signed(
    restrictions: object, authorizer: str
) -> None:
    """The engine was told to leave rows out, and was handed the files that hold them."""
    async with front(authorizer=authorizer) as product:
        product.upstream.says(kept(restrictions=restrictions))
        told = await product.load()
        # What the upstream wants left out is for the engine to read; it is refused where it would not obey.
        assert (told.status, told.body["read-restrictions"]) == (200, restrictions)
        for method in ("GET", "HEAD", "PUT", "DELETE"):
            assert await product.signs(method=method) == 403
        event = product.events()[-1]
    assert (event.decision.value, event.reason, event.principal) == ("deny", "read_restricted", "static/writer")
    assert (event.catalog, event.table, event.table_uuid) == ("lake", "t1", UUID)
    assert len(product.upstream.asked) == 1


async def test_the_client_is_told_why_and_what_to_do() -> None:
    """Its user would look for a missing grant."""
    async with front() as product:
        product.upstream.says(kept())
        await product.load()
        message = {"region": "us-east-1", "method": "GET", "uri": "http://s3.local:9000/lakehouse/t1/f", "headers": {}}
        found = await product.ask("POST", f"{T1}/sign", body=message)
        assert (found.status, found.error["type"]) == (403, "ForbiddenException")
        assert "restricts which rows or columns" in found.error["message"]
        assert "read it through a service that applies the restrictions" in found.error["message"]


@pytest.mark.parametrize("restrictions", ({}, None, {"required-column-projections": []}, {"required-row-filter": True}))
async def test_what_restricts_nothing_is_signed(restrictions: object) -> None:
    """Upstreams may send the member with every table."""
    async with front() as product:
        product.upstream.says(kept(restrictions=restrictions))
        assert (await product.load()).status == 200
        assert await product.signs() == 200


@pytest.mark.parametrize("authorizer", AUTHORIZERS)
async def test_a_table_that_another_loaded_is_asked_for_as_the_caller(authorizer: str) -> None:
    """One colleague who may read all of it would open it to every caller with a grant."""
    async with front(authorizer=authorizer) as product:
        product.upstream.script = restricting("reader")
        assert (await product.load(who="writer")).status == 200
        assert await product.signs(who="writer") == 200
        assert await product.signs(who="reader") == 403
        assert product.events()[-1].reason == "read_restricted"
        assert product.upstream.last.headers["authorization"] == f"Bearer {token_of('reader')}"
        assert await product.signs(who="writer") == 200
        # By its place as well.
        assert await product.signs(who="reader", path="/v1/aws/s3/sign") == 403
        assert len(product.upstream.asked) == 2


async def test_a_token_that_was_made_before_opens_nothing_after() -> None:
    """A table token lives for hours, and would be a way round whatever is restricted meanwhile."""
    async with front(table_tokens=True) as product:
        product.upstream.says(loaded())
        token = (await product.load()).body["config"]["token"]
        assert await product.signs(token=token) == 200
        product.upstream.says(kept())
        told = await product.load()
        assert "token" not in told.body["config"]
        assert await product.signs(token=token) == 403
        assert product.events()[-1].reason == "read_restricted"
        product.upstream.says(loaded())
        assert (await product.load(who="", token=token)).status == 200
        assert await product.signs(token=token) == 200


async def test_a_load_without_restrictions_lifts_them() -> None:
    """A caller that was just allowed to read all of it would be refused for an unknown time."""
    async with front() as product:
        product.upstream.says(kept())
        await product.load()
        assert await product.signs() == 403
        product.upstream.says(loaded())
        await product.load()
        assert await product.signs() == 200


@pytest.mark.parametrize("authorizer", AUTHORIZERS)
@pytest.mark.parametrize("path", (TABLES, "/v1/lake/namespaces/ns/register"))
async def test_what_a_create_or_a_registration_says_counts(path: str, authorizer: str) -> None:
    """Metadata of a table with secrets, registered under a name of one's own, would be read there."""
    open_places = POLICY.replace("tables: upstream\n    authorizer", CHOSEN_ANYWHERE)
    async with front(authorizer=authorizer, policy=open_places) as product:
        body = {"name": "t1", "metadata-location": "s3://lakehouse/t1/metadata/1.metadata.json", "schema": {}}
        product.upstream.says(kept())
        assert (await product.ask("POST", path, body=body, headers=SIGN)).status == 200
        assert await product.signs(method="PUT") == 403
        assert product.events()[-1].reason == "read_restricted"
        assert len(product.upstream.asked) == 1


async def test_the_maker_of_a_table_writes_it_without_another_question() -> None:
    """A job that makes hundreds of tables would be refused for asking too much."""
    async with front() as product:
        product.upstream.says(loaded())
        assert (await product.ask("POST", TABLES, body={"name": "t1"}, headers=SIGN)).status == 200
        assert await product.signs(method="PUT") == 200
        assert len(product.upstream.asked) == 1


async def test_a_staged_table_that_is_kept_from_its_reader_is_signed_nowhere() -> None:
    """Carried to another replica it would be one that is not known there."""
    staged = {"name": "new", "stage-create": True}
    async with front() as first, front() as second:
        first.upstream.says(kept("new"))
        told = await first.ask("POST", TABLES, body=staged, headers=SIGN)
        carried = told.body["remote-signing-config"]["properties"]
        assert await first.signs("new/f", method="PUT", name="new") == 403
        second.upstream.says(error(404, "NoSuchTableException"))
        assert await second.signs("new/f", method="PUT", name="new", properties=carried) == 403
        assert [product.events()[-1].reason for product in (first, second)] == ["read_restricted"] * 2


async def test_a_commit_that_says_so_restricts_and_one_that_does_not_lifts_nothing() -> None:
    """The specification has no restrictions in the answer to a commit, which must not be read as none."""
    async with front() as product:
        product.upstream.says(loaded())
        await product.load()
        committed = {"metadata-location": "s3://lakehouse/t1/metadata/2.metadata.json", "metadata": metadata()}
        product.upstream.says(answer(200, {**committed, "read-restrictions": FILTER}))
        assert (await product.ask("POST", T1, body=COMMIT)).status == 200
        assert await product.signs() == 403
        product.upstream.says(answer(200, committed))
        assert (await product.ask("POST", T1, body=COMMIT)).status == 200
        assert await product.signs() == 403


async def test_catalog_calls_stay_possible() -> None:
    """An engine that applies the restrictions in the catalog's own plans needs the calls, and so does maintenance."""
    async with front() as product:
        product.upstream.says(kept())
        assert (await product.load()).status == 200
        committed = {"metadata-location": "s3://lakehouse/t1/metadata/2.metadata.json", "metadata": metadata()}
        product.upstream.says(answer(200, committed))
        assert (await product.ask("POST", T1, body=COMMIT)).status == 200
        product.upstream.says(answer(200, {"status": "completed", "file-scan-tasks": []}))
        assert (await product.ask("POST", f"{T1}/plan", body={})).status == 200
        product.upstream.says(answer(204))
        for method, path in (("HEAD", T1), ("POST", f"{T1}/metrics"), ("DELETE", T1)):
            assert (await product.ask(method, path, body={} if method == "POST" else None)).status == 204


@pytest.mark.parametrize("asked_before", (True, False))
@pytest.mark.parametrize("authorizer", AUTHORIZERS)
async def test_the_dropper_of_a_restricted_table_does_not_get_its_files(authorizer: str, *, asked_before: bool) -> None:
    """Once it is dropped no upstream knows it, and its files would be the dropper's to read."""
    async with front(authorizer=authorizer) as product:
        product.upstream.script = restricting("writer")
        # Known to the process by another's load alone, or by the dropper's own.
        await product.load(who="writer" if asked_before else "reader")
        answers = restricting("writer")

        async def drops(asked: Asked, line: Line) -> bytes:
            return answer(204) if asked.method == "DELETE" else await answers(asked, line)

        product.upstream.script = drops
        assert (await product.ask("DELETE", T1)).status == 204
        product.upstream.says(error(404, "NoSuchTableException"))
        for method in ("GET", "DELETE"):
            assert await product.signs(method=method) == 403
        assert await product.signs(path="/v1/aws/s3/sign") == 403


async def test_the_dropper_of_a_table_that_it_may_read_clears_it_away() -> None:
    """The files of every dropped table would be left behind."""
    async with front() as product:
        product.upstream.script = restricting("reader")
        await product.load(who="reader")

        async def drops(asked: Asked, line: Line) -> bytes:
            return answer(204) if asked.method == "DELETE" else loaded()

        product.upstream.script = drops
        assert (await product.ask("DELETE", T1)).status == 204
        product.upstream.says(error(404, "NoSuchTableException"))
        assert await product.signs(method="DELETE") == 200


@pytest.mark.parametrize("token", (None, Secret("service")))
async def test_asked_as_signproxy_the_upstream_restricts_all_alike(token: Secret | None) -> None:
    """It does not learn who asks: what it keeps from the service it would keep from each of its callers."""
    async with front(forwarding=ServiceToken(token)) as product:
        product.upstream.says(loaded())
        await product.load(who="writer")
        assert [await product.signs(who=who) for who in ("writer", "reader")] == [200, 200]
        assert len(product.upstream.asked) == 1
        product.upstream.says(kept())
        await product.load(who="reader")
        assert [await product.signs(who=who) for who in ("writer", "reader")] == [403, 403]


def _keys(product: Front) -> Any:
    product.issue_by(emulated(product.authenticator))


async def test_no_key_is_issued_for_a_table_that_is_kept_from_its_holder() -> None:
    """A client that reads by key would find out file by file."""
    async with front(table_tokens=True) as product:
        _keys(product)
        asked = {"catalog": "lake", "namespace": "ns", "table": "t1"}
        product.upstream.says(loaded())
        token = (await product.load()).body["config"]["token"]
        assert (await product.ask("POST", "//v1/s3-keys", body=asked)).status == 200
        product.upstream.script = restricting("writer")
        await product.load()
        for who, presented in (("writer", ""), ("", token)):
            found = await product.ask("POST", "//v1/s3-keys", who=who, token=presented, body=asked)
            assert (found.status, product.events()[-1].reason) == (403, "read_restricted")
        assert (await product.ask("POST", "//v1/s3-keys", who="", token=token)).status == 403
        # Whatever is not about that table alone is judged request by request.
        for other in (None, {"catalog": "lake"}, {"catalog": "lake", "namespace": "ns", "table": "t2"}):
            assert (await product.ask("POST", "//v1/s3-keys", body=other)).status == 200
        assert (await product.ask("POST", "//v1/s3-keys", who="reader", body=asked)).status == 200


async def test_no_key_of_a_path_or_a_profile_is_issued_for_a_table_that_is_kept_from_its_holder() -> None:
    """What the upstream keeps from a caller would be asked for by another way."""
    async with front(vends="remote-signing, vended-credentials") as product:
        product.issue_by(emulated(product.authenticator), {"t1": ContainerProfile("lake", "ns", "t1")})
        path = {"bucket": "lakehouse", "path": "t1/data/f", "mode": "READ"}
        ways = (("POST", "//v1/credentials/resolve", path), ("GET", "//v1/aws/container-credentials/t1", None))
        product.upstream.script = restricting("writer")
        await product.load(who="reader")
        await product.load()
        for method, route, body in ways:
            found = await product.ask(method, route, body=body)
            assert (found.status, product.events()[-1].reason) == (403, "read_restricted"), route
            assert (await product.ask(method, route, who="reader", body=body)).status == 200, route


async def test_a_page_of_a_gateway_does_not_lift_a_restriction() -> None:
    """What is no answer of the catalog says nothing of what may be read."""
    async with front() as product:
        product.upstream.says(kept())
        await product.load()
        product.upstream.says(answer(404, b"<html>", {"Content-Type": "text/html"}))
        assert (await product.load()).status == 404
        assert await product.signs() == 403
        assert product.events()[-1].reason == "read_restricted"


async def test_an_answer_from_before_a_restriction_does_not_lift_it() -> None:
    """A load that takes long ends after the one that was told of the restriction."""
    async with front() as product:
        begun, held = asyncio.Event(), asyncio.Event()

        async def script(asked: Asked, line: Line) -> bytes:
            if "slow" in asked.target:
                begun.set()
                await held.wait()
                return loaded()
            return kept()

        product.upstream.script = script
        slow = asyncio.create_task(product.ask("GET", f"{T1}?slow=1", headers=SIGN))
        await begun.wait()
        # Of two answers the one that was asked for later counts.
        await product.load()
        held.set()
        assert (await slow).status == 200
        assert await product.signs() == 403


async def test_a_registration_lifts_nothing() -> None:
    """A caller that may register would get the whole files back, by registering the table over itself."""
    async with front(policy=POLICY.replace("tables: upstream\n    authorizer", CHOSEN_ANYWHERE)) as product:

        async def script(asked: Asked, line: Line) -> bytes:
            await asyncio.sleep(0)
            return loaded() if asked.method == "POST" else kept()

        product.upstream.script = script
        file = "s3://lakehouse/t1/metadata/1.metadata.json"
        body = {"name": "t1", "metadata-location": file, "overwrite": True}
        for known in (True, False):
            if known:
                await product.load()
                assert await product.signs() == 403
            found = await product.ask("POST", "/v1/lake/namespaces/ns/register", body=body, headers=SIGN)
            assert found.status == 200
            assert await product.signs() == 403
            product.learned.forget("lake")


async def test_no_key_is_issued_before_the_upstream_was_asked() -> None:
    """A caller that never loaded the table would hold a key for it."""
    async with front() as product:
        _keys(product)
        product.upstream.script = restricting("reader")
        assert (await product.load(who="writer")).status == 200
        body = {"catalog": "lake", "namespace": "ns", "table": "t1"}
        found = await product.ask("POST", "/v1/s3-keys", who="reader", body=body)
        assert (found.status, product.events()[-1].reason) == (403, "read_restricted")
        assert (await product.ask("POST", "/v1/s3-keys", who="writer", body=body)).status == 200
        # Of a table that is not there nothing is kept, and no answer tells whether there is one.
        assert (await product.ask("POST", "/v1/s3-keys", who="reader", body={**body, "table": "t7"})).status == 200
        product.upstream.says(error(503, "ServiceUnavailableException"))
        product.learned.forget("lake")
        assert (await product.ask("POST", "/v1/s3-keys", who="reader", body=body)).status == 503
        # One without the right to read is not asked for.
        asked = len(product.upstream.asked)
        assert (await product.ask("POST", "/v1/s3-keys", who="sign-only", body=body)).status == 200
        assert len(product.upstream.asked) == asked


async def test_a_table_dropped_by_one_token_is_not_opened_for_another_of_the_same_principal() -> None:
    """A principal with a token of a lesser role would read, for an hour, what that role was never shown."""
    async with front() as product:
        product.upstream.script = by_path(t1=loaded())
        await product.load()
        lesser = Answered("lake", "ns", "t1", UUID, "static/writer", b"of a lesser role", math.inf, True)
        now = product.resolver._clock()
        product.learned.answered(lesser, now, now)
        product.upstream.script = by_path(t1=answer(204))
        assert (await product.ask("DELETE", T1)).status == 204
        product.upstream.script = by_path()
        assert await product.signs() == 403
