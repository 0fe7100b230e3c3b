"""Make the blocking HTTP connections of commands, with nothing but the standard library: a command starts for each."""

from __future__ import annotations

import http.client

from signproxy.outbound.tls import client_tls

HTTPException = http.client.HTTPException
"""What a connection raises, beside OSError, for an answer that is not HTTP."""


def http_connection(
    scheme: str, host: str, port: int | None, *, timeout: float, ca_file: str = ""
) -> http.client.HTTPConnection:
    """Return a connection that is opened by its first request. It asks no proxy and follows no redirect.

    `timeout` is in seconds, for each wait.
    """
    if scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=timeout)
    return http.client.HTTPSConnection(host, port, timeout=timeout, context=client_tls(ca_file))
