"""Make the asynchronous HTTP clients of the server."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import aiohttp

AddressInfo = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[object, ...]]
OpenSocket = Callable[[AddressInfo], socket.socket]
"""Opens the socket for a resolved address, or raises OSError for one that is off limits."""

Send = Callable[["aiohttp.ClientRequest"], Awaitable["aiohttp.ClientResponse"]]
Middleware = Callable[["aiohttp.ClientRequest", Send], Awaitable["aiohttp.ClientResponse"]]

MAX_HEADER = 24 * 1024
"""Bytes of a header line of an answer."""


class Timeouts(msgspec.Struct, frozen=True):
    """Seconds that a client waits. A request may narrow them."""

    connect: float
    """For a connection, from the pool or a new one."""
    read: float
    """Between two parts of an answer."""
    total: float | None = None
    """For all of it; None where an answer may be long."""


class PoolLimits(msgspec.Struct, frozen=True):
    """How many connections a client opens at most, and for how many seconds it keeps an idle one; 0 keeps none."""

    limit: int
    keep_seconds: float = 0.0


def http_client(
    tls: ssl.SSLContext,
    timeouts: Timeouts,
    connections: PoolLimits,
    *,
    headers: Mapping[str, str] | None = None,
    unsent: tuple[str, ...] = (),
    open_socket: OpenSocket | None = None,
    middleware: Middleware | None = None,
) -> aiohttp.ClientSession:
    """Return a client without cookies, decompression and proxies. `aclose` it in the loop that it was made in.

    `unsent` names headers that aiohttp would add by itself. Redirects are followed unless a request says otherwise.

    No proxy of the environment is asked: the requests carry tokens, or are signed. aiohttp's own TLS context is never
    used: `server.lean` imports aiohttp in such a way that it trusts no authority.
    """
    import aiohttp  # noqa: PLC0415 - the command line reads tokens without it

    if connections.keep_seconds:
        connector = aiohttp.TCPConnector(
            ssl=tls, limit=connections.limit, keepalive_timeout=connections.keep_seconds, socket_factory=open_socket
        )
    else:
        connector = aiohttp.TCPConnector(ssl=tls, limit=connections.limit, force_close=True, socket_factory=open_socket)
    return aiohttp.ClientSession(
        connector=connector,
        headers=headers,
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=unsent,
        auto_decompress=False,
        trust_env=False,
        proxy=None,
        timeout=aiohttp.ClientTimeout(
            total=timeouts.total, connect=timeouts.connect, sock_connect=timeouts.connect, sock_read=timeouts.read
        ),
        max_line_size=MAX_HEADER,
        max_field_size=MAX_HEADER,
        middlewares=() if middleware is None else (middleware,),
    )
