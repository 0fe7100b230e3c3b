"""What one worker tells reaches the others, and one that hangs holds up no other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from signproxy.inventory.learned.sighting import Sighting
from signproxy.server.process import relay as relaying
from signproxy.server.process.fleet import WorkerFailed, WorkerGone
from signproxy.server.process.relay import KEPT, PAGE, SightingRelay
from signproxy.server.process.sightings import Delivery, Heard
from tests.server.process.sighted import changed, dropped, gone, live, renamed, staged
from tests.waiting import LoopClock, turns

# -- a receiver that hangs


class Receiver:
    """A process that takes things in when the test lets it."""

    def __init__(self) -> None:
        self.answers = asyncio.Event()
        self.got: list[int] = []
        self.fails: Exception | None = None

    async def __call__(self, what: int) -> None:
        self.got.append(what)
        await self.answers.wait()
        if self.fails is not None:
            raise self.fails


async def test_the_teller_waits_until_it_has_arrived() -> None:
    """The client's next request would meet a worker that does not know yet."""
    receiver = Receiver()
    delivery = Delivery(receiver, 5)
    handing = asyncio.create_task(delivery.hand(1))
    await turns()
    assert not handing.done()
    receiver.answers.set()
    assert await handing


async def handed(delivery: Delivery[int], numbers: Iterable[int]) -> list[bool]:
    return [await delivery.hand(number) for number in numbers]


async def test_a_receiver_that_hangs_costs_its_time_once() -> None:
    """Each load of a table would take a second longer for as long as one worker hangs."""
    receiver = Receiver()
    delivery, clock = Delivery(receiver, 5), LoopClock()
    first = asyncio.create_task(delivery.hand(0))
    await clock.move(4.9)
    assert not first.done()
    await clock.move(0.2)
    assert not await first
    # No more time passes.
    rest = asyncio.create_task(handed(delivery, range(1, 100)))
    await turns(1_000)
    assert rest.done()
    assert await rest == [False] * 99
    receiver.answers.set()
    await turns()
    # Everything has come, in order; and from now on it is waited for again.
    assert receiver.got == list(range(100))
    receiver.answers.clear()
    waiting = asyncio.create_task(delivery.hand(100))
    await turns()
    assert not waiting.done()
    receiver.answers.set()
    assert await waiting


@pytest.mark.parametrize("fault", (WorkerGone(), WorkerFailed("KeyError in Hear")))
async def test_a_receiver_that_fails_fails_no_other(fault: Exception) -> None:
    """A load of a table would be answered with an error because a worker elsewhere died."""
    receiver = Receiver()
    receiver.fails = fault
    receiver.answers.set()
    assert await Delivery(receiver, 5).hand(1)


async def test_a_caller_who_goes_away_does_not_take_it_along() -> None:
    """A client that hangs up after its drop would leave the others with the table."""
    receiver = Receiver()
    delivery = Delivery(receiver, 5)
    handing = asyncio.create_task(delivery.hand(1))
    await asyncio.sleep(0)
    handing.cancel()
    await asyncio.gather(handing, return_exceptions=True)
    receiver.answers.set()
    await turns()
    assert receiver.got == [1]


# -- the relay


class Listener:
    """A worker that hears, unless it hangs."""

    def __init__(self) -> None:
        self.heard: list[Heard] = []
        self.pages: list[int] = []
        self.answers = asyncio.Event()
        self.answers.set()

    async def __call__(self, heard: tuple[Heard, ...]) -> None:
        self.heard += heard
        self.pages.append(len(heard))
        await self.answers.wait()

    @property
    def sightings(self) -> list[Sighting]:
        return [heard.sighting for heard in self.heard]


async def joined(relay: SightingRelay, count: int) -> list[Listener]:
    listeners = [Listener() for _ in range(count)]
    for number, listener in enumerate(listeners):
        await relay.join(number, listener)
    return listeners


async def test_all_others_hear_what_one_tells() -> None:
    """A drop would be known by one worker of four."""
    relay = SightingRelay()
    listeners = await joined(relay, 3)
    await relay.tell(1, Heard(live(), 1.0))
    assert [listener.sightings for listener in listeners] == [[live()], [], [live()]]


async def test_a_worker_that_hangs_holds_up_no_other_for_long() -> None:
    """One process that is stuck would stop every client that loads a table."""
    relay, clock = SightingRelay(), LoopClock()
    _, hangs, other = await joined(relay, 3)
    hangs.answers.clear()

    async def tell() -> None:
        for number in range(20):
            await relay.tell(0, Heard(live(f"t{number}"), 1.0))

    telling = asyncio.create_task(tell())
    await clock.move(relaying.HEAR_SECONDS + 0.1)
    await turns(1_000)
    assert telling.done()
    assert len(other.heard) == 20
    hangs.answers.set()
    await turns()
    assert hangs.heard == other.heard


