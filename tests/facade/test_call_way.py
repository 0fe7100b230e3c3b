"""What of a catalog call reaches the upstream, and what of its answer reaches the client."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.catalog.scripted import Asked, Line, answer, chunked, error, packed
from tests.facade.front import MOUNT, SIGN, T1, Front, ServeFront, by_path, loaded, only
from tests.product import token_of
from tests.waiting import never, until

CONFIG = {"defaults": {"prefix": "up", "rest-page-size": "7"}, "overrides": {"uri": "http://evil.example"}}
NAMESPACES = {"namespaces": [["ns"]]}


class TestRoutes:
    """Which paths are calls, and of which catalog."""

    @pytest.mark.parametrize(
        "path",
        (
            "//catalogs/lake/v1/lake/namespaces",
            "//catalogs/lake/v1/opaque/namespaces",
            "//catalogs/lake/v1/namespaces",
            "//api/catalog/v1/lake/namespaces",
            "//api/catalog/v1/namespaces",
            "//api/v1/lake/namespaces",
            "//api/v1/namespaces",
            "//v1/lake/namespaces",
            "//v1/namespaces",
        ),
    )
    async def test_a_call_is_found_below_every_mount(self, path: str, serve_front: ServeFront) -> None:
        """An engine whose `uri` ends otherwise would see no tables."""
        product = await serve_front()
        product.upstream.says(answer(200, NAMESPACES))
        found = await product.ask("GET", path)
        assert (found.status, found.body) == (200, NAMESPACES)
        assert product.upstream.last.target == "/v1/up/namespaces"

    @pytest.mark.parametrize(
        ("method", "path", "status"),
        (
            ("GET", "/v1/lake/generic-tables", 404),
            ("GET", "/v1/lake/namespaces/ns/policies", 404),
            ("GET", "/v1/lake/namespaces/ns/tables/t1/snapshots", 404),
            ("GET", "/management/v1/catalogs", 404),
            ("GET", "/v1/lake/oauth/tokens", 404),
            ("POST", "/v1/lake/config", 404),
            ("GET", "/v1/api/namespaces", 404),
            ("PUT", T1, 405),
            ("PATCH", "/v1/lake/namespaces", 405),
            ("GET", "/v1/oauth/tokens", 405),
            ("DELETE", "/v1/config", 405),
        ),
    )
    async def test_only_the_specifications_calls_pass(
        self, method: str, path: str, status: int, serve_front: ServeFront
    ) -> None:
        """The upstream's management interface would be open to callers that may list a namespace."""
        product = await serve_front()
        found = await product.ask(method, path)
        assert found.status == status
        assert found.error["type"] in ("NotFoundException", "BadRequestException")
        assert only(product.events()).http_status == status
        assert not product.upstream.asked

    @pytest.mark.parametrize(
        "path",
        (
            "/v1/lake/namespaces/..",
            "/v1/lake/namespaces/%2e%2e/tables/t1",
            "/v1/lake/namespaces/ns/tables/..%2fadmin",
            "/v1/lake/namespaces/ns/tables/..%2Fadmin",
            "/v1/lake/namespaces/ns/tables/..%5cadmin",
            "/v1/lake/namespaces/ns%2Ftables/tables/t1",
            "/v1/lake/namespaces/ns/tables/t1%00",
            "/v1/lake/namespaces/ns/tables/t1%0d%0aX:%201",
            "/v1/lake/namespaces/ns/tables/t1%zz",
            "/v1/lake/namespaces/ns/tables/%ff",
            "/v1/lake/namespaces//tables/t1",
            "/v1//namespaces/ns",
            "/v1/lake/namespaces/ns/",
            "/v1/lake/namespaces/a%1F%1Fb",
            "/v1/lake/namespaces?parent=%ff",
            "/v1/lake/namespaces?parent=a;b",
            "/v1/lake/namespaces?parent=a&parent=b",
            "/v1/lake/namespaces?a=%C3%A9\u00e9",
        ),
    )
    async def test_no_path_leads_elsewhere(self, path: str, serve_front: ServeFront) -> None:
        """A gateway behind us could read it as another table's, or as its own administration's."""
        product = await serve_front()
        product.upstream.says(loaded())
        sent = f"GET {MOUNT}{path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token_of('writer')}\r\n\r\n"
        status = await _raw(product, sent.encode())
        assert status in (400, 404)
        assert not product.upstream.asked

    @pytest.mark.parametrize(
        ("path", "target"),
        (
            ("a%1Fb/tables/t%20x", "a%1Fb/tables/t%20x"),
            # Java writes a space as a plus.
            ("a+b/tables/t", "a%20b/tables/t"),
            ("%61/tables/%74", "a/tables/t"),
            ("n/tables/%C3%A9%2B%3D%25", "n/tables/%C3%A9%2B%3D%25"),
        ),
    )
    async def test_names_go_out_in_one_spelling(self, path: str, target: str, serve_front: ServeFront) -> None:
        """The upstream could read another name than the one that was judged."""
        product = await serve_front()
        product.upstream.says(loaded())
        assert (await product.ask("GET", f"/v1/lake/namespaces/{path}")).status == 200
        assert product.upstream.last.target == f"/v1/up/namespaces/{target}"

    async def test_the_query_goes_along(self, serve_front: ServeFront) -> None:
        """Pages, snapshots and chains of views would be ignored."""
        query = "snapshots=all&referenced-by=n%1Fv%2Cw,n%1Fx&pageToken=a%2Bb=="
        product = await serve_front()
        product.upstream.says(loaded())
        await product.ask("GET", f"{T1}?{query}")
        assert product.upstream.last.target == f"/v1/up/namespaces/ns/tables/t1?{query}"

    async def test_a_catalog_without_an_upstream_has_no_calls(self, serve_front: ServeFront) -> None:
        """A declared catalog's names would be sent to another's upstream, or give away whether they exist."""
        product = await serve_front()
        assert (await product.ask("GET", "//catalogs/declared/v1/namespaces", who="reader")).status == 404
        # And a caller that may not know of it learns the same as of any other.
        for catalog in ("declared", "none"):
            found = await product.ask("GET", f"//catalogs/{catalog}/v1/namespaces", who="writer")
            assert found.status == 403
            assert found.error["message"] == "Insufficient privileges"
        assert not product.upstream.asked

    async def test_without_a_token_no_upstream_is_asked(self, serve_front: ServeFront) -> None:
        """Strangers could use up the upstream's connections."""
        product = await serve_front()
        assert (await product.ask("GET", T1, who=None)).status == 401
        assert (await product.ask("GET", T1, token="x" * 40)).status == 401
        assert not product.upstream.asked


