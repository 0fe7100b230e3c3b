"""A request that the quick way sent to a store keeps what it holds until its event is written, whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import pytest

from signproxy.audit.budget import RefusalBudget
from signproxy.audit.event import AuditEvent
from signproxy.config.s3 import S3LimitSettings
from signproxy.config.settings import LimitSettings
from signproxy.errors import Refused
from signproxy.server.s3 import sequels as module
from signproxy.server.s3.connection import S3Connection
from tests.forward.upstream import Talk
from tests.server.overload.test_backpressure import Behind
from tests.server.s3.door import Door, answer_of
from tests.server.s3.test_sequels import FOLDER, Warm, asking, settled, then, warm
from tests.waiting import until

READER = "static/reader"


def unread(door: Door) -> Behind:
    """Have requests left unread from now on."""
    trail = Behind()
    pressure = door.product.handler.limits.backpressure
    pressure.follow(trail)  # type: ignore[arg-type]  # as much as is asked of it
    pressure.begin()
    return trail


def guest_of(warmed: Warm) -> S3Connection:
    (guest,) = warmed.door.service._listener.guests._open  # type: ignore[union-attr]
    assert isinstance(guest, S3Connection)
    return guest


async def sent(warmed: Warm) -> S3Connection:
    """Send a request that is begun at once and that the store does not answer yet."""
    guest = guest_of(warmed)
    await warmed.client.send(asking("a"))
    await until(lambda: len(warmed.door.upstream.requests) == 3)
    assert guest.sequels is not None
    assert guest.sequels.is_busy
    return guest


async def event_of(warmed: Warm) -> AuditEvent:
    """Return the event of that request, which is real and has its place; nothing is held any more."""
    door = warmed.door
    found = await settled(door, 3)
    stamp = door.upstream.requests[2].stamp
    (event,) = [event for event in found if event.event_id == stamp]
    assert (event.stamped, event.count, event.key) == (True, 1, "wh/t1/data/a")
    assert (event.principal, event.table) == (READER, "t1")
    assert door.product.trail._reserved == 0
    return event


async def waits(talk: Talk) -> None:
    await talk.stall()


async def slowly(talk: Talk) -> None:
    await asyncio.sleep(0.3)
    await talk.answer(b"at last")


def hand_on(guest: S3Connection) -> None:
    assert guest.sequels is not None
    guest.sequels.hand_on()


# -- requests that are cut off -----------------------------------------------------------------------------------------


def cancel(guest: S3Connection) -> None:
    guest.cancel()


def hand_on_and_cancel(guest: S3Connection) -> None:
    """As where patience ends in the same round of the loop as all other time."""
    hand_on(guest)
    guest.cancel()


def cancel_the_task(guest: S3Connection) -> None:
    """As the loop does with all that is left."""
    assert guest._task is not None
    guest._task.cancel()


CUTS: dict[str, Callable[[S3Connection], None]] = {
    "cancelled": cancel,
    "handed on and cancelled": hand_on_and_cancel,
    "its task cancelled": cancel_the_task,
    "gone": S3Connection.abort,
}


@pytest.mark.parametrize("is_unread", (False, True), ids=("read", "unread"))
@pytest.mark.parametrize("how", CUTS)
async def test_a_read_that_is_cut_off_leaves_its_event_and_no_connection_to_the_store(
    how: str, *, is_unread: bool
) -> None:
    """The store's log would have a read that no event explains, and the pool one connection less for good."""
    async with warm(then(waits)) as warmed:
        guest = await sent(warmed)
        if is_unread:
            unread(warmed.door)
        CUTS[how](guest)
        event = await event_of(warmed)
        assert (event.decision.value, event.reason) == ("error", "client_gone")
        assert warmed.door.service._pool.open == 0


async def test_the_end_of_a_listener_leaves_the_event_of_a_read_while_requests_are_left_unread() -> None:
    """A rollout while the audit trail is behind would lose evidence."""
    async with warm(then(waits)) as warmed:
        await sent(warmed)
        unread(warmed.door)
        await warmed.door.service.finish(0.1)
        assert (await event_of(warmed)).reason == "client_gone"
        assert warmed.door.service._pool.open == 0


