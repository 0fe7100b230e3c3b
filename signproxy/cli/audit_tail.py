"""Print the newest events of all processes that share a directory, one in a line, and those that come."""

from __future__ import annotations

import argparse
import sys
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path

from signproxy.audit.event import AuditEvent
from signproxy.audit.neutralise import harmless_json
from signproxy.audit.verify import segments
from signproxy.cli.audit_files import directory_argument, event_of, lines_in, newest_first, segments_below
from signproxy.cli.terminal import say

POLL_SECONDS = 0.5

_Found = tuple[str, int, bytes, AuditEvent]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    directory_argument(parser)
    parser.add_argument("-n", "--lines", metavar="COUNT", type=_count, default=10, help="how many events (default: 10)")
    parser.add_argument("-f", "--follow", action="store_true", help="go on with those that come, until Ctrl-C")
    parser.add_argument("--json", action="store_true", help="print the lines as they are in the segment")


def run(options: argparse.Namespace) -> int:
    """Print them."""
    found = newest(segments_below(options.directory), options.lines)
    _print(found, as_json=options.json)
    if options.follow:
        _follow(options.directory, _place(found[-1]) if found else ("", 0), as_json=options.json)
    return 0


def newest(paths: Iterable[Path], count: int) -> list[_Found]:
    """Return the newest events, the oldest of them first."""
    found: list[_Found] = []
    for path in newest_first(tuple(paths)):
        last = deque(_events(path), maxlen=count)
        kept = sorted(found, key=_place, reverse=True)[:count]
        if count == len(kept) and (not last or _place(last[-1]) < _place(kept[-1])):
            # All that is in it is older, and so is all that was written before it.
            break
        found = [*kept, *last]
    return sorted(found, key=_place)[-count:] if count else []


def line_for(event: AuditEvent) -> str:
    """Return an event in one line, with the fields that a reader searches by."""
    place = ".".join(filter(None, (event.catalog, event.namespace, event.table or event.volume)))
    target = f"{event.bucket}/{event.key}" if event.bucket else ""
    words = (
        event.ts,
        event.decision.value,
        event.reason,
        str(event.http_status),
        event.kind.value,
        event.s3_op or event.call or event.method,
        event.principal,
        place,
        target,
        f"x{event.count}" if event.count > 1 else "",
        event.event_id,
    )
    return "  ".join(word for word in words if word)


def _follow(directory: Path, printed: tuple[str, int], *, as_json: bool) -> None:
    seen: dict[str, int] = {}
    sizes: dict[Path, int] = {}
    while True:
        fresh: list[_Found] = []
        for path in segments(directory):
            try:
                size = path.stat(follow_symlinks=False).st_size
            except FileNotFoundError:
                continue
            if sizes.get(path) == size:
                continue
            sizes[path] = size
            fresh += [each for each in _events(path) if each[3].seq > seen.get(each[3].boot_id, 0)]
        for *_, event in fresh:
            seen[event.boot_id] = max(event.seq, seen.get(event.boot_id, 0))
        # At first all of them are fresh, and most of them older than what was asked for.
        _print([each for each in sorted(fresh, key=_place) if _place(each) > printed], as_json=as_json)
        printed = ("", 0)
        time.sleep(POLL_SECONDS)


def _events(path: Path) -> Iterable[_Found]:
    for line in lines_in(path):
        event = event_of(line)
        if event is not None:
            yield event.ts, event.seq, line, event


def _place(found: _Found) -> tuple[str, int]:
    return found[:2]


def _print(found: Iterable[_Found], *, as_json: bool) -> None:
    for *_, line, event in found:
        if as_json:
            sys.stdout.write(harmless_json(line).decode())
        else:
            say(line_for(event))
    sys.stdout.flush()


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) > 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of events")
    return int(text)
