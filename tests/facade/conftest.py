"""Serve the facade to pytest-aiohttp's client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import pytest
from pytest_aiohttp.plugin import AiohttpClient

from tests.facade.front import Front, ServeFront, front
from tests.impatience import impatient
from tests.listening import connect

__all__ = ["impatient"]


@pytest.fixture
async def serve_front(aiohttp_client: AiohttpClient) -> AsyncIterator[ServeFront]:
    """Serve products in front of scripted upstreams until the test ends, each to a client of its own."""
    async with AsyncExitStack() as stack:

        async def start(**changes: Any) -> Front:
            return await stack.enter_async_context(front(partial(connect, aiohttp_client), **changes))

        yield start
