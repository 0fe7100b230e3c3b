"""Several workers, one configuration: a reload reaches all of them or none."""

from __future__ import annotations

import asyncio

import pytest

from signproxy.errors import Finding, PolicyInvalid, Reason, Refused
from signproxy.server.process.fleet import READINGS, Candidate, Fleet, WorkerGone
from signproxy.server.process.generation import Scope
from signproxy.server.status.report import WorkerReport


class MemoryMember:
    """A worker that reads from a list and remembers what was asked of it."""

    def __init__(self, *reads: str | Exception) -> None:
        self.reads = list(reads)
        self.prepared = ""
        self.serving = "old"
        self.epochs: list[int] = []
        self.calls: list[str] = []
        self.gone = False

    async def prepare(self, epoch: int, scope: Scope) -> Candidate:
        self._answer(f"prepare {scope.value}")
        read = self.reads.pop(0) if len(self.reads) > 1 else self.reads[0]
        await asyncio.sleep(0)
        if isinstance(read, Exception):
            raise read
        self.epochs.append(epoch)
        self.prepared = read
        return Candidate(read, f"{read} and its keys", (f"now {read}",), ())

    async def commit(self) -> None:
        self._answer("commit")
        self.serving, self.prepared = self.prepared or self.serving, ""

    async def discard(self) -> None:
        self._answer("discard")
        self.prepared = ""

    async def refresh_credentials(self) -> None:
        self._answer("refresh")

    async def reopen(self) -> None:
        self._answer("reopen")

    async def report(self) -> WorkerReport:
        self._answer("report")
        raise WorkerGone

    async def roles_of(self, token: str) -> tuple[str, ...]:
        self._answer("roles")
        return (token,)

    def _answer(self, call: str) -> None:
        self.calls.append(call)
        if self.gone:
            raise WorkerGone


INVALID = PolicyInvalid([Finding("policy.yaml", "grants[0]", "unknown role")])


def fleet_of(*members: MemoryMember) -> Fleet:
    return Fleet(len(members), lambda: members)


async def test_every_worker_has_a_new_policy_before_it_counts_as_applied() -> None:
    """A revoke that one of four workers does not know is no revoke."""
    members = [MemoryMember("new") for _ in range(3)]
    fleet = fleet_of(*members)
    report = await fleet.reload()
    assert report.accepted
    assert report.changes == ("now new",)
    assert [member.serving for member in members] == ["new"] * 3
    assert fleet.epoch == 2
    assert [member.epochs for member in members] == [[2]] * 3


async def test_one_worker_that_cannot_read_keeps_the_old_on_all() -> None:
    """Workers that disagree answer the same request differently, by chance."""
    members = [MemoryMember("new"), MemoryMember(INVALID), MemoryMember("new")]
    fleet = fleet_of(*members)
    report = await fleet.reload()
    assert not report.accepted
    assert report.findings == ("policy.yaml: grants[0]: unknown role",)
    assert [member.serving for member in members] == ["old"] * 3
    assert [member.prepared for member in members] == [""] * 3
    assert fleet.epoch == 1


async def test_workers_that_read_different_files_read_again() -> None:
    """A file may be replaced between the readings of two workers."""
    members = [MemoryMember("half", "new"), MemoryMember("new", "new")]
    report = await fleet_of(*members).reload()
    assert report.accepted
    assert [member.serving for member in members] == ["new", "new"]


async def test_workers_that_never_agree_change_nothing() -> None:
    """A file that changes all the time must not split the workers."""
    members = [MemoryMember("one"), MemoryMember("two")]
    report = await fleet_of(*members).reload()
    assert not report.accepted
    assert "changed during each" in report.findings[0]
    assert [member.serving for member in members] == ["old", "old"]
    assert [member.calls.count("prepare all") for member in members] == [READINGS, READINGS]


@pytest.mark.parametrize("when", ("prepare", "commit"))
async def test_a_worker_that_dies_does_not_stop_the_reload_of_the_others(when: str) -> None:
    """A revoke must not wait for a process that is no more; the one in its place reads what is there."""
    healthy, dying = MemoryMember("new"), MemoryMember(WorkerGone() if when == "prepare" else "new")
    fleet = fleet_of(healthy, dying)
    if when == "commit":

        async def gone() -> None:
            raise WorkerGone

        dying.commit = gone  # type: ignore[method-assign]  # the process ends between the two steps
    assert (await fleet.reload()).accepted
    assert healthy.serving == "new"


async def test_a_fault_of_ours_leaves_in_force_what_is() -> None:
    """A bug in the reload must end neither the server nor its policy."""
    members = [MemoryMember("new"), MemoryMember(ZeroDivisionError("a bug"))]
    fleet = fleet_of(*members)
    report = await fleet.reload(Scope.KEEP_POLICY)
    assert not report.accepted
    assert "fault in signproxy" in report.findings[0]
    assert [member.serving for member in members] == ["old", "old"]
    members[1].reads = ["new"]
    assert (await fleet.reload()).accepted


async def test_a_worker_that_starts_during_a_reload_catches_up_before_it_serves() -> None:
    """Started with what was read before a revoke, it would serve it for ever."""
    first, late = MemoryMember("new"), MemoryMember("new")
    members = [first]
    fleet = Fleet(2, lambda: tuple(members))
    epoch = fleet.epoch
    assert (await fleet.reload()).accepted
    await fleet.join(late, epoch, lambda: members.append(late))
    assert late.serving == "new"
    assert late.epochs == [2]
    assert members == [first, late]


async def test_a_worker_that_is_up_to_date_joins_at_once() -> None:
    """Most do; reading a large policy twice would double the time that a worker is missing."""
    late = MemoryMember("new")
    members: list[MemoryMember] = []
    fleet = Fleet(1, lambda: tuple(members))
    await fleet.join(late, fleet.epoch, lambda: members.append(late))
    assert late.calls == []
    assert members == [late]


async def test_workers_that_do_not_answer_are_left_out_of_the_report() -> None:
    """The page of an ailing server is needed most."""
    fleet = fleet_of(MemoryMember("new"))
    report = await fleet.report()
    assert report.wanted_workers == 1
    assert report.workers == ()


async def test_another_worker_is_asked_for_roles_where_one_is_gone() -> None:
    """An operator must be let in while a worker is replaced."""
    gone, healthy = MemoryMember("new"), MemoryMember("new")
    gone.gone = True
    assert await fleet_of(gone, healthy).roles_of("admins") == ("admins",)
    with pytest.raises(Refused) as refused:
        await fleet_of(gone).roles_of("admins")
    assert refused.value.reason is Reason.KEYS_UNAVAILABLE


async def test_all_are_told_to_refresh_and_to_reopen() -> None:
    """Rotated keys and rotated audit files concern every process."""
    members = [MemoryMember("new"), MemoryMember("new")]
    members[0].gone = True
    fleet = fleet_of(*members)
    await fleet.refresh_credentials()
    await fleet.reopen()
    assert members[1].calls == ["refresh", "reopen"]


async def test_what_is_tried_again_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    """A policy that stays broken over a night must not fill the log; one that is broken anew must be told."""
    fleet = fleet_of(MemoryMember(INVALID))
    findings = (await fleet.reload()).findings
    assert capsys.readouterr().err.count("unknown role") == 1
    await fleet.reload(Scope.ALL, findings)
    assert capsys.readouterr().err == ""
    await fleet.reload()
    assert capsys.readouterr().err.count("unknown role") == 1