async def test_a_read_whose_client_takes_no_answers_leaves_its_event() -> None:
    """Who stops reading decides that a read is not recorded."""
    async with warm(then(slowly), limits=S3LimitSettings(idle_seconds=0.1)) as warmed:
        guest = await sent(warmed)
        guest._idle_limit = 0.1
        guest.pause_writing()
        hand_on(guest)
        event = await event_of(warmed)
        assert (event.reason, event.upstream_status) == ("client_gone", 200)


# -- what was won is not to be won again -------------------------------------------------------------------------------


async def test_an_answer_that_has_come_is_not_held_back_while_requests_are_left_unread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has its place in the trail: five more seconds are of no help."""
    monkeypatch.setattr(module, "PATIENCE", 0.05)
    async with warm(then(slowly)) as warmed:
        await sent(warmed)
        trail = unread(warmed.door)
        async with asyncio.timeout(3):
            assert (await answer_of(warmed.client)).body == b"at last"
        assert warmed.generally == [f"{FOLDER}a"]
        trail.is_behind = False
        assert (await event_of(warmed)).reason == "allowed"


def fill_the_disk(warmed: Warm) -> None:
    """As the writer's thread does."""
    warmed.door.product.trail._told("No space left on device")


def use_up_the_rate(warmed: Warm) -> None:
    limits = warmed.door.product.handler.limits
    with contextlib.suppress(Refused):
        while True:
            limits.admit(READER, perf_counter_ns())


def take_every_slot(warmed: Warm) -> None:
    transfers = warmed.door.service.handler.transfers
    assert transfers.taken == 1
    # The one that is held counts.
    assert not transfers.begin_at_once(READER)


TAKEN = {"the trail": fill_the_disk, "the rate": use_up_the_rate, "the slots": take_every_slot}


@pytest.mark.parametrize("what", TAKEN)
async def test_a_read_that_was_sent_is_answered_whatever_others_take_meanwhile(what: str) -> None:
    """It was refused after the store had served it: 503 to its caller, and a stamp in the store's log with no event."""
    callers = LimitSettings(requests_per_second=1, burst=8)
    async with warm(then(slowly), callers=callers, limits=S3LimitSettings(in_flight=1)) as warmed:
        guest = await sent(warmed)
        hand_on(guest)
        TAKEN[what](warmed)
        answer = await answer_of(warmed.client)
        assert (answer.status, answer.body) == (200, b"at last")
        warmed.door.product.trail._told("")
        event = await event_of(warmed)
        assert (event.decision.value, event.http_status, event.upstream_repeats) == ("allow", 200, 0)


async def test_a_read_that_was_sent_is_charged_once() -> None:
    """A caller of slow objects would be slowed down for each of them twice."""
    async with warm(then(slowly)) as warmed:
        limits = warmed.door.product.handler.limits
        guest = await sent(warmed)
        charged = limits._due[READER]
        hand_on(guest)
        assert (await answer_of(warmed.client)).status == 200
        assert limits._due[READER] == charged
        await event_of(warmed)


def throw_the_issuer_out(warmed: Warm) -> None:
    authenticator = warmed.door.product.authenticator
    authenticator.commit(authenticator.prepare((), None, None))


async def test_a_read_whose_caller_is_no_longer_known_has_an_event_of_its_own() -> None:
    """Beyond the budget for strangers it would be summed up: a stamp in the store's log, and nothing that has it."""
    async with warm(then(slowly)) as warmed:
        guest = await sent(warmed)
        warmed.door.product.trail._budget = RefusalBudget(0)
        throw_the_issuer_out(warmed)
        hand_on(guest)
        assert (await answer_of(warmed.client)).status in (401, 403)
        door = warmed.door
        found = await settled(door, 3)
        event = found[-1]
        assert (event.event_id, event.stamped, event.count) == (door.upstream.requests[2].stamp, True, 1)
        assert (event.decision.value, event.principal) == ("deny", READER)
        # By which policy it was sent, which is still the one in force.
        assert event.policy_rev == door.product.state.rev
        assert door.product.trail._reserved == 0
        await until(lambda: door.service._pool.open == 0)


async def test_a_fault_before_a_read_is_served_on_leaves_its_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """However a task ends, what the store was sent is told of."""

    def faulty(_: Any, __: bytes) -> Any:
        raise ValueError("a fault of ours")

    async with warm(then(waits)) as warmed:
        guest = await sent(warmed)
        monkeypatch.setattr(type(guest._heads), "read", faulty)
        hand_on(guest)
        assert (await event_of(warmed)).reason == "client_gone"
        assert warmed.door.service._pool.open == 0
