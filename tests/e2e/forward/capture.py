"""Be a store on loopback that keeps what it was sent to the byte, and misbehaves as it is told."""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, cast

PATIENCE = 60.0
"""Seconds that a connection may stay silent before its thread gives up."""

_OK = b'HTTP/1.1 200 OK\r\nETag: "e"\r\nx-amz-request-id: upstream-1\r\nContent-Length: %d\r\n\r\n%s'


@dataclass(frozen=True, slots=True)
class Received:
    """A request as it came, byte for byte."""

    head: bytes
    body: bytes
    """Without the framing of HTTP chunks, with that of a payload's own."""

    @property
    def line(self) -> bytes:
        return self.head.partition(b"\r\n")[0]

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Return names in lower case and values, in their order."""
        lines = self.head.decode("latin-1").split("\r\n")[1:-2]
        return [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]


class Behaviour(Enum):
    """How the store treats a request."""

    ANSWERS = "answers"
    RESETS_BEFORE_ANSWER = "resets before its answer"
    CLOSES_BEFORE_ANSWER = "closes before its answer"
    RESETS_IN_BODY = "resets within the body"
    SHORT = "sends less than it announced"
    LONG = "sends more than it announced"
    EARLY = "answers before it has the body"
    STALLS = "stalls within the body"
    SILENT = "never answers"
    GARBLED = "answers no HTTP"
    TWO_LENGTHS = "announces two lengths"
    CLOSES_IDLE = "closes each connection after its answer"


@dataclass(slots=True)
class Capture:
    """What a store received, and what it is to do next."""

    port: int = 0
    behaviour: Behaviour = Behaviour.ANSWERS
    content: bytes = b"content"
    received: list[Received] = field(default_factory=list)
    connections: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self) -> list[Received]:
        """Return what was received since it was last asked."""
        with self.lock:
            taken, self.received = self.received, []
        return taken


class _Handler(socketserver.StreamRequestHandler):
    timeout = PATIENCE

    def handle(self) -> None:
        capture = cast("Any", self.server).capture
        with capture.lock:
            capture.connections += 1
        with suppress(ConnectionError, TimeoutError, ValueError):
            while self._one(capture):
                pass

    def _one(self, capture: Capture) -> bool:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = self.rfile.readline(1 << 20)
            if not line:
                return False
            head += line
        # It is told how to behave before the request that it is for.
        behaviour = capture.behaviour
        if behaviour is Behaviour.EARLY:
            self._keep(capture, head, b"")
            self.wfile.write(
                b"HTTP/1.1 403 Forbidden\r\nContent-Length: 38\r\n\r\n<Error><Code>AccessDenied</Code></Error>"[:-2]
            )
            time.sleep(0.2)
            return False
        self._keep(capture, head, self._body(head))
        return _ACTIONS[behaviour](self, head, capture.content)

    def _keep(self, capture: Capture, head: bytes, body: bytes) -> None:
        with capture.lock:
            capture.received.append(Received(head, body))

    def _body(self, head: bytes) -> bytes:
        names = dict(Received(head, b"").headers)
        if names.get("expect", "").lower() == "100-continue":
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if names.get("transfer-encoding", "").lower() == "chunked":
            pieces = []
            while size := int(self.rfile.readline(1024), 16):
                pieces.append(self.rfile.read(size))
                self.rfile.readline(3)
            self.rfile.readline(3)
            return b"".join(pieces)
        return self.rfile.read(int(names.get("content-length", "0")))

    def answer(self, head: bytes, content: bytes) -> bool:
        self.wfile.write(_OK % (len(content), b"" if head.startswith(b"HEAD") else content))
        return True

    def close_after(self, head: bytes, content: bytes) -> bool:
        self.answer(head, content)
        return False

    def close(self, _head: bytes, _content: bytes) -> bool:
        return False

    def reset(self, _head: bytes, _content: bytes) -> bool:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        return False

    def reset_in_body(self, head: bytes, content: bytes) -> bool:
        self.wfile.write(_OK % (len(content) + 1000, content))
        time.sleep(0.2)
        return self.reset(head, content)

    def short(self, _head: bytes, content: bytes) -> bool:
        self.wfile.write(_OK % (len(content) + 1, content))
        return False

    def long(self, _head: bytes, content: bytes) -> bool:
        self.wfile.write(_OK % (len(content), content + b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nsmuggled"))
        return True

    def stall(self, _head: bytes, content: bytes) -> bool:
        self.wfile.write(_OK % (len(content) + 1000, content))
        time.sleep(PATIENCE)
        return False

    def silent(self, _head: bytes, _content: bytes) -> bool:
        time.sleep(PATIENCE)
        return False

    def garble(self, _head: bytes, _content: bytes) -> bool:
        self.wfile.write(b"\x16\x03\x01 nothing that could be read\r\n\r\n")
        return False

    def two_lengths(self, _head: bytes, content: bytes) -> bool:
        self.wfile.write(
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: %d\r\n\r\n%s" % (len(content), content)
        )
        return True


_ACTIONS: dict[Behaviour, Callable[[_Handler, bytes, bytes], bool]] = {
    Behaviour.ANSWERS: _Handler.answer,
    Behaviour.RESETS_BEFORE_ANSWER: _Handler.reset,
    Behaviour.CLOSES_BEFORE_ANSWER: _Handler.close,
    Behaviour.RESETS_IN_BODY: _Handler.reset_in_body,
    Behaviour.SHORT: _Handler.short,
    Behaviour.LONG: _Handler.long,
    Behaviour.STALLS: _Handler.stall,
    Behaviour.SILENT: _Handler.silent,
    Behaviour.GARBLED: _Handler.garble,
    Behaviour.TWO_LENGTHS: _Handler.two_lengths,
    Behaviour.CLOSES_IDLE: _Handler.close_after,
}


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(self, capture: Capture) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.capture = capture


@contextmanager
def run_capture() -> Iterator[Capture]:
    """Run such a store until the block ends."""
    capture = Capture()
    with _Server(capture) as server:
        capture.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield capture
        finally:
            server.shutdown()
            thread.join()
