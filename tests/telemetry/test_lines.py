"""Lines of the log reach their reader, or are counted; no request ever waits for one."""

from __future__ import annotations

import os
import threading

import pytest

from signproxy.telemetry import lines
from signproxy.telemetry.lines import LineWriter
from tests.waiting import blocked_until

WAIT = 30.0


class Reader:
    """What a descriptor leads to: it takes bytes, stands still or is gone."""

    def __init__(self) -> None:
        self.taken = b""
        self.gone = False
        self.open = threading.Event()
        self.open.set()

    def take(self, _fd: int, content: bytes) -> int:
        self.open.wait(WAIT)
        if self.gone:
            raise BrokenPipeError
        # As a pipe that has room for a few bytes only.
        self.taken += content[:7]
        return len(content[:7])

    @property
    def text(self) -> str:
        return self.taken.decode()


def test_lines_arrive_whole_and_in_order() -> None:
    """Half a line is no JSON, and a reader throws it away."""
    reader = Reader()
    writer = LineWriter(2, write=reader.take)
    for number in range(200):
        writer.write(f"line {number}\n")
    writer.close(WAIT)
    assert reader.text == "".join(f"line {number}\n" for number in range(200))


def test_a_reader_that_stands_still_holds_nothing_up() -> None:
    """A log driver with a full disk stops reading; requests must go on, and so must the end of the process."""
    reader = Reader()
    reader.open.clear()
    writer = LineWriter(2, write=reader.take)
    for number in range(lines.MAX_WAITING + 500):
        writer.write(f"{number}\n")
    writer.flush()
    writer.close(0)
    reader.open.set()
    blocked_until(lambda: "were not written" in reader.text)
    assert '"count":500' in reader.text


def test_a_reader_that_is_gone_costs_its_lines_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log agent is restarted: what was written meanwhile is lost, and that is told to the next."""
    monkeypatch.setattr(lines, "PAUSE_SECONDS", 0.001)
    reader = Reader()
    reader.gone = True
    writer = LineWriter(2, write=reader.take)
    writer.write("lost\n")
    blocked_until(lambda: writer.dropped == 1)
    reader.gone = False
    writer.write("read\n")
    writer.close(WAIT)
    assert reader.text.startswith("read\n")
    assert '"count":1' in reader.text
    assert "lost\n" not in reader.text


def test_what_is_written_last_is_waited_for() -> None:
    """The last line says why a process ended."""
    reading, writing = os.pipe()
    try:
        writer = LineWriter(writing)
        writer.write("stopped\n")
        writer.close(WAIT)
        assert os.read(reading, 100) == b"stopped\n"
    finally:
        os.close(reading)
        os.close(writing)