class TestRequests:
    """What the upstream is sent."""

    async def test_the_callers_own_token_and_nothing_of_the_connection(self, serve_front: ServeFront) -> None:
        """The upstream would take whatever a caller claims about itself for granted."""
        sent = {
            "Host": "evil.example",
            "X-Forwarded-Host": "evil.example",
            "X-Forwarded-User": "admin",
            "X-HTTP-Method-Override": "DELETE",
            "X-Original-URL": "/admin",
            "Cookie": "session=1",
            "Connection": "keep-alive, X-Iceberg-A",
            "X-Iceberg-A": "1",
            "X-Iceberg-B": "2",
            "X-Client-Version": "Apache Iceberg 1.12.0",
            "User-Agent": "test",
            "Polaris-Realm": "r",
            "X-Request-ID": "my-request",
            "X-Signproxy-Query": "q",
            **SIGN,
        }
        product = await serve_front(headers=frozenset({"polaris-realm"}))
        product.upstream.says(loaded())
        found = await product.ask("GET", T1, headers=sent)
        assert found.headers["X-Request-ID"] == "my-request"
        got = product.upstream.last.headers
        assert got.pop("accept", "*/*") == "*/*"
        assert got == {
            "host": product.upstream.url.removeprefix("http://"),
            "authorization": f"Bearer {token_of('writer')}",
            "accept-encoding": "identity",
            "x-iceberg-b": "2",
            "x-client-version": "Apache Iceberg 1.12.0",
            "user-agent": "test",
            "polaris-realm": "r",
            "x-request-id": "my-request",
        }

    async def test_a_body_that_is_judged_goes_on_byte_for_byte(self, serve_front: ServeFront) -> None:
        """A commit that was written anew could lose what a newer client put into it."""
        body = b'{ "requirements" : [], "updates":[ {"action":"x", "\\u00e9": 1.0} ] }'
        product = await serve_front()
        product.upstream.says(loaded())
        charset = {"Content-Type": "application/json; charset=utf-16"}
        assert (await product.ask("POST", T1, body=body, headers=charset)).status == 200
        assert product.upstream.last.body == body
        # It was read as UTF-8; the upstream must not read it as anything else.
        assert product.upstream.last.headers["content-type"] == "application/json"
        assert product.upstream.last.headers["content-length"] == str(len(body))

    @pytest.mark.parametrize("kind", ("length", "chunks", "packed", "expect"))
    async def test_any_other_body_is_sent_on_as_it_arrives(self, kind: str, serve_front: ServeFront) -> None:
        """Reports of a long scan would be held in memory, or arrive cut off."""
        body = json.dumps({"report-type": "scan-report", "filter": "x" * 200_000}).encode()

        async def parts() -> AsyncIterator[bytes]:
            for start in range(0, len(body), 50_000):
                yield body[start : start + 50_000]

        headers = {"Content-Type": "application/json"}
        content: Any = body
        if kind == "chunks":
            content = parts()
        elif kind == "packed":
            headers["Content-Encoding"] = "gzip"
            content = gzip.compress(body)
        elif kind == "expect":
            headers["Expect"] = "100-continue"
        product = await serve_front()
        product.upstream.says(answer(204))
        headers["Authorization"] = f"Bearer {token_of('writer')}"
        async with product.client.post(f"{MOUNT}{T1}/metrics", data=content, headers=headers) as found:
            assert found.status == 204
        got = product.upstream.last
        assert got.body == body
        assert "content-encoding" not in got.headers
        assert "expect" not in got.headers

    async def test_a_body_that_is_judged_is_bounded(
        self, monkeypatch: pytest.MonkeyPatch, serve_front: ServeFront
    ) -> None:
        """A few commits of gigabytes would end the sidecar."""
        from signproxy.facade import call_way as module

        monkeypatch.setattr(module, "MAX_CALL", 1000)
        product = await serve_front()
        product.upstream.says(loaded())
        for body in (b'{"a": "' + b"x" * 1000 + b'"}', b"[" * 500):
            found = await product.ask("POST", T1, body=body)
            assert found.status == (413 if len(body) > 1000 else 400)
        assert not product.upstream.asked

    @pytest.mark.parametrize(
        "body",
        (
            {"identifier": {"namespace": ["ns"], "name": "t2"}, "requirements": [], "updates": []},
            b'{"identifier": {"namespace": ["ns"], "name": "t1"}, "identifier": {"namespace": ["ns"], "name": "t2"}}',
            b'{"Identifier": {"namespace": ["ns"], "name": "t2"}}',
            b"not json",
            b"",
        ),
    )
    async def test_a_body_that_names_another_table_than_the_path_is_refused(
        self, body: object, serve_front: ServeFront
    ) -> None:
        """The upstream goes by the body, and would change a table that the caller was not judged for."""
        product = await serve_front()
        product.upstream.says(loaded())
        assert (await product.ask("POST", T1, body=body)).status == 400
        assert not product.upstream.asked


