"""Say how the server is doing: in one sentence, then what is wrong and what to do about it, then everything known.

What stands here is for people at 3 a.m. and for their scripts; alarms are made of metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import TypeVar

import msgspec

from signproxy.audit.neutralise import harmless_json, without_surrogates
from signproxy.credentials.slot import CredentialState
from signproxy.diagnosis import Diagnosis, worst_first
from signproxy.errors import Reason
from signproxy.gate.refusals import Refusal
from signproxy.server.status.readiness import ReadinessJudgement
from signproxy.server.status.report import (
    CertificateReport,
    FleetReport,
    InventoryReport,
    KeysReport,
    UpstreamReport,
    WorkerReport,
)
from signproxy.server.status.times import ago, moment
from signproxy.server.status.troubles import troubles_of

SHOWN_REFUSALS = 50

T = TypeVar("T")

_SPECS = {reason.code: reason.value for reason in Reason}


class State(Enum):
    """The answer to the only question that is asked first."""

    READY = "ready"
    READY_BUT = "ready, with problems"
    NOT_READY = "not ready"
    DRAINING = "draining"


class RefusalGroup(msgspec.Struct, frozen=True):
    """Refusals that say the same of the same caller, table and operation; `last` is the newest of them."""

    count: int
    status: int
    meaning: str
    remedy: str
    last: Refusal


class Status(msgspec.Struct, frozen=True):
    """All that `/status` shows, as a page or as JSON."""

    state: State
    verdict: str
    at: float
    started: bool
    troubles: tuple[Diagnosis, ...]
    """The worst first."""
    checks: tuple[Diagnosis, ...]
    fleet: FleetReport
    """Without metrics and refusals."""
    keys: tuple[KeysReport, ...]
    """Of each issuer the worst that any worker has."""
    credentials: tuple[CredentialState, ...]
    certificates: tuple[CertificateReport, ...]
    refusals: tuple[RefusalGroup, ...]
    upstreams: tuple[UpstreamReport, ...] = ()
    """Of each catalog what all workers together know."""


def status_of(report: FleetReport, judgement: ReadinessJudgement, now: float) -> Status:
    """Return the status."""
    # A worker that was replaced is the last to report.
    workers = sorted(report.workers, key=lambda worker: worker.worker)
    keys = worst_keys(keys for worker in workers for keys in worker.keys)
    # Of each storage and bucket, and of each listener, what ends first.
    of_workers = [each for worker in workers for each in worker.credentials]
    credentials = _least(of_workers, lambda each: (each.storage, each.bucket), _expiry)
    presented = (*report.certificates, *(each for worker in workers for each in worker.certificates))
    certificates = _least(presented, lambda each: each.listener, lambda each: (each.expires_at, 0))
    upstreams = joined_upstreams(workers)
    troubles = worst_first(troubles_of(report, judgement, keys, credentials, certificates, upstreams, now))
    state = _state(report, judgement, troubles)
    refusals = [refusal for worker in workers for refusal in worker.refusals]
    return Status(
        state=state,
        verdict=_verdict(state, report, judgement, now),
        at=now,
        started=judgement.started,
        troubles=troubles,
        checks=judgement.checks,
        fleet=msgspec.structs.replace(report, workers=tuple(map(_without_lists, workers))),
        keys=keys,
        credentials=credentials,
        certificates=certificates,
        refusals=grouped(refusals),
        upstreams=upstreams,
    )


def as_json(status: Status) -> bytes:
    """Return the status for programs, indented because people read it too."""
    document = msgspec.structs.asdict(status) | {
        "troubles": [
            {"weight": each.weight, "what": str(each), "remedy": each.remedy, "details": each.details}
            for each in status.troubles
        ],
        "checks": [
            {"name": each.where[0], "problem": each.what, "worker": each.workers[0] if each.workers else None}
            for each in status.checks
        ],
    }
    try:
        content = msgspec.json.encode(document)
    except UnicodeEncodeError:
        # Bytes of a header that are no UTF-8 are kept as characters that JSON does not have.
        content = msgspec.json.encode(_sound(msgspec.to_builtins(document)))
    # A name that another party chose must not act on the terminal that shows it.
    return harmless_json(msgspec.json.format(content, indent=2)) + b"\n"


def grouped(refusals: Iterable[Refusal]) -> tuple[RefusalGroup, ...]:
    """Return the newest refusals, those that are alike as one, in the order of the newest of each."""
    newest = sorted(refusals, key=lambda refusal: refusal.at, reverse=True)[:SHOWN_REFUSALS]
    alike: dict[tuple[object, ...], list[Refusal]] = {}
    for refusal in newest:
        key = (refusal.reason, refusal.status, refusal.principal, refusal.catalog, refusal.table, refusal.operation)
        alike.setdefault(key, []).append(refusal)
    return tuple(_group(members) for members in alike.values())


def worst_keys(keys: Iterable[KeysReport]) -> tuple[KeysReport, ...]:
    """Return one report per issuer: the fewest keys, the oldest, the most failures."""
    worst: dict[str, KeysReport] = {}
    for each in keys:
        known = worst.get(each.issuer, each)
        worst[each.issuer] = KeysReport(
            each.issuer,
            min(known.keys, each.keys),
            max(known.age, each.age),
            max(known.failures, each.failures),
            known.last_error or each.last_error,
        )
    return tuple(worst.values())


def _least(reports: Iterable[T], place: Callable[[T], object], rank: Callable[[T], tuple[float, int]]) -> tuple[T, ...]:
    least: dict[object, T] = {}
    for each in reports:
        least[place(each)] = min(least.get(place(each), each), each, key=rank)
    return tuple(least.values())


def _expiry(credentials: CredentialState) -> tuple[float, int]:
    expires_at = float("inf") if credentials.expires_at is None else credentials.expires_at
    return expires_at, -credentials.failures


def _state(report: FleetReport, judgement: ReadinessJudgement, troubles: tuple[Diagnosis, ...]) -> State:
    if report.draining:
        return State.DRAINING
    if not judgement.ready:
        return State.NOT_READY
    return State.READY_BUT if troubles else State.READY


def _verdict(state: State, report: FleetReport, judgement: ReadinessJudgement, now: float) -> str:
    match state:
        case State.DRAINING:
            busy = sum(worker.in_flight for worker in report.workers)
            return f"Draining. It finishes what it has ({busy} in flight) and then ends; clients are sent elsewhere."
        case State.NOT_READY:
            names = ", ".join(dict.fromkeys(check.where[0] for check in judgement.failing))
            word = "Not ready" if judgement.started else "Not ready yet"
            return f"{word}: {names or 'starting'}. {_policy(report, now)}"
        case State.READY | State.READY_BUT:
            word = "Ready" if state is State.READY else "Ready, with problems"
            return f"{word}. {_policy(report, now)}"


def _policy(report: FleetReport, now: float) -> str:
    counts: dict[str, int] = {}
    for worker in report.workers:
        if worker.policy_rev:
            counts[worker.policy_rev] = counts.get(worker.policy_rev, 0) + 1
    if not counts:
        return "No policy is in force."
    revision = max(counts, key=lambda each: counts[each])
    where = f"on {counts[revision]} of {report.wanted_workers} workers" if report.wanted_workers > 1 else ""
    since = report.last_accepted_at
    return " ".join(f"Policy {revision} in force {where} since {moment(since)} ({ago(now - since)}).".split())


def _group(members: list[Refusal]) -> RefusalGroup:
    last = members[0]
    spec = _SPECS.get(last.reason)
    meaning, remedy = (spec.meaning, spec.remedy) if spec is not None else ("", "")
    return RefusalGroup(len(members), last.status, meaning, remedy, last)


def _sound(value: object) -> object:
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, dict):
        return {_sound(name): _sound(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_sound(each) for each in value]
    return value


def _without_lists(worker: WorkerReport) -> WorkerReport:
    """Leave out what is shown for all workers together, or is a scrape's."""
    return msgspec.structs.replace(
        worker, metrics=(), refusals=(), keys=(), credentials=(), certificates=(), upstreams=()
    )


def joined_upstreams(workers: Iterable[WorkerReport]) -> tuple[UpstreamReport, ...]:
    """Return one report per catalog: the newest moments, and the problem that a worker met last."""
    joint: dict[str, UpstreamReport] = {}
    for worker in workers:
        for each in worker.upstreams:
            known = joint.get(each.catalog)
            joint[each.catalog] = each if known is None else _joined(known, each)
    return tuple(joint.values())


def _joined(one: UpstreamReport, other: UpstreamReport) -> UpstreamReport:
    later = max(one, other, key=lambda each: max(each.last_failure_at, each.last_success_at))
    return UpstreamReport(
        one.catalog,
        later.uri,
        max(one.last_success_at, other.last_success_at),
        max(one.last_failure_at, other.last_failure_at),
        later.problem,
        one.in_flight + other.in_flight,
        max(one.tables, other.tables),
        _older(one.inventory, other.inventory),
    )


def _older(one: InventoryReport | None, other: InventoryReport | None) -> InventoryReport | None:
    if one is None or other is None:
        return one or other
    return min(one, other, key=lambda each: (each.taken_at, not each.problem))
