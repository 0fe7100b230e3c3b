"""Receive what a store tells of its requests, and keep it as the pipeline reads it: a JSON object on each line."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PATIENCE = 60.0
"""Seconds until a store has told of what it answered; they do it within one."""
_BETWEEN = 0.3
"""Seconds that a store is given to tell of one request."""
_QUIET = 2.0
"""Seconds in which nothing came, after which nothing more does."""


class Log:
    """A file of lines that grows with each request of a store."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = ""
        self._lines: list[bytes] = []
        self._last = time.monotonic()
        self._lock = threading.Lock()

    def take(self, content: bytes) -> None:
        """Write down one entry, as it came but for line feeds."""
        line = json.dumps(json.loads(content)).encode()
        with self._lock:
            self._lines.append(line)
            self._last = time.monotonic()

    def wait_for_first(self, ask: Callable[[], object]) -> None:
        """Ask until something is told: a store that has just begun to serve may drop what it has to tell."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            ask()
            time.sleep(_BETWEEN)
            with self._lock:
                if self._lines:
                    return
        raise AssertionError(f"the store told of nothing within {PATIENCE:.0f} s")

    def seal(self, last: str) -> int:
        """Wait for the entry that names `last`, and for silence; write all that came and return how many there are."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with self._lock:
                is_there = any(last.encode() in line for line in self._lines)
                is_quiet = time.monotonic() - self._last > _QUIET
                if is_there and is_quiet:
                    self.path.write_bytes(b"".join(line + b"\n" for line in self._lines))
                    return len(self._lines)
            time.sleep(0.05)
        raise AssertionError(f"of {last} nothing was told within {PATIENCE:.0f} s, among {len(self._lines)} entries")


@contextmanager
def run_receiver(path: Path) -> Iterator[Log]:
    """Listen on loopback until the block ends."""
    log = Log(path)

    class Handler(BaseHTTPRequestHandler):
        """Takes what is posted, and says nothing of it."""

        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            """Keep one entry."""
            content = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            # versitygw and MinIO ask first whether a receiver is there, with nothing to tell.
            if content.strip():
                log.take(content)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    log.url = f"http://127.0.0.1:{server.server_address[1]}/log"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield log
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
