"""Ask a running server once whether it is well, for images without curl."""

from __future__ import annotations

import argparse
import os

from signproxy.cli import probe
from signproxy.cli.terminal import complain, say

WELL = 0
FAILING = 1

TIMEOUT = 5.0
"""Seconds; the server itself answers within one, whatever its workers do."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    probe.arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Print what fails; the exit code is the answer."""
    answer = probe.ask(probe.address_of(options, os.environ), probe.path_of(options), TIMEOUT)
    if answer.good:
        for line in answer.lines:
            say(line)
        return WELL
    for line in answer.lines or ("not well",):
        complain(line)
    return FAILING
