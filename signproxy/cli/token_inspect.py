"""Print what a token holds and which check it would fail; its signature is never printed."""

from __future__ import annotations

import argparse
import time

from signproxy.cli import configuration
from signproxy.cli.terminal import read_token, say, say_json
from signproxy.identity.inspect import CheckOutcome, Inspection, inspect_token
from signproxy.identity.tokens import MAX_TOKEN
from signproxy.server.process.issuers import issuers_of, static_tokens_of

ACCEPTABLE = 0
REFUSED = 3

_WORDS = {CheckOutcome.PASSED: "ok", CheckOutcome.FAILED: "FAILED", CheckOutcome.NOT_CHECKED: "not checked"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare --file, --json and how settings are found."""
    parser.add_argument("--file", metavar="FILE", help="read the token from a file; default: stdin")
    parser.add_argument("--json", action="store_true", help="print JSON")
    configuration.arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Inspect the token offline: its signature and keys that must be fetched are left to the server."""
    # No policy is read here, so none has to be configured.
    settings = configuration.settings_of(options, {"policy.path": "unread"})
    token = read_token(options.file, MAX_TOKEN * 2)
    found = inspect_token(token, issuers_of(settings.identity), static_tokens_of(settings.identity), time.time())
    if options.json:
        say_json(_plain(found))
    else:
        _show(found)
    return ACCEPTABLE if found.reason is None else REFUSED


def _show(found: Inspection) -> None:
    for title, facts in (("header", found.header), ("claims", found.claims)):
        if facts:
            say(title)
            width = max(len(fact.name) for fact in facts)
            for fact in facts:
                say(f"  {fact.name:<{width}}  {fact.text}")
    say("checks")
    for check in found.checks:
        say(f"  {_WORDS[check.outcome]:<11}  {check.check}: {check.text}".rstrip(": "))
    say(f"issuer     {found.issuer or 'none of the settings'}")
    if found.reason is None:
        say(f"principal  {found.principal}")
    else:
        say(f"refused    {found.reason.code}: {found.reason.value.remedy}")


def _plain(found: Inspection) -> dict[str, object]:
    return {
        "header": {fact.name: fact.text for fact in found.header},
        "claims": {fact.name: fact.text for fact in found.claims},
        "issuer": found.issuer,
        "principal": found.principal,
        "checks": [
            {"check": check.check, "outcome": check.outcome.value, "fact": check.text} for check in found.checks
        ],
        "reason": None if found.reason is None else found.reason.code,
    }
