"""The ways of a request stay as short as they are: a call that is added is seen."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.walk.__main__ import main
from tests.walk.record import Recorded, difference, load, recorded_of
from tests.walk.steps import Counts, Profile, Step, Walk
from tests.walk.ways import WAYS, walk_of


@pytest.mark.parametrize("way", WAYS)
def test_a_way_takes_as_many_calls_as_recorded(way: str) -> None:
    """Each helper and each detour is small: nothing else would tell that every request makes more of them."""
    found = difference(way, load()[way], recorded_of(walk_of(way)))
    assert not found, found


def test_the_quick_way_is_the_one_that_is_walked() -> None:
    """The same request would be counted twice, and the way that most reads take never."""
    assert walk_of("get-quick").counts.calls * 2 < walk_of("get").counts.calls


# -- how calls are counted -----------------------------------------------------------------------------------------


async def _waits(rounds: int) -> list[int]:
    for _ in range(rounds):
        await asyncio.sleep(0)
    return [number * 2 for number in range(rounds)]


def test_a_coroutine_counts_once_however_often_it_goes_on() -> None:
    """The counts would depend on how the network cuts an answer into packets."""
    profile = Profile(Path(__file__).parent)

    async def run() -> None:
        begun = asyncio.ensure_future(_waits(5))
        await asyncio.sleep(0)
        with profile.on():
            await _waits(3)
            await begun

    asyncio.run(run())
    assert profile.walk.steps == (Step("test_walk.py", "test_walk._waits"),)


def test_frames_of_libraries_and_of_tests_do_not_count() -> None:
    """A library's release would change the counts of the product."""
    profile = Profile()
    with profile.on():
        asyncio.run(_waits(1))
    assert profile.walk.steps == ()


def test_switches_are_counted_between_one_call_and_the_next() -> None:
    """A reader who follows a request pays for each file that is opened, and for each one that is come back to."""
    files = ("s3/uri.py", "s3/uri.py", "errors.py", "s3/key.py", "s3/uri.py", "policy/decide.py")
    walk = Walk(tuple(Step(file, file) for file in files))
    assert walk.counts == Counts(calls=6, files=4, file_switches=4, room_switches=3)
    assert [step.room for step in walk.steps[1:4]] == ["s3", "errors", "s3"]


# -- what is told of a difference ----------------------------------------------------------------------------------

BEFORE = Recorded(100, 40, 60, 30, ("s3.uri.split", "s3.key.check"))


@pytest.mark.parametrize(
    ("now", "told"),
    (
        (BEFORE, ""),
        (Recorded(95, 38, 57, 29, ()), ""),
        (Recorded(101, 40, 60, 30, ("s3.uri.split", "s3.query.parse")), "101 calls instead of 100"),
        (Recorded(100, 41, 61, 30, ()), "41 files instead of 40, 61 file switches instead of 60"),
        (Recorded(94, 40, 60, 31, ()), "94 calls instead of 100, 31 room switches instead of 30"),
    ),
)
def test_what_is_longer_or_clearly_shorter_is_told(now: Recorded, told: str) -> None:
    """A longer way would pass, or the calls that a change saved could come back one by one."""
    first = difference("sign", BEFORE, now).partition("\n")[0]
    assert first == (f"sign: {told}" if told else "")


def test_functions_that_are_new_or_gone_are_named() -> None:
    """A number alone would leave its reader to search for the call that was added."""
    now = Recorded(101, 40, 60, 30, ("s3.uri.split", "s3.query.parse"))
    lines = difference("sign", BEFORE, now).splitlines()
    assert [line.strip() for line in lines[1:3]] == ["new: s3.query.parse", "gone: s3.key.check"]
    assert "python -m tests.walk --record" in lines[3]


# -- the command ---------------------------------------------------------------------------------------------------


def test_the_command_prints_the_counts_and_writes_the_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The test above would name a command that does not make it pass."""
    file = tmp_path / "record.json"
    assert main(["--record", str(file)]) == 0
    heading, *rows = capsys.readouterr().out.splitlines()
    assert heading.split()[:3] == ["way", "calls", "files"]
    assert {row.split()[0]: int(row.split()[1]) for row in rows} == {way: walk_of(way).counts.calls for way in WAYS}
    assert load(file) == {way: recorded_of(walk_of(way)) for way in WAYS}


def test_the_functions_of_a_way_are_listed_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    """A reader who follows a request through the code begins with this list."""
    assert main(["--list", "sign"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert [row.split() for row in rows] == [
        [str(number), function] for number, function in enumerate(walk_of("sign").functions, 1)
    ]
