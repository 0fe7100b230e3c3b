"""Be a store with one small object under every key, which answers in one piece: counts need no fast store."""

from __future__ import annotations

import contextlib
import os
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

from bench.forward_scene import SMALL_BYTES, Store
from tests.authority import Authority


@contextlib.contextmanager
def small_store(scratch: Path) -> Iterator[Store]:
    """Serve the object in every bucket until the block ends. The bucket over TLS is never asked."""
    head = f'HTTP/1.1 200 OK\r\nContent-Length: {SMALL_BYTES}\r\nETag: "1"\r\nContent-Type: binary/octet-stream\r\n\r\n'
    answer = head.encode() + os.urandom(SMALL_BYTES)

    class Guest(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            # A server that ends leaves its connections as they are.
            with contextlib.suppress(ConnectionError):
                while self.rfile.readline():
                    while self.rfile.readline().strip():
                        pass
                    self.request.sendall(answer)

    (scratch / "ca.crt").write_text(Authority().pem)
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Guest) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        port = server.server_address[1]
        yield Store(scratch, port, port, port, scratch / "unused")
        server.shutdown()
