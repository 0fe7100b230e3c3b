"""Make opaque tokens, and the digests by which the settings know them."""

from __future__ import annotations

import argparse

from signproxy.cli.terminal import read_token, say, say_json
from signproxy.identity.opaque import hash_token, new_token
from signproxy.identity.tokens import MAX_TOKEN


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare --file, --new and --json."""
    parser.add_argument("--new", action="store_true", help="make a new random token of 256 bits and print both")
    parser.add_argument("--file", metavar="FILE", help="read the token from a file; default: stdin")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Print the digest, and the token itself only where it was made here."""
    token = new_token() if options.new else read_token(options.file, MAX_TOKEN * 2)
    digest = hash_token(token)
    made = {"token": token} if options.new else {}
    if options.json:
        say_json({**made, "sha256": digest})
    elif options.new:
        say(f"token   {token}")
        say(f"sha256  {digest}")
    else:
        say(digest)
    return 0
