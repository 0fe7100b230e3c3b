"""What a worker sees and hears of tables: the newest counts, in whatever order it comes."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from signproxy.errors import Reason
from signproxy.inventory.learned.learned import SightingRefusal
from signproxy.inventory.learned.sighting import Live, Renamed, Sighting
from signproxy.model import TableId
from signproxy.server.process.sightings import (
    MAX_SHARED_BYTES,
    REMEMBERED,
    REMEMBERED_SECONDS,
    REPEAT_SECONDS,
    Heard,
    Sightings,
    places_of,
)
from tests.server.process.sighted import changed, dropped, facts, gone, live, renamed, staged

DISPUTED = SightingRefusal(Reason.LOCATION_DISPUTED, "another's", TableId("lake", "n", "t"))


class Process:
    """The tables of one worker, as far as it took them in."""

    def __init__(
        self, *, beside: bool = True, refuses: Callable[[Sighting], SightingRefusal | None] = lambda _: None
    ) -> None:
        self.now = 1000.0
        self.taken: list[Sighting] = []
        self.sent: list[float] = []
        self.shared: list[Heard] = []
        self.refuses = refuses
        share = self._share if beside else None
        self.sightings = Sightings(self._take, share, clock=lambda: 5.0, monotonic=lambda: self.now)

    def _take(self, sighting: Sighting, now: float, sent: float) -> SightingRefusal | None:
        assert now == 5.0
        self.taken.append(sighting)
        self.sent.append(sent)
        return self.refuses(sighting)

    async def _share(self, heard: Heard) -> None:
        self.shared.append(heard)

    async def tell(
        self, sighting: Sighting, asked: float | None = None, sent: float | None = None
    ) -> SightingRefusal | None:
        return await self.sightings.tell(sighting, asked=asked, sent=sent)

    def hear(self, sighting: Sighting, at: float, sent: float | None = None) -> None:
        self.sightings.hear((Heard(sighting, at, sent),))


# -- one process


async def test_a_sighting_is_taken_in_here_and_told() -> None:
    """The next request of the client meets another worker, which must know the table by then."""
    process = Process()
    assert await process.tell(live()) is None
    assert process.taken == [live()]
    assert process.shared == [Heard(live(), 1000.0)]


async def test_what_was_read_is_as_old_as_its_question() -> None:
    """An answer may have been on its way for seconds, and say nothing of what happened meanwhile."""
    process = Process()
    await process.tell(live(), asked=990.0)
    assert process.shared == [Heard(live(), 990.0)]


async def test_what_was_made_is_newer_than_its_call_and_both_are_told() -> None:
    """Of a table that is dropped and registered again, only the time of the call tells which of the two was first."""
    process, beside = Process(), Process()
    await process.tell(live(), sent=998.0)
    assert process.sent == [3.0]
    assert process.shared == [Heard(live(), 1000.0, 998.0)]
    beside.now += 0.5
    beside.sightings.hear(process.shared)
    assert beside.sent == [2.5]
    await process.tell(live("u"), asked=997.0)
    await process.tell(live("v"))
    assert process.sent[1:] == [2.0, 5.0]


async def test_no_call_was_sent_after_its_answer() -> None:
    """A clock that another worker reads a little ahead must not make an answer one of the future."""
    process = Process()
    process.hear(live(), 1000.5)
    assert process.sent == [5.0]


async def test_a_process_alone_has_no_other_to_tell() -> None:
    """A sidecar would wait for workers that it does not have."""
    process = Process(beside=False)
    assert await process.tell(live()) is None
    process.now += 1
    assert await process.tell(live()) is None
    assert process.taken == [live(), live()]
    assert process.shared == []


async def test_what_is_not_believed_is_returned_and_doubted_by_all() -> None:
    """The others would go on with what they knew of the table, or take over a claim that was refused here."""
    process = Process(refuses=lambda sighting: DISPUTED if isinstance(sighting, Live) else None)
    assert await process.tell(live()) is DISPUTED
    assert process.shared == [Heard(changed(), 1000.0)]


async def test_other_sightings_are_told_as_they_are() -> None:
    """Only what a table is made of can be doubted."""
    process = Process(refuses=lambda _: DISPUTED)
    assert await process.tell(staged()) is DISPUTED
    assert process.shared == [Heard(staged(), 1000.0)]


async def test_a_table_that_is_loaded_again_and_again_is_told_once_in_a_while() -> None:
    """A thousand executors that load one table would keep every worker busy with hearing of it."""
    process = Process()
    for _ in range(100):
        await process.tell(live())
        process.now += REPEAT_SECONDS / 100
    assert len(process.taken) == 100
    assert len(process.shared) == 1
    process.now = 1000.0 + REPEAT_SECONDS
    await process.tell(live())
    assert len(process.shared) == 2


@pytest.mark.parametrize(
    "other",
    (
        live(uuid="2"),
        live(location="s3://lake/elsewhere"),
        live(**{"write.data.path": "s3://lake/d"}),
        Live("lake", facts(), "etag"),
        Live("other", facts()),
        live("u"),
        changed(),
        dropped(),
        gone(),
        renamed("u", "t"),
    ),
)
async def test_what_is_new_is_told_at_once(other: Sighting) -> None:
    """The others would sign for a location that the table has left, or refuse one that it has."""
    process = Process()
    await process.tell(live())
    process.now += 1
    await process.tell(other)
    assert process.shared[1:] == [Heard(other, 1001.0)]
    process.now += 1
    await process.tell(live())
    # Known as before only where nothing else was seen of it.
    repeated = places_of(other) != places_of(live()) and not isinstance(other, Renamed)
    assert process.shared[2:] == ([] if repeated else [Heard(live(), 1002.0)])


async def test_what_was_heard_is_not_told_again() -> None:
    """Two workers would tell each other of one table for ever."""
    process = Process()
    process.hear(live(), 999.0)
    await process.tell(live())
    assert process.shared == []


async def test_every_staged_create_is_told() -> None:
    """Two principals may be about to create a table; neither of them undoes the other, nor what is known."""
    process = Process()
    await process.tell(staged())
    await process.tell(staged("corp/bob"))
    process.hear(live(), 999.0)
    assert process.taken == [staged(), staged("corp/bob"), live()]
    assert len(process.shared) == 2


async def test_what_is_too_long_stays_here() -> None:
    """A hostile upstream would fill the memory of every worker with one answer."""
    process = Process()
    small = live(**{"write.data.path": "x" * (MAX_SHARED_BYTES - 300)})
    await process.tell(small)
    process.now += 1
    await process.tell(live(**{"write.data.path": "x" * MAX_SHARED_BYTES}))
    assert len(process.taken) == 2
    assert process.shared == [Heard(small, 1000.0)]


async def test_that_nothing_vouches_for_a_place_is_never_too_long_to_be_told() -> None:
    """Another worker would believe the place that a caller chose, if the caller made the rest of the answer long."""
    process = Process()
    chosen = msgspec.structs.replace(live(**{"write.data.path": "x" * MAX_SHARED_BYTES}), vouched=False)
    await process.tell(chosen)
    (told,) = process.shared
    assert told.sighting == msgspec.structs.replace(live(), vouched=False)


# -- order


@pytest.mark.parametrize("ending", (dropped(), gone(), changed(), renamed(), renamed("u", "t")))
@pytest.mark.parametrize("age", (0.001, 5.0))
async def test_an_older_answer_does_not_undo_what_was_heard(ending: Sighting, age: float) -> None:
    """A table would be signed for again that was dropped while its answer was on its way."""
    process = Process()
    process.hear(ending, 999.0)
    await process.tell(live(), asked=999.0 - age)
    process.hear(live(), 999.0 - age)
    assert process.taken == [ending]
    assert process.shared == []
    await process.tell(live(), asked=999.0)
    assert process.taken == [ending, live()]


@pytest.mark.parametrize("ending", (dropped(), gone(), changed(), renamed()))
async def test_an_older_drop_does_not_end_a_newer_table(ending: Sighting) -> None:
    """A caller that dropped a table could delete the files of its successor."""
    process = Process()
    await process.tell(live(uuid="2"))
    process.hear(ending, 999.0)
    assert process.taken == [live(uuid="2")]
    process.hear(ending, 1000.0)
    assert process.taken == [live(uuid="2"), ending]


async def test_a_newer_name_does_not_hide_that_the_older_one_is_free() -> None:
    """A rename concerns two names; the answer for one of them may be older than what is known of the other."""
    process = Process()
    process.hear(renamed("t", "u"), 999.0)
    process.hear(live("t"), 998.0)
    process.hear(live("u"), 998.0)
    assert process.taken == [renamed("t", "u")]


async def test_a_late_staged_create_does_not_outlive_a_drop() -> None:
    """Files would be signed for a table that came to be and was dropped since."""
    process = Process()
    process.hear(dropped(), 999.0)
    process.hear(staged(), 998.0)
    assert process.taken == [dropped()]


async def test_names_do_not_stand_in_each_others_way() -> None:
    """A drop of one table would hold up all the others'."""
    process = Process()
    process.hear(dropped("t"), 1000.0)
    process.hear(live("u"), 1.0)
    process.hear(Live("other", facts()), 1.0)
    assert process.taken == [dropped("t"), live("u"), Live("other", facts())]


async def test_order_is_remembered_for_as_long_as_something_may_be_on_its_way_and_no_longer() -> None:
    """A catalog of a million tables would fill the memory with what is not needed."""
    process = Process()
    process.hear(dropped(), 1000.0)
    process.hear(live("u"), 1000.0 + REMEMBERED_SECONDS)
    process.hear(live(), 999.0)
    assert len(process.taken) == 2
    process.hear(live("u"), 1000.001 + REMEMBERED_SECONDS)
    process.hear(live(), 999.0)
    assert len(process.taken) == 4
    for number in range(REMEMBERED + 10):
        process.hear(live(f"t{number}"), 2000.0)
    assert len(process.sightings._latest._seen) == REMEMBERED


async def test_a_place_that_is_not_vouched_for_is_told_to_all() -> None:
    """Another worker would believe the next load of the table."""
    refusal = SightingRefusal(Reason.LOCATION_UNVOUCHED, "chosen", TableId("lake", "n", "t"))
    process = Process(refuses=lambda sighting: refusal if isinstance(sighting, Live) else None)
    unvouched = Live("lake", facts(), vouched=False)
    assert await process.tell(unvouched) is refusal
    assert process.shared == [Heard(unvouched, 1000.0)]