class TestAnswers:
    """What the client gets."""

    async def test_the_answer_is_json_and_is_not_cached(self, serve_front: ServeFront) -> None:
        """A shared cache would show one caller's tables to the next."""
        product = await serve_front()
        headers = {"Set-Cookie": "a=b", "Cache-Control": "public", "Server": "x", "X-Powered-By": "y"}
        product.upstream.says(answer(200, NAMESPACES, headers))
        found = await product.ask("GET", "/v1/lake/namespaces")
        assert len(found.headers) == len(set(found.headers))
        assert set(found.headers) == {"Content-Type", "Cache-Control", "X-Request-ID", "Content-Length", "Date"}
        assert found.headers["Content-Type"] == "application/json"
        assert found.headers["Cache-Control"] == "no-cache"

    @pytest.mark.parametrize("said", (chunked(b'{"namespaces": [["ns"]]}'), packed(NAMESPACES)))
    async def test_however_it_is_framed(self, said: bytes, serve_front: ServeFront) -> None:
        """A catalog behind a gateway that compresses would not work."""
        product = await serve_front()
        product.upstream.says(said)
        found = await product.ask("GET", "/v1/lake/namespaces")
        assert found.body == NAMESPACES
        assert "Content-Encoding" not in found.headers

    async def test_a_megabyte_of_metadata_passes_unchanged(self, serve_front: ServeFront) -> None:
        """A table with thousands of snapshots would be read wrongly."""
        snapshots = [{"snapshot-id": number, "summary": {"n": "\u00e9" * 40}} for number in range(10_000)]
        product = await serve_front()
        product.upstream.says(loaded(snapshots=snapshots))
        found = await product.load()
        assert len(found.content) > 1_000_000
        assert found.body["metadata"]["snapshots"] == snapshots

    @pytest.mark.parametrize(
        ("method", "path", "said", "status"),
        (
            ("HEAD", T1, answer(204), 204),
            ("HEAD", T1, answer(200, None, {"Content-Length": "0"}), 200),
            ("HEAD", "/v1/lake/namespaces/ns", answer(404), 404),
            ("DELETE", "/v1/lake/namespaces/ns", answer(204), 204),
            ("DELETE", "/v1/lake/namespaces/ns/views/v", answer(204), 204),
            ("POST", f"{T1}/metrics", answer(204), 204),
        ),
    )
    async def test_answers_without_a_body_have_none(
        self, method: str, path: str, said: bytes, status: int, serve_front: ServeFront
    ) -> None:
        """A client that waits for a body that never comes hangs, and the next answer is taken for it."""
        product = await serve_front()
        product.upstream.says(said)
        for _ in range(2):
            found = await product.ask(method, path, body={} if method == "POST" else None)
            assert (found.status, found.content) == (status, b"")
            assert ("Content-Length" in found.headers) is (status != 204)

    async def test_keys_are_not_handed_out_unless_that_is_switched_on(self, serve_front: ServeFront) -> None:
        """A caller that has keys needs no signature; and an empty list is taken for a fault of the client's own."""
        product = await serve_front()
        product.upstream.says(answer(200, {"storage-credentials": [{"prefix": "s3://", "config": {"k": "geheim"}}]}))
        found = await product.ask("GET", f"{T1}/credentials")
        assert (found.status, found.error["type"]) == (403, "ForbiddenException")
        event = only(product.events())
        assert (event.kind.value, event.call, event.reason) == ("vend", "load_credentials", "delegation_refused")
        assert not product.upstream.asked

    async def test_a_plan_comes_without_keys(self, serve_front: ServeFront) -> None:
        """Server-side planning would hand out what loading does not."""
        plan = {"status": "completed", "file-scan-tasks": [{"data-file": {}}]}
        product = await serve_front()
        product.upstream.says(answer(200, {**plan, "storage-credentials": [{"config": {"k": "geheim"}}]}))
        found = await product.ask("POST", f"{T1}/plan", body={})
        assert found.body == plan

    @pytest.mark.parametrize("status", (400, 401, 403, 404, 406, 409, 419, 422, 429, 500, 502, 503, 504, 507))
    async def test_the_upstream_s_own_errors_pass(self, status: int, serve_front: ServeFront) -> None:
        """Clients act on status and type: 409 is tried again, 404 is no table, 419 a token to refresh."""
        said = answer(
            status,
            {"error": {"message": "told so", "type": "SomeException", "code": 1, "stack": ["at com.example.Foo"]}},
            {"Retry-After": "17", "WWW-Authenticate": "Bearer"},
        )
        product = await serve_front()
        product.upstream.says(said)
        found = await product.ask("GET", T1)
        assert found.status == status
        assert found.error == {"message": "told so", "type": "SomeException", "code": status}
        assert found.headers["Retry-After"] == "17"
        event = only(product.events())
        verdicts = {401: "deny", 403: "deny", 419: "deny", 500: "error", 502: "error", 503: "error", 504: "error"}
        assert event.http_status == status
        assert event.decision.value == verdicts.get(status, "error" if status >= 500 else "allow")
        assert event.detail == f"the upstream answered {status} SomeException"

    @pytest.mark.parametrize(
        "content", (b"<html>Bad Gateway nginx/1.2</html>", b"", b'"text"', b'{"error": "x"}', b"x" * 200_000)
    )
    @pytest.mark.parametrize("status", (404, 502))
    async def test_a_page_of_a_gateway_becomes_an_error(
        self, content: bytes, status: int, serve_front: ServeFront
    ) -> None:
        """Java clients fail on HTML with a parser's exception that says nothing."""
        product = await serve_front()
        product.upstream.says(answer(status, content, {"Content-Type": "text/html"}))
        found = await product.ask("GET", T1)
        assert found.status == status
        assert found.error["message"] == f"The catalog answered with status {status}"

    @pytest.mark.parametrize(
        "said",
        (
            answer(200, b"<html>login</html>", {"Content-Type": "text/html"}),
            answer(200, b""),
            answer(200, b'{"namespaces": '),
            answer(200, {"namespaces": "ns"}),
            answer(301, None, {"Location": "http://127.0.0.1:1/"}),
            answer(304),
            answer(200, NAMESPACES, {"Content-Encoding": "br"}),
        ),
    )
    async def test_what_is_no_answer_is_502(self, said: bytes, serve_front: ServeFront) -> None:
        """A client would take a login page for an empty catalog."""
        product = await serve_front()
        product.upstream.says(said)
        found = await product.ask("GET", "/v1/lake/namespaces")
        assert found.status == 502
        assert found.error["type"] == "BadGatewayException"
        assert product.upstreams.reports()[0].problem


