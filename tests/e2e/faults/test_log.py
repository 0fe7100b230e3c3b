"""The reader of the log is gone or stands still, under load: requests do not care, and the end is in order."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

import pytest

from tests.e2e.faults.conftest import Deploy
from tests.e2e.faults.deployment import CLOSED_ROUTE, Served
from tests.e2e.faults.evidence import check_every_answer
from tests.e2e.faults.load import SIGNED, load_on

pytestmark = pytest.mark.ci

DENIALS = 50
"""Each of them is worth a line of the log."""


def test_a_log_that_is_not_read_anymore_costs_lines_and_nothing_else(deploy: Deploy, workers: int) -> None:
    """A log agent is restarted: what it does not read is lost, and that is all."""
    deployment = deploy(workers)
    with _pipe() as (reading, writing), deployment.serve(log=writing.fileno()) as served, load_on(deployment) as load:
        reading.close()
        writing.close()
        _deny(served)
        load.wait_for(SIGNED, 50, since=time.monotonic())
        assert set(load.outcomes()) == {SIGNED}
        load.leave()
        served.signal(signal.SIGTERM)
        assert served.wait() == 0


def test_a_log_whose_reader_stands_still_holds_nothing_up(deploy: Deploy, workers: int) -> None:
    """A full disk of the container runtime stops its log driver, and must not stop the server that writes to it."""
    deployment = deploy(workers)
    with _pipe() as (_, writing), deployment.serve(log=writing.fileno()) as served:
        with load_on(deployment) as load:
            _fill(writing.fileno())
            _deny(served)
            load.wait_for(SIGNED, 50, since=time.monotonic())
            assert set(load.outcomes()) == {SIGNED}
            assert served.status("/readyz") == 200
        served.signal(signal.SIGTERM)
        assert served.wait() == 0
    check_every_answer(served.events(), load.exchanges)


def _deny(served: Served) -> None:
    statuses = {served.sign(route=CLOSED_ROUTE, key=f"wh/closed/{number}").status for number in range(DENIALS)}
    assert statuses == {403}


@contextmanager
def _pipe() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Open a pipe; return the end that is read and the one that is written."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb", 0) as one, os.fdopen(writing, "wb", 0) as other:
        yield one, other


def _fill(writing: int) -> None:
    """Write what the pipe takes and not a byte more, and leave it blocking, as the server has it."""
    os.set_blocking(writing, False)
    try:
        for size in (4_096, 1):
            with suppress(BlockingIOError):
                while True:
                    os.write(writing, b"x" * size)
    finally:
        os.set_blocking(writing, True)
