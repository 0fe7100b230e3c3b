"""Serve: routes, limits, the wire form of answers and errors. Wiring only, no rules."""

from __future__ import annotations

from signproxy.config.settings import Settings


def serve(settings: Settings) -> int:
    """Serve until SIGTERM; return the exit code."""
    from signproxy.server.serve import run  # noqa: PLC0415 - whoever imports a part does not start a server

    return run(settings)
