"""The supervisor and a worker over their socket pair: every call is answered, or the other end counts as gone."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from msgspec import Raw

from signproxy.errors import Finding, Invalid, PolicyInvalid, Reason, Refused
from signproxy.inventory.learned.sighting import Changed, Dropped, Gone, Live, Renamed, Sighting, Staged, TableFacts
from signproxy.server.process.conversation import Conversation, Duty, Find, Start, Telling, _Call
from signproxy.server.process.fleet import Candidate, WorkerFailed, WorkerGone
from signproxy.server.process.generation import Scope
from signproxy.server.process.sightings import Heard
from tests.waiting import turns

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


def _silent(name: str) -> Callable[..., Awaitable[object]]:
    raise AssertionError(f"not asked: {name}")


def only(**acts: Callable[..., Awaitable[object]]) -> Find:
    """Return what finds these calls by their names."""
    return acts.__getitem__


CANDIDATE = Candidate("rev", "rev/keys", ("a change",), ())


@asynccontextmanager
async def pair(find: Find, ours: Find = _silent) -> AsyncIterator[tuple[Conversation, Conversation]]:
    ends = socket.socketpair()
    supervisor = await Conversation.begin(ends[0], Telling, ours)
    worker = await Conversation.begin(ends[1], Duty, find)
    try:
        yield supervisor, worker
    finally:
        await supervisor.aclose()
        await asyncio.wait_for(worker.ended.wait(), 5)
        await worker.aclose()


async def test_a_call_brings_its_answer() -> None:
    """Everything that the supervisor knows of its workers comes this way."""

    async def prepare(epoch: int, scope: Scope) -> Candidate:
        assert (epoch, scope) == (7, Scope.KEEP_POLICY)
        return CANDIDATE

    async with pair(only(prepare=prepare)) as (supervisor, _):
        assert await supervisor.ask(5, Duty.prepare, 7, Scope.KEEP_POLICY) == CANDIDATE


async def test_answers_may_come_in_another_order() -> None:
    """A minute's reading of a policy must not hide how the worker is doing."""
    slow, reopened = asyncio.Event(), asyncio.Event()

    async def prepare(*_: object) -> Candidate:
        await slow.wait()
        return CANDIDATE

    async def reopen() -> None:
        reopened.set()

    async with pair(only(prepare=prepare, reopen=reopen)) as (supervisor, _):
        first = asyncio.create_task(supervisor.ask(5, Duty.prepare, 1, Scope.ALL))
        await supervisor.ask(5, Duty.reopen)
        assert reopened.is_set()
        assert not first.done()
        slow.set()
        assert await first == CANDIDATE


async def test_faults_of_the_operator_arrive_as_they_were() -> None:
    """`worker 2 failed` mends no policy."""
    finding = Finding("policy.yaml", "grants[3].role", "unknown role 'raeder' (did you mean 'reader'?)")

    async def prepare(*_: object) -> Candidate:
        raise PolicyInvalid([finding])

    async with pair(only(prepare=prepare)) as (supervisor, _):
        with pytest.raises(Invalid) as invalid:
            await supervisor.ask(5, Duty.prepare, 1, Scope.ALL)
        assert invalid.value.findings == (finding,)


async def test_a_refused_token_is_refused_here_too() -> None:
    """A stranger must not see the status page because its token was checked elsewhere."""

    async def roles_of(token: str) -> tuple[str, ...]:
        raise Refused(Reason.TOKEN_EXPIRED, f"{len(token)} characters")

    async with pair(only(roles_of=roles_of)) as (supervisor, _):
        with pytest.raises(Refused) as refused:
            await supervisor.ask(5, Duty.roles_of, "secret-token")
        assert refused.value.reason is Reason.TOKEN_EXPIRED
        assert refused.value.detail == "12 characters"


@pytest.mark.parametrize("method", (Duty.commit, Telling.tell))
async def test_a_fault_of_the_worker_is_an_answer(method: Callable[..., Awaitable[object]]) -> None:
    """Waiting for a call that failed, or that is not for this end, would hold up every reload."""

    async def commit() -> None:
        raise ZeroDivisionError

    async with pair(only(commit=commit)) as (supervisor, _):
        with pytest.raises(WorkerFailed, match=r"(ZeroDivisionError in commit|AttributeError in tell)"):
            await supervisor.ask(5, method)


async def test_an_answer_to_another_question_is_a_fault() -> None:
    """It would be taken for something that was never done."""

    async def commit() -> tuple[str, ...]:
        return ("admins",)

    async with pair(only(commit=commit)) as (supervisor, _):
        with pytest.raises(WorkerFailed, match="no answer to commit"):
            await supervisor.ask(5, Duty.commit)


