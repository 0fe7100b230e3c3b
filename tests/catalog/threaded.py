"""Be a catalog in a thread of its own, for servers that run as processes."""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

CONFIG: dict[str, object] = {"defaults": {}, "overrides": {}}


class ThreadedCatalog(ABC):
    """Answers with what a test's own catalog tells."""

    def __init__(self) -> None:
        catalog = self

        class Answers(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.answer(*catalog.told("GET", self.path, self.headers.get("Authorization", "")))

            def do_DELETE(self) -> None:
                self.answer(*catalog.told("DELETE", self.path, self.headers.get("Authorization", "")))

            def answer(self, status: int, content: object) -> None:
                body = b"" if content is None else json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                if status != 204:
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Tests have logs of their own."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self._server.daemon_threads = True
        self.uri = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @abstractmethod
    def told(self, method: str, target: str, authorization: str) -> tuple[int, object]:
        """Return status and content of an answer."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the server."""
        self._server.shutdown()
        self._server.server_close()


def error(status: int, kind: str) -> tuple[int, object]:
    """Return an error as the specification has it."""
    return status, {"error": {"message": "no", "type": kind, "code": status}}
