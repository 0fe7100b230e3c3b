"""What waits for nothing needs no task; what waits goes on in one, from where it stands."""

from __future__ import annotations

import asyncio

import pytest

from signproxy.gate.begun import Waiting, begin, in_task
from tests.coroutines import finished


def test_what_waits_for_nothing_is_done_at_once() -> None:
    """A task for each request would cost more than its decision."""

    async def inner() -> int:
        return 3

    async def outer() -> int:
        return await inner() + 1

    assert begin(outer()) == 4
    assert finished(outer()) == 4


def test_what_it_raises_is_raised_at_once() -> None:
    """A refusal would be lost with the coroutine, and its caller never be answered."""

    async def refuse() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        begin(refuse())


async def test_what_waits_goes_on_from_where_it_stands() -> None:
    """Begun anew, a request would be counted, judged and recorded twice."""
    steps: list[str] = []
    answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def asks() -> int:
        steps.append("before")
        found = await answer
        steps.append("between")
        await asyncio.sleep(0)
        steps.append("after")
        return found

    begun = begin(asks())
    assert isinstance(begun, Waiting)
    assert steps == ["before"]
    task = asyncio.ensure_future(begun)
    await asyncio.sleep(0)
    assert steps == ["before"]
    answer.set_result(7)
    assert await task == 7
    assert steps == ["before", "between", "after"]


async def test_what_is_waited_for_may_be_there_before_the_task() -> None:
    """An answer that came in between would be waited for until the client gives up."""
    answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def asks() -> int:
        return await answer

    begun = begin(asks())
    answer.set_result(7)
    assert isinstance(begun, Waiting)
    assert await asyncio.wait_for(begun, 5) == 7


@pytest.mark.parametrize("turns", (0, 1, 2, 5))
async def test_the_end_of_the_task_is_told_where_it_waits(turns: int) -> None:
    """A request that is cancelled has its event; were it not told, it would have none."""
    told: list[str] = []

    async def asks() -> None:
        try:
            await asyncio.sleep(0)
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            told.append("cancelled")
            raise

    begun = begin(asks())
    assert isinstance(begun, Waiting)
    task = asyncio.ensure_future(begun)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    # A task that is cancelled before its first turn never runs: what it was to go on with is ended by its owner.
    begun.close()
    assert told == (["cancelled"] if turns else [])


async def test_what_fails_while_it_waits_fails_there() -> None:
    """The code that asked decides what a fault of the answer means."""
    answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def asks() -> str:
        try:
            await answer
        except LookupError:
            return "told"
        return "missed"

    begun = begin(asks())
    assert isinstance(begun, Waiting)
    answer.set_exception(LookupError())
    assert await begun == "told"


async def test_a_time_limit_ends_the_task_that_waits_and_no_other() -> None:
    """Bound to the task that happened to run, a time limit would cancel the request of another caller."""

    async def limited() -> str:
        await in_task()
        try:
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        except TimeoutError:
            return "out of time"
        return "in time"

    # This test runs in a task itself, as a connection does that reads on after an answer.
    begun = begin(limited())
    assert isinstance(begun, Waiting)
    assert await asyncio.ensure_future(begun) == "out of time"
    # In a task of its own, it needs no other.
    assert await limited() == "out of time"


async def test_what_is_begun_within_another_waits_with_it() -> None:
    """Judging by a body lets go of the others' turn before it waits for an upstream."""

    async def inner() -> int:
        await in_task()
        return 1

    async def outer() -> tuple[bool, int]:
        begun = begin(inner())
        assert isinstance(begun, Waiting)
        return True, await begun

    begun = begin(outer())
    assert isinstance(begun, Waiting)
    assert await begun == (True, 1)


def test_what_should_not_wait_is_ended() -> None:
    """A test that leaves a coroutine behind would be told of another test's fault."""
    ended: list[bool] = []

    async def waits() -> None:
        try:
            await in_task()
        finally:
            ended.append(True)

    with pytest.raises(TypeError, match="waits"):
        finished(waits())
    assert ended == [True]
