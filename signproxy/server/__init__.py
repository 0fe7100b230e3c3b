"""Serve: routes, limits, the wire form of answers and errors. Wiring only, no rules."""

from __future__ import annotations

from signproxy.config.load import SettingsSource
from signproxy.config.settings import Settings


def serve(source: SettingsSource, settings: Settings) -> int:
    """Serve until SIGTERM; return the exit code."""
    # Here and not above: importing a part starts no server, and leaves aiohttp as it is.
    from signproxy.server.process.lean import lean_imports  # noqa: PLC0415

    with lean_imports():
        from signproxy.server.process.serve import run  # noqa: PLC0415

    return run(source, settings)
