"""Find what is wrong in a report, each with what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from signproxy.credentials.slot import CredentialState
from signproxy.diagnosis import Diagnosis, Urgency, joined
from signproxy.server.status.readiness import DRAINING, REMEDIES, WORKERS, ReadinessJudgement
from signproxy.server.status.report import (
    CertificateReport,
    FleetReport,
    KeysReport,
    ReloadReport,
    UpstreamReport,
    WorkerReport,
    ends_soon,
)
from signproxy.server.status.times import ago, ahead, moment, span

LAG_SECONDS = 1.0
"""Nothing on the loop takes a hundredth of this; probes of a kubelet give up after it."""

RESTART_SECONDS = 3_600.0
"""How long the end of a worker is news; the number of them stands in the table for good."""


def troubles_of(
    report: FleetReport,
    judgement: ReadinessJudgement,
    keys: Sequence[KeysReport],
    credentials: Sequence[CredentialState],
    certificates: Sequence[CertificateReport],
    upstreams: Sequence[UpstreamReport],
    now: float,
) -> Iterator[Diagnosis]:
    """Yield all that is wrong."""
    yield from joined(check for check in judgement.failing if check.where != (DRAINING,))
    yield from _of_reload(report.last_reload, report.last_accepted_at, now)
    yield from _of_keys(keys)
    yield from _of_credentials(credentials, now)
    yield from _of_certificates(certificates, now)
    yield from _of_workers(report, now)
    yield from upstream_troubles(upstreams, report.workers, now)


def _of_reload(reload: ReloadReport | None, accepted_at: float, now: float) -> Iterator[Diagnosis]:
    if reload is None:
        return
    when = f"({moment(reload.at)}, {ago(now - reload.at)})"
    if not reload.accepted:
        yield Diagnosis(
            f"the last reload was not taken over {when}; what is in force is that of {moment(accepted_at)}",
            "Mend the files; the next look at them tries again. `signproxy check-config` tells the same beforehand.",
            details=reload.findings,
        )
    if reload.needs_restart:
        yield Diagnosis(
            "settings changed that are read at the start only",
            "Restart the server to use them, or take the change back.",
            Urgency.LOOK,
            since=when,
            details=reload.needs_restart,
        )


def _of_keys(keys: Sequence[KeysReport]) -> Iterator[Diagnosis]:
    for each in keys:
        # An issuer without any keys is a failing check already.
        if each.keys and each.last_error:
            yield Diagnosis(
                f"keys of issuer {each.issuer} could not be fetched; those in use are {span(each.age)} old",
                "They are used for 24 h. A key that the issuer withdrew meanwhile is still believed.",
                Urgency.LOOK,
                details=(each.last_error,),
            )


def _of_credentials(credentials: Sequence[CredentialState], now: float) -> Iterator[Diagnosis]:
    for each in credentials:
        if each.problem and each.expires_at != 0:
            place = f"{each.storage}, bucket {each.bucket}" if each.bucket else each.storage
            left = "do not expire" if each.expires_at is None else f"expire {ahead(each.expires_at - now)}"
            yield Diagnosis(
                f"credentials of {place} could not be renewed {each.failures} times; those in use {left}",
                "Look at the provider before they expire; it is asked again every minute at least.",
                Urgency.LOOK,
                details=(each.problem,),
            )


def _of_certificates(certificates: Sequence[CertificateReport], now: float) -> Iterator[Diagnosis]:
    for each in certificates:
        left = each.expires_at - now
        remedy = "Replace the files; they are taken up without a restart."
        if left <= 0:
            yield Diagnosis(
                f"the certificate of {each.listener} expired",
                f"{remedy} Clients refuse to connect meanwhile.",
                since=ago(-left),
            )
        elif ends_soon(left, each.expires_at - each.loaded_at):
            yield Diagnosis(f"the certificate of {each.listener} expires {ahead(left)}", remedy, Urgency.LOOK)


def _of_workers(report: FleetReport, now: float) -> Iterator[Diagnosis]:
    dropped = sum(worker.audit.dropped for worker in report.workers)
    if dropped:
        yield Diagnosis(
            f"{dropped} audit events were lost since the start",
            "Requests were served without proof, as `audit.on_error: allow` says. Holes in `seq` show where.",
        )
    unshipped = next((worker.audit for worker in report.workers if worker.audit.shipping_problem), None)
    if unshipped is not None:
        yield Diagnosis(
            f"{unshipped.waiting} sealed audit segments are not shipped",
            "They stay, and are tried again every minute at least; a volume that goes with the pod takes them along.",
            Urgency.LOOK,
            details=(unshipped.shipping_problem,),
        )
    late = [worker for worker in report.workers if worker.lag_seconds >= LAG_SECONDS]
    if late:
        yield Diagnosis(
            f"the event loop was late by {max(worker.lag_seconds for worker in late):.1f} s",
            "Every caller waited that long. Look at CPU limits (throttling), and at a policy that is being loaded.",
            Urgency.LOOK,
            workers=tuple(worker.worker for worker in late) if report.wanted_workers > 1 else (),
        )
    newest = max((worker.started_at for worker in report.workers), default=now)
    if report.restarts and now - newest < RESTART_SECONDS:
        yield Diagnosis(
            f"a worker ended unasked and was replaced {ago(now - newest)}; {report.restarts} did since the start",
            REMEDIES[WORKERS],
            Urgency.LOOK,
        )


def upstream_troubles(
    upstreams: Sequence[UpstreamReport], workers: Sequence[WorkerReport], now: float
) -> Iterator[Diagnosis]:
    """Yield what is wrong with upstreams, and with what they say."""
    for each in upstreams:
        if each.problem:
            known = f"{each.tables:,} tables that are known go on being signed" if each.tables else "no table is known"
            yield Diagnosis(
                f"the upstream of catalog {each.catalog} fails, {ago(now - each.last_failure_at)} last; {known}",
                "Look at the upstream and at the way to it; catalog calls fail meanwhile.",
                details=(f"{each.uri}: {each.problem}", f"last answer {moment(each.last_success_at)}"),
            )
        yield from _of_inventory(each, now)
    kept = sorted({worker.sightings_problem for worker in workers if worker.sightings_problem})
    if kept:
        yield Diagnosis(
            "what is learned of places is not kept",
            "Look at the volume of `sightings.file`, and at its bounds. After a restart first seen is first believed.",
            Urgency.LOOK,
            details=tuple(kept),
        )
    alarms = sum(worker.alarms for worker in workers)
    if alarms:
        yield Diagnosis(
            f"locations of learned tables were not believed, {alarms} times",
            "The log names the tables and the places. The older owner of a place keeps it; a later claim to it is "
            "refused until the catalog says otherwise, or the policy lists the place.",
            Urgency.LOOK,
        )


def _of_inventory(report: UpstreamReport, now: float) -> Iterator[Diagnosis]:
    inventory = report.inventory
    if inventory is None:
        return
    if inventory.problem and inventory.taken_at:
        yield Diagnosis(
            f"the inventory of catalog {report.catalog} was begun {ago(now - inventory.taken_at)}; the next one failed",
            "Look at the upstream and at the token of the inventory. Once it is too old, new tables get 503.",
            Urgency.LOOK,
            details=(inventory.problem,),
        )
    if inventory.unreadable:
        yield Diagnosis(
            f"the upstream of catalog {report.catalog} lists tables that it cannot load",
            "Repair or drop them at the upstream: where they lie is known only if they were seen before.",
            Urgency.LOOK,
            details=inventory.unreadable,
        )
