"""Show a cluster's keys to clients that show a token, over TLS, as an API server does. Run as a script."""

from __future__ import annotations

import ssl
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

PATH = "/openid/v1/jwks"


def serve(address: str, certificate: str, keys: Path, token: Path) -> None:
    """Serve until the process ends."""

    class Keys(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer 403 to anonymous callers, as a cluster does by default."""
            shown = self.headers["Authorization"] == f"Bearer {token.read_text().strip()}"
            body = keys.read_bytes() if shown else b"{}"
            self.send_response(200 if shown and self.path == PATH else 403)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = HTTPServer((address, 443), Keys)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
