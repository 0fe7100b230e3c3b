"""Stand between clients and a store, and write down each request that a client sends. Run as a module, it is the relay.

Catalogs talk to the store themselves, with keys of their own: what passes here is the clients' alone.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.e2e.stores.process import Server, free_ports, listens

_HEAD_LIMIT = 256 * 1024
_PIECE = 64 * 1024
_PATIENCE = 1.0
_NO_BODY = frozenset({204, 304})
_AUTHORIZATION = re.compile(r"AWS4-HMAC-SHA256 Credential=([^/,\s]+)/\S+?, ?SignedHeaders=([^,\s]+), ?Signature=")


@dataclass(frozen=True, slots=True)
class S3Call:
    """A request as it passed, and what the store answered."""

    method: str
    target: str
    headers: dict[str, str]
    """Names in lower case; without the signature."""
    access_key: str
    """Of whose keys signed the request; empty where it is not signed."""
    signed_headers: tuple[str, ...]
    status: int
    """0 where the store never answered."""

    @property
    def stamp(self) -> str:
        """Return the id of the audit event that the request was signed with, empty if it bears none."""
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True)).get("x-signproxy-id", "")

    @property
    def key(self) -> str:
        """Return the key that a path-style request is about, decoded once; empty for a bucket."""
        return unquote(urlsplit(self.target).path.lstrip("/").partition("/")[2])


class Relay:
    """A port that passes on to a store what it hears."""

    def __init__(self, port: int, record: Path) -> None:
        self.port = port
        self._record = record

    @property
    def authority(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def origin(self) -> str:
        return f"http://{self.authority}"

    def calls(self) -> list[S3Call]:
        """Return the requests so far, in the order of their answers; none is left out once its answer is there."""
        with self._record.open() as lines:
            found = [json.loads(line) for line in lines if line.endswith("\n")]
        return [S3Call(**{**call, "signed_headers": tuple(call["signed_headers"])}) for call in found]


@contextmanager
def run_relay(directory: Path, target: int) -> Iterator[Relay]:
    """Run a relay to a port on loopback until the block ends."""
    record = directory / "requests.ndjson"
    record.touch()
    (port,) = free_ports(1)
    server = Server.of_module("relay", __name__, (str(port), str(target), str(record)), directory)
    try:
        server.wait_until(lambda: listens(port))
        yield Relay(port, record)
    finally:
        server.stop()


LOST = "/answer-is-lost/"
"""A folder: the first answer to an upload below it never reaches the client, as when a connection breaks."""


class _Connection:
    """One client's connection; each of its requests has a connection of its own to the store.

    versitygw stops reading where an upload's own framing ends, and may take what is left of the chunks around it for
    the next request.
    """

    def __init__(self, target: int, record: IO[str], lost: set[str], client: _Stream) -> None:
        self._target = target
        self._record = record
        self._lost = lost
        self._client = client

    async def carry(self) -> None:
        """Carry requests and answers until either side has had enough."""
        while head := await self._client.head():
            first, headers = _parse(head)
            method, target, _version = first.split(" ", 2)
            found = _AUTHORIZATION.match(headers.pop("authorization", ""))
            call = {
                "method": method,
                "target": target,
                "headers": headers,
                "access_key": found[1] if found else "",
                "signed_headers": found[2].split(";") if found else [],
            }
            store = _Stream(*await asyncio.open_connection("127.0.0.1", self._target, limit=_HEAD_LIMIT))
            store.write(head)
            sending = asyncio.create_task(self._client.copy_body(headers, store, until_end=False))
            try:
                if not await self._answer(call, store):
                    return
                # What is left of a body that the store did not wait for is no next request.
                if not (await asyncio.wait((sending,), timeout=_PATIENCE))[0]:
                    return
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
                store.close()

    async def _answer(self, call: dict[str, Any], store: _Stream) -> bool:
        """Pass on the answer; return whether the connection can be used again."""
        head, status, headers = await self._final(store)
        # Before the client sees the answer: a client that has ended has all its requests recorded.
        self._write(call, status)
        if not head or self._loses(call):
            return False
        self._client.write(head)
        if call["method"] != "HEAD" and status not in _NO_BODY:
            await store.copy_body(headers, self._client, until_end=True)
        await self._client.flush()
        return headers.get("connection", "").lower() != "close"

    async def _final(self, store: _Stream) -> tuple[bytes, int, dict[str, str]]:
        """Return the head that is the answer, and pass on those before it; an empty one where there is none."""
        while head := await store.head():
            first, headers = _parse(head)
            status = int(first.split(" ")[1])
            if status >= 200:
                return head, status, headers
            self._client.write(head)
            await self._client.flush()
        return b"", 0, {}

    def _loses(self, call: dict[str, Any]) -> bool:
        path = call["target"].partition("?")[0]
        if call["method"] != "PUT" or LOST not in path or path in self._lost:
            return False
        self._lost.add(path)
        return True

    def _write(self, call: dict[str, Any], status: int) -> None:
        self._record.write(json.dumps({**call, "status": status}) + "\n")
        self._record.flush()


class _Stream:
    """One side of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def head(self) -> bytes:
        """Return the next head, empty at the end."""
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            return await self._reader.readuntil(b"\r\n\r\n")
        return b""

    async def copy_body(self, headers: dict[str, str], sink: _Stream, *, until_end: bool) -> None:
        """Copy the body that follows a head, byte for byte."""
        if headers.get("transfer-encoding", "").lower() == "chunked":
            size = -1
            while size:
                line = await self._reader.readuntil(b"\r\n")
                sink.write(line)
                size = int(line.partition(b";")[0], 16)
                await self._copy(size, sink)
                # What follows a chunk is empty; trailers follow the last one, and then an empty line.
                while (line := await self._reader.readuntil(b"\r\n")) != b"\r\n":
                    sink.write(line)
                sink.write(line)
        elif "content-length" in headers:
            await self._copy(int(headers["content-length"]), sink)
        elif until_end:
            while piece := await self._reader.read(_PIECE):
                sink.write(piece)
                await sink.flush()
        await sink.flush()

    async def _copy(self, size: int, sink: _Stream) -> None:
        while size:
            piece = await self._reader.read(min(size, _PIECE))
            if not piece:
                raise ConnectionResetError
            sink.write(piece)
            size -= len(piece)
            await sink.flush()

    def write(self, content: bytes) -> None:
        self._writer.write(content)

    async def flush(self) -> None:
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()


def _parse(head: bytes) -> tuple[str, dict[str, str]]:
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return first, {name.strip().lower(): value.strip() for name, _, value in pairs}


async def _relay(port: int, target: int, record: IO[str]) -> None:
    lost: set[str] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = _Stream(reader, writer)
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await _Connection(target, record, lost, client).carry()
        finally:
            client.close()

    server = await asyncio.start_server(accept, "127.0.0.1", port, limit=_HEAD_LIMIT)
    await server.serve_forever()


if __name__ == "__main__":
    with Path(sys.argv[3]).open("a") as file:
        asyncio.run(_relay(int(sys.argv[1]), int(sys.argv[2]), file))
