"""Find what is wrong in a report, the worst first, each with what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum

import msgspec

from signproxy.server.readiness import CONFIGURATION, WORKERS, Judgement, numbered
from signproxy.server.report import CertificateReport, CredentialsReport, FleetReport, KeysReport, ReloadReport
from signproxy.server.times import ago, ahead, moment, span

CERTIFICATE_SECONDS = 14 * 86_400.0
CERTIFICATE_SHARE = 5
"""A certificate is worth a word in its last two weeks, or in the last fifth of a life that is short by design."""

LAG_SECONDS = 1.0
"""Nothing on the loop takes a hundredth of this; probes of a kubelet give up after it."""

RESTART_SECONDS = 3_600.0
"""How long the end of a worker is news; the number of them stands in the table for good."""

_REMEDIES = {
    "token keys": "Look at the log for the fetch error, and at the route to the issuer; tokens are refused meanwhile.",
    "credentials": "Look at the provider: its files, its endpoint, its rights. Requests for the storage get 503.",
    "audit": "Look at the volume of the audit file, or at who reads the pipe. `audit.on_error` says what happens.",
    "inventory": "Wait for it to end, or look at the upstream and at the token that lists its tables "
    "(`upstreams.<name>.inventory`). Tables that are not known yet get 503.",
    "policy": "Wait for the load to end; `signproxy check-config` says what is wrong with the files.",
    WORKERS: "A worker that dies is replaced; its last log lines say why. Memory limits are the usual reason.",
    CONFIGURATION: "Restart the server if this lasts: a worker that did not take part in a reload must not go on.",
}


class Weight(Enum):
    """How bad it is, the worst first."""

    WRONG = "wrong"
    """Requests are refused because of it, or proof is missing."""
    LOOK = "look"
    """Something will be wrong, or was."""


class Trouble(msgspec.Struct, frozen=True):
    """One thing that is wrong."""

    weight: Weight
    what: str
    remedy: str
    details: tuple[str, ...] = ()


def troubles_of(
    report: FleetReport,
    judgement: Judgement,
    keys: Sequence[KeysReport],
    credentials: Sequence[CredentialsReport],
    certificates: Sequence[CertificateReport],
    now: float,
) -> tuple[Trouble, ...]:
    """Return all that is wrong, the worst first."""
    found = [
        *_of_checks(judgement),
        *_of_reload(report.last_reload, report.last_accepted_at, now),
        *_of_keys(keys),
        *_of_credentials(credentials, now),
        *_of_certificates(certificates, now),
        *_of_workers(report, now),
    ]
    return worst_first(found)


def worst_first(found: Iterable[Trouble]) -> tuple[Trouble, ...]:
    """Return troubles in the order of their weight."""
    return tuple(sorted(found, key=lambda trouble: list(Weight).index(trouble.weight)))


def _of_checks(judgement: Judgement) -> Iterator[Trouble]:
    """Yield each failing check, once for all workers of which it says the same."""
    whose: dict[tuple[str, str], list[int]] = {}
    for check in judgement.failing:
        if check.name != "draining":
            numbers = whose.setdefault((check.name, check.problem), [])
            numbers += () if check.worker is None else (check.worker,)
    for (name, problem), workers in whose.items():
        where = f" ({numbered(workers)})" if workers else ""
        yield Trouble(Weight.WRONG, f"{name}: {problem}{where}", _REMEDIES.get(name, ""))


def _of_reload(reload: ReloadReport | None, accepted_at: float, now: float) -> Iterator[Trouble]:
    if reload is None:
        return
    when = f"{moment(reload.at)}, {ago(now - reload.at)}"
    if not reload.accepted:
        yield Trouble(
            Weight.WRONG,
            f"the last reload was not taken over ({when}); what is in force is that of {moment(accepted_at)}",
            "Mend the files; the next look at them tries again. `signproxy check-config` tells the same beforehand.",
            reload.findings,
        )
    if reload.needs_restart:
        yield Trouble(
            Weight.LOOK,
            f"settings changed that are read at the start only ({when})",
            "Restart the server to use them, or take the change back.",
            reload.needs_restart,
        )


def _of_keys(keys: Sequence[KeysReport]) -> Iterator[Trouble]:
    for each in keys:
        # An issuer without any keys is a failing check already.
        if each.keys and each.last_error:
            yield Trouble(
                Weight.LOOK,
                f"keys of issuer {each.issuer} could not be fetched; those in use are {span(each.age)} old",
                "They are used for 24 h. A key that the issuer withdrew meanwhile is still believed.",
                (each.last_error,),
            )


def _of_credentials(credentials: Sequence[CredentialsReport], now: float) -> Iterator[Trouble]:
    for each in credentials:
        if each.problem and each.expires_at != 0:
            place = f"{each.storage}, bucket {each.bucket}" if each.bucket else each.storage
            left = "do not expire" if each.expires_at is None else f"expire {ahead(each.expires_at - now)}"
            yield Trouble(
                Weight.LOOK,
                f"credentials of {place} could not be renewed {each.failures} times; those in use {left}",
                "Look at the provider before they expire; it is asked again every minute at least.",
                (each.problem,),
            )


def _of_certificates(certificates: Sequence[CertificateReport], now: float) -> Iterator[Trouble]:
    for each in certificates:
        left = each.expires_at - now
        if left <= 0:
            yield Trouble(
                Weight.WRONG,
                f"the certificate of {each.listener} expired {ago(-left)}",
                "Replace the files; they are taken up without a restart. Clients refuse to connect meanwhile.",
            )
        elif left < min(CERTIFICATE_SECONDS, (each.expires_at - each.loaded_at) / CERTIFICATE_SHARE):
            yield Trouble(
                Weight.LOOK,
                f"the certificate of {each.listener} expires {ahead(left)}",
                "Replace the files; they are taken up without a restart.",
            )


def _of_workers(report: FleetReport, now: float) -> Iterator[Trouble]:
    dropped = sum(worker.audit.dropped for worker in report.workers)
    if dropped:
        yield Trouble(
            Weight.WRONG,
            f"{dropped} audit events were lost since the start",
            "Requests were served without proof, as `audit.on_error: allow` says. Holes in `seq` show where.",
        )
    unshipped = next((worker.audit for worker in report.workers if worker.audit.shipping_problem), None)
    if unshipped is not None:
        yield Trouble(
            Weight.LOOK,
            f"{unshipped.waiting} sealed audit segments are not shipped",
            "They stay, and are tried again every minute at least; a volume that goes with the pod takes them along.",
            (unshipped.shipping_problem,),
        )
    late = [worker for worker in report.workers if worker.lag_seconds >= LAG_SECONDS]
    if late:
        worst = max(worker.lag_seconds for worker in late)
        where = f" ({numbered([worker.worker for worker in late])})" if report.wanted_workers > 1 else ""
        yield Trouble(
            Weight.LOOK,
            f"the event loop was late by {worst:.1f} s{where}",
            "Every caller waited that long. Look at CPU limits (throttling), and at a policy that is being loaded.",
        )
    newest = max((worker.started_at for worker in report.workers), default=now)
    if report.restarts and now - newest < RESTART_SECONDS:
        yield Trouble(
            Weight.LOOK,
            f"a worker ended unasked and was replaced {ago(now - newest)}; {report.restarts} did since the start",
            _REMEDIES[WORKERS],
        )
