"""Run every test on both event loops: they stop, go on and close connections each in its own way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import uvloop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Tell pytest-asyncio what to run coroutines on."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
