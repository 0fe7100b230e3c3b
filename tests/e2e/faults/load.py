"""Keep asking for signatures, as a fleet of executors does, and account for every single answer."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Any, Self

from tests.e2e.faults.deployment import AUTHORITY, BUCKET, PATIENCE, ROUTE, Deployment, Keys, sign_message
from tests.verifier import VerificationError

SIGNED = "signed"
CLOSED = "closed without an answer"
TORN = "broken within the answer"
SILENT = "no answer"
UNREACHED = "not connected"
FORGED = "not signed as a store would take it"

ANSWER_SECONDS = 15.0
"""After this a caller counts as left hanging; a refusal takes a millisecond, and a fetch of keys five seconds."""

SAMPLE = 10
"""Every so many signatures one is verified; it costs as much as making ten."""

_LIMIT = 256 * 1024
_RECONNECT_SECONDS = 0.05
_FAREWELL_SECONDS = 2.0


class Reuse(Enum):
    """What a client does with a connection after an answer."""

    KEEP = "keep"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and what became of it."""

    begun: float
    """On the monotonic clock."""
    ended: float
    outcome: str
    """`signed`, the status and type of a refusal, or how it was lost."""
    request_id: str
    connection: int
    """Which opening of a connection it went over."""
    last: bool
    """Whether the connection ended with it."""


def real_time() -> tuple[float, ...]:
    """Return the moments at which a signature may have been made that is here now."""
    return (time.time(),)


