"""Bodies arrive whole on every kind of connection and event loop, and a transfer that ends early leaves nothing."""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from collections.abc import AsyncIterator, Iterable

import pytest

from signproxy.transfer import pipes, splice
from signproxy.transfer.body import Incoming, Outgoing
from signproxy.transfer.faults import (
    BodyInvalid,
    MessageFault,
    SourceLost,
    SourceStalled,
    TargetLost,
    TargetStalled,
    Truncated,
)
from signproxy.transfer.head import BodyFraming
from signproxy.transfer.pump import SPLICED_FROM, pump
from tests.transfer.rig import LOOPS, SECONDS, Ends, Wire, connected, descriptors, read_all, run
from tests.waiting import at_rest, until

LARGE = SPLICED_FROM * 12 + 12_345
PATTERN = os.urandom(LARGE)


class Way:
    """A body on its way from one far end to another one, and what was counted."""

    def __init__(self, origin: Ends, sink: Ends) -> None:
        self.origin = origin
        self.sink = sink
        self.counted = 0

    def count(self, moved: int) -> None:
        self.counted += moved

    async def sized(self, length: int, *, promised: int | None = None, idle: float = SECONDS) -> None:
        source = Incoming(self.origin.near, BodyFraming.SIZED, length)
        target = Outgoing(self.sink.near, BodyFraming.SIZED, length if promised is None else promised)
        await pump(source, target, idle=idle, counted=self.count)


async def _through(way: Way, body: bytes, *, behind: bytes = b"") -> bytes:
    """Return what arrives of a sized body, and check that both connections stand at the next message."""
    way.origin.far.write(body + behind)
    moving = asyncio.create_task(way.sized(len(body)))
    arrived = await read_all(way.sink.far, len(body))
    await moving
    assert way.counted == len(body)
    way.counted = 0
    return arrived


