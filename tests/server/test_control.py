"""The supervisor and a worker over their socket pair: every call is answered, or the worker counts as gone."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from signproxy.errors import Finding, Invalid, PolicyInvalid, Reason, Refused
from signproxy.server import control
from signproxy.server.control import Answer, Asking, Call, WorkerFailed
from signproxy.server.fleet import Candidate, Gone
from signproxy.server.generation import Scope

Act = Callable[[Call], Awaitable[Answer]]


@asynccontextmanager
async def pair(act: Act) -> AsyncIterator[tuple[Asking, asyncio.Task[None]]]:
    ours, theirs = socket.socketpair()
    asking = Asking(*await control.connect(ours))
    worker = asyncio.create_task(control.answer_calls(*await control.connect(theirs), act))
    try:
        yield asking, worker
    finally:
        await asking.aclose()
        await worker


async def test_a_call_brings_its_answer() -> None:
    """Everything that the supervisor knows of its workers comes this way."""

    async def act(call: Call) -> Answer:
        assert call == control.Prepare(7, Scope.KEEP_POLICY)
        return control.Prepared(Candidate("rev", "rev/keys", ("a change",), ()))

    async with pair(act) as (asking, _):
        answer = await asking.ask(control.Prepare(7, Scope.KEEP_POLICY), control.Prepared, 5)
        assert answer.candidate == Candidate("rev", "rev/keys", ("a change",), ())


async def test_answers_may_come_in_another_order() -> None:
    """A minute's reading of a policy must not hide how the worker is doing."""
    slow = asyncio.Event()

    async def act(call: Call) -> Answer:
        if isinstance(call, control.Prepare):
            await slow.wait()
            return control.Prepared(Candidate("slow", "slow/keys", (), ()))
        return control.Done()

    async with pair(act) as (asking, _):
        first = asyncio.create_task(asking.ask(control.Prepare(1, Scope.ALL), control.Prepared, 5))
        assert await asking.ask(control.Reopen(), control.Done, 5) == control.Done()
        slow.set()
        assert (await first).candidate.revision == "slow"


async def test_faults_of_the_operator_arrive_as_they_were() -> None:
    """`worker 2 failed` mends no policy."""
    finding = Finding("policy.yaml", "grants[3].role", "unknown role 'raeder' (did you mean 'reader'?)")

    async def act(_: Call) -> Answer:
        raise PolicyInvalid([finding])

    async with pair(act) as (asking, _):
        with pytest.raises(Invalid) as invalid:
            await asking.ask(control.Prepare(1, Scope.ALL), control.Prepared, 5)
        assert invalid.value.findings == (finding,)


async def test_a_refused_token_is_refused_here_too() -> None:
    """A stranger must not see the status page because its token was checked elsewhere."""

    async def act(_: Call) -> Answer:
        raise Refused(Reason.TOKEN_EXPIRED, "an hour ago")

    async with pair(act) as (asking, _):
        with pytest.raises(Refused) as refused:
            await asking.ask(control.RolesOf("secret-token"), control.Roles, 5)
        assert refused.value.reason is Reason.TOKEN_EXPIRED
        assert "secret-token" not in repr(control.RolesOf("secret-token"))


async def test_a_fault_of_the_worker_is_an_answer() -> None:
    """Waiting for a call that failed would hold up every reload."""

    async def act(_: Call) -> Answer:
        raise ZeroDivisionError

    async with pair(act) as (asking, _):
        with pytest.raises(WorkerFailed, match="ZeroDivisionError"):
            await asking.ask(control.Commit(), control.Done, 5)


async def test_an_answer_to_another_question_is_a_fault() -> None:
    """It would be taken for something that was never done."""

    async def act(_: Call) -> Answer:
        return control.Roles(("admins",))

    async with pair(act) as (asking, _):
        with pytest.raises(WorkerFailed, match="Roles is no answer to Commit"):
            await asking.ask(control.Commit(), control.Done, 5)


async def test_a_worker_that_does_not_answer_is_gone() -> None:
    """A process that hangs must not hang the others."""

    async def act(_: Call) -> Answer:
        await asyncio.sleep(0.2)
        return control.Done()

    async with pair(act) as (asking, _):
        with pytest.raises(Gone):
            await asking.ask(control.Commit(), control.Done, 0.01)


async def test_whoever_waits_learns_of_the_end() -> None:
    """A killed worker answers nothing, ever."""
    ours, theirs = socket.socketpair()
    asking = Asking(*await control.connect(ours))
    waiting = asyncio.create_task(asking.ask(control.Report(), control.Reported, 30))
    await asyncio.sleep(0)
    theirs.close()
    with pytest.raises(Gone):
        await waiting
    with pytest.raises(Gone):
        await asking.ask(control.Report(), control.Reported, 30)
    await asking.aclose()


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
    asking = Asking(*await control.connect(ours))
    theirs.send(sent)
    theirs.close()
    with pytest.raises(Gone):
        await asking.ask(control.Report(), control.Reported, 30)
    await asking.aclose()


async def test_a_worker_ends_when_its_supervisor_is_no_more() -> None:
    """Orphans would hold the port, and serve a policy that nobody renews."""

    async def act(_: Call) -> Answer:
        return control.Done()

    ours, theirs = socket.socketpair()
    worker = asyncio.create_task(control.answer_calls(*await control.connect(theirs), act))
    ours.close()
    await asyncio.wait_for(worker, 5)
