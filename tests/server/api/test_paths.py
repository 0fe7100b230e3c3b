"""Every request has the API's own answer and an event, wherever its target leads."""

from __future__ import annotations

import pytest
from aiohttp import web

from tests.product import Product, ServeProduct, token_of
from tests.server.talk import Talk

LONG = "/" * 20_000

_TARGETS = {
    "slashes": f"GET {LONG}",
    "segments": f"GET {'/a' * 10_000}",
    "a tunnel": "CONNECT h:443",
    "a tunnel to a path": "CONNECT /v1/config",
    "an authority alone": "GET http://h",
    "an authority with a query": "GET http://h?x",
    "a post to an authority": "POST http://h",
    "everything": "OPTIONS *",
    "an escape that is none": "GET /%",
    "two slashes": "GET //",
    "a route by another method": "PATCH /v1/config",
}


@pytest.mark.parametrize("line", _TARGETS.values(), ids=_TARGETS.keys())
@pytest.mark.parametrize("expect", ("", "Expect: foo\r\n"))
async def test_what_leads_nowhere_is_told_so_and_recorded(
    line: str, expect: str, serve_product: ServeProduct, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger could ask without a trace, and have the loop cut a long path slash by slash before anything counts."""

    async def cut(*_: object) -> None:
        raise AssertionError("aiohttp looked for a resource by itself")

    monkeypatch.setattr(web.UrlDispatcher, "resolve", cut)
    product = await serve_product(Product())
    talk = await Talk.with_(product.url)
    head = f"{line} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token_of('reader')}\r\n{expect}\r\n"
    answer = await talk.ask(head.encode())
    await talk.close()
    assert 400 <= answer.status < 500
    assert answer.body["error"]["code"] == answer.status
    assert "Server" not in answer.headers
    (event,) = product.events()
    assert (event.http_status, event.decision.value) == (answer.status, "deny")
    assert event.event_id
