"""Read an upstream's answer: whole within a bound, or part by part."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Self

import aiohttp
from multidict import CIMultiDictProxy

from signproxy.catalog.upstream_error import MAX_ERROR
from signproxy.catalog.upstream_fault import Loss, UpstreamFault, fault_of
from signproxy.catalog.upstream_spec import UpstreamSpec
from signproxy.errors import Refused

ELSEWHERE_BYTES = 1024 * 1024
"""From here on, unpacking takes milliseconds, and is done beside the loop."""

_GZIP = 16 + zlib.MAX_WBITS


class UpstreamAnswer:
    """An answer whose head is there. Use it as a context: leaving it ends what was not read, and the connection."""

    __slots__ = ("_closed", "_failed", "_response", "_spec", "headers", "status")

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        spec: UpstreamSpec,
        failed: Callable[[UpstreamFault], Refused],
        closed: Callable[[], None],
    ) -> None:
        self._response = response
        self.status = response.status
        self.headers: CIMultiDictProxy[str] = response.headers
        self._spec = spec
        self._failed = failed
        self._closed = closed
        connection = response.connection
        if connection is not None and connection.protocol is not None:
            connection.protocol.read_timeout = spec.times.read

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        # A connection whose answer was read to its end is in the pool again, and this leaves it there.
        self._response.close()
        self._closed()

    def invalid(self, problem: str) -> Refused:
        """Return the refusal of an answer that is none, and count it as the upstream's fault."""
        return self._failed(UpstreamFault(Loss.INVALID, problem))

    async def whole(self, limit: int | None = None) -> bytes:
        """Return the content, unpacked. Raise Refused if it breaks off, or is larger than the spec or `limit` says."""
        most = self._spec.max_answer if limit is None else limit
        length = self._response.content_length
        if length is not None and length > most:
            raise self.invalid(f"{length} bytes announced, over {most}")
        parts: list[bytes] = []
        size = 0
        async for part in self.parts():
            size += len(part)
            if size > most:
                raise self.invalid(f"more than {most} bytes")
            parts.append(part)
        content = parts[0] if len(parts) == 1 else b"".join(parts)
        match self.headers.get("Content-Encoding", "identity").strip().lower() or "identity":
            case "identity":
                return content
            case "gzip" | "x-gzip":
                return await self._unpacked(content, most)
            case other:
                raise self.invalid(f"packed with {other[:40]!r}, which was not asked for")

    async def problem(self) -> bytes:
        """Return what an error says; nothing where that cannot be read, for its status is what matters."""
        try:
            return await self.whole(MAX_ERROR)
        except Refused:
            return b""

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield the content as it arrives, packed as it is. Raise Refused if it breaks off."""
        content = self._response.content
        while True:
            try:
                part = await content.readany()
            except aiohttp.ClientPayloadError as error:
                # A body that ended early, or whose chunks are none: the two are not told apart.
                fault = UpstreamFault(Loss.LOST, f"the answer broke off: {type(error).__name__}")
                raise self._failed(fault) from None
            except (aiohttp.ClientError, OSError) as error:
                raise self._failed(fault_of(error)) from None
            if not part:
                return
            yield part

    async def _unpacked(self, content: bytes, limit: int) -> bytes:
        try:
            if len(content) < ELSEWHERE_BYTES:
                return _gunzip(content, limit)
            return await asyncio.to_thread(_gunzip, content, limit)
        except (zlib.error, ValueError) as error:
            raise self.invalid(f"gzip: {error}") from None


def _gunzip(content: bytes, limit: int) -> bytes:
    unpacking = zlib.decompressobj(_GZIP)
    plain = unpacking.decompress(content, limit + 1)
    if len(plain) > limit:
        raise ValueError(f"more than {limit} bytes")
    if not unpacking.eof:
        raise ValueError("it breaks off")
    return plain
