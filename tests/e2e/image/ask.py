"""Send one HTTP request and print the answer, both as JSON. Run as a script in a pod's network, it is its client."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import sys
from typing import Any

TIMEOUT = 10.0
"""Seconds; a server that is not there refuses at once."""


def ask(request: dict[str, Any]) -> dict[str, Any]:
    """Return status, headers and body; status 0 and the reason where there is no answer."""
    host, port, server = request["host"], request["port"], request.get("server", "")
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT)
    try:
        connection.sock = socket.create_connection((host, port), TIMEOUT)
        if server:
            context = ssl.create_default_context(cadata=request["authority"])
            connection.sock = context.wrap_socket(connection.sock, server_hostname=server)
        body = request.get("body")
        connection.request(request.get("method", "GET"), request["path"], body, request.get("headers", {}))
        answer = connection.getresponse()
        return {"status": answer.status, "headers": dict(answer.getheaders()), "body": answer.read().decode()}
    except (OSError, http.client.HTTPException) as error:
        return {"status": 0, "headers": {}, "body": f"{type(error).__name__}: {error}"}
    finally:
        connection.close()


if __name__ == "__main__":
    json.dump(ask(json.load(sys.stdin)), sys.stdout)
