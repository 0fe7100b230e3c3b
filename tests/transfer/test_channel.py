"""A connection hands on what it carries in order, waits as long as it may, and ends in a way its peer understands."""

from __future__ import annotations

import asyncio
import os

import pytest

from signproxy.transfer.faults import MessageFault, MessageInvalid, SourceStalled, TargetStalled, Truncated
from signproxy.transfer.receiving import HELD, PIECE
from signproxy.transfer.refusal import HEAD_LIMIT
from tests.transfer.rig import LOOPS, SECONDS, Wire, connected, read_all, run
from tests.waiting import at_rest, until

HEAD = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("wire", Wire)
def test_heads_and_what_follows_them_are_told_apart(loop: str, wire: Wire) -> None:
    """Requests come several at a time, or byte by byte: what is behind one is the next one's."""

    async def main() -> None:
        async with connected(wire) as (near, far):
            far.write(HEAD + b"body" + HEAD)
            assert await near.head(HEAD_LIMIT, SECONDS) == HEAD
            assert await read_all(near, 4) == b"body"
            assert await near.head(HEAD_LIMIT, SECONDS) == HEAD
            reading = asyncio.create_task(near.head(HEAD_LIMIT, SECONDS))
            for at in range(len(HEAD)):
                far.write(HEAD[at : at + 1])
                await asyncio.sleep(0)
            assert await reading == HEAD
            far.close()
            assert await near.head(HEAD_LIMIT, SECONDS) is None
            assert await near.read() == b""

    run(loop, main())


@pytest.mark.parametrize(
    ("data", "fault"),
    ((b"a" * HEAD_LIMIT, MessageFault.HEAD_TOO_LARGE), (b"GET / HTTP/1.1\nHost: a\n\n", MessageFault.LINE_ENDING)),
)
def test_what_cannot_become_a_head_is_not_waited_for(data: bytes, fault: MessageFault) -> None:
    """A client that sends no end of a head would hold a connection, and all that it sent, without a limit."""

    async def main() -> None:
        async with connected() as (near, far):
            far.write(data)
            with pytest.raises(MessageInvalid) as raised:
                await near.head(HEAD_LIMIT, SECONDS)
            assert raised.value.fault is fault

    run("asyncio", main())


