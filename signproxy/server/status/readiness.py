"""Judge whether the server may be sent requests, from the reports of all its workers.

At the start every wanted worker must be ready: a sidecar lets its engine start on that word, and half a server would
refuse half of the first requests. Afterwards all that are there must be: workers share a port that only those who
serve have open, so one that is being replaced gets no requests, and to take the pod out of its service because of it
would turn a hiccup of one process into an outage of all; but one that is there and lacks something gets its share of
the connections, and refuses them. What one worker may never do is serve another policy than the others: a revoke must
bite everywhere, so workers that disagree for longer than a reload's commit takes make the server as a whole not ready.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic

import msgspec

from signproxy.diagnosis import Diagnosis, numbered
from signproxy.server.status.report import FleetReport

DISAGREEMENT_SECONDS = 3.0
"""Workers commit a reload within milliseconds of each other, and reports of either side may meet in one look."""

DRAINING = "draining"
WORKERS = "workers"
CONFIGURATION = "configuration"

REMEDIES = {
    "token keys": "Look at the log for the fetch error, and at the route to the issuer; tokens are refused meanwhile.",
    "credentials": "Look at the provider: its files, its endpoint, its rights. Requests for the storage get 503.",
    "audit": "Look at the volume of the audit file, or at who reads the pipe. `audit.on_error` says what happens.",
    "inventory": "Wait for it to end, or look at the upstream and at the token that lists its tables "
    "(`upstreams.<name>.inventory`). Tables that are not known yet get 503.",
    "policy": "Wait for the load to end; `signproxy check-config` says what is wrong with the files.",
    WORKERS: "A worker that dies is replaced; its last log lines say why. Memory limits are the usual reason.",
    CONFIGURATION: "Restart the server if this lasts: a worker that did not take part in a reload must not go on.",
}
"""What to do about a check that fails; nothing is to be done about a server that drains."""


class ReadinessJudgement(msgspec.Struct, frozen=True):
    """What `/livez`, `/readyz` and `/startupz` answer."""

    alive: bool
    started: bool
    """It has been ready with every wanted worker."""
    ready: bool
    ready_workers: int
    checks: tuple[Diagnosis, ...]
    """Those that pass as well."""

    @property
    def failing(self) -> tuple[Diagnosis, ...]:
        """What is not well; there may be something even where the server is ready."""
        return tuple(check for check in self.checks if check.what)


class Readiness:
    """Judges one report after the other; remembers that the server has started, and since when workers disagree."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._started = False
        self._disagree_since: float | None = None

    def judge(self, report: FleetReport | None) -> ReadinessJudgement:
        """Judge a report; None where none could be made."""
        if report is None:
            problem = "their supervisor does not answer"
            return ReadinessJudgement(not self._started, self._started, False, 0, (_check(WORKERS, problem),))
        # They serve, and all that they need is there.
        ready = [worker for worker in report.workers if worker.policy_rev and not any(worker.problems.values())]
        disagreement = self._lasting(disagreement_of(report))
        staying = [worker for worker in report.workers if not worker.problems.get(DRAINING)]
        wanted = len(staying) if self._started else report.wanted_workers
        enough = bool(ready) and len(ready) >= wanted
        is_up = enough and not report.draining and not disagreement
        self._started = self._started or is_up
        return ReadinessJudgement(
            # While it starts no worker may answer yet, and while it ends none any more; neither is cured by a restart.
            alive=bool(report.workers) or report.draining or not self._started,
            started=self._started,
            ready=is_up,
            ready_workers=len(ready),
            checks=tuple(_checks(report, disagreement)),
        )

    def _lasting(self, disagreement: str) -> str:
        if not disagreement:
            self._disagree_since = None
            return ""
        now = self._clock()
        if self._disagree_since is None:
            self._disagree_since = now
        return disagreement if now - self._disagree_since >= DISAGREEMENT_SECONDS else ""


def disagreement_of(report: FleetReport) -> str:
    """Return in words which workers serve something else than the others, or nothing."""
    by_revision: dict[str, list[int]] = {}
    for worker in report.workers:
        if worker.policy_rev:
            by_revision.setdefault(f"policy {worker.policy_rev}, settings {worker.config_digest}", []).append(
                worker.worker
            )
    if len(by_revision) < 2:
        return ""
    return "; ".join(f"{numbered(workers)}: {revision}" for revision, workers in by_revision.items())


def _check(name: str, problem: str, *workers: int) -> Diagnosis:
    return Diagnosis(problem, REMEDIES.get(name, ""), where=(name,), workers=workers)


def _checks(report: FleetReport, disagreement: str) -> Iterator[Diagnosis]:
    yield _check(DRAINING, "yes" if report.draining else "")
    alone = report.wanted_workers == 1
    if not alone:
        missing = report.wanted_workers - len(report.workers)
        answer = f"{len(report.workers)} of {report.wanted_workers} answer"
        yield _check(WORKERS, answer if missing > 0 else "")
    yield _check(CONFIGURATION, disagreement)
    for worker in report.workers:
        number = () if alone else (worker.worker,)
        if not worker.policy_rev:
            yield _check("policy", "none is loaded yet", *number)
        for name, problem in worker.problems.items():
            # Of a server that is draining all workers are, and of another that one is not needs no line.
            if name != DRAINING or (problem and not report.draining):
                yield _check(name, problem, *number)
