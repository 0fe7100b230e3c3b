"""Find what is wrong in a report, each with what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from signproxy.diagnosis import Diagnosis, Urgency, joined
from signproxy.server.status.readiness import DRAINING, REMEDIES, WORKERS, Judgement
from signproxy.server.status.report import CertificateReport, CredentialsReport, FleetReport, KeysReport, ReloadReport
from signproxy.server.status.times import ago, ahead, moment, span

CERTIFICATE_SECONDS = 14 * 86_400.0
CERTIFICATE_SHARE = 5
"""A certificate is worth a word in its last two weeks, or in the last fifth of a life that is short by design."""

LAG_SECONDS = 1.0
"""Nothing on the loop takes a hundredth of this; probes of a kubelet give up after it."""

RESTART_SECONDS = 3_600.0
"""How long the end of a worker is news; the number of them stands in the table for good."""


def troubles_of(
    report: FleetReport,
    judgement: Judgement,
    keys: Sequence[KeysReport],
    credentials: Sequence[CredentialsReport],
    certificates: Sequence[CertificateReport],
    now: float,
) -> Iterator[Diagnosis]:
    """Yield all that is wrong."""
    yield from joined(check for check in judgement.failing if check.where != (DRAINING,))
    yield from _of_reload(report.last_reload, report.last_accepted_at, now)
    yield from _of_keys(keys)
    yield from _of_credentials(credentials, now)
    yield from _of_certificates(certificates, now)
    yield from _of_workers(report, now)


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


def _of_credentials(credentials: Sequence[CredentialsReport], now: float) -> Iterator[Diagnosis]:
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
        elif left < min(CERTIFICATE_SECONDS, (each.expires_at - each.loaded_at) / CERTIFICATE_SHARE):
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
