"""Issue S3 keys that are good at signproxy's own S3 listener, and nowhere else."""

from __future__ import annotations

import argparse

from signproxy.cli import keys_issue


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command below `keys`."""
    below = parser.add_subparsers(metavar="WHAT", required=True)
    issue = below.add_parser("issue", help="ask a running server for a key", allow_abbrev=False)
    keys_issue.arguments(issue)
    issue.set_defaults(what=keys_issue.run)


def run(options: argparse.Namespace) -> int:
    """Run it."""
    code: int = options.what(options)
    return code
