"""Messages that are sent together are sent like any other: all of them, in their order, and never twice."""

from __future__ import annotations

import asyncio

import pytest

from tests.transfer.rig import LOOPS, SECONDS, Wire, connected, read_all, run


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
