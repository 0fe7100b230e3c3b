"""Ask for signatures as fast as they are answered, in a process of its own; check each answer, and sum up all ids.

    python -m tests.e2e.soak.client <directory> <port>

`<directory>/callers.json` holds the tokens and the server's key pairs of this moment and is looked at again and
again. It ends on SIGTERM, once each connection has its answer, and prints what it has seen.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections import Counter
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, cast

import msgspec
import uvloop

from tests.e2e.faults.deployment import AUTHORITY, BUCKET, CLOSED_ROUTE, REGION, ROUTE
from tests.verifier import VerificationError, as_java, verify

CONNECTIONS = 16
"""Enough that neither worker ever waits for a client."""

VERIFIED = 211
"""Every so many answers one is verified: a prime, so that each kind of request has its turn."""

REFUSED = 53
"""Every so many requests one asks for a table that is not granted, and has to be refused."""

_AUDIT = b"The audit trail"
_PATIENCE_SECONDS = 1.0
"""What `Retry-After` asks for."""

LOOK_SECONDS = 0.1
"""How often the callers' file is looked at."""

ID_LENGTH = 26
_STAMP = b"x-signproxy-id="
_NUMBER = 12


class Callers(msgspec.Struct, frozen=True):
    """Who asks, and what the answers may be signed with."""

    tokens: tuple[str, ...]
    secrets: dict[str, str]


class Seen(msgspec.Struct):
    """What a client saw of a run."""

    signed: int = 0
    refused: int = 0
    """Those that had to be."""
    turned_away: int = 0
    """Those that the audit trail had no room for at that moment: a disk that stands still for a second at full load."""
    failed: dict[str, int] = {}
    """Everything else, by what it was."""
    verified: int = 0
    keys: tuple[str, ...] = ()
    """The key ids that verified answers were signed with."""
    digest: int = 0
    """The sum of all ids' digests, see `digest_of`."""
    longest: float = 0.0
    """Seconds for the slowest answer."""
    seconds: float = 0.0


def digest_of(event_id: bytes) -> int:
    """Return a number for an id; two sets of ids are the same if the sums of their numbers are."""
    return int.from_bytes(blake2b(event_id, digest_size=16).digest())


def is_turned_away(status: bytes, body: bytes) -> bool:
    """Return whether an answer asks to come again, because the audit trail takes nothing at the moment."""
    return status == b"503" and _AUDIT in body


def templates() -> list[dict[str, Any]]:
    """Return one request of each kind that engines make most; `#` stands for the number of the request."""
    base = f"http://{AUTHORITY}/{BUCKET}"
    keys = "".join(f"<Object><Key>wh/t/data/{part}-{'#' * _NUMBER}</Key></Object>" for part in "abc")
    body = f'<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{keys}</Delete>'
    agent = {"User-Agent": ["soak"]}
    one = f"{base}/wh/t/data/{'#' * _NUMBER}"
    return [
        {"method": "GET", "uri": one, "headers": {**agent, "Range": ["bytes=0-1023"]}},
        {"method": "PUT", "uri": one, "headers": {**agent, "Content-Type": ["application/octet-stream"]}},
        {"method": "HEAD", "uri": one, "headers": agent},
        {"method": "DELETE", "uri": one, "headers": agent},
        {"method": "GET", "uri": f"{base}?list-type=2&prefix=wh%2Ft%2F{'#' * _NUMBER}%2F", "headers": agent},
        {"method": "POST", "uri": f"{base}?delete", "headers": agent, "body": body},
    ]


