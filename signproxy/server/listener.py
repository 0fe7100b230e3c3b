"""Listen: one aiohttp server per handler, with limits and a log that fit what is served."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

from aiohttp import web

from signproxy.errors import Finding, SettingsInvalid
from signproxy.server.connection import AtOnce, DirectServer
from signproxy.telemetry import log

MAX_HEADER = 24 * 1024
"""A bearer token may have 16 KiB; aiohttp's own limit of 8 KiB would answer for us, in a form of its own."""

_log = log.get_logger("signproxy.http")

RequestHandler = AtOnce | Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class _WithoutContent(logging.Handler):
    """Pass on that something failed, and nothing of what was sent: aiohttp quotes headers, tokens among them."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[0] if record.exc_info else None
        _log.info("http request not understood", error=error.__name__ if error else "")


def _quiet_logger() -> logging.Logger:
    logger = logging.getLogger("signproxy.http")
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(_WithoutContent())
    return logger


async def listen(
    stack: AsyncExitStack,
    handler: RequestHandler,
    host: str,
    port: int,
    *,
    reuse_port: bool = False,
    keepalive: float = 75.0,
    shutdown: float = 25.0,
) -> str:
    """Serve until `stack` closes; return the address that was bound."""
    options: dict[str, Any] = {
        "access_log": None,
        "logger": _quiet_logger(),
        "max_field_size": MAX_HEADER,
        "max_line_size": MAX_HEADER,
    }
    server: web.Server
    if isinstance(handler, AtOnce):
        server = DirectServer(handler, keepalive, **options)
    else:
        server = web.Server(handler, keepalive_timeout=keepalive, **options)
    runner = web.ServerRunner(server, shutdown_timeout=shutdown)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    site = web.TCPSite(runner, host, port, reuse_port=reuse_port or None)
    try:
        await site.start()
    except OSError as error:
        problem = f"cannot listen on {host}:{port}: {error.strerror}"
        raise SettingsInvalid([Finding("", "listen", problem)]) from None
    bound_host, bound_port = runner.addresses[0][:2]
    return f"{bound_host}:{bound_port}"