async def test_a_worker_that_is_gone_is_told_nothing() -> None:
    """What is told to no worker would be waited for."""
    relay = SightingRelay()
    _, left = await joined(relay, 2)
    relay.leave(1)
    relay.leave(1)
    await relay.tell(0, Heard(live(), 1.0))
    assert left.heard == []


async def test_a_worker_that_starts_later_is_told_everything_in_order() -> None:
    """It would refuse what the others sign, and let another table claim what is taken."""
    relay = SightingRelay()
    told: list[Sighting] = [live(), renamed("t", "u"), live("v"), changed("v"), live("v"), dropped("u"), staged()]
    for number, sighting in enumerate(told):
        await relay.tell(0, Heard(sighting, float(number)))
    late = Listener()
    await relay.join(1, late)
    assert late.heard == [Heard(sighting, float(number)) for number, sighting in enumerate(told)]
    await relay.tell(0, Heard(gone("v"), 9.0))
    assert late.sightings == [*told, gone("v")]


async def test_a_table_that_is_seen_again_keeps_its_turn_and_its_room() -> None:
    """The table that was seen first in a place keeps it; a worker that heard otherwise would give it to another."""
    relay = SightingRelay()
    for number in range(3):
        await relay.tell(0, Heard(live("first", location=f"s3://lake/{number}"), float(number)))
        await relay.tell(0, Heard(live("second"), float(number)))
    late = Listener()
    await relay.join(1, late)
    assert late.heard == [Heard(live("first", location="s3://lake/2"), 2.0), Heard(live("second"), 2.0)]


@pytest.mark.parametrize("between", (changed(), dropped(), gone(), renamed(), live(uuid="2"), renamed("u", "t")))
async def test_a_table_of_which_something_else_was_seen_gets_a_new_turn(between: Sighting) -> None:
    """Told before its drop, a table that was registered again would be taken for a dropped one."""
    relay = SightingRelay()
    for number, sighting in enumerate((live(), between, live())):
        await relay.tell(0, Heard(sighting, float(number)))
    late = Listener()
    await relay.join(1, late)
    assert late.sightings == [live(), between, live()]


async def test_unknown_names_take_no_room() -> None:
    """A caller that asks for tables that do not exist would make later workers forget those that do."""
    relay = SightingRelay()
    await relay.tell(0, Heard(live(), 0.0))
    for number in range(KEPT):
        await relay.tell(0, Heard(gone(f"x{number}"), 1.0))
        await relay.tell(0, Heard(changed(f"x{number}"), 1.0))
    await relay.tell(0, Heard(gone(), 2.0))
    late = Listener()
    await relay.join(1, late)
    assert late.sightings == [live(), gone()]


async def test_what_is_kept_is_bounded_and_told_in_pages() -> None:
    """The supervisor would grow with the catalog, and one message with it past what a process reads."""
    relay = SightingRelay()
    for number in range(KEPT + 10):
        await relay.tell(0, Heard(live(f"t{number}"), float(number)))
    late = Listener()
    await relay.join(1, late)
    assert [heard.at for heard in late.heard] == [float(number) for number in range(10, KEPT + 10)]
    assert late.pages == [PAGE] * (KEPT // PAGE)
    # Nothing is left of what was forgotten.
    assert len(relay._recent._last) == KEPT


async def test_what_is_told_while_a_worker_starts_comes_after_what_it_was_not_there_for() -> None:
    """A drop means nothing to a worker that does not know the table yet: its purge would fail by chance."""
    relay = SightingRelay()
    for number in range(2 * PAGE):
        await relay.tell(0, Heard(live(f"t{number}"), float(number)))
    late = Listener()
    late.answers.clear()
    joining = asyncio.create_task(relay.join(1, late))
    await asyncio.sleep(0)
    telling = asyncio.create_task(relay.tell(0, Heard(dropped("t5"), 1e6)))
    await turns()
    assert not joining.done()
    late.answers.set()
    await asyncio.gather(joining, telling)
    assert late.sightings[-1] == dropped("t5")
    assert late.pages == [PAGE, PAGE, 1]


async def test_a_worker_that_cannot_take_it_in_does_not_start() -> None:
    """It would serve without knowing what the others know."""
    relay = SightingRelay()
    await relay.tell(0, Heard(live(), 1.0))

    async def gone(_: tuple[Heard, ...]) -> None:
        raise WorkerGone

    with pytest.raises(WorkerGone):
        await relay.join(1, gone)
