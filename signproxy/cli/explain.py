"""Say why a request is allowed or denied, by the function that serves requests."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from signproxy.cli import configuration, question
from signproxy.cli.terminal import say, say_json
from signproxy.errors import Check, Finding, Invalid

if TYPE_CHECKING:
    from signproxy.gate.explain import Explanation


ALLOWED = 0
DENIED = 3

_MARKS = {"passed": "\u2713", "failed": "\u2717", "skipped": "\u2013"}
_PLAIN_MARKS = {"passed": "ok", "failed": "NO", "skipped": "--"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the request, or the event of the past."""
    configuration.arguments(parser)
    question.arguments(parser)
    past = parser.add_argument_group("a request of the past")
    past.add_argument("--event", metavar="ID", help="an event id or request id of the audit trail")
    past.add_argument("--audit", metavar="FILE", help="the audit file that holds it")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.epilog = "Exit code: 0 allowed, 3 denied, 1 invalid input."


def run(options: argparse.Namespace) -> int:
    """Explain; the exit code says what was decided."""
    if (options.event is None) is not (options.audit is None):
        raise Invalid([Finding("command line", "", "--event and --audit go together")])
    if options.event is None:
        result = _judged(options)
    else:
        from signproxy.cli.recorded import find_event, recorded_result

        result = recorded_result(find_event(options.event, Path(options.audit)))
    return show_json(result) if options.json else show(result)


def _judged(options: argparse.Namespace) -> Explanation:
    asked = question.question_of(options)
    settings = configuration.settings_of(options)
    from signproxy.gate.explain import explain
    from signproxy.gate.gate import Gate
    from signproxy.gate.request import AskedFor, CatalogAddress
    from signproxy.model import Subject
    from signproxy.policy.resolver import PolicyResolver
    from signproxy.server.process.build import policy_source

    state = policy_source(settings).load(0)
    gate = Gate(lambda: state, PolicyResolver(), settings.accepted_unsafe, settings.accepted_unhashed)
    subject = Subject.of(question.principal_of(asked, settings))
    if asked.forwarded:
        return asyncio.run(explain(gate, subject, AskedFor(forward=question.forwarded_of(asked))))
    address = CatalogAddress(asked.catalog, asked.prefix)
    wire = question.wire_of(asked, state)
    return asyncio.run(explain(gate, subject, AskedFor(address, asked.target, wire)))


if TYPE_CHECKING:
    from signproxy.gate.explain import Explanation


def show(result: Explanation) -> int:
    """Print for people; return the exit code."""
    marks = _MARKS if _can_print("".join(_MARKS.values())) else _PLAIN_MARKS
    width = max(len(check.name) for check in Check)
    for check, outcome, fact in result.checks:
        say(f"{marks[outcome]} {check.name.lower():<{width}}  {fact}".rstrip())
    say()
    answer = result.reason.value
    say(f"{result.decision}: {answer.code}" + (f" (HTTP {answer.status})" if result.decision == "deny" else ""))
    for label, text in (
        ("meaning", answer.meaning),
        ("rule", result.rule_id),
        ("detail", result.detail),
        ("the caller is told", answer.message if result.decision == "deny" else ""),
        ("fix", result.fix),
    ):
        if text:
            say(f"  {label}: {text}")
    return _code(result)


def show_json(result: Explanation) -> int:
    """Print for programs; return the exit code."""
    answer = result.reason.value
    say_json(
        {
            "decision": result.decision,
            "reason": answer.code,
            "http_status": answer.status,
            "rule_id": result.rule_id,
            "detail": result.detail,
            "fix": result.fix,
            "checks": [
                {"check": check.name.lower(), "outcome": outcome, "fact": fact}
                for check, outcome, fact in result.checks
            ],
        }
    )
    return _code(result)


def _code(result: Explanation) -> int:
    return ALLOWED if result.decision == "allow" else DENIED


def _can_print(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
