"""Print why a request is allowed or denied: every check in order, what decided, and one thing to do about it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Literal, Protocol

from signproxy.cli.terminal import say, say_json
from signproxy.errors import Check, Reason

Outcome = Literal["passed", "failed", "skipped"]
ALLOWED = 0
DENIED = 3

_MARKS = {"passed": "\u2713", "failed": "\u2717", "skipped": "\u2013"}
_PLAIN_MARKS = {"passed": "ok", "failed": "NO", "skipped": "--"}


class ExplainResult(Protocol):
    """What there is to print. `explain` of the gate and a recorded audit event both give it."""

    @property
    def checks(self) -> Sequence[tuple[Check, Outcome, str]]:
        """Each check in its order, what came of it, and the fact behind that."""

    @property
    def decision(self) -> Literal["allow", "deny"]:
        """What the request gets."""

    @property
    def reason(self) -> Reason:
        """The reason code of the decision."""

    @property
    def rule_id(self) -> str:
        """The rule of the policy that decided, if one did."""

    @property
    def detail(self) -> str:
        """The operator's detail of a denial."""

    @property
    def fix(self) -> str:
        """The one thing to do about a denial."""


def show(result: ExplainResult) -> int:
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


def show_json(result: ExplainResult) -> int:
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


def _code(result: ExplainResult) -> int:
    return ALLOWED if result.decision == "allow" else DENIED


def _can_print(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
