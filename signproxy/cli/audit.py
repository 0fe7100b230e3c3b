"""Look at the audit trail's segments: prove that nothing is missing, show what they hold, seal what was left open."""

from __future__ import annotations

import argparse

from signproxy.cli import audit_seal, audit_show, audit_tail, audit_verify


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the commands below `audit`."""
    below = parser.add_subparsers(metavar="WHAT", required=True)
    for name, command, summary in (
        ("verify", audit_verify, "prove that nothing is missing or altered, and exit 0 or 5"),
        ("tail", audit_tail, "print the newest events, and those that come"),
        ("show", audit_show, "print an event by its id"),
        ("seal", audit_seal, "seal what processes that are no more left open"),
    ):
        parsed = below.add_parser(
            name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.", allow_abbrev=False
        )
        command.arguments(parsed)
        parsed.set_defaults(what=command.run)


def run(options: argparse.Namespace) -> int:
    """Run the chosen one."""
    code: int = options.what(options)
    return code