@pytest.mark.parametrize("loop", LOOPS)
def test_waiting_ends(loop: str) -> None:
    """A peer that says nothing must not hold a connection, nor one that says a little now and then."""

    async def main() -> None:
        async with connected() as (near, far):
            # A longer wait before leaves a timer that comes too late.
            far.write(HEAD)
            assert await near.head(HEAD_LIMIT, SECONDS) == HEAD
            with pytest.raises(TimeoutError):
                await near.head(HEAD_LIMIT, 0.05)
            with pytest.raises(SourceStalled):
                await near.read(0.05)
            reading = asyncio.create_task(near.head(HEAD_LIMIT, 0.3))
            while not reading.done():
                far.write(b"a")
                await asyncio.sleep(0.02)
            with pytest.raises(SourceStalled):
                await reading

    run(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_head_that_breaks_off_is_told_from_the_end(loop: str) -> None:
    """Half a request is a fault to be counted; the end between two requests is none."""

    async def main() -> None:
        async with connected() as (near, far):
            far.write(HEAD[:-1])
            far.close()
            with pytest.raises(Truncated):
                await near.head(HEAD_LIMIT, SECONDS)
        async with connected() as (near, far):
            far.abort()
            with pytest.raises(ConnectionResetError):
                await near.head(HEAD_LIMIT, SECONDS)
            assert near.closed
            for broken in (near.drained, near.flushed):
                with pytest.raises(ConnectionResetError):
                    await broken()
            with pytest.raises(ConnectionResetError):
                near.write(b"a")

    run(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("wire", Wire)
def test_what_is_not_wanted_yet_is_bounded(loop: str, wire: Wire) -> None:
    """A client that sends without being asked fills its own buffers, not the sidecar's."""
    data = os.urandom(4 * 1024 * 1024)

    async def main() -> None:
        async with connected(wire, small=True) as (near, far):
            far.write(data)
            await until(lambda: near.unread() >= HELD)
            await at_rest(near.unread)
            assert near.unread() < HELD + PIECE
            assert await read_all(near, len(data)) == data
            assert near.unread() == 0

    run(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("wire", Wire)
def test_writing_waits_for_the_reader(loop: str, wire: Wire) -> None:
    """More written than is read is memory that a slow client makes the sidecar keep."""
    data = bytes(8 * 1024 * 1024)

    async def main() -> None:
        async with connected(wire, small=True) as (near, far):
            far.hold()
            await near.drained(SECONDS)
            # TLS keeps back only what comes after what it has encrypted.
            near.write(data[: len(data) // 2])
            near.write(data[len(data) // 2 :])
            for wait in (near.drained, near.flushed):
                with pytest.raises(TargetStalled):
                    await wait(0.05)
            assert near.is_full
            reading = asyncio.create_task(read_all(far, len(data)))
            await near.drained(SECONDS)
            await near.flushed(SECONDS)
            assert near.unsent() == 0
            assert await reading == data

    run(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("what", ("bytes", "end", "reset"))
def test_a_parked_connection_ends_with_whatever_comes(loop: str, what: str) -> None:
    """What a store says unasked would be read as the answer to the next request, another caller's."""

    async def main() -> None:
        async with connected() as (near, far):
            lost: list[bool] = []
            near.on_lost = lambda: lost.append(True)
            near.park()
            await asyncio.sleep(0.01)
            assert near.unpark()
            near.park()
            match what:
                case "bytes":
                    far.write(b"HTTP/1.1 200 OK\r\n")
                case "end":
                    far.close()
                case _:
                    far.abort()
            await until(lambda: near.closed and bool(lost))
            assert not near.unpark()
            assert lost == [True]

    run(loop, main())


def test_a_connection_with_leftovers_is_not_kept() -> None:
    """Bytes behind an answer are no answer to the next request."""

    async def main() -> None:
        async with connected() as (near, far):
            far.write(b"more")
            await until(lambda: near.unread() == 4)
            near.park()
            await until(lambda: near.closed)

    run("asyncio", main())


@pytest.mark.parametrize("loop", LOOPS)
def test_peers_are_known(loop: str) -> None:
    """Who may speak for the pod is decided by the user at the other end of a socket."""

    async def main() -> None:
        async with connected(Wire.TCP) as (near, _):
            assert (near.peer, near.peer_uid, near.is_tls) == ("127.0.0.1", None, False)
        async with connected(Wire.UNIX) as (near, far):
            assert (far.peer, far.peer_uid, far.is_tls) == ("", os.getuid(), False)
        async with connected(Wire.TLS) as (near, far):
            assert (far.peer, far.peer_uid, far.is_tls) == ("127.0.0.1", None, True)
            assert near.descriptor() is None

    run(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("wire", (Wire.TCP, Wire.UNIX))
def test_the_last_answer_is_read_although_more_was_sent(loop: str, wire: Wire) -> None:
    """A refused upload ends with the reason why, which a client reads once it has given up sending."""

    async def main() -> None:
        async with connected(wire, small=True) as (near, far):
            far.write(bytes(500_000))
            await until(lambda: near.unread() > 0)
            near.write(b"refused")
            ending = asyncio.create_task(near.linger(SECONDS, 1_000_000))
            assert await read_all(far, 7) == b"refused"
            assert await far.read(SECONDS) == b""
            far.close()
            await ending
            await until(lambda: near.closed)

    run(loop, main())


@pytest.mark.parametrize(("seconds", "most"), ((0.05, 1 << 30), (SECONDS, 100_000)))
def test_lingering_is_bounded(seconds: float, most: int) -> None:
    """A client that sends for ever would be listened to for ever."""

    async def main() -> None:
        async with connected() as (near, far):
            if most < 1 << 30:
                far.write(bytes(2_000_000))
            await near.linger(seconds, most)
            assert near.closed

    run("asyncio", main())


def test_two_tasks_cannot_wait_for_the_same() -> None:
    """Each would get a part of one message."""

    async def main() -> None:
        async with connected() as (near, far):
            first = asyncio.create_task(near.read())
            await asyncio.sleep(0)
            with pytest.raises(RuntimeError):
                await near.read()
            far.write(b"a")
            assert await first == b"a"
            far.write(b"abc")
            await until(lambda: near.unread() == 3)
            assert (near.take_whole(0), near.take_whole(2), near.take_whole(2)) == (b"", b"ab", None)
            assert (near.take_whole(1), near.take_whole(1), near.take()) == (b"c", None, b"")

    run("asyncio", main())


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("wire", Wire)
def test_memory_may_change_once_it_was_given_to_be_sent(loop: str, wire: Wire) -> None:
    """Pieces stand in memory that all connections read into: what waits to be sent must have no other owner by then."""

    async def main() -> None:
        async with connected(wire, small=True) as (near, far):
            reading = asyncio.create_task(read_all(far, 40 * 50_000))
            memory = bytearray(50_000)
            for number in range(40):
                memory[:] = bytes([number]) * len(memory)
                near.write_view(memoryview(memory))
                memory[:] = b"x" * len(memory)
                if number % 3 == 0:
                    # Now and then all of it is gone, so that the next goes straight to the socket.
                    await near.flushed(SECONDS)
            assert await reading == b"".join(bytes([number]) * len(memory) for number in range(40))
            far.abort()

            async def pour() -> None:
                while True:
                    near.write_view(memoryview(memory))
                    await asyncio.sleep(0.001)

            with pytest.raises(ConnectionError):
                # A connection may be half closed: that nothing is taken shows when it is sent.
                await pour()

    run(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("wire", Wire)
def test_what_is_sent_soon_comes_before_what_is_sent_after_it(loop: str, wire: Wire) -> None:
    """An answer that overtakes another one is taken for it."""

    async def main() -> None:
        async with connected(wire) as (near, far):
            near.write_soon(b"a")
            near.write_soon(b"b")
            near.write(b"c")
            near.write_soon(b"d")
            near.write_view(memoryview(b"e"))
            near.write_soon(b"f")
            assert near.unsent() >= 1
            assert await read_all(far, 6) == b"abcdef"
            assert near.unsent() == 0

    run(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("wire", Wire)
def test_what_was_to_be_sent_soon_is_sent_before_the_end(loop: str, wire: Wire) -> None:
    """The last answer of a connection would be lost."""

    async def main() -> None:
        async with connected(wire) as (near, far):
            near.write_soon(b"the last word")
            near.close()
            assert await read_all(far, 13) == b"the last word"
        async with connected(wire) as (near, far):
            near.write_soon(b"flushed")
            await near.flushed(SECONDS)
            assert near.unsent() == 0
            assert await read_all(far, 7) == b"flushed"

    run(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("wire", Wire)
def test_a_connection_that_is_lost_takes_no_other_s_messages_along(loop: str, wire: Wire) -> None:
    """One client that goes away would cost all others their answers."""

    async def main() -> None:
        async with connected(wire) as (near, far), connected(wire) as (other, another):
            near.write_soon(b"lost")
            other.write_soon(b"kept")
            near.abort()
            assert await read_all(another, 4) == b"kept"
            await asyncio.sleep(0.01)
            with pytest.raises(ConnectionError):
                near.write_soon(b"more")
            del far

    run(loop, main())
