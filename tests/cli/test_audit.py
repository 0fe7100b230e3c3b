"""`signproxy audit`: what is wrong with a trail is told exactly, and nothing in it acts on the terminal."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from signproxy.cli import main
from tests.audit.segment_rig import Life, rewritten

HOSTILE = "sales/\x1b[2J\u202egpj.exe\u2066\x07\r\n\x9b31m"
"""Clears a screen, reads backwards, rings, and begins a line of its own."""


ENDLESS = "is the last that is there of a life that did not end in order"


def acts(text: str) -> bool:
    return any(not each.isprintable() for each in text.replace("\n", ""))


@pytest.fixture
def life(tmp_path: Path) -> Life:
    return Life(tmp_path)


def test_a_whole_trail_is_told_in_a_line(life: Life, capsys: pytest.CaptureFixture[str]) -> None:
    """A check that says nothing cannot be told from one that did not look."""
    life.rotate(3)
    life.write(2)
    life.sink.close()
    assert main(["audit", "verify", str(life.directory)]) == 0
    assert capsys.readouterr().out == "2 segments of 1 process, 5 events: nothing is missing or altered\n"


def test_what_is_missing_is_told_and_the_exit_code_says_so(life: Life, capsys: pytest.CaptureFixture[str]) -> None:
    """A scheduled check would be green while a segment is gone."""
    life.rotate(3)
    path = life.rotate(3)
    life.rotate(1)
    path.unlink()
    assert main(["audit", "verify", str(life.directory)]) == 5
    assert capsys.readouterr().out.splitlines() == [
        f"fault: segment 2 of {life.boot_id}, with events 4 to 6, is missing",
        f"note: {life.sealed[2].name} {ENDLESS}: sealed by rotation",
        "2 segments of 1 process, 4 events: 1 fault",
    ]


def test_programs_get_json(life: Life, capsys: pytest.CaptureFixture[str]) -> None:
    """A monitor would parse sentences."""
    life.rotate(3)
    path = life.rotate(3)
    rewritten(path, lambda lines: [line.replace(b"alice", b"mally") for line in lines])
    assert main(["audit", "verify", "--json", str(life.directory)]) == 5
    told = json.loads(capsys.readouterr().out)
    assert (told["whole"], told["segments"], told["events"], told["lives"]) == (False, 2, 6, 1)
    assert [(fault["fault"], fault["file"]) for fault in told["faults"]] == [("altered", path.name)]


def test_a_spool_that_is_shipped_is_no_fault(life: Life, capsys: pytest.CaptureFixture[str]) -> None:
    """The check of a server that ships would fail for ever."""
    life.rotate(3).unlink()
    life.rotate(3)
    assert main(["audit", "verify", "--partial", str(life.directory)]) == 0
    assert "note: segment 1 of" in capsys.readouterr().out
    assert main(["audit", "verify", str(life.directory)]) == 5


@pytest.mark.parametrize("name", ("", "none"))
def test_a_directory_without_segments_is_not_whole(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong path in a scheduled check would pass for a trail in order."""
    assert main(["audit", "verify", str(tmp_path / name)]) == 1
    assert "segments" in capsys.readouterr().err or name


@pytest.mark.parametrize("command", (["tail"], ["tail", "--json"], ["show"], ["show", "--json"], ["verify"]))
def test_nothing_in_the_trail_acts_on_the_terminal(
    life: Life, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A caller chooses a key's name: it could clear the auditor's screen, or hide what the trail says."""
    life.write(1, key=HOSTILE, principal=HOSTILE, user_agent=HOSTILE, request_id=HOSTILE, detail=HOSTILE)
    life.sink.close()
    word, *flags = command
    asked = [HOSTILE] if word == "show" else []
    assert main(["audit", word, *flags, *asked, str(life.directory)]) == 0
    shown = capsys.readouterr()
    assert shown.out
    assert not acts(shown.out + shown.err)


def test_an_event_is_shown_with_what_its_reason_means(life: Life, capsys: pytest.CaptureFixture[str]) -> None:
    """An auditor with an id from a store's log would search through archives by hand."""
    life.rotate(3)
    line = json.loads(life.write(2, reason="no_write_data", request_id="r-77").splitlines()[0])
    for wanted in (line["event_id"], "r-77"):
        assert main(["audit", "show", wanted, str(life.directory)]) == 0
        shown = capsys.readouterr().out
        assert line["event_id"] in shown
        assert "sales/orders/data/part-0.parquet" in shown
        assert "remedy" in shown
    assert main(["audit", "show", "nothing", str(life.directory)]) == 1
    assert "has no event with the id 'nothing'" in capsys.readouterr().err


def test_the_newest_events_of_all_processes_are_printed_in_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Workers write segments of their own; who looks for the last request does not know which served it."""
    one, two = Life(tmp_path), Life(tmp_path)
    for number in range(4):
        (one if number % 2 else two).write(1, principal=f"idp/p{number}")
        one.skip(1)
        two.skip(1)
    one.sink.close()
    assert main(["audit", "tail", "-n", "3", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert [line.split("  ")[0] for line in lines] == sorted(line.split("  ")[0] for line in lines)
    assert "sign  GetObject  idp/p3  prod.sales.orders  lake/sales/orders/data/part-0.parquet" in lines[-1]
    two.sink.close()


def test_many_segments_give_the_last_events(life: Life, capsys: pytest.CaptureFixture[str]) -> None:
    """The number that is asked for rarely ends with a file."""
    for _ in range(5):
        life.rotate(3)
    assert main(["audit", "tail", "--json", "-n", "7", str(life.directory)]) == 0
    assert [json.loads(line)["seq"] for line in capsys.readouterr().out.splitlines()] == list(range(9, 16))
    assert main(["audit", "tail", "-n", "0", str(life.directory)]) == 0
    assert capsys.readouterr().out == ""
    assert main(["audit", "tail", "-n", "x", str(life.directory)]) == 2


def test_events_that_come_are_followed(
    life: Life, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits for a request to fail would have to ask again and again."""
    life.write(3)
    pauses = 0

    def pause(_: float) -> None:
        nonlocal pauses
        pauses += 1
        if pauses == 4:
            raise KeyboardInterrupt
        life.write(1)
        if pauses == 2:
            life.sink.reopen()

    monkeypatch.setattr(time, "sleep", pause)
    assert main(["audit", "tail", "-f", "-n", "2", "--json", str(life.directory)]) == 130
    assert [json.loads(line)["seq"] for line in capsys.readouterr().out.splitlines()] == [2, 3, 4, 5, 6]
    life.sink.close()


def test_what_a_dead_process_left_is_sealed(life: Life, capsys: pytest.CaptureFixture[str]) -> None:
    """A volume that no server will ever use again still holds evidence, and readers pass over what is open."""
    life.write(2)
    assert main(["audit", "seal", str(life.directory)]) == 0
    assert capsys.readouterr().out == "nothing was left open by a process that is no more\n"
    assert life.sink._open is not None
    os.close(life.sink._open._fd)
    life.sink._open = None
    assert main(["audit", "seal", str(life.directory)]) == 0
    assert ": 2 events\n" in capsys.readouterr().out
    assert main(["audit", "verify", str(life.directory)]) == 0
