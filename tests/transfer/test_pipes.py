"""Pipes are lent empty, and never more of them than a user may have."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator

import pytest

from signproxy.transfer import pipes
from signproxy.transfer.pipes import KEPT, LEAST, OPEN, Pipe, Pipes, make_pipe


@pytest.fixture
def pool() -> Iterator[Pipes]:
    made = Pipes(make_pipe)
    yield made
    made.close()
    assert made.open == 0


def test_an_empty_pipe_is_lent_again(pool: Pipes) -> None:
    """Making a pipe for each object costs more than it saves."""
    first = pool.borrow()
    assert first is not None
    assert first.size >= LEAST
    pool.give_back(first, 0)
    assert pool.borrow() == first
    assert pool.open == 1
    pool.give_back(first, 0)


def test_what_was_left_in_a_pipe_reaches_no_reader(pool: Pipes) -> None:
    """The rest of an aborted object in the middle of another caller's is the worst that a proxy can do."""
    first = pool.borrow()
    assert first is not None
    os.write(first.sink, b"secret")
    pool.give_back(first, 6)
    assert pool.open == 0
    second = pool.borrow()
    assert second is not None
    with pytest.raises(BlockingIOError):
        os.read(second.source, 10)
    pool.give_back(second, 0)


def test_few_pipes_are_kept_and_not_too_many_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peak of transfers must not take the process's descriptors, nor keep them."""
    closed: list[int] = []
    monkeypatch.setattr(os, "close", closed.append)
    numbers = iter(range(1000, 10_000, 2))
    pool = Pipes(lambda: Pipe(next(numbers), next(numbers) - 1, LEAST))
    lent = [pool.borrow() for _ in range(OPEN + 1)]
    assert lent[-1] is None
    for pipe in lent[:-1]:
        assert pipe is not None
        pool.give_back(pipe, 0)
    assert pool.open == KEPT
    assert len(closed) == 2 * (OPEN - KEPT)
    pool.close()
    assert len(closed) == 2 * OPEN


def test_no_descriptors_are_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are no pipes, bodies take the other way."""

    def none_left(flags: int) -> tuple[int, int]:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "pipe2", none_left)
    assert pipes.make_pipe() is None


@pytest.mark.parametrize(("granted", "usable"), ((LEAST, True), (8192, False)))
def test_a_user_with_many_pipes_gets_smaller_ones(monkeypatch: pytest.MonkeyPatch, granted: int, usable: bool) -> None:
    """The kernel refuses large pipes to users without privileges, and small ones are slower than none."""
    real = os.pipe2
    made: list[int] = []

    def noted(flags: int) -> tuple[int, int]:
        made.extend(real(flags))
        return made[0], made[1]

    def control(descriptor: int, command: int, argument: int = 0) -> int:
        if command == fcntl.F_SETPIPE_SZ:
            raise PermissionError(1, "Operation not permitted")
        return granted

    monkeypatch.setattr(os, "pipe2", noted)
    monkeypatch.setattr(fcntl, "fcntl", control)
    pipe = make_pipe()
    assert (pipe is not None) is usable
    if pipe is not None:
        os.close(pipe.source)
        os.close(pipe.sink)
    for descriptor in made:
        with pytest.raises(OSError, match="Bad file"):
            os.fstat(descriptor)
