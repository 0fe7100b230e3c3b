"""Serve until SIGTERM."""

from __future__ import annotations

import argparse

from signproxy.cli import configuration
from signproxy.config.load import SettingsSource
from signproxy.config.settings import LogLevel, Loop
from signproxy.errors import Finding, SettingsInvalid

_FLAGS = {
    "--public-url": ("public_url", "URL", "the URL that clients are told"),
    "--workers": ("workers", "N", "processes that share the port"),
    "--socket": ("listen.socket", "FILE", "a Unix socket beside the port"),
    "--tls-cert": ("listen.tls.cert_file", "FILE", "certificate and its chain (PEM)"),
    "--tls-key": ("listen.tls.key_file", "FILE", "the certificate's private key (PEM)"),
    "--drain-delay": ("drain.delay_seconds", "SECONDS", "go on answering after SIGTERM for so long"),
    "--drain-timeout": ("drain.timeout_seconds", "SECONDS", "time for requests in flight after that"),
}
"""Flags that are one setting each."""

_CHOICES = {"--loop": ("loop", "event loop", Loop), "--log-level": ("log.level", "what is logged", LogLevel)}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the settings that are most often changed; --set reaches all others."""
    configuration.arguments(parser)
    parser.add_argument("--listen", metavar="HOST:PORT", help="where clients reach signproxy: listen.host, listen.port")
    parser.add_argument("--admin", metavar="HOST:PORT", help="health and metrics: admin.host, admin.port")
    parser.add_argument("--allow-remote", action="store_true", help="allow both to be beyond loopback without TLS")
    for flag, (key, metavar, summary) in _FLAGS.items():
        parser.add_argument(flag, metavar=metavar, dest=key, help=f"{summary}: {key}")
    for flag, (key, summary, kind) in _CHOICES.items():
        parser.add_argument(flag, choices=[each.value for each in kind], dest=key, help=f"{summary}: {key}")


def run(options: argparse.Namespace) -> int:
    """Read the settings and serve."""
    source = source_of(options)
    settings = source.load()
    # Imported last: wrong settings are told at once.
    from signproxy.server import serve

    return serve(source, settings)


def source_of(options: argparse.Namespace) -> SettingsSource:
    """Return where the settings come from, these flags included; raise SettingsInvalid."""
    return configuration.source_of(options, _overrides(options))


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
    named = {key: getattr(options, key) for key, *_ in (*_FLAGS.values(), *_CHOICES.values())}
    return overrides | {key: value for key, value in named.items() if value is not None}
