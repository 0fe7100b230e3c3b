"""Say why a request is allowed or denied, by the function that serves requests."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from signproxy.cli import configuration, question
from signproxy.cli.explanation import ExplainResult, show, show_json
from signproxy.errors import Finding, Invalid


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
    result = _judged(options) if options.event is None else _recorded(options)
    return show_json(result) if options.json else show(result)


def _judged(options: argparse.Namespace) -> ExplainResult:
    asked = question.question_of(options)
    settings = configuration.settings_of(options)
    from signproxy.gate.explain import explain, explain_forwarded
    from signproxy.gate.gate import CatalogAddress, Gate
    from signproxy.inventory.resolver import PolicyResolver
    from signproxy.model import Subject
    from signproxy.server.process.build import policy_source

    state = policy_source(settings).load(0)
    gate = Gate(lambda: state, PolicyResolver(), settings.accepted_unsafe, settings.accepted_unhashed)
    subject = Subject.of(question.principal_of(asked, settings))
    if asked.forwarded:
        return asyncio.run(explain_forwarded(gate, subject, question.forwarded_of(asked)))
    address = CatalogAddress(asked.catalog, asked.prefix)
    wire = question.wire_of(asked, state)
    return asyncio.run(explain(gate, subject, address, asked.target, wire))


def _recorded(options: argparse.Namespace) -> ExplainResult:
    from signproxy.cli.recorded import find_event, recorded_result

    return recorded_result(find_event(options.event, Path(options.audit)))
