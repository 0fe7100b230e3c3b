"""Seal what processes that are no more left open, as the next start would."""

from __future__ import annotations

import argparse

from signproxy.audit.salvage import seal_orphans
from signproxy.cli.audit_files import directory_argument, segments_below
from signproxy.cli.terminal import say

SEALED = 0


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    directory_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Seal them; those of processes that live stay open."""
    segments_below(options.directory)
    salvaged = seal_orphans(options.directory)
    for each in salvaged:
        say(f"sealed {each.path.name}: {each.events} events")
    if not salvaged:
        say("nothing was left open by a process that is no more")
    return SEALED
