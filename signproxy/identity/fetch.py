"""Fetch one key document over HTTP, as if every answer, name resolution and redirect were hostile."""

from __future__ import annotations

import asyncio
import errno
import re
import socket
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from signproxy.identity.key_url import FetchReach, KeysUnusable, KeyUrl, check_address
from signproxy.outbound.client import AddressInfo, PoolLimits, Timeouts, http_client
from signproxy.outbound.tls import client_tls

if TYPE_CHECKING:
    import aiohttp

TIMEOUT = 5.0
"""Seconds for one document, resolution and handshake included; callers wait for it."""

MAX_DOCUMENT = 256 * 1024
"""Bytes; the largest public key set (Microsoft's, with certificates) has about 30 KiB."""

_CHUNK = 16 * 1024
_MAX_AGE = re.compile(r'(?:^|[,\s])max-age="?([0-9]{1,9})"?(?=$|[,\s])', re.IGNORECASE)
_NOT_KEPT = re.compile(r"(?:^|[,\s])no-(?:store|cache)(?=$|[,\s])", re.IGNORECASE)


class Trust(msgspec.Struct, frozen=True, gc=False):
    """Whom to trust, and what to show, when fetching. Both files are read anew each time, for they rotate."""

    ca_file: str = ""
    token_file: str = ""


class Fetched(msgspec.Struct, frozen=True, gc=False):
    """A document, and for how many seconds its server says it stays good; None where it does not say."""

    body: bytes
    max_age: float | None = None


Fetch = Callable[[KeyUrl, Trust], Awaitable[Fetched]]
"""Gets one document, or raises KeysUnusable."""


async def fetch(url: KeyUrl, trust: Trust) -> Fetched:
    """Get the document with one request that follows nothing; raise KeysUnusable if that fails."""
    import aiohttp  # noqa: PLC0415 (the command line reads tokens without it)

    try:
        async with asyncio.timeout(TIMEOUT):
            # Reading the system's certificates takes milliseconds, during which the loop would serve no request.
            context = await asyncio.to_thread(client_tls, trust.ca_file)
            async with _session(url, trust, context) as session:
                return await _get(session, url)
    except TimeoutError:
        raise KeysUnusable(f"{url.text}: no answer within {TIMEOUT:.0f} s") from None
    # ValueError: a CA or token file that is none, a URL that aiohttp reads in another way.
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise KeysUnusable(f"{url.text}: {type(error).__name__}: {str(error)!a}") from None


def max_age(cache_control: str) -> float | None:
    """Return the seconds that a Cache-Control header allows, 0 where it forbids keeping, None where it is silent."""
    if _NOT_KEPT.search(cache_control):
        return 0.0
    match = _MAX_AGE.search(cache_control)
    return float(match[1]) if match else None


def _session(url: KeyUrl, trust: Trust, context: ssl.SSLContext) -> aiohttp.ClientSession:
    """Return a session for one request: a fetch a minute at most is worth no pool, and nothing can linger in it."""
    # Identity only: a compressed document could unfold far past MAX_DOCUMENT before it is measured.
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    if trust.token_file:
        token = Path(trust.token_file).read_text(encoding="ascii").strip()
        headers["Authorization"] = f"Bearer {token}"
    return http_client(
        context,
        Timeouts(TIMEOUT, TIMEOUT, TIMEOUT),
        PoolLimits(1),
        headers=headers,
        open_socket=partial(_open_socket, url.reach),
    )


async def _get(session: aiohttp.ClientSession, url: KeyUrl) -> Fetched:
    import yarl  # noqa: PLC0415 (see fetch)

    # `encoded`: sent as configured, not as a second parser would spell it.
    async with session.get(yarl.URL(url.text, encoded=True), allow_redirects=False) as response:
        if response.status != 200:
            raise KeysUnusable(f"{url.text}: status {response.status}; redirects are not followed")
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise KeysUnusable(f"{url.text}: the answer is compressed, which was not asked for")
        body = bytearray()
        async for chunk in response.content.iter_chunked(_CHUNK):
            body += chunk
            if len(body) > MAX_DOCUMENT:
                raise KeysUnusable(f"{url.text}: longer than {MAX_DOCUMENT} bytes")
        return Fetched(bytes(body), max_age(response.headers.get("Cache-Control", "")))


class _AddressRefused(OSError):
    """The address that the connection would go to is off limits; an OSError, as aiohttp expects of a socket."""


def _open_socket(reach: FetchReach, info: AddressInfo) -> socket.socket:
    """Check each address at the last moment: what was resolved earlier may no longer be what is connected to."""
    family, kind, protocol, _, address = info
    try:
        check_address(str(address[0]), reach)
    except KeysUnusable as problem:
        raise _AddressRefused(errno.EACCES, str(problem)) from None
    return socket.socket(family, kind, protocol)
