"""Wait until a server is ready, for containers that start beside it in no order."""

from __future__ import annotations

import argparse
import os
import time

from signproxy.cli import probe
from signproxy.cli.terminal import complain

READY = 0
NOT_READY = 1

FIRST_PAUSE = 0.05
LAST_PAUSE = 1.0
"""Seconds between two questions: waiting takes little longer than the server does, and a slow one is not pestered."""

TIMEOUT = 5.0

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    probe.arguments(parser)
    parser.add_argument(
        "--max", metavar="TIME", type=seconds, default=30.0, help="give up after this long, for example 30s or 2m"
    )


def run(options: argparse.Namespace) -> int:
    """Return as soon as the answer is good, or when time is up."""
    address, path = probe.address_of(options, os.environ), probe.path_of(options)
    end = time.monotonic() + options.max
    pause = FIRST_PAUSE
    while True:
        left = end - time.monotonic()
        answer = probe.ask(address, path, max(min(TIMEOUT, left), FIRST_PAUSE))
        if answer.good:
            return READY
        left = end - time.monotonic()
        if left <= 0:
            for line in answer.lines:
                complain(line)
            complain(f"not {options.check} after {options.max:g} s")
            return NOT_READY
        time.sleep(min(pause, left))
        pause = min(2 * pause, LAST_PAUSE)


def seconds(text: str) -> float:
    """Return the seconds of `30s`, `2m`, `500ms` or `30`."""
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    try:
        length = float(number) * _UNITS[text[len(number) :]]
    except (KeyError, ValueError):
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 30s, 2m or 500ms") from None
    if not 0 <= length <= 24 * 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not within a day")
    return length
