"""Explain a request check by check, by sending it through the gate that serves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple

from signproxy.audit.event import Kind
from signproxy.audit.ids import new_event_id
from signproxy.errors import Check, Reason, Refused
from signproxy.gate.forwarded import BucketsShown
from signproxy.gate.gate import Gate
from signproxy.gate.judgement import Judged, Judgement, PolicyLook
from signproxy.gate.limits import Lease, Places
from signproxy.gate.order import Order
from signproxy.gate.outcome import Outcome
from signproxy.gate.request import AskedFor, Request, arrived
from signproxy.model import Allow, NamedTable, Subject
from signproxy.policy.explain import suggest
from signproxy.s3.request import S3Request

CheckResult = Literal["passed", "failed", "skipped"]

# What comes before the gate and after it is the server's, and is not run here.
_OUTSIDE = frozenset(
    {Check.ROUTE, Check.LIMIT, Check.TOKEN, Check.MESSAGE, Check.CREDENTIALS, Check.STORE, Check.AUDIT}
)


class Explanation(NamedTuple):
    """Every check in its order, the decision, what decided and one thing to do about it."""

    checks: tuple[tuple[Check, CheckResult, str], ...]
    decision: Literal["allow", "deny"]
    reason: Reason
    rule_id: str = ""
    detail: str = ""
    fix: str = ""


async def explain(gate: Gate, subject: Subject, asked: AskedFor) -> Explanation:
    """Return why the gate allows or refuses to sign or to forward, in the order in which requests are served.

    The checks ran in the order of `Check`, so those before the one that failed passed.
    """
    kind = Kind.SIGN if asked.forward is None else Kind.FORWARD
    way = _ToExplain(gate, subject, asked, arrived(kind, new_event_id(), gate.state))
    return await Order(_Unrecorded(), _Unlimited()).take(way)


class _Unlimited:
    """Admits everything: what callers use up is the server's to count."""

    waiting = Places("questions", 1, 1)

    def admit(self, _principal: str, _now: int) -> None:
        return None


class _Unrecorded:
    """Records nothing: to explain a request is not to serve it."""

    def reserve(self, _request: Request, _judgement: Judgement, _lease: Lease) -> None:
        return

    def served(self, _request: Request, _judgement: Judgement, _outcome: Outcome, _lease: Lease) -> None:
        return

    def refused(
        self, _request: Request, _judgement: Judgement, _refused: Refused, _outcome: Outcome | None, _lease: Lease
    ) -> None:
        return


class _ToExplain:
    """The way of a request that is explained: it ends in an explanation instead of an answer."""

    acts = False
    ends = Outcome
    look: PolicyLook | None = None

    def __init__(self, gate: Gate, subject: Subject, asked: AskedFor, request: Request) -> None:
        self.request = request
        self.lease = Lease()
        self._gate = gate
        self._subject = subject
        self.asked = asked
        self._judge = gate.judge if asked.forward is None else gate.forward.judge

    def identify(self) -> Subject:
        return self._subject

    def ask(self, _subject: Subject | None) -> AskedFor:
        return self.asked

    def judge(self, _subject: Subject | None, asked: AskedFor) -> Judged | Awaitable[Judged]:
        return self._judge(self._subject, asked)

    def serve(self, judgement: Judgement, _outcome: Outcome) -> Explanation:
        """Say why it is allowed."""
        checks = tuple(_checks(judgement, Reason.ALLOWED, ""))
        passed, detail = judgement.passed, ""
        if isinstance(passed, BucketsShown):
            names = [*passed.names, *(f"those of clients in storage {storage.name!r}" for storage in passed.unlisted)]
            return Explanation(checks, "allow", Reason.ALLOWED, detail=f"shown: {', '.join(names) or 'none'}")
        if passed is not None and passed.observed is not None:
            detail = f"only observed; would be refused: {passed.observed.reason.code}: {passed.observed.detail}"
        elif passed is not None and passed.refused:
            first = passed.refused[0]
            detail = f"{len(passed.refused)} keys are refused, the first {first.key!r}: {first.reason.code}"
        rule_id = "" if judgement.allow is None else judgement.allow.authority.rule_id
        return Explanation(checks, "allow", Reason.ALLOWED, rule_id=rule_id, detail=detail)

    def instead(self, _judgement: Judgement, _outcome: Outcome) -> None:
        return

    def fault(self, error: Exception) -> Refused:
        raise error

    def refuse(self, refused: Refused, judgement: Judgement) -> Explanation:
        checks = tuple(_checks(judgement, refused.reason, refused.detail))
        fix = _fix(self._gate, judgement, refused.reason)
        return Explanation(checks, "deny", refused.reason, detail=refused.detail, fix=fix)


def _checks(judgement: Judgement, reason: Reason, detail: str) -> list[tuple[Check, CheckResult, str]]:
    checks: list[tuple[Check, CheckResult, str]] = []
    for check in Check:
        if check in _OUTSIDE:
            continue
        if reason is Reason.ALLOWED or check < reason.check:
            checks.append((check, "passed", _fact(check, judgement)))
        elif check is reason.check:
            checks.append((check, "failed", detail or reason.value.meaning))
        else:
            checks.append((check, "skipped", ""))
    return checks


def _fact(check: Check, judgement: Judgement) -> str:
    """Say what a check that passed found out."""
    if check is Check.CATALOG:
        return f"catalog {judgement.catalog}, remote signing on"
    tell = _FACTS.get(check)
    request = judgement.request
    if tell is not None and request is not None:
        return tell(request)
    allow = judgement.allow
    if allow is not None and check in (Check.TABLE, Check.PRIVILEGE):
        return _place(allow) if check is Check.TABLE else allow.authority.rule_id
    if check is Check.TABLE and isinstance(judgement.asked.target, NamedTable):
        return f"table {judgement.asked.target.name} of the path"
    if check is Check.STORAGE and allow is not None and allow.unsafe_storage:
        return "takes unsigned headers; accepted by name in the settings"
    return ""


def _place(allow: Allow) -> str:
    if allow.table is not None:
        return f"table {allow.table}"
    return "none; it is about the bucket" if allow.volume is None else f"volume {allow.volume}"


def _addressed(request: S3Request) -> str:
    if request.delete_keys:
        return f"{len(request.delete_keys)} keys, the first {request.delete_keys[0]!r}"
    return f"prefix {request.prefix!r}" if request.prefix else f"key {request.key!r}"


_FACTS: dict[Check, Callable[[S3Request], str]] = {
    Check.ENDPOINT: lambda request: f"storage {request.storage.name}, bucket {request.bucket}",
    Check.URI: _addressed,
    Check.OPERATION: lambda request: request.operation.s3_name,
    Check.HEADERS: lambda request: (
        "signed: " + (", ".join(name for name, _ in request.headers) or "none of the client's")
    ),
    Check.BODY: lambda request: f"payload {request.payload}",
}


def _fix(gate: Gate, judgement: Judgement, reason: Reason) -> str:
    catalog = gate.state.catalogs.get(judgement.catalog)
    if catalog is not None and judgement.subject is not None and judgement.deny is not None:
        fix = suggest(gate.state, catalog, judgement.subject, judgement.deny, judgement.request)
        if fix:
            return fix
    return reason.value.remedy