class TestConfig:
    """`GET /v1/config`: from here on a client knows where everything is."""

    async def test_an_unknown_warehouse_is_answered_as_the_upstream_does(self, serve_front: ServeFront) -> None:
        """A typing error would look like a lack of rights, and one that the upstream overlooks would end the client."""
        product = await serve_front(prefix="", warehouse="wh-1")
        product.upstream.says(error(404, "NoSuchWarehouseException"))
        found = await product.ask("GET", "/v1/config?warehouse=wh%202")
        assert product.upstream.last.target == "/v1/config?warehouse=wh%202"
        assert (found.status, found.error["type"]) == (404, "NoSuchWarehouseException")
        event = product.events()[-1]
        assert (event.call, event.http_status, event.reason) == ("config", 404, "allowed")
        # An upstream that looks at no warehouse has one.
        product.upstream.says(answer(200, CONFIG))
        found = await product.ask("GET", "/v1/config?warehouse=other", headers=SIGN)
        assert (found.status, found.body["overrides"]["prefix"]) == (200, "lake")
        assert product.events()[-1].reason == "allowed"

    async def test_another_warehouse_of_the_upstream_is_not_this_catalog(self, serve_front: ServeFront) -> None:
        """A client would be shown the tables of one warehouse under the name of another."""
        product = await serve_front(prefix="", warehouse="wh-1")
        asked = []

        async def script(asked_now: Asked, line: Line) -> bytes:
            asked.append(asked_now.target)
            return answer(200, CONFIG if asked_now.target.endswith("wh-1") else {"overrides": {"prefix": "elsewhere"}})

        product.upstream.script = script
        found = await product.ask("GET", "/v1/config?warehouse=wh-2")
        assert found.status == 403
        assert asked == ["/v1/config?warehouse=wh-2", "/v1/config?warehouse=wh-1"]
        assert product.events()[-1].reason == "catalog_unknown"
        # And its prefix is no catalog's.
        product.upstream.says(answer(200, NAMESPACES))
        await product.ask("GET", "/v1/lake/namespaces")
        assert product.upstream.last.target == "/v1/up/namespaces"

    async def test_a_warehouse_is_asked_for_by_those_who_may_know_the_catalog(self, serve_front: ServeFront) -> None:
        """The names of an upstream's warehouses would be there for the guessing."""
        product = await serve_front(prefix="", warehouse="wh-1")
        product.upstream.says(error(404, "NoSuchWarehouseException"))
        for path, who in (("/v1/config?warehouse=x", "nobody"), ("//v1/config?warehouse=x", "writer")):
            assert (await product.ask("GET", path, who=who)).status == 403
        # A catalog of the policy that the caller must not know of is no more than any other name.
        assert (await product.ask("GET", "/v1/config?warehouse=declared")).status == 404
        assert product.upstream.last.target == "/v1/config?warehouse=declared"
        assert len(product.upstream.asked) == 1

    async def test_an_upstream_that_fails_is_not_said_to_be_away(self, serve_front: ServeFront) -> None:
        """The operator would look for a network that is broken, and for a catalog that is down."""
        product = await serve_front()
        for status, reason in ((500, "upstream_failed"), (501, "upstream_failed"), (503, "upstream_unavailable")):
            product.upstream.says(error(status, "RuntimeException"))
            assert (await product.ask("GET", "/v1/lake/namespaces")).status == status
            event = product.events()[-1]
            assert (event.http_status, event.decision.value, event.reason) == (status, "error", reason)

    async def test_it_is_the_upstream_s_with_ours(self, serve_front: ServeFront) -> None:
        """A client would go to the upstream itself, with no signer and with its keys."""
        product = await serve_front(prefix="", warehouse="wh-1")
        product.upstream.says(answer(200, CONFIG))
        found = (await product.ask("GET", "/v1/config?warehouse=wh-1", headers=SIGN)).body
        assert product.upstream.last.target == "/v1/config?warehouse=wh-1"
        assert found["overrides"]["prefix"] == "lake"
        assert "uri" not in found["overrides"]
        assert found["defaults"]["rest-page-size"] == "7"
        assert found["overrides"]["s3.signer.uri"] == "https://sign.example/base/catalogs/lake/"
        assert "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/sign" in found["endpoints"]
        # And its prefix is known from then on.
        product.upstream.says(answer(200, NAMESPACES))
        await product.ask("GET", "/v1/lake/namespaces")
        assert product.upstream.last.target == "/v1/up/namespaces"
        events = product.events()
        assert [(event.kind.value, event.call) for event in events] == [
            ("catalog", "config"),
            ("catalog", "list_namespaces"),
        ]

    async def test_the_prefix_is_asked_for_where_no_client_did(self, serve_front: ServeFront) -> None:
        """A client that goes on after a restart of the sidecar never asks for the configuration again."""
        product = await serve_front(prefix="")
        product.upstream.script = by_path(config=answer(200, CONFIG), namespaces=answer(200, NAMESPACES))
        assert (await product.ask("GET", "/v1/lake/namespaces")).status == 200
        assert [asked.target for asked in product.upstream.asked] == ["/v1/config", "/v1/up/namespaces"]
        assert {asked.headers["authorization"] for asked in product.upstream.asked} == {f"Bearer {token_of('writer')}"}

    async def test_a_declared_catalog_answers_for_itself(self, serve_front: ServeFront) -> None:
        """A catalog without an upstream would lose its configuration because another one has one."""
        product = await serve_front()
        found = await product.ask("GET", "//catalogs/declared/v1/config", who="reader")
        assert found.body["overrides"]["prefix"] == "declared"
        assert only(product.events()).kind.value == "config"
        assert not product.upstream.asked

    @pytest.mark.parametrize(
        ("said", "status"), ((error(403, "ForbiddenException"), 403), (answer(200, b"[]"), 502), (answer(204), 502))
    )
    async def test_what_the_upstream_refuses_is_refused(
        self, said: bytes, status: int, serve_front: ServeFront
    ) -> None:
        """A client would begin with a configuration that leads nowhere."""
        product = await serve_front()
        product.upstream.says(said)
        assert (await product.ask("GET", "/v1/config")).status == status


