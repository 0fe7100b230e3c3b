"""Print the version of signproxy and of what it stands on."""

from __future__ import annotations

import argparse
import platform

from signproxy import __version__
from signproxy.cli.terminal import say


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare no options."""


def run(_options: argparse.Namespace) -> int:
    """Print it."""
    say(f"signproxy {__version__} (Python {platform.python_version()})")
    return 0
