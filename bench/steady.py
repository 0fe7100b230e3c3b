"""Sign at a steady rate and remember how long each caller waited, from the moment it was due."""

from __future__ import annotations

import asyncio
import threading
import time
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import msgspec

from bench import sign_request
from bench.load import Signer

RATE = 400
"""Requests per second: a busy sidecar, and little enough that the waiting shows the server and not a queue."""
_CONNECTIONS = 16
_PATIENCE = 30.0
"""Seconds before a request counts as failed; clients of S3 wait no less."""


class Waits(msgspec.Struct):
    """How long each caller of a stretch waited, in seconds, and how many were not served."""

    served: list[float] = []
    failed: list[str] = []

    def percentile(self, share: float) -> float:
        """Return the wait that this share of the callers did not exceed."""
        ordered = sorted(self.served)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class SteadySigning:
    """Sign in a thread of its own for the length of a `with` block.

    Requests are sent when they are due, not when the last answer came: a server that stops for a second makes
    hundreds of callers wait, and all of them are counted.
    """

    def __init__(self, signer: Signer) -> None:
        self.waits = Waits()
        self._signer = signer
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="steady-signing")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def take(self) -> Waits:
        """Return the waits so far and begin a new stretch."""
        taken, self.waits = self.waits, Waits()
        return taken

    async def _run(self) -> None:
        due: asyncio.Queue[float] = asyncio.Queue()
        callers = [asyncio.create_task(self._call(due)) for _ in range(_CONNECTIONS)]
        began = time.perf_counter()
        sent = 0
        while not self._stop.is_set():
            await asyncio.sleep(0.001)
            while began + sent / RATE <= time.perf_counter():
                due.put_nowait(began + sent / RATE)
                sent += 1
        await asyncio.wait_for(due.join(), _PATIENCE)
        for caller in callers:
            caller.cancel()
        await asyncio.gather(*callers, return_exceptions=True)

    async def _call(self, due: asyncio.Queue[float]) -> None:
        target = urlsplit(self._signer.url)
        first = self._signer.next_number()
        head = (
            f"POST {target.path} HTTP/1.1\r\nHost: {target.netloc}\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {self._signer.token}\r\nContent-Length: {len(self._signer.template)}\r\n\r\n"
        ).encode()
        reader, writer = await asyncio.open_connection(target.hostname, target.port)
        while True:
            when = await due.get()
            first += 1
            try:
                async with asyncio.timeout(_PATIENCE):
                    writer.write(head + sign_request.body(self._signer.template, first))
                    status = await _answer(reader)
                if status == 200:
                    self.waits.served.append(time.perf_counter() - when)
                else:
                    self.waits.failed.append(str(status))
            except (OSError, EOFError, TimeoutError) as error:
                self.waits.failed.append(repr(error))
                writer.close()
                reader, writer = await asyncio.open_connection(target.hostname, target.port)
            finally:
                due.task_done()


async def _answer(reader: asyncio.StreamReader) -> int:
    """Read one answer with a Content-Length, as signers send it; return its status."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    lines = head.split("\r\n")
    length = next(int(line[15:]) for line in lines if line.lower().startswith("content-length:"))
    await reader.readexactly(length)
    return int(lines[0].split(" ")[1])
