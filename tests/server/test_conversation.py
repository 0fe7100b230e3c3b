"""The supervisor and a worker over their socket pair: every call is answered, or the other end counts as gone."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from signproxy.errors import Finding, Invalid, PolicyInvalid, Reason, Refused
from signproxy.inventory.learned.sighting import Changed, Dropped, Gone, Live, Renamed, Sighting, Staged, TableFacts
from signproxy.server.process import control
from signproxy.server.process.control import Answer, Call
from signproxy.server.process.conversation import Act, Conversation, WorkerFailed
from signproxy.server.process.fleet import Candidate, WorkerGone
from signproxy.server.process.generation import Scope
from signproxy.server.process.heard import Heard

FACTS = TableFacts("a\x1fb", "t", "1111", "s3://lake/t", {"write.data.path": "s3://lake/d"}, "s3://lake/t/m.json")
SIGHTINGS: tuple[Sighting, ...] = (
    Live("lake", FACTS, '"etag"'),
    Staged("lake", FACTS, "corp/alice", 2.5),
    Dropped("lake", "a\x1fb", "t", "corp/alice", 2.5),
    Gone("lake", "n", "t"),
    Renamed("lake", "n", "t", "m", "u"),
    Changed("lake", "n", "t"),
)
HEARD = Heard(SIGHTINGS[0], 1.5)


async def _silent(call: Call) -> Answer:
    raise AssertionError(f"not asked: {call}")


@asynccontextmanager
async def pair(act: Act, ours: Act = _silent) -> AsyncIterator[tuple[Conversation, Conversation]]:
    ends = socket.socketpair()
    supervisor = await Conversation.begin(ends[0], ours)
    worker = await Conversation.begin(ends[1], act)
    try:
        yield supervisor, worker
    finally:
        await supervisor.aclose()
        await asyncio.wait_for(worker.ended.wait(), 5)
        await worker.aclose()


async def test_a_call_brings_its_answer() -> None:
    """Everything that the supervisor knows of its workers comes this way."""

    async def act(call: Call) -> Answer:
        assert call == control.Prepare(7, Scope.KEEP_POLICY)
        return control.ReadyToCommit(Candidate("rev", "rev/keys", ("a change",), ()))

    async with pair(act) as (supervisor, _):
        answer = await supervisor.ask(control.Prepare(7, Scope.KEEP_POLICY), control.ReadyToCommit, 5)
        assert answer.candidate == Candidate("rev", "rev/keys", ("a change",), ())


async def test_answers_may_come_in_another_order() -> None:
    """A minute's reading of a policy must not hide how the worker is doing."""
    slow = asyncio.Event()

    async def act(call: Call) -> Answer:
        if isinstance(call, control.Prepare):
            await slow.wait()
            return control.ReadyToCommit(Candidate("slow", "slow/keys", (), ()))
        return control.Done()

    async with pair(act) as (supervisor, _):
        first = asyncio.create_task(supervisor.ask(control.Prepare(1, Scope.ALL), control.ReadyToCommit, 5))
        assert await supervisor.ask(control.Reopen(), control.Done, 5) == control.Done()
        slow.set()
        assert (await first).candidate.revision == "slow"


async def test_faults_of_the_operator_arrive_as_they_were() -> None:
    """`worker 2 failed` mends no policy."""
    finding = Finding("policy.yaml", "grants[3].role", "unknown role 'raeder' (did you mean 'reader'?)")

    async def act(_: Call) -> Answer:
        raise PolicyInvalid([finding])

    async with pair(act) as (supervisor, _):
        with pytest.raises(Invalid) as invalid:
            await supervisor.ask(control.Prepare(1, Scope.ALL), control.ReadyToCommit, 5)
        assert invalid.value.findings == (finding,)


async def test_a_refused_token_is_refused_here_too() -> None:
    """A stranger must not see the status page because its token was checked elsewhere."""

    async def act(_: Call) -> Answer:
        raise Refused(Reason.TOKEN_EXPIRED, "an hour ago")

    async with pair(act) as (supervisor, _):
        with pytest.raises(Refused) as refused:
            await supervisor.ask(control.RolesOf("secret-token"), control.Roles, 5)
        assert refused.value.reason is Reason.TOKEN_EXPIRED
        assert "secret-token" not in repr(control.RolesOf("secret-token"))


async def test_a_fault_of_the_worker_is_an_answer() -> None:
    """Waiting for a call that failed would hold up every reload."""

    async def act(_: Call) -> Answer:
        raise ZeroDivisionError

    async with pair(act) as (supervisor, _):
        with pytest.raises(WorkerFailed, match="ZeroDivisionError"):
            await supervisor.ask(control.CommitPrepared(), control.Done, 5)


async def test_an_answer_to_another_question_is_a_fault() -> None:
    """It would be taken for something that was never done."""

    async def act(_: Call) -> Answer:
        return control.Roles(("admins",))

    async with pair(act) as (supervisor, _):
        with pytest.raises(WorkerFailed, match="Roles is no answer to CommitPrepared"):
            await supervisor.ask(control.CommitPrepared(), control.Done, 5)