class Client:
    """Every connection's share of a run."""

    def __init__(self, directory: Path, port: int) -> None:
        self.seen = Seen()
        self.ending = False
        self.callers = Callers((), {})
        self._file = directory / "callers.json"
        self._read_at = 0
        self._port = port
        self._number = 0
        self._failed: Counter[str] = Counter()
        self._keys: set[str] = set()
        self._bodies = [json.dumps({"region": REGION, **message}).encode() for message in templates()]

    async def run(self) -> Seen:
        """Ask until told to end."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end)
        self._read_callers()
        begun = time.monotonic()
        connections = []
        for _ in range(CONNECTIONS):
            _, connection = await loop.create_connection(lambda: Connection(self), "127.0.0.1", self._port)
            connections.append(connection)
        over = asyncio.gather(*(connection.over for connection in connections))
        while not over.done():
            self._read_callers()
            await asyncio.wait((over,), timeout=LOOK_SECONDS)
        seen = self.seen
        seen.failed, seen.keys, seen.seconds = dict(self._failed), tuple(self._keys), time.monotonic() - begun
        return seen

    def next_request(self) -> Request:
        """Return the next request."""
        self._number = number = self._number + 1
        token = self.callers.tokens[number % len(self.callers.tokens)]
        body = self._bodies[number % len(self._bodies)].replace(b"#" * _NUMBER, b"%0*d" % (_NUMBER, number))
        closed = number % REFUSED == 0
        head = (
            f"POST {CLOSED_ROUTE if closed else ROUTE} HTTP/1.1\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {token}\r\nContent-Length: {len(body)}\r\nHost: 127.0.0.1:{self._port}\r\n\r\n"
        )
        return Request(head.encode() + body, body, closed, number % VERIFIED == 0)

    def answered(self, request: Request, status: bytes, body: bytes, seconds: float) -> None:
        """Account for an answer."""
        seen = self.seen
        seen.longest = max(seen.longest, seconds)
        if is_turned_away(status, body):
            seen.turned_away += 1
            return
        if request.closed:
            if status == b"403":
                seen.refused += 1
            else:
                self.failed(f"{status.decode()} where 403 was due")
            return
        at = body.find(_STAMP)
        if status != b"200" or at < 0:
            self.failed(f"{status.decode()} {body[:200].decode(errors='replace')}")
            return
        at += len(_STAMP)
        seen.digest += digest_of(body[at : at + ID_LENGTH])
        seen.signed += 1
        if request.verified:
            self._verify(json.loads(request.body), json.loads(body))

    def failed(self, what: str) -> None:
        """Account for what should not have happened."""
        self._failed[what] += 1

    def _verify(self, message: dict[str, Any], answer: dict[str, Any]) -> None:
        try:
            verify(as_java(message, answer), self.callers.secrets, now=time.time(), region=REGION)
        except VerificationError as error:
            self.failed(f"signature: {error.code}")
            return
        self.seen.verified += 1
        authorization = next(values[0] for name, values in answer["headers"].items() if name.lower() == "authorization")
        self._keys.add(authorization.partition("Credential=")[2].partition("/")[0])

    def _read_callers(self) -> None:
        written = self._file.stat().st_mtime_ns
        if written != self._read_at:
            self._read_at = written
            self.callers = msgspec.json.decode(self._file.read_bytes(), type=Callers)

    def _end(self) -> None:
        self.ending = True


class Request(msgspec.Struct, frozen=True, gc=False):
    """A request on its way."""

    content: bytes
    body: bytes
    closed: bool
    verified: bool


class Connection(asyncio.Protocol):
    """One connection: a request, its answer, the next request."""

    def __init__(self, client: Client) -> None:
        self.over = asyncio.get_running_loop().create_future()
        self._client = client
        self._buffer = b""
        self._request: Request | None = None
        self._asked_at = 0.0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._ask()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._buffer[:end]
        at = head.find(b"Content-Length: ") + len(b"Content-Length: ")
        length = int(head[at : at + 8].split(b"\r", 1)[0])
        if len(self._buffer) < end + 4 + length:
            return
        request, self._request = self._request, None
        assert request is not None
        body = self._buffer[end + 4 :]
        self._buffer = b""
        self._client.answered(request, head[9:12], body, time.monotonic() - self._asked_at)
        if is_turned_away(head[9:12], body):
            asyncio.get_running_loop().call_later(_PATIENCE_SECONDS, self._ask)
        else:
            self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._request is not None or not self._client.ending:
            self._client.failed("connection closed")
        if not self.over.done():
            self.over.set_result(None)

    def _ask(self) -> None:
        assert self._transport is not None
        if self._client.ending:
            self._transport.close()
            return
        self._request = self._client.next_request()
        self._asked_at = time.monotonic()
        self._transport.write(self._request.content)


def main(directory: str, port: str) -> None:
    """Run until SIGTERM, and print what was seen."""
    with suppress(KeyboardInterrupt):
        seen = uvloop.run(Client(Path(directory), int(port)).run())
        sys.stdout.write(msgspec.json.encode(seen).decode() + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
