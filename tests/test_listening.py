"""The server of the tests is the product's own: with its limits, and without options that have no effect."""

from __future__ import annotations

import pytest
from pytest_aiohttp.plugin import AiohttpClient

from signproxy.server.api.listener import MAX_HEADER
from tests.listening import ListenerServer, connect
from tests.product import Product


async def test_the_limits_are_those_that_are_served(aiohttp_client: AiohttpClient) -> None:
    """Tests would pass on a server whose limits no user meets."""
    client = await connect(aiohttp_client, ListenerServer(Product().handler))
    for length, statuses in ((MAX_HEADER - 1_000, {401}), (MAX_HEADER + 1_000, {400, 431})):
        async with client.get("/v1/config", headers={"X-Filler": "a" * length}) as answer:
            assert answer.status in statuses, length


async def test_an_option_that_would_have_no_effect_is_refused() -> None:
    """A test that sets a limit would prove nothing about it."""
    server = ListenerServer(Product().handler)
    with pytest.raises(TypeError, match="max_field_size"):
        await server.start_server(max_field_size=10)
    assert not server.started


@pytest.mark.parametrize("path", ("/v1/a%2Fb", "/v1/a+b", "/v1/a%20b?x=%2f", "//v1", "/v1/%c3%a9"))
async def test_a_path_is_sent_as_it_is_written(path: str, aiohttp_client: AiohttpClient) -> None:
    """A client that decodes and encodes anew would hide what a path with other bytes leads to."""
    client = await connect(aiohttp_client, ListenerServer(Product().handler))
    assert client.make_url(path).raw_path_qs == path
