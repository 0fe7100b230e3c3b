"""Work with the policy as a whole: export what it grants, and show what a patch would take away."""

from __future__ import annotations

import argparse

from signproxy.cli import policy_export, policy_patch


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the commands below `policy`."""
    below = parser.add_subparsers(metavar="WHAT", required=True)
    export = below.add_parser("export", help="print tables, principals and their grants as NDJSON", allow_abbrev=False)
    policy_export.arguments(export)
    export.set_defaults(what=policy_export.run)
    patch = below.add_parser("patch", help="show or write the policy without what a patch takes", allow_abbrev=False)
    policy_patch.arguments(patch)
    patch.set_defaults(what=policy_patch.run)


def run(options: argparse.Namespace) -> int:
    """Run the chosen one."""
    code: int = options.what(options)
    return code
