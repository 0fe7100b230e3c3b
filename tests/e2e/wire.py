"""Send HTTP requests byte for byte as they are written here, and read what comes back.

Client libraries resolve dot segments, recode escapes and add headers; here nothing does, so that the store sees
exactly what signproxy signed.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from tests.verifier import WireHttp

TIMEOUT = 30.0
"""Seconds that a store may take for an answer; the slowest one takes a tenth of a second."""

_MAX_HEAD = 256 * 1024
_NO_BODY = frozenset({204, 304})


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer; header names in lower case, of repeated ones the last."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


class BrokenAnswer(Exception):
    """The server closed the connection within an answer, or wrote what is no HTTP."""


class Wire:
    """A keep-alive connection to a port on loopback; not to be shared between threads."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None
        self._buffer = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self._buffer = None, b""

    def send(self, wire: WireHttp) -> Answer:
        """Send a request and return its answer; once more if the server had closed the idle connection."""
        content = bytes_of(wire)
        reused = self._socket is not None
        try:
            return self._exchange(content, wire.method)
        except (ConnectionError, _ClosedIdle):
            self.close()
            if not reused:
                raise
        return self._exchange(content, wire.method)

    def _exchange(self, content: bytes, method: str) -> Answer:
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), TIMEOUT)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(content)
        status, headers = self._head()
        while status == 100:
            status, headers = self._head()
        body = b"" if method == "HEAD" or status in _NO_BODY else self._body(headers)
        if headers.get("connection", "").lower() == "close":
            self.close()
        return Answer(status, headers, body)

    def _head(self) -> tuple[int, dict[str, str]]:
        while b"\r\n\r\n" not in self._buffer:
            if len(self._buffer) > _MAX_HEAD:
                raise BrokenAnswer("the head of the answer does not end")
            if not self._fill():
                raise _ClosedIdle if not self._buffer else BrokenAnswer("closed within the head")
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        parts = first.split(" ", 2)
        if len(parts) < 2 or not parts[1].isdigit():
            raise BrokenAnswer(f"status line {first!r}")
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        return int(parts[1]), headers

    def _body(self, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return self._chunked()
        if "content-length" in headers:
            return self._exactly(int(headers["content-length"]))
        while self._fill():
            pass
        body = self._buffer
        self.close()
        return body

    def _chunked(self) -> bytes:
        chunks: list[bytes] = []
        while True:
            size = int(self._line().partition(b";")[0], 16)
            if size == 0:
                while self._line():
                    pass
                return b"".join(chunks)
            chunks.append(self._exactly(size))
            self._line()

    def _line(self) -> bytes:
        while b"\r\n" not in self._buffer:
            if not self._fill():
                raise BrokenAnswer("closed within a chunked body")
        line, _, self._buffer = self._buffer.partition(b"\r\n")
        return line

    def _exactly(self, size: int) -> bytes:
        taken = bytearray(self._buffer[:size])
        self._buffer = self._buffer[size:]
        # What is long is never put together twice: a gibibyte comes in thousands of pieces.
        while len(taken) < size:
            if not self._fill():
                raise BrokenAnswer(f"{len(taken)} of {size} bytes")
            left = size - len(taken)
            taken += self._buffer[:left]
            self._buffer = self._buffer[left:]
        return bytes(taken)

    def _fill(self) -> bool:
        assert self._socket is not None
        received = self._socket.recv(256 * 1024)
        self._buffer += received
        return bool(received)


class _ClosedIdle(Exception):
    """The server closed the connection before it wrote anything."""


def bytes_of(wire: WireHttp) -> bytes:
    """Write the request; nothing is added but how long the body is, without which there is none."""
    body = wire.body or b""
    lines = [f"{wire.method} {wire.target} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in wire.headers]
    given = {name.lower(): value for name, value in wire.headers}
    if given.get("transfer-encoding") == "chunked":
        body = (b"%x\r\n%s\r\n" % (len(body), body) if body else b"") + b"0\r\n\r\n"
    elif "content-length" not in given and (body or wire.method in ("PUT", "POST")):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join((*lines, "", "")).encode() + body