class TestEvents:
    """Exactly one event for each request."""

    async def test_one_for_each_call(self, serve_front: ServeFront) -> None:
        """The trail could not tell who dropped a table."""
        product = await serve_front()
        product.upstream.says(loaded())
        await product.load()
        product.upstream.says(answer(204))
        await product.ask("DELETE", f"{T1}?purgeRequested=true")
        product.upstream.says(answer(200, {"namespace": ["a", "b"], "properties": {}}))
        await product.ask("GET", "/v1/lake/namespaces/a%1Fb")
        product.upstream.says(error(409, "AlreadyExistsException"))
        await product.ask("POST", "/v1/lake/namespaces/ns/tables", body={"name": "t1"})
        events = product.events()
        told = [
            (event.kind.value, event.method, event.call, event.namespace, event.table, event.http_status)
            for event in events
        ]
        assert told == [
            ("catalog", "GET", "load_table", "ns", "t1", 200),
            ("catalog", "DELETE", "drop_table", "ns", "t1", 204),
            ("catalog", "GET", "load_namespace", "a\x1fb", "", 200),
            ("catalog", "POST", "create_table", "ns", "t1", 409),
        ]
        assert {event.principal for event in events} == {"static/writer"}
        assert {event.decision.value for event in events} == {"allow"}

    async def test_calls_are_counted(self, serve_front: ServeFront) -> None:
        """An operator could not see which calls fail."""
        product = await serve_front()
        product.upstream.says(loaded(), error(404, "NoSuchTableException"))
        await product.load()
        await product.load()
        await product.load(who="nobody")
        shown = product.metrics.render().body.decode()
        assert 'signproxy_catalog_calls_total{call="load_table",status="2xx"} 1.0' in shown
        assert 'signproxy_catalog_calls_total{call="load_table",status="4xx"} 2.0' in shown

    async def test_a_client_that_goes_away_has_one_too(self, serve_front: ServeFront) -> None:
        """A call that was made, and whose caller left, would have left no trace."""
        product = await serve_front(times=_patient())

        async def wait(asked: Asked, line: Line) -> bytes:
            await never()
            return loaded()

        product.upstream.script = wait
        reader, writer = await product.opened()
        writer.write(
            f"GET {MOUNT}{T1} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token_of('writer')}\r\n\r\n".encode()
        )
        await product.upstream.until_asked()
        writer.close()
        # The upstream does not go on working for no caller.
        await asyncio.wait_for(product.upstream.gone.wait(), 5)
        await until(lambda: product.trail.state.written or product.trail.state.queued)
        event = only(product.events())
        assert (event.call, event.reason) == ("load_table", "client_gone")
        assert product.handler.in_flight == 0
        del reader


async def _raw(product: Front, request: bytes) -> int:
    """Send bytes as they are; return the status."""
    reader, writer = await product.opened()
    writer.write(request)
    async with asyncio.timeout(10):
        status = int((await reader.readuntil(b"\r\n")).split()[1])
    writer.close()
    return status


def _patient() -> object:
    from signproxy.catalog.upstream_spec import CallTimeouts

    return CallTimeouts()
