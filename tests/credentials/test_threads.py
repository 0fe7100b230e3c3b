"""Blocking calls run beside the loop: bounded, never waited for at the end, and with their answers delivered once."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from signproxy.credentials.threads import LIMIT, Threads
from tests.waiting import turns, until

NAME = "signproxy-credentials"


def ours() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == NAME]


async def test_answers_and_errors_come_back() -> None:
    """Whatever a call raises is for its caller to judge."""
    threads = Threads()
    assert await threads.run(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 // 0)


async def test_no_more_than_the_limit_run_at_once() -> None:
    """Each hanging call holds a thread; the next ones wait for their turn instead of starting another."""
    threads, gate, before = Threads(), threading.Event(), ours()
    running: list[None] = []

    def call() -> None:
        running.append(None)
        gate.wait(20)

    asking = [asyncio.create_task(threads.run(call)) for _ in range(3 * LIMIT)]
    await until(lambda: len(running) >= LIMIT)
    await turns()
    assert (len(running), len(set(ours()) - set(before))) == (LIMIT, LIMIT)
    gate.set()
    await asyncio.gather(*asking)
    assert len(running) == 3 * LIMIT


async def test_a_call_that_was_given_up_keeps_its_place_until_it_ends() -> None:
    """Else a service that hangs would get one more thread with every retry."""
    threads, gate = Threads(limit=1), threading.Event()
    given_up = asyncio.create_task(threads.run(lambda: gate.wait(20)))
    await turns()
    given_up.cancel()
    await asyncio.gather(given_up, return_exceptions=True)
    waiting = asyncio.create_task(threads.run(lambda: "next"))
    await turns()
    assert not waiting.done()
    gate.set()
    assert await waiting == "next"


async def test_a_machine_without_threads_to_give_is_an_error_that_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of a container on processes counts threads too."""
    threads = Threads(limit=1)

    def refused(_self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        for _ in range(3):
            with pytest.raises(RuntimeError, match="can't start"):
                await threads.run(lambda: None)
    assert await threads.run(lambda: "again") == "again"


def test_a_call_that_hangs_does_not_hold_up_the_end() -> None:
    """An orchestrator waits 30 s and then kills; an audit segment would be lost with it."""
    script = """
import asyncio, threading
from signproxy.credentials.threads import Threads

async def main():
    asking = asyncio.create_task(Threads().run(lambda: threading.Event().wait(600)))
    await asyncio.sleep(0.05)
    asking.cancel()

asyncio.run(main())
print("ended")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("ended\n", "")


def test_an_answer_after_the_end_of_the_loop_is_dropped() -> None:
    """A thread whose answer is not awaited must not write a trace into the log."""
    gate, ended = threading.Event(), threading.Event()

    def call() -> None:
        gate.wait(20)
        ended.set()

    async def main() -> None:
        asking = asyncio.create_task(Threads().run(call))
        await turns()
        asking.cancel()

    before = ours()
    asyncio.run(main())
    (thread,) = set(ours()) - set(before)
    gate.set()
    thread.join(20)
    assert ended.is_set()
    assert not thread.is_alive()
