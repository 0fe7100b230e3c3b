"""Serve the product to pytest-aiohttp's client, and run what is served on each event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

import pytest
import uvloop
from pytest_aiohttp.plugin import AiohttpClient

from tests.impatience import impatient
from tests.listening import connect
from tests.product import P, Product, ServeProduct

__all__ = ["impatient"]

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def serve_product(aiohttp_client: AiohttpClient) -> AsyncIterator[ServeProduct]:
    """Serve products until the test ends, each to a client of its own."""
    served: list[Product] = []

    async def start(product: P) -> P:
        await product.serve(partial(connect, aiohttp_client))
        served.append(product)
        return product

    yield start
    for each in served:
        await each.aclose()


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Callable[[Awaitable[None]], None]:
    """Run on each event loop that a server may have."""

    def run(scenario: Awaitable[None]) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(60):
                await scenario

        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(bounded())

    return run
