"""Say of the upstreams what all workers together know of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from signproxy.diagnosis import Diagnosis, Urgency
from signproxy.server.status.report import InventoryReport, UpstreamReport, WorkerReport
from signproxy.server.status.times import ago, moment


def joined(workers: Iterable[WorkerReport]) -> tuple[UpstreamReport, ...]:
    """Return one report per catalog: the newest moments, and the problem that a worker met last."""
    joint: dict[str, UpstreamReport] = {}
    for worker in workers:
        for each in worker.upstreams:
            known = joint.get(each.catalog)
            joint[each.catalog] = each if known is None else _joined(known, each)
    return tuple(joint.values())


def troubles_of_upstreams(workers: Iterable[WorkerReport], now: float) -> Iterator[Diagnosis]:
    """Yield what is wrong with upstreams, and with what they say."""
    reports = tuple(workers)
    for each in joined(reports):
        if each.problem:
            known = f"{each.tables:,} tables that are known go on being signed" if each.tables else "no table is known"
            yield Diagnosis(
                f"the upstream of catalog {each.catalog} fails, {ago(now - each.last_failure_at)} last; {known}",
                "Look at the upstream and at the way to it; catalog calls fail meanwhile.",
                details=(f"{each.uri}: {each.problem}", f"last answer {moment(each.last_success_at)}"),
            )
        yield from _of_inventory(each, now)
    kept = sorted({worker.sightings_problem for worker in reports if worker.sightings_problem})
    if kept:
        yield Diagnosis(
            "what is learned of places is not kept",
            "Look at the volume of `sightings.file`, and at its bounds. After a restart first seen is first believed.",
            Urgency.LOOK,
            details=tuple(kept),
        )
    alarms = sum(worker.alarms for worker in reports)
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
