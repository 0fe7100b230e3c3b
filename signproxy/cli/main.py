"""Find the command, run it, and turn what an operator got wrong into a message and an exit code."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Protocol, cast

from signproxy import __version__
from signproxy.cli.terminal import complain, prepare_streams
from signproxy.errors import Invalid

INVALID = 1
"""What an operator wrote cannot be used."""

INTERRUPTED = 130
"""What a shell reports for Ctrl-C."""

COMMANDS = {
    "serve": ("signproxy.cli.serve", "serve until SIGTERM"),
    "check-config": ("signproxy.cli.check_config", "check settings and policy as a start would, and exit"),
    "print-config": ("signproxy.cli.print_config", "print every setting and where it was said, secrets masked"),
    "client-config": ("signproxy.cli.client_config", "print the configuration of a client, ready to be used"),
    "policy": ("signproxy.cli.policy", "export what the policy grants, or show what a patch would take from it"),
    "inventory": ("signproxy.cli.inventory", "list the tables of an upstream catalog, and where they lie"),
    "explain": ("signproxy.cli.explain", "say why a request is allowed or denied, check by check"),
    "audit": ("signproxy.cli.audit", "verify, show and seal the segments of the audit trail"),
    "healthcheck": ("signproxy.cli.healthcheck", "ask a running server whether it is well, and exit 0 or 1"),
    "wait": ("signproxy.cli.wait", "wait until a server is ready"),
    "token": ("signproxy.cli.token", "inspect a bearer token, or make an opaque one"),
    "keys": ("signproxy.cli.keys", "issue S3 keys for the S3 listener, to clients that cannot sign remotely"),
    "pipeline": ("signproxy.cli.pipeline", "answer questions from audit segments and stores' logs, with PySpark"),
    "demo": ("signproxy.demo.command", "run store, policy and server together, to try them"),
    "version": ("signproxy.cli.version", "print the version"),
}


class Command(Protocol):
    """What the module of a command offers."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's own options."""

    def run(self, options: argparse.Namespace) -> int:
        """Do it; return the exit code."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code: 0 done, 1 invalid input, 2 wrong usage, or a command's own."""
    prepare_streams()
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        options = _parser(words).parse_args(words)
        code = cast("Command", options.command).run(options)
        # Here, so that a reader who left is noticed before Python itself complains.
        sys.stdout.flush()
    except SystemExit as end:
        # argparse ends the process itself for --help and for wrong usage.
        return end.code if isinstance(end.code, int) else 0
    except Invalid as invalid:
        for finding in invalid.findings:
            complain(str(finding))
        return INVALID
    except BrokenPipeError:
        # `signproxy explain … | head`: the reader has seen enough. At its end Python would flush once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return INVALID
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="signproxy",
        description="Sign S3 requests of Iceberg clients, so that no engine holds S3 keys.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"signproxy {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    chosen = next((word for word in words if word in COMMANDS), None)
    for name, (module, summary) in COMMANDS.items():
        below = commands.add_parser(
            name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.", allow_abbrev=False
        )
        if name == chosen:
            command = cast("Command", importlib.import_module(module))
            command.arguments(below)
            below.set_defaults(command=command)
    return parser