async def test_a_worker_that_does_not_answer_is_gone() -> None:
    """A process that hangs must not hang the others."""
    answer = asyncio.Event()

    async def commit() -> None:
        await answer.wait()

    async with pair(only(commit=commit)) as (supervisor, _):
        with pytest.raises(WorkerGone):
            await supervisor.ask(0.01, Duty.commit)
        answer.set()


async def test_a_waiting_caller_learns_of_the_end() -> None:
    """A killed worker answers nothing, ever."""
    ours, theirs = socket.socketpair()
    supervisor = await Conversation.begin(ours, Telling, _silent)
    waiting = asyncio.create_task(supervisor.ask(30, Duty.report))
    await asyncio.sleep(0)
    theirs.close()
    with pytest.raises(WorkerGone):
        await waiting
    with pytest.raises(WorkerGone):
        await supervisor.ask(30, Duty.report)
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
    supervisor = await Conversation.begin(ours, Telling, _silent)
    theirs.send(sent)
    theirs.close()
    with pytest.raises(WorkerGone):
        await supervisor.ask(30, Duty.report)
    await supervisor.aclose()


async def test_a_worker_learns_when_its_supervisor_is_no_more() -> None:
    """Orphans would hold the port, and serve a policy that is not renewed."""
    ours, theirs = socket.socketpair()
    worker = await Conversation.begin(theirs, Duty, _silent)
    ours.close()
    await asyncio.wait_for(worker.ended.wait(), 5)
    await worker.aclose()


async def test_both_ends_ask_at_the_same_time() -> None:
    """A worker that tells what it saw must not be kept waiting by a reload, nor be given the reload's answer."""
    slow = asyncio.Event()
    told: list[Heard] = []

    async def prepare(*_: object) -> Candidate:
        await slow.wait()
        return CANDIDATE

    async def tell(heard: Heard) -> None:
        told.append(heard)

    async with pair(only(prepare=prepare), only(tell=tell)) as (supervisor, worker):
        prepared = asyncio.create_task(supervisor.ask(5, Duty.prepare, 1, Scope.ALL))
        await worker.ask(5, Telling.tell, HEARD)
        assert told == [HEARD]
        assert not prepared.done()
        slow.set()
        assert await prepared == CANDIDATE


async def test_calls_are_begun_in_the_order_in_which_they_were_made() -> None:
    """What was seen of a table first must be taken in first."""
    begun: list[int] = []

    async def prepare(epoch: int, _: Scope) -> Candidate:
        begun.append(epoch)
        await asyncio.sleep(0.01 if epoch % 2 else 0)
        return CANDIDATE

    async with pair(only(prepare=prepare)) as (supervisor, _):
        await asyncio.gather(*(supervisor.ask(5, Duty.prepare, n, Scope.ALL) for n in range(50)))
    assert begun == list(range(50))


async def test_what_was_asked_is_answered_before_the_end() -> None:
    """The last report of a worker has its last counts."""
    asked, answer = asyncio.Event(), asyncio.Event()

    async def roles_of(_: str) -> tuple[str, ...]:
        asked.set()
        await answer.wait()
        return ("admins",)

    async with pair(only(roles_of=roles_of)) as (supervisor, worker):
        waiting = asyncio.create_task(supervisor.ask(5, Duty.roles_of, "token"))
        await asked.wait()
        ending = asyncio.create_task(worker.aclose())
        await turns()
        answer.set()
        assert await waiting == ("admins",)
        await ending


def test_secrets_of_a_call_are_never_shown() -> None:
    """A log line of a call that failed would hand them out."""
    start = Start(1, 2, "settings.yaml", {"listen.port": "0"}, b"secret" * 8)
    assert "secret" not in repr(start).replace("secret_file", "")
    assert "secret" not in repr(_Call(1, "roles_of", Raw(b"secret-token")))


@pytest.mark.parametrize("sighting", SIGHTINGS, ids=lambda sighting: type(sighting).__name__)
async def test_every_sighting_arrives_as_it_was(sighting: Sighting) -> None:
    """A drop that arrives as something else leaves a table signed for that is no more."""
    found: list[tuple[Heard, ...]] = []

    async def hear(heard: tuple[Heard, ...]) -> None:
        found.append(heard)

    async with pair(only(hear=hear)) as (supervisor, _):
        await supervisor.ask(5, Duty.hear, (Heard(sighting, 1.5),))
    assert found == [(Heard(sighting, 1.5),)]
