"""Serve until SIGTERM."""

from __future__ import annotations

import argparse

from signproxy.cli import configuration
from signproxy.config.settings import LogLevel, Loop
from signproxy.errors import Finding, SettingsInvalid


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the settings that are most often changed; --set reaches all others."""
    configuration.arguments(parser)
    parser.add_argument("--listen", metavar="HOST:PORT", help="where clients reach signproxy: listen.host, listen.port")
    parser.add_argument("--admin", metavar="HOST:PORT", help="health and metrics: admin.host, admin.port")
    parser.add_argument("--allow-remote", action="store_true", help="allow both to be beyond loopback")
    parser.add_argument("--public-url", metavar="URL", help="the URL that clients are told: public_url")
    parser.add_argument("--loop", choices=[loop.value for loop in Loop], help="event loop: loop")
    parser.add_argument("--log-level", choices=[level.value for level in LogLevel], help="log.level")


def run(options: argparse.Namespace) -> int:
    """Read the settings and serve."""
    settings = configuration.settings_of(options, _overrides(options))
    # Imported last: wrong settings are told at once.
    from signproxy.server import serve

    return serve(settings)


def _overrides(options: argparse.Namespace) -> dict[str, str]:
    overrides: dict[str, str] = {}
    for section in ("listen", "admin"):
        address = getattr(options, section)
        if address is not None:
            host, colon, port = address.rpartition(":")
            if not colon:
                raise SettingsInvalid([Finding("command line", f"--{section}", f"HOST:PORT expected, got {address!r}")])
            overrides[f"{section}.host"] = host.strip("[]")
            overrides[f"{section}.port"] = port
        if options.allow_remote:
            overrides[f"{section}.allow_remote"] = "true"
    named = {
        "public_url": options.public_url,
        "loop": options.loop,
        "log.level": options.log_level,
    }
    return overrides | {key: value for key, value in named.items() if value is not None}
