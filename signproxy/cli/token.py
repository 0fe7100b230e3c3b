"""Look at bearer tokens: what a JWT holds and why it would be refused; opaque tokens and their digests."""

from __future__ import annotations

import argparse

from signproxy.cli import token_hash, token_inspect


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the two commands below `token`."""
    below = parser.add_subparsers(metavar="WHAT", required=True)
    inspect = below.add_parser("inspect", help="print a JWT's claims and each check of it", allow_abbrev=False)
    token_inspect.arguments(inspect)
    inspect.set_defaults(what=token_inspect.run)
    digest = below.add_parser("hash", help="print what the settings hold of an opaque token", allow_abbrev=False)
    token_hash.arguments(digest)
    digest.set_defaults(what=token_hash.run)


def run(options: argparse.Namespace) -> int:
    """Run the chosen one."""
    code: int = options.what(options)
    return code