class Load:
    """Clients on keep-alive connections, in a thread of their own, from entry to exit of the block."""

    def __init__(
        self,
        port: int,
        token: Callable[[], str],
        keys: Keys,
        *,
        clients: int = 4,
        pause: float = 0.01,
        reuse: Reuse = Reuse.KEEP,
        tls: ssl.SSLContext | None = None,
        moments: Callable[[], Sequence[float]] = real_time,
    ) -> None:
        self.exchanges: list[Exchange] = []
        self._port = port
        self._token = token
        self._keys = keys
        self._clients = clients
        self._pause = pause
        self._reuse = reuse
        self._tls = tls
        self._moments = moments
        self._opened = 0
        self._leaving = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load")
        self._fault: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        self.wait_for(SIGNED, 10 * self._clients)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let every client have the answer that it waits for, and end."""
        self._stop.set()
        self._thread.join()
        if self._fault is not None and value is None:
            raise self._fault

    def leave(self) -> None:
        """Open no connection anymore, as behind a balancer that took the server out; those that are open go on."""
        self._leaving.set()

    @property
    def is_over(self) -> bool:
        """Whether every client has left."""
        return not self._thread.is_alive()

    def outcomes(self, since: float = 0.0) -> Counter[str]:
        """Count what became of the requests that were begun since then."""
        return Counter(each.outcome for each in list(self.exchanges) if each.begun >= since)

    def lost(self, since: float = 0.0) -> Counter[str]:
        """Count what no client could make sense of: there is no answer, or a wrong one."""
        return Counter(
            {what: many for what, many in self.outcomes(since).items() if what != SIGNED and not what[:3].isdigit()}
        )

    def longest(self, since: float = 0.0) -> float:
        """Return the seconds of the longest wait for an answer."""
        return max((each.ended - each.begun for each in list(self.exchanges) if each.begun >= since), default=0.0)

    def wait_for(self, outcome: str, count: int = 1, *, since: float = 0.0) -> None:
        """Wait until so many requests that were begun since then have had this outcome."""
        deadline = time.monotonic() + PATIENCE
        while self.outcomes(since)[outcome] < count:
            if time.monotonic() > deadline or not self._thread.is_alive():
                raise AssertionError(f"not {count} times {outcome!r} but {self.outcomes(since)} {self._fault or ''}")
            time.sleep(0.02)

    # -- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            asyncio.run(self._all())
        except BaseException as fault:  # noqa: BLE001  # raised again by the test's own thread
            self._fault = fault

    async def _all(self) -> None:
        await asyncio.gather(*(self._client(number) for number in range(self._clients)))

    async def _client(self, number: int) -> None:
        connection: _Connection | None = None
        asked = 0
        # Not in step: clients that all begin at once all wait at once.
        await asyncio.sleep(self._pause * number / self._clients)
        while not self._stop.is_set():
            asked += 1
            request_id = f"load-{number}-{asked}"
            begun = time.monotonic()
            if connection is None:
                if self._leaving.is_set():
                    return
                self._opened += 1
                connection = _Connection(self._opened)
            outcome, goes_on = await self._ask(connection, request_id, verified=asked % SAMPLE == 1)
            ended = time.monotonic()
            goes_on &= self._reuse is Reuse.KEEP
            self.exchanges.append(Exchange(begun, ended, outcome, request_id, connection.number, not goes_on))
            if not goes_on:
                await connection.close()
                connection = None
            await asyncio.sleep(_RECONNECT_SECONDS if outcome == UNREACHED else self._pause)
        if connection is not None:
            await connection.close()

    async def _ask(self, connection: _Connection, request_id: str, *, verified: bool) -> tuple[str, bool]:
        """Send one request; return what became of it, and whether the connection can be used again."""
        message = sign_message(f"wh/t/{request_id}")
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await connection.open(self._port, self._tls)
                content = _request(self._port, self._token(), request_id, json.dumps(message))
                status, goes_on, body = await connection.exchange(content)
        except TimeoutError:
            return SILENT, False
        except _Unreached:
            return UNREACHED, False
        except _Unanswered as unanswered:
            return TORN if unanswered.begun else CLOSED, False
        return self._judge(message, status, body, verified=verified), goes_on

    def _judge(self, message: dict[str, Any], status: int, body: bytes, *, verified: bool) -> str:
        try:
            answer = json.loads(body)
            if status != 200:
                return f"{status} {answer['error']['type']}"
            if verified:
                self._keys.check(message, answer, self._moments())
            path = f"http://{AUTHORITY}/{BUCKET}/wh/t/"
            return SIGNED if answer["uri"].startswith(path) and "x-signproxy-id=" in answer["uri"] else FORGED
        except (ValueError, KeyError, VerificationError) as error:
            return f"{FORGED}: {type(error).__name__} {str(error)[:200]}"


class _Unreached(Exception):
    """Nothing listens, or what listens does not let us in."""


class _Unanswered(Exception):
    """The connection ended before the answer did."""

    def __init__(self, *, begun: bool) -> None:
        super().__init__()
        self.begun = begun


class _Connection:
    """A keep-alive connection, opened when it is first used."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def open(self, port: int, tls: ssl.SSLContext | None) -> None:
        if self._writer is None:
            try:
                self._reader, self._writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, limit=_LIMIT)
            except OSError as error:
                raise _Unreached from error

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(_FAREWELL_SECONDS):
                    await self._writer.wait_closed()

    async def exchange(self, content: bytes) -> tuple[int, bool, bytes]:
        """Return status, whether the connection goes on, and the body."""
        assert self._reader is not None
        assert self._writer is not None
        head = b""
        try:
            self._writer.write(content)
            await self._writer.drain()
            head = await self._reader.readuntil(b"\r\n\r\n")
            status, length, goes_on = _read_head(head)
            return status, goes_on, await self._reader.readexactly(length)
        except asyncio.IncompleteReadError as error:
            raise _Unanswered(begun=bool(head or error.partial)) from error
        except OSError as error:
            raise _Unanswered(begun=bool(head)) from error


def _request(port: int, token: str, request_id: str, body: str) -> bytes:
    """Write a request as Java's client does."""
    head = (
        f"POST {ROUTE} HTTP/1.1\r\nContent-Type: application/json\r\nAccept: application/json\r\n"
        f"Authorization: Bearer {token}\r\nX-Request-Id: {request_id}\r\nUser-Agent: e2e\r\n"
        f"Content-Length: {len(body)}\r\nHost: 127.0.0.1:{port}\r\nConnection: keep-alive\r\n\r\n"
    )
    return head.encode() + body.encode()


def _read_head(head: bytes) -> tuple[int, int, bool]:
    """Return status, length of the body, and whether the connection goes on."""
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    status, length = 0, 0
    with suppress(ValueError, IndexError):
        status, length = int(first.split(" ")[1]), int(headers.get("content-length", "0"))
    return status, length, headers.get("connection", "keep-alive").lower() != "close"


def load_on(deployment: Deployment, **more: Any) -> Load:
    """Return a load of requests for what a deployment may sign."""
    return Load(deployment.port, lambda: deployment.token, deployment.keys, **more)
