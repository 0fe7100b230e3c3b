"""Ask at a modest rate, each caller over a connection of its own, and tell exactly how long every answer took."""

from __future__ import annotations

import gc
import random
import select
import socket
import struct
import time
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from bench import sign_request
from bench.load import Signer
from bench.process import BenchFailed

RATE = 50
"""Requests of each caller per second: what an executor asks for that reads small files."""

_PATIENCE = 30.0
_STAMP = struct.Struct("@ll")
# Linux' number; the socket module does not name it.
_SO_TIMESTAMPNS = 35
_NANOSECOND = 1e-9


class Waits(NamedTuple):
    """How long callers waited, in seconds."""

    seconds: list[float]

    def percentile(self, share: float) -> float:
        """Return the wait that this share of the requests did not exceed."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class ExactCaller:
    """One caller. The kernel notes when the answer arrived, so that a busy core of ours is not the server's fault."""

    def __init__(self, signer: Signer, token: str) -> None:
        target = urlsplit(signer.url)
        self.socket = socket.create_connection((target.hostname, target.port), timeout=_PATIENCE)
        self.socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self.due = 0.0
        self._template = signer.template
        self._number = signer.next_number()
        self._head = (
            f"POST {target.path} HTTP/1.1\r\nHost: {target.netloc}\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {token}\r\nContent-Length: {len(signer.template)}\r\n\r\n"
        ).encode()
        self._began = 0.0
        self.waiting = False

    def ask(self, *, delayed: bool) -> None:
        """Send a request. One that another answer `delayed` has been waiting since it was due."""
        self._number += 1
        request = self._head + sign_request.body(self._template, self._number)
        self.waiting = True
        self._began = self.due if delayed else time.clock_gettime(time.CLOCK_REALTIME)
        self.socket.sendall(request)

    def answer(self) -> float:
        """Read the answer; return how long it took."""
        data, notes, _, _ = self.socket.recvmsg(65536, 128)
        if not data.startswith(b"HTTP/1.1 200 "):
            raise BenchFailed(f"a caller within its share was not served: {data[:200]!r}")
        self.waiting = False
        stamps = [note for level, kind, note in notes if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS)]
        if not stamps:
            return time.clock_gettime(time.CLOCK_REALTIME) - self._began
        seconds, nanoseconds = _STAMP.unpack(stamps[0])
        return float(seconds - self._began + nanoseconds * _NANOSECOND)


def ask_for(callers: Sequence[ExactCaller], seconds: float) -> Waits:
    """Let every caller ask at random moments for so long; each answer must be 200."""
    poll = select.epoll()
    by_descriptor = {caller.socket.fileno(): caller for caller in callers}
    for descriptor in by_descriptor:
        poll.register(descriptor, select.EPOLLIN)
    dice = random.Random(1)
    now = time.clock_gettime(time.CLOCK_REALTIME)
    end = now + seconds
    for caller in callers:
        caller.due = now + dice.expovariate(RATE)
    waits: list[float] = []
    gc.disable()
    try:
        while now < end or any(caller.waiting for caller in callers):
            for caller in callers:
                if caller.due <= now and caller.due < end and not caller.waiting:
                    caller.ask(delayed=False)
                    caller.due += dice.expovariate(RATE)
            due = min((caller.due for caller in callers if not caller.waiting), default=end)
            for descriptor, _ in poll.poll(max(0.0, min(due, now + 0.05) - time.clock_gettime(time.CLOCK_REALTIME))):
                caller = by_descriptor[descriptor]
                waits.append(caller.answer())
                # A request that was due meanwhile has waited for the answer before as well.
                if caller.due <= time.clock_gettime(time.CLOCK_REALTIME) and caller.due < end:
                    caller.ask(delayed=True)
                    caller.due += dice.expovariate(RATE)
            now = time.clock_gettime(time.CLOCK_REALTIME)
            if now > end + _PATIENCE:
                raise BenchFailed("a caller within its share was not answered")
    finally:
        gc.enable()
        poll.close()
    return Waits(waits)
