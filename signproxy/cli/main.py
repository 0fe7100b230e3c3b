"""Find the command, run it, and turn what an operator got wrong into a message and an exit code.

The module of a command has `arguments`, which declares its options, and `run`, which returns the exit code.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Mapping, Sequence

from signproxy import __version__
from signproxy.cli.terminal import complain, prepare_streams
from signproxy.errors import Invalid

INVALID = 1
"""What an operator wrote cannot be used."""

INTERRUPTED = 130
"""What a shell reports for Ctrl-C."""

COMMANDS = {
    "serve": ("serve", "serve until SIGTERM"),
    "check-config": ("check_config", "check settings and policy as a start would, and exit"),
    "print-config": ("print_config", "print every setting and where it was said, secrets masked"),
    "client-config": ("client_config", "print the configuration of a client, ready to be used"),
    "policy": ("", "export what the policy grants, or show what a patch would take from it"),
    "inventory": ("inventory", "list the tables of an upstream catalog, and where they lie"),
    "explain": ("explain", "say why a request is allowed or denied, check by check"),
    "audit": ("", "verify, show and seal the segments of the audit trail"),
    "healthcheck": ("healthcheck", "ask a running server whether it is well, and exit 0 or 1"),
    "wait": ("wait", "wait until a server is ready"),
    "token": ("", "inspect a bearer token, or make an opaque one"),
    "keys": ("", "issue S3 keys for the S3 listener, to clients that cannot sign remotely"),
    "pipeline": ("pipeline", "answer questions from audit segments and stores' logs, with PySpark"),
    "demo": ("demo", "run store, policy and server together, to try them"),
    "version": ("version", "print the version"),
}
"""By name: the module, which is empty where there are commands below, and what it does."""

BELOW = {
    "policy": {
        "export": ("policy_export", "print tables, principals and their grants as NDJSON"),
        "patch": ("policy_patch", "show or write the policy without what a patch takes"),
    },
    "audit": {
        "verify": ("audit_verify", "prove that nothing is missing or altered, and exit 0 or 5"),
        "tail": ("audit_tail", "print the newest events, and those that come"),
        "show": ("audit_show", "print an event by its id"),
        "seal": ("audit_seal", "seal what processes that are no more left open"),
    },
    "token": {
        "inspect": ("token_inspect", "print a JWT's claims and each check of it"),
        "hash": ("token_hash", "print what the settings hold of an opaque token"),
    },
    "keys": {"issue": ("keys_issue", "ask a running server for a key")},
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code: 0 done, 1 invalid input, 2 wrong usage, or a command's own."""
    prepare_streams()
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        options = _parser(words).parse_args(words)
        code: int = options.command.run(options)
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
    _declare(parser, "COMMAND", COMMANDS, words)
    return parser


def _declare(
    parser: argparse.ArgumentParser, metavar: str, known: Mapping[str, tuple[str, str]], words: Sequence[str]
) -> None:
    """Declare commands; only the one that is chosen is imported, and has its options declared."""
    commands = parser.add_subparsers(metavar=metavar, required=True)
    chosen = next((word for word in words if word in known), None)
    for name, (module, summary) in known.items():
        below = commands.add_parser(
            name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.", allow_abbrev=False
        )
        if name != chosen:
            continue
        if not module:
            _declare(below, "WHAT", BELOW[name], words[words.index(name) + 1 :])
            continue
        place = "signproxy.demo.command" if module == "demo" else f"signproxy.cli.{module}"
        command = importlib.import_module(place)
        command.arguments(below)
        below.set_defaults(command=command)
