"""What is learned is written beside the loop, in order, and held while the volume takes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from signproxy.errors import Finding, SettingsInvalid
from signproxy.inventory.learned.registry import Change, Removal
from signproxy.model import TableId
from signproxy.sealing import Purpose, Sealer, SealingSecret
from signproxy.server.process import sightings_journal
from signproxy.server.process.sightings_file import SightingsFile
from signproxy.server.process.sightings_journal import SightingsJournal
from tests.waiting import until


class Volume(SightingsFile):
    """A file that is what a test says."""

    def __init__(self) -> None:
        super().__init__(Path("none"), Sealer([SealingSecret(b"x" * 32)], Purpose.SIGHTINGS), 1)
        self.fault: Exception | None = None
        self.room = True
        self.written: list[Change] = []

    def append(self, changes: Iterable[Change]) -> bool:
        if self.fault is not None:
            raise self.fault
        if self.room:
            self.written += changes
        return self.room


def gone(number: int) -> Removal:
    return Removal(TableId("lake", "n", f"t{number}"))


async def test_everything_is_written_in_its_order() -> None:
    """A drop that overtakes its table would bring it back after a restart."""
    volume = Volume()
    journal = SightingsJournal(volume)
    for number in range(100):
        journal.note(gone(number))
        if number % 10 == 0:
            await asyncio.sleep(0.001)
    await journal.aclose()
    assert volume.written == [gone(number) for number in range(100)]
    assert not journal.problem


@pytest.mark.parametrize(
    "fault", (OSError(30, "read-only"), SettingsInvalid([Finding("", "sightings.file", "locked")]))
)
async def test_a_volume_that_takes_nothing_is_tried_again(fault: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables that were learned while it was full would be forgotten."""
    monkeypatch.setattr(sightings_journal, "AGAIN_SECONDS", 0.01)
    volume = Volume()
    volume.fault = fault
    journal = SightingsJournal(volume)
    journal.note(gone(1))
    await until(lambda: "cannot be written" in journal.problem)
    journal.note(gone(2))
    assert "cannot be written" in journal.problem
    volume.fault = None
    await until(lambda: volume.written == [gone(1), gone(2)] and not journal.problem)


async def test_an_end_does_not_wait_for_a_volume_that_is_gone() -> None:
    """A server could not be stopped."""
    volume = Volume()
    volume.fault = OSError(5, "gone")
    journal = SightingsJournal(volume)
    journal.note(gone(1))
    await until(lambda: journal.problem)
    async with asyncio.timeout(10):
        await journal.aclose()


async def test_a_full_file_is_told() -> None:
    """An operator would rely on what is not kept."""
    volume = Volume()
    volume.room = False
    journal = SightingsJournal(volume)
    journal.note(gone(1))
    await journal.aclose()
    assert "sightings.max_mib" in journal.problem


async def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A volume that is gone for a week would fill the memory."""
    monkeypatch.setattr(sightings_journal, "WAITING_AT_MOST", 3)
    volume = Volume()
    volume.fault = OSError(5, "gone")
    journal = SightingsJournal(volume)
    for number in range(10):
        journal.note(gone(number))
    volume.fault = None
    await journal.aclose()
    assert volume.written == [gone(7), gone(8), gone(9)]