async def test_a_worker_that_does_not_answer_is_gone() -> None:
    """A process that hangs must not hang the others."""

    async def act(_: Call) -> Answer:
        await asyncio.sleep(0.2)
        return control.Done()

    async with pair(act) as (supervisor, _):
        with pytest.raises(WorkerGone):
            await supervisor.ask(control.CommitPrepared(), control.Done, 0.01)


async def test_a_waiting_caller_learns_of_the_end() -> None:
    """A killed worker answers nothing, ever."""
    ours, theirs = socket.socketpair()
    supervisor = await Conversation.begin(ours, _silent)
    waiting = asyncio.create_task(supervisor.ask(control.Report(), control.Reported, 30))
    await asyncio.sleep(0)
    theirs.close()
    with pytest.raises(WorkerGone):
        await waiting
    with pytest.raises(WorkerGone):
        await supervisor.ask(control.Report(), control.Reported, 30)
    await supervisor.aclose()


@pytest.mark.parametrize(
    "sent",
    (
        b"\xff\xff\xff\xff",  # four gigabytes
        b"\x00\x00\x00\x03\xc1\xc1\xc1",  # no MessagePack
        b"\x00\x00\x00\x09abc",  # torn
    ),
)
async def test_garbage_ends_the_conversation_and_nothing_else(sent: bytes) -> None:
    """Memory that was written over in one process must not take the other with it."""
    ours, theirs = socket.socketpair()
    supervisor = await Conversation.begin(ours, _silent)
    theirs.send(sent)
    theirs.close()
    with pytest.raises(WorkerGone):
        await supervisor.ask(control.Report(), control.Reported, 30)
    await supervisor.aclose()


async def test_a_worker_learns_when_its_supervisor_is_no_more() -> None:
    """Orphans would hold the port, and serve a policy that is not renewed."""
    ours, theirs = socket.socketpair()
    worker = await Conversation.begin(theirs, _silent)
    ours.close()
    await asyncio.wait_for(worker.ended.wait(), 5)
    await worker.aclose()


async def test_both_ends_ask_at_the_same_time() -> None:
    """A worker that tells what it saw must not be kept waiting by a reload, nor be given the reload's answer."""
    slow = asyncio.Event()

    async def worker_acts(call: Call) -> Answer:
        await slow.wait()
        return control.ReadyToCommit(Candidate("rev", "rev", (), ()))

    async def supervisor_acts(call: Call) -> Answer:
        assert call == control.Tell(HEARD)
        return control.Done()

    async with pair(worker_acts, supervisor_acts) as (supervisor, worker):
        prepared = asyncio.create_task(supervisor.ask(control.Prepare(1, Scope.ALL), control.ReadyToCommit, 5))
        assert await worker.ask(control.Tell(HEARD), control.Done, 5) == control.Done()
        assert not prepared.done()
        slow.set()
        assert (await prepared).candidate.revision == "rev"


async def test_calls_are_begun_in_the_order_in_which_they_were_made() -> None:
    """What was seen of a table first must be taken in first."""
    begun: list[int] = []

    async def act(call: Call) -> Answer:
        assert isinstance(call, control.Prepare)
        begun.append(call.epoch)
        await asyncio.sleep(0.01 if call.epoch % 2 else 0)
        return control.Done()

    async with pair(act) as (supervisor, _):
        calls = (supervisor.ask(control.Prepare(n, Scope.ALL), control.Done, 5) for n in range(50))
        await asyncio.gather(*calls)
    assert begun == list(range(50))


async def test_what_was_asked_is_answered_before_the_end() -> None:
    """The last report of a worker has its last counts."""
    asked, answer = asyncio.Event(), asyncio.Event()

    async def act(_: Call) -> Answer:
        asked.set()
        await answer.wait()
        return control.Done()

    async with pair(act) as (supervisor, worker):
        waiting = asyncio.create_task(supervisor.ask(control.Reopen(), control.Done, 5))
        await asked.wait()
        ending = asyncio.create_task(worker.aclose())
        await asyncio.sleep(0.01)
        answer.set()
        assert await waiting == control.Done()
        await ending


@pytest.mark.parametrize(
    "call",
    (
        control.Start(1, 2, "settings.yaml", {"listen.port": "0"}, b"secret" * 8),
        control.RolesOf("secret-token"),
    ),
)
def test_secrets_of_a_call_are_never_shown(call: Call) -> None:
    """A log line of a call that failed would hand them out."""
    assert "secret" not in repr(call).replace("secret_file", "")


@pytest.mark.parametrize("sighting", SIGHTINGS, ids=lambda sighting: type(sighting).__name__)
async def test_every_sighting_arrives_as_it_was(sighting: Sighting) -> None:
    """A drop that arrives as something else leaves a table signed for that is no more."""
    heard: list[control.Call] = []

    async def act(call: Call) -> Answer:
        heard.append(call)
        return control.Done()

    async with pair(act) as (supervisor, _):
        await supervisor.ask(control.Hear((Heard(sighting, 1.5),)), control.Done, 5)
    assert heard == [control.Hear((Heard(sighting, 1.5),))]
