"""Explain a request check by check, by sending it through the gate that serves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from signproxy.audit.event import Kind
from signproxy.audit.ids import new_event_id
from signproxy.errors import Check, Reason, Refused
from signproxy.gate.forwarded import BucketsShown
from signproxy.gate.gate import CatalogAddress, Gate
from signproxy.gate.passage import Passage
from signproxy.model import Allow, NamedTable, Subject, Target
from signproxy.policy.explain import suggest
from signproxy.s3.forwarded import ForwardWire
from signproxy.s3.request import S3Request, WireRequest

Outcome = Literal["passed", "failed", "skipped"]

# What comes before the gate and after it is the server's, and is not run here.
_OUTSIDE = frozenset(
    {Check.ROUTE, Check.LIMIT, Check.TOKEN, Check.MESSAGE, Check.CREDENTIALS, Check.STORE, Check.AUDIT}
)


class Explanation(NamedTuple):
    """Every check in its order, the decision, what decided and one thing to do about it."""

    checks: tuple[tuple[Check, Outcome, str], ...]
    decision: Literal["allow", "deny"]
    reason: Reason
    rule_id: str = ""
    detail: str = ""
    fix: str = ""


async def explain(
    gate: Gate, subject: Subject, address: CatalogAddress, target: Target, wire: WireRequest, bearer: str = ""
) -> Explanation:
    """Return why the gate allows or refuses; the checks ran in the order of `Check`, so those before passed.

    `bearer` is the caller's token, where an upstream may have to be asked in its name.
    """
    passage = Passage(Kind.SIGN, new_event_id(), "", "", "", gate.state)
    passage.subject, passage.bearer = subject, bearer
    try:
        allow = await gate.judge(passage, subject, address, target, wire)
    except Refused as refused:
        reason, detail = refused.reason, refused.detail
        return Explanation(
            tuple(_checks(passage, reason, detail)), "deny", reason, detail=detail, fix=_fix(gate, passage, reason)
        )
    return Explanation(
        tuple(_checks(passage, Reason.ALLOWED, "")), "allow", Reason.ALLOWED, rule_id=allow.authority.rule_id
    )


async def explain_forwarded(gate: Gate, subject: Subject, wire: ForwardWire) -> Explanation:
    """Return why the gate would let a request to the S3 listener pass, or not."""
    passage = Passage(Kind.FORWARD, new_event_id(), "", "", "", gate.state)
    passage.subject = subject
    try:
        passed = await gate.judge_forwarded(passage, subject, wire)
    except Refused as refused:
        reason, detail = refused.reason, refused.detail
        return Explanation(
            tuple(_checks(passage, reason, detail)), "deny", reason, detail=detail, fix=_fix(gate, passage, reason)
        )
    checks = tuple(_checks(passage, Reason.ALLOWED, ""))
    if isinstance(passed, BucketsShown):
        names = [*passed.names, *(f"those of clients in storage {storage.name!r}" for storage in passed.unlisted)]
        return Explanation(checks, "allow", Reason.ALLOWED, detail=f"shown: {', '.join(names) or 'none'}")
    detail = ""
    if passed.observed is not None:
        detail = f"only observed; would be refused: {passed.observed.reason.code}: {passed.observed.detail}"
    elif passed.refused:
        first = passed.refused[0]
        detail = f"{len(passed.refused)} keys are refused, the first {first.key!r}: {first.reason.code}"
    return Explanation(checks, "allow", Reason.ALLOWED, rule_id=passed.allow.authority.rule_id, detail=detail)


def _checks(passage: Passage, reason: Reason, detail: str) -> list[tuple[Check, Outcome, str]]:
    checks: list[tuple[Check, Outcome, str]] = []
    for check in Check:
        if check in _OUTSIDE:
            continue
        if reason is Reason.ALLOWED or check < reason.check:
            checks.append((check, "passed", _fact(check, passage)))
        elif check is reason.check:
            checks.append((check, "failed", detail or reason.value.meaning))
        else:
            checks.append((check, "skipped", ""))
    return checks


def _fact(check: Check, passage: Passage) -> str:
    """Say what a check that passed found out."""
    if check is Check.CATALOG:
        return f"catalog {passage.catalog}, remote signing on"
    tell = _FACTS.get(check)
    request = passage.request
    if tell is not None and request is not None:
        return tell(request)
    allow = passage.allow
    if allow is not None and check in (Check.TABLE, Check.PRIVILEGE):
        return _place(allow) if check is Check.TABLE else allow.authority.rule_id
    if check is Check.TABLE and isinstance(passage.target, NamedTable):
        return f"table {passage.target.name} of the path"
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


def _fix(gate: Gate, passage: Passage, reason: Reason) -> str:
    catalog = gate.state.catalogs.get(passage.catalog)
    if catalog is not None and passage.subject is not None and passage.deny is not None:
        fix = suggest(gate.state, catalog, passage.subject, passage.deny, passage.request)
        if fix:
            return fix
    return reason.value.remedy
