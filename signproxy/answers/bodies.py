"""Read the bodies of requests: whole where they say what is asked for, else as they arrive, or to be forgotten."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from aiohttp import web

from signproxy.answers.reply import Reply
from signproxy.errors import Reason, Refused, anew

MAX_MESSAGE = 64 * 1024
"""A sign request without a body; Java's are below 2 KiB."""

MAX_BULK_MESSAGE = 5 * 1024 * 1024
"""With the 2 MiB XML of a bulk delete, as JSON may escape it."""

MAX_CALL = 8 * 1024 * 1024
"""Of a call that is judged by its body. A commit of thousands of files names one manifest list."""

MAX_TOKEN_REQUEST = 64 * 1024
"""Two tokens of 16 KiB, form-encoded, and some names."""

WHOLE_SECONDS = 30.0
PART_SECONDS = 10.0
"""For a body that has to be there whole, and between two parts of one that has not."""

DISCARD_SECONDS = 2.0
"""For what is left of the body of a refused request: the refusal reaches only a client that was heard out."""

FOR_TOO_MUCH = frozenset({Reason.RATE_LIMITED, Reason.IN_FLIGHT_LIMITED})
_NOT_HEARD_OUT = frozenset({Reason.BODY_TIMEOUT, Reason.CLIENT_GONE})


async def read_whole(request: web.BaseRequest, limit: int, seconds: float = WHOLE_SECONDS) -> bytes:
    """Return the body. Raise Refused for one that is too large or too slow."""
    length = request.content_length
    if length is not None and length > limit:
        raise Refused(Reason.BODY_TOO_LARGE, f"{length} bytes announced")
    await _go_on(request)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            while part := await request.content.readany():
                size += len(part)
                if size > limit:
                    raise Refused(Reason.BODY_TOO_LARGE, f"more than {limit} bytes")
                parts.append(part)
    except TimeoutError:
        raise Refused(Reason.BODY_TIMEOUT, f"{size} bytes in {seconds:.0f} s") from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


class Arriving:
    """The body of a call that is sent on as it arrives."""

    __slots__ = ("_request", "fault")

    def __init__(self, request: web.BaseRequest) -> None:
        self._request = request
        self.fault: Refused | None = None
        """Why the body ended early: what happens at the upstream's end then is no fault of the upstream."""

    @property
    def length(self) -> int | None:
        """The length that the client announced; unknown for a packed body, which aiohttp unpacks."""
        return None if "Content-Encoding" in self._request.headers else self._request.content_length

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield it as it arrives."""
        await _go_on(self._request)
        content = self._request.content
        while True:
            try:
                async with asyncio.timeout(PART_SECONDS):
                    part = await content.readany()
            except TimeoutError:
                self.fault = Refused(Reason.BODY_TIMEOUT, f"nothing for {PART_SECONDS:.0f} s")
                raise anew(self.fault) from None
            except (ConnectionError, web.RequestPayloadError) as gone:
                self.fault = Refused(Reason.CLIENT_GONE, type(gone).__name__)
                raise anew(self.fault) from None
            if not part:
                return
            yield part


async def hear_out(request: web.BaseRequest, reason: Reason | None, reply: Reply, *, known: bool) -> None:
    """Read and forget what is left of a request's body; end the connection if that is too much."""
    content = request.content
    if content.is_eof():
        return
    closes, reply.closes = reply.closes, True
    if reason in _NOT_HEARD_OUT or "Expect" in request.headers:
        return
    # A caller that is not known, or asks too much, cannot make the server read more than a message.
    left = MAX_MESSAGE if not known or reason in FOR_TOO_MUCH else 2 * MAX_BULK_MESSAGE
    with contextlib.suppress(TimeoutError, ConnectionError, web.RequestPayloadError):
        async with asyncio.timeout(DISCARD_SECONDS):
            while left > 0 and (chunk := await content.readany()):
                left -= len(chunk)
    reply.closes = closes or not content.is_eof()


async def _go_on(request: web.BaseRequest) -> None:
    """Let a client send what it waits with, now that it is known that it will be read."""
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        # An interim answer is none: aiohttp takes a started one for a reason not to send an error.
        request.writer.output_size = 0