@pytest.fixture
def spliced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the bytes of each transfer that the kernel moved."""
    moved: list[int] = []
    original = splice.splice

    async def counting(source: Incoming, target: Outgoing, *arguments: object) -> None:
        before = source.left or 0
        await original(source, target, *arguments)  # type: ignore[arg-type]  # passed through
        moved.append(before - (source.left or 0))

    monkeypatch.setattr(splice, "splice", counting)
    return moved


# -- whole bodies --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("origin", Wire)
@pytest.mark.parametrize("sink", Wire)
def test_bodies_of_all_sizes_follow_each_other(loop: str, origin: Wire, sink: Wire) -> None:
    """One byte too many or too few, and the next request on the connection is made of a body's bytes."""

    async def main() -> None:
        async with connected(origin) as first, connected(sink) as second:
            way = Way(first, second)
            for size in (0, 1, 4096, SPLICED_FROM - 1, SPLICED_FROM, LARGE, 3, LARGE - 7):
                behind = b"next"
                assert await _through(way, PATTERN[:size], behind=behind) == PATTERN[:size]
                assert await read_all(first.near, len(behind)) == behind
            # Both ways are open as before.
            second.far.write(b"answer")
            assert await read_all(second.near, 6) == b"answer"

    run(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("wire", (Wire.TCP, Wire.UNIX))
def test_large_plain_bodies_never_enter_the_process(loop: str, wire: Wire, spliced: list[int]) -> None:
    """Each byte that is copied through Python is a core that the engine does not have."""

    async def main() -> None:
        async with connected(wire) as first, connected() as second:
            assert await _through(Way(first, second), PATTERN) == PATTERN
            assert sum(spliced) > LARGE // 2

    run(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
def test_what_was_received_already_goes_before_the_rest(loop: str) -> None:
    """The first piece arrives together with the head: passed over, each large object loses its beginning."""

    async def main() -> None:
        async with connected() as first, connected() as second:
            way = Way(first, second)
            first.far.write(PATTERN[:5000])
            await until(lambda: first.near.unread() == 5000)
            # The head of the answer still waits to be sent.
            second.near.write(b"head")
            moving = asyncio.create_task(way.sized(LARGE))
            first.far.write(PATTERN[5000:])
            assert await read_all(second.far, LARGE + 4) == b"head" + PATTERN
            await moving

    run(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("obstacle", ("no pipes", "no descriptors", "source", "target"))
def test_without_splice_bodies_move_through_memory(
    loop: str, obstacle: str, monkeypatch: pytest.MonkeyPatch, spliced: list[int]
) -> None:
    """A user with all the pipes that the kernel allows, or a sandbox without splice, must not break large objects."""
    real = os.splice

    def refusing(source: int, target: int, count: int, flags: int) -> int:
        into_pipe = stat.S_ISFIFO(os.fstat(target).st_mode)
        if into_pipe is (obstacle == "source"):
            raise OSError(22, "Invalid argument")
        return real(source, target, count, flags=flags)

    def no_descriptors(descriptor: int) -> int:
        raise OSError(24, "Too many open files")

    match obstacle:
        case "no pipes":
            monkeypatch.setattr(pipes, "shared", pipes.Pipes(lambda: None))
        case "no descriptors":
            monkeypatch.setattr(os, "dup", no_descriptors)
        case _:
            monkeypatch.setattr(os, "splice", refusing)

    async def main() -> None:
        async with connected() as first, connected() as second:
            assert await _through(Way(first, second), PATTERN, behind=b"next") == PATTERN
            assert await read_all(first.near, 4) == b"next"
            assert sum(spliced) < LARGE // 2

    run(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("size", (0, 1, 100_000, 1_000_000))
def test_chunks_are_framed_anew(loop: str, size: int) -> None:
    """What one connection frames in its way, the next one frames in its own."""

    async def main() -> None:
        async with connected() as first, connected() as second:
            out = Outgoing(first.far, BodyFraming.CHUNKED)
            source = Incoming(first.near, BodyFraming.CHUNKED)
            target = Outgoing(second.near, BodyFraming.CHUNKED)
            arriving = Incoming(second.far, BodyFraming.CHUNKED)
            moving = asyncio.create_task(pump(source, target, idle=SECONDS, counted=lambda _: None))
            for at in range(0, size, 50_001):
                await out.write(PATTERN[at : min(size, at + 50_001)])
            await out.end()
            first.far.write(b"next")
            arrived = b"".join([piece async for piece in _pieces(arriving)])
            await moving
            assert arrived == PATTERN[:size]
            assert source.ended
            assert target.ended
            assert await read_all(first.near, 4) == b"next"

    run(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_body_that_ends_with_its_connection_is_whole(loop: str) -> None:
    """Old stores give no length; the end of the connection is the end of the object."""

    async def main() -> None:
        async with connected() as first, connected() as second:
            source = Incoming(first.near, BodyFraming.UNTIL_CLOSE)
            target = Outgoing(second.near, BodyFraming.CHUNKED)
            arriving = Incoming(second.far, BodyFraming.CHUNKED)
            moving = asyncio.create_task(pump(source, target, idle=SECONDS, counted=lambda _: None))
            first.far.write(PATTERN[:300_000])
            first.far.close()
            assert b"".join([piece async for piece in _pieces(arriving)]) == PATTERN[:300_000]
            await moving

    run(loop, main())


async def _pieces(body: Incoming) -> AsyncIterator[bytes]:
    while piece := await body.read():
        yield piece


# -- what looks at bodies ------------------------------------------------------------------------------------------


class Hashed:
    """Withholds the last piece until the whole is what it should be."""

    def __init__(self, length: int, digest: bytes) -> None:
        self._left = length
        self._digest = digest
        self._hash = hashlib.sha256()

    def feed(self, piece: memoryview) -> Iterable[bytes | memoryview]:
        self._hash.update(piece)
        self._left -= len(piece)
        if not self._left:
            self.finish()
        return (piece,)

    def finish(self) -> Iterable[bytes | memoryview]:
        if self._hash.digest() != self._digest:
            raise LookupError("not what was declared")
        return ()


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("size", (0, 1, LARGE))
def test_an_approved_body_passes(loop: str, size: int, spliced: list[int]) -> None:
    """A body that is hashed arrives like any other."""

    async def main() -> None:
        async with connected() as first, connected() as second:
            way = Way(first, second)
            first.far.write(PATTERN[:size])
            inspect = Hashed(size, hashlib.sha256(PATTERN[:size]).digest())
            source, target = (
                Incoming(first.near, BodyFraming.SIZED, size),
                Outgoing(second.near, BodyFraming.SIZED, size),
            )
            moving = asyncio.create_task(pump(source, target, idle=SECONDS, counted=way.count, inspect=inspect))
            assert await read_all(second.far, size) == PATTERN[:size]
            await moving
            assert way.counted == size
            # What the kernel moves cannot be looked at.
            assert spliced == []

    run(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("size", (1, 1000, LARGE))
def test_a_refused_body_stays_incomplete(loop: str, size: int) -> None:
    """The store makes an object of every complete body: the end of a wrong one must never reach it."""

    async def main() -> None:
        async with connected() as first, connected() as second:
            way = Way(first, second)
            first.far.write(PATTERN[:size])
            source, target = (
                Incoming(first.near, BodyFraming.SIZED, size),
                Outgoing(second.near, BodyFraming.SIZED, size),
            )
            arriving = asyncio.create_task(_count(second))
            with pytest.raises(LookupError):
                await pump(
                    source, target, idle=SECONDS, counted=way.count, inspect=Hashed(size, hashlib.sha256(b"").digest())
                )
            second.near.close()
            assert await arriving == way.counted
            assert way.counted < size

    run(loop, main())


async def _count(ends: Ends) -> int:
    count = 0
    while piece := await ends.far.read(SECONDS):
        count += len(piece)
    return count


class Doubled:
    """Says everything twice, and one thing more at the end."""

    def feed(self, piece: memoryview) -> Iterable[bytes | memoryview]:
        return (bytes(piece), piece)

    def finish(self) -> Iterable[bytes | memoryview]:
        return (b"!",)


@pytest.mark.parametrize(
    ("promised", "fault"), ((11, None), (10, MessageFault.BODY_TOO_LONG), (12, MessageFault.BODY_TOO_SHORT))
)
def test_a_promised_length_is_kept(promised: int, fault: MessageFault | None) -> None:
    """What is decoded on the way has the length that the client said it would have, or is no object."""

    async def main() -> None:
        async with connected() as first, connected() as second:
            first.far.write(b"abcde")
            await until(lambda: first.near.unread() == 5)
            source, target = (
                Incoming(first.near, BodyFraming.SIZED, 5),
                Outgoing(second.near, BodyFraming.SIZED, promised),
            )
            moving = pump(source, target, idle=SECONDS, counted=lambda _: None, inspect=Doubled())
            if fault is None:
                await moving
                assert await read_all(second.far, 11) == b"abcdeabcde!"
            else:
                with pytest.raises(BodyInvalid) as raised:
                    await moving
                assert raised.value.fault is fault

    run("asyncio", main())


# -- back-pressure -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("origin", Wire)
@pytest.mark.parametrize("way", ("spliced", "relayed"))
def test_a_receiver_that_stops_stops_the_sender(
    loop: str, origin: Wire, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow client of a large object would otherwise have all of it kept in the sidecar's memory."""
    if way == "relayed":
        monkeypatch.setattr(splice, "AVAILABLE", False)
    size = 64 * 1024 * 1024

    async def main() -> None:
        async with connected(origin, small=True) as first, connected(small=True) as second:
            second.far.hold()
            moving = asyncio.create_task(Way(first, second).sized(size))
            sending = asyncio.create_task(_send(first, size))
            await at_rest(first.far.unsent)
            # Both sides together, in this process: what waits to be sent, and what was received and waits.
            assert second.near.unsent() + first.near.unread() <= 350 * 1024
            assert not sending.done()
            # And it goes on where it stopped.
            assert len(await read_all(second.far, size)) == size
            await moving
            await sending

    run(loop, main())


async def _send(ends: Ends, size: int) -> None:
    block = bytes(1024 * 1024)
    for _ in range(size // len(block)):
        ends.far.write(block)
        await ends.far.drained()


# -- ends that come early ------------------------------------------------------------------------------------------

LANES = ("spliced", "relayed")


@pytest.fixture(params=LANES)
def lane(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Take both ways by turns."""
    if request.param == "relayed":
        monkeypatch.setattr(splice, "AVAILABLE", False)
    return str(request.param)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("sent", (0, 70_000, LARGE - 1))
def test_a_source_that_ends_early_is_noticed(loop: str, sent: int, lane: str) -> None:
    """An object that is cut short must not be passed on as a whole one."""

    async def main() -> None:
        async with connected() as first, connected() as second:
            way = Way(first, second)
            first.far.write(PATTERN[:sent])
            first.far.close()
            counting = asyncio.create_task(_count(second))
            with pytest.raises(Truncated):
                await way.sized(LARGE)
            second.near.close()
            assert await counting == way.counted == sent

    run(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("side", ("source", "target"))
@pytest.mark.parametrize("how", ("reset", "closed here"))
def test_a_connection_that_breaks_ends_the_transfer(loop: str, side: str, how: str, lane: str) -> None:
    """A reader of a body whose connection is gone would wait for ever, and hold the other connection."""

    async def main() -> None:
        async with connected() as first, connected() as second:
            first.far.write(PATTERN[: LARGE // 2])
            way = Way(first, second)
            moving = asyncio.create_task(way.sized(LARGE))
            await read_all(second.far, LARGE // 2)
            ends = first if side == "source" else second
            (ends.far if how == "reset" else ends.near).abort()
            if side == "target" and how == "reset":
                await until(lambda: second.near.lost is not None or moving.done())
            with pytest.raises(SourceLost if side == "source" else TargetLost):
                await moving

    run(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_side_that_stalls_is_named(loop: str, lane: str) -> None:
    """The client gets the blame for a slow client, and the store for a slow store."""

    async def main() -> None:
        async with connected(small=True) as first, connected(small=True) as second:
            first.far.write(PATTERN[:100_000])
            moving = asyncio.create_task(Way(first, second).sized(LARGE, idle=0.2))
            await read_all(second.far, 100_000)
            with pytest.raises(SourceStalled):
                await moving
        async with connected(small=True) as first, connected(small=True) as second:
            second.far.hold()
            first.far.write(PATTERN)
            with pytest.raises(TargetStalled):
                await Way(first, second).sized(LARGE, idle=0.2)

    run(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
def test_slow_is_not_stalled(loop: str, lane: str) -> None:
    """Time limits are for what does not move at all: a large object over a thin line takes its time."""

    async def main() -> None:
        async with connected() as first, connected() as second:
            moving = asyncio.create_task(Way(first, second).sized(LARGE, idle=0.2))
            step = LARGE // 8
            for at in range(0, LARGE, step):
                await asyncio.sleep(0.1)
                first.far.write(PATTERN[at : at + step])
            assert await read_all(second.far, LARGE) == PATTERN
            await moving

    run(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("stalled", ("source", "target"))
def test_a_cancelled_transfer_leaves_nothing(loop: str, stalled: str, lane: str) -> None:
    """A client that goes away cancels its transfer: what it leaves open is missing one day."""

    async def main() -> None:
        # The loop's own descriptors are there from its first connection on.
        async with connected():
            pass
        pipes.shared.close()
        before = descriptors()
        opened = pipes.shared.open
        for _ in range(5):
            async with connected(small=True) as first, connected(small=True) as second:
                if stalled == "target":
                    second.far.hold()
                    first.far.write(PATTERN)
                else:
                    first.far.write(PATTERN[:100_000])
                source = Incoming(first.near, BodyFraming.SIZED, LARGE)
                target = Outgoing(second.near, BodyFraming.SIZED, LARGE)
                moving = asyncio.create_task(pump(source, target, idle=SECONDS, counted=lambda _: None))
                await asyncio.sleep(0.05)
                moving.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await moving
                assert not source.ended
                with pytest.raises(Truncated):
                    await source.read()
        pipes.shared.close()
        assert pipes.shared.open == opened
        await until(lambda: descriptors() <= before)

    run(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
def test_transfers_leave_no_descriptors(loop: str, lane: str) -> None:
    """Four descriptors per large object, and the sidecar stops after some hundred of them."""

    async def main() -> None:
        async with connected() as first, connected() as second:
            way = Way(first, second)
            await _through(way, PATTERN)
            before = descriptors()
            for _ in range(20):
                await _through(way, PATTERN[:SPLICED_FROM])
            assert descriptors() == before

    run(loop, main())
