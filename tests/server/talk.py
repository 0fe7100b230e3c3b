"""Speak HTTP/1.1 with a server over one connection, byte for byte."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, NamedTuple

import msgspec

from tests.product import SIGN_T1, sign_message, token_of

BODY = msgspec.json.encode(sign_message())

PATIENCE = 20.0
"""Far longer than anything here takes."""


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: Any

    @property
    def reason(self) -> str:
        """The `type` of a refusal."""
        return str(self.body["error"]["type"])


class Talk:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    @classmethod
    async def with_(cls, url: str, tls: ssl.SSLContext | None = None) -> Talk:
        """Connect to `http://host:port`."""
        host, _, port = url.removeprefix("http://").rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port), ssl=tls))

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> Answer:
        """Return the next answer."""
        async with asyncio.timeout(PATIENCE):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.split("\r\n")[:-2]
            headers = dict(line.split(": ", 1) for line in lines)
            body = await self._reader.readexactly(int(headers["Content-Length"]))
        return Answer(int(first.split()[1]), headers, msgspec.json.decode(body) if body else None)

    async def ask(self, data: bytes) -> Answer:
        """Send a request; return its answer."""
        await self.send(data)
        return await self.answer()

    async def ended(self) -> bytes:
        """Wait until the server closes; return what it still sent."""
        async with asyncio.timeout(PATIENCE):
            try:
                return await self._reader.read()
            except ConnectionError:
                return b""

    async def close(self) -> None:
        """Go away."""
        self.writer.close()
        try:
            async with asyncio.timeout(PATIENCE):
                await self.writer.wait_closed()
        except OSError:
            pass


def request(who: str | None = "reader", *more: str, body: bytes = BODY, path: str = SIGN_T1) -> bytes:
    """Return a sign request that is answered as it arrives."""
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *more]
    if who is not None:
        lines.append(f"Authorization: Bearer {token_of(who)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def parsed(who: str | None = "reader", *more: str, body: bytes = BODY, path: str = SIGN_T1) -> bytes:
    """Return the same request as only aiohttp's parser takes it: header names in lower case."""
    return request(who, "x-a: b", *more, body=body, path=path)
