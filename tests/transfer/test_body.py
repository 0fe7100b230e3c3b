"""Bodies are read to their exact end, and written as they were announced."""

from __future__ import annotations

import pytest

from signproxy.transfer.body import Incoming, Outgoing
from signproxy.transfer.faults import BodyInvalid, MessageFault, SourceStalled, Truncated
from signproxy.transfer.head import BodyFraming
from tests.transfer.rig import LOOPS, SECONDS, connected, read_all, run


async def _whole(body: Incoming) -> bytes:
    pieces: list[bytes] = []
    while piece := await body.read():
        pieces.append(piece)
    return b"".join(pieces)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(
    ("body", "length", "wire"),
    ((BodyFraming.SIZED, 5, b"abcde"), (BodyFraming.CHUNKED, 0, b"2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n")),
)
def test_the_next_message_is_left_alone(loop: str, body: BodyFraming, length: int, wire: bytes) -> None:
    """A byte too many is missing in the next request, and what is left over becomes one."""

    async def main() -> None:
        async with connected() as (near, far):
            incoming = Incoming(near, body, length, idle=SECONDS)
            far.write(wire + b"next")
            assert await _whole(incoming) == b"abcde"
            assert incoming.ended
            assert await incoming.read() == b""
            assert await read_all(near, 4) == b"next"

    run(loop, main())


def test_no_body_waits_for_nothing() -> None:
    """Reading a body that is not there would wait for the next request."""

    async def main() -> None:
        async with connected() as (near, _):
            for body in (Incoming(near, BodyFraming.NONE), Incoming(near, BodyFraming.SIZED, 0)):
                assert body.ended
                assert body.left == 0
                assert await body.read() == b""

    run("asyncio", main())


@pytest.mark.parametrize("body", (BodyFraming.SIZED, BodyFraming.CHUNKED))
def test_a_body_that_breaks_off_is_no_body(body: BodyFraming) -> None:
    """Half an object that passes for a whole one is found years later."""

    async def main() -> None:
        async with connected() as (near, far):
            incoming = Incoming(near, body, 5, idle=SECONDS)
            far.write(b"1\r\na")
            far.close()
            for _ in range(2):
                with pytest.raises(Truncated):
                    await _whole(incoming)
            assert not incoming.ended

    run("asyncio", main())


def test_the_end_of_the_connection_ends_only_what_it_may() -> None:
    """A reset is no end: it says that something is missing."""

    async def main() -> None:
        async with connected() as (near, far):
            incoming = Incoming(near, BodyFraming.UNTIL_CLOSE, idle=SECONDS)
            far.write(b"abc")
            far.close()
            assert await _whole(incoming) == b"abc"
            assert incoming.ended
        async with connected() as (near, far):
            incoming = Incoming(near, BodyFraming.UNTIL_CLOSE, idle=SECONDS)
            far.abort()
            with pytest.raises(ConnectionResetError):
                await _whole(incoming)
            assert not incoming.ended

    run("asyncio", main())


def test_broken_framing_stays_broken() -> None:
    """Read on behind a fault, the rest of an attack is taken for data."""

    async def main() -> None:
        async with connected() as (near, far):
            incoming = Incoming(near, BodyFraming.CHUNKED, idle=0.05)
            with pytest.raises(SourceStalled):
                await incoming.read()
            far.write(b"5;x\r\nabcde\r\n0\r\n\r\n")
            with pytest.raises(BodyInvalid):
                await incoming.read()
            with pytest.raises(Truncated):
                await incoming.read()

    run("asyncio", main())


def test_a_body_is_written_as_announced() -> None:
    """One byte more begins the next message; one less takes its first."""

    async def main() -> None:
        async with connected() as (near, far):
            sized = Outgoing(near, BodyFraming.SIZED, 5)
            await sized.write(b"abc")
            with pytest.raises(BodyInvalid) as raised:
                await sized.end()
            assert raised.value.fault is MessageFault.BODY_TOO_SHORT
            with pytest.raises(BodyInvalid) as raised:
                await sized.write(b"def")
            assert raised.value.fault is MessageFault.BODY_TOO_LONG
            await sized.write(memoryview(b"de"))
            await sized.end()
            chunked = Outgoing(near, BodyFraming.CHUNKED)
            await chunked.write(b"")
            await chunked.write(bytearray(b"x" * 26))
            await chunked.end()
            await chunked.end()
            for ended in (sized, chunked, Outgoing(near, BodyFraming.NONE)):
                with pytest.raises(BodyInvalid):
                    ended.send(b"a")
            expected = b"abcde1a\r\n" + b"x" * 26 + b"\r\n0\r\n\r\n"
            assert await read_all(far, len(expected)) == expected

    run("asyncio", main())


def test_a_piece_may_change_once_it_is_written() -> None:
    """Pieces are lent by a reader that reads into the same memory again."""

    async def main() -> None:
        async with connected() as (near, far):
            memory = bytearray(b"a" * 1000)
            outgoing = Outgoing(near, BodyFraming.UNTIL_CLOSE)
            outgoing.send(memoryview(memory))
            memory[:] = b"b" * 1000
            await outgoing.end()
            assert await read_all(far, 1000) == b"a" * 1000

    run("asyncio", main())
