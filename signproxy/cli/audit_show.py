"""Print an event, field by field, and what its reason means."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import msgspec

from signproxy.audit.event import AuditEvent
from signproxy.cli.audit_files import directory_argument, event_of, lines_in, newest_first, segments_below
from signproxy.cli.terminal import say, say_json
from signproxy.errors import Finding, Invalid, Reason

_REASONS = {reason.code: reason.value for reason in Reason}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("event", metavar="ID", help="an event's id, as in `x-signproxy-id`, or the id of a request")
    directory_argument(parser)
    parser.add_argument("--json", action="store_true", help="print the events as JSON")


def run(options: argparse.Namespace) -> int:
    """Print every event with the id: a request has one, and its id may be used twice."""
    found = find(options.event, segments_below(options.directory))
    if not found:
        raise Invalid([Finding(str(options.directory), "", f"has no event with the id {options.event!r}")])
    if options.json:
        say_json([{"segment": path.name, **msgspec.to_builtins(event)} for path, event in found])
        return 0
    for number, (path, event) in enumerate(found):
        if number:
            say()
        _print(path, event)
    return 0


def find(event_id: str, paths: tuple[Path, ...]) -> list[tuple[Path, AuditEvent]]:
    """Return the events with an id, with their segments; raise Invalid for a segment that cannot be read."""
    # As the line has it: the client that chose a request's id may have put anything into it.
    wanted = json.dumps(event_id)[1:-1].encode()
    found = []
    for path in newest_first(paths):
        for line in lines_in(path):
            if wanted in line or event_id.encode(errors="replace") in line:
                event = event_of(line)
                if event is not None and event_id in (event.event_id, event.request_id):
                    found.append((path, event))
        if found and found[-1][1].event_id == event_id:
            # There is no second one.
            break
    return found


def _print(path: Path, event: AuditEvent) -> None:
    fields = msgspec.to_builtins(event)
    width = max(map(len, fields))
    for name, value in fields.items():
        shown = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        say(f"{name:<{width}}  {shown}")
    say(f"{'segment':<{width}}  {path.name}")
    if (reason := _REASONS.get(event.reason)) is not None:
        say(f"{'means':<{width}}  {reason.meaning}")
        if reason.remedy:
            say(f"{'remedy':<{width}}  {reason.remedy}")
