"""A connection of TLS is what the other side sent, all of it, or broken."""

from __future__ import annotations

import asyncio
import contextlib
import random
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from signproxy.transfer.tls_channel import FED, SEALED, TlsChannel
from tests.transfer.rig import LOOPS, SECONDS, contexts, run
from tests.waiting import at_rest, until

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def served(answer: Answer, *, tls: bool = True) -> AsyncIterator[int]:
    """Serve with `answer`; yield the port. Nothing of it is left over when the block ends."""
    going: list[asyncio.Task[None]] = []

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        going.append(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await answer(reader, writer)
        finally:
            if not writer.is_closing():
                writer.transport.abort()

    server = await asyncio.start_server(one, "127.0.0.1", 0, ssl=contexts()[0] if tls else None)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in going:
            task.cancel()
        await asyncio.gather(*going, return_exceptions=True)
        await asyncio.sleep(0.01)


async def dialled(port: int, host: str = "localhost", context: ssl.SSLContext | None = None) -> TlsChannel:
    """Connect, without waiting for TLS."""
    trusting = context or contexts()[1]
    loop = asyncio.get_running_loop()
    return (await loop.create_connection(lambda: TlsChannel(trusting, host), "127.0.0.1", port))[1]


async def read_whole(channel: TlsChannel) -> bytes:
    received = b""
    while piece := await channel.read(SECONDS):
        received += piece
    return received


@contextlib.asynccontextmanager
async def between(port: int, change: Callable[[bytes], bytes]) -> AsyncIterator[int]:
    """Pass on what goes to a port, and let a function change what comes from it; nothing at all ends the connection."""

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)

        async def forth() -> None:
            with contextlib.suppress(OSError):
                while data := await reader.read(65536):
                    back.write(data)

        going = asyncio.create_task(forth())
        try:
            while data := change(await there.read(65536)):
                writer.write(data)
        finally:
            going.cancel()
            writer.close()
            back.transport.abort()

    async with served(carry, tls=False) as near:
        yield near


@pytest.mark.parametrize("loop", LOOPS)
def test_every_byte_comes_in_order_in_both_directions(loop: str) -> None:
    """Records end anywhere in what is received at a time; a byte lost or doubled there is a broken object."""
    content = random.Random(7).randbytes(3 * SEALED + FED + 1)

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(len(content)))
        writer.close()

    async def main() -> None:
        async with served(echo) as port:
            channel = await dialled(port)
            await channel.secured()
            assert channel.is_tls
            assert channel.descriptor() is None
            for at in range(0, len(content), 100_001):
                channel.write_view(memoryview(content)[at : at + 100_001])
            assert await read_whole(channel) == content
            channel.abort()

    run(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_receiver_that_wants_no_more_stops_the_sender(loop: str) -> None:
    """What is decrypted ahead of a slow client is memory that it holds."""
    total = 64 * SEALED

    async def pour(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(64):
            writer.write(bytes(SEALED))
            await writer.drain()
        writer.close()

    async def main() -> None:
        async with served(pour) as port:
            channel = await dialled(port)
            await channel.secured()
            await until(lambda: channel.unread() > 0)
            await at_rest(channel.unread)
            assert channel.unread() <= 2 * (SEALED + 16 * 1024)
            assert len(await read_whole(channel)) == total
            channel.abort()

    run(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
def test_an_end_that_was_not_said_is_a_break(loop: str) -> None:
    """Any host on the way can end a connection: an answer that ends with it would look whole, and be cut."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"half of it")
        await reader.readexactly(1)
        writer.write(b"the other half")
        await reader.read()

    async def main() -> None:
        cutting = False

        def change(data: bytes) -> bytes:
            return b"" if cutting else data

        async with served(answer) as port, between(port, change) as near:
            channel = await dialled(near)
            await channel.secured()
            assert await channel.read(SECONDS) == b"half of it"
            cutting = True
            channel.write(b"go on")
            with pytest.raises(ConnectionError):
                await channel.read(SECONDS)
            assert not channel.has_ended

    async def honest(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"all of it")
        writer.close()

    async def whole() -> None:
        async with served(honest) as port:
            channel = await dialled(port)
            await channel.secured()
            assert await read_whole(channel) == b"all of it"
            assert channel.has_ended
            channel.abort()

    run(loop, main())
    run(loop, whole())


@pytest.mark.parametrize("loop", LOOPS)
def test_what_was_changed_on_its_way_is_never_handed_on(loop: str) -> None:
    """That is what TLS is for."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data * 1000)

    async def main() -> None:
        tampering = False

        def change(data: bytes) -> bytes:
            return data[:-1] + bytes([data[-1] ^ 1]) if tampering else data

        async with served(answer) as port, between(port, change) as near:
            channel = await dialled(near)
            await channel.secured()
            channel.write(b"a")
            assert await channel.read(SECONDS) == b"a" * 1000
            tampering = True
            channel.write(b"b")
            with pytest.raises(ConnectionError):
                await channel.read(SECONDS)
            with pytest.raises(ConnectionError):
                channel.write(b"c")

    run(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
def test_no_other_server_is_taken_for_the_store(loop: str) -> None:
    """Another name, another authority, no TLS at all, or an end before it is there: no request may go there."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()
        writer.close()

    async def short(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.close()

    async def refused(port: int, host: str = "localhost", context: ssl.SSLContext | None = None) -> OSError:
        channel = await dialled(port, host, context)
        try:
            await channel.secured()
            pytest.fail("it was taken for the store")
        except OSError as error:
            told = error
        with pytest.raises(ConnectionError):
            channel.write(b"GET / HTTP/1.1\r\n\r\n")
        channel.abort()
        return told

    async def main() -> None:
        async with served(answer) as port:
            assert isinstance(await refused(port, "elsewhere"), ssl.SSLCertVerificationError)
            assert isinstance(await refused(port, context=ssl.create_default_context()), ssl.SSLCertVerificationError)
        async with served(plain, tls=False) as port:
            assert isinstance(await refused(port), ssl.SSLError)
        async with served(short, tls=False) as port:
            assert isinstance(await refused(port), ConnectionError)

    run(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
def test_whatever_comes_unasked_ends_a_connection_that_is_kept(loop: str) -> None:
    """It would be taken for the answer to the next request."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        writer.write(b"unasked")
        await reader.read()

    async def main() -> None:
        async with served(answer) as port:
            channel = await dialled(port)
            await channel.secured()
            channel.park()
            assert channel.unpark()
            channel.write(b"a")
            channel.park()
            await until(lambda: channel.lost is not None)
            assert not channel.unpark()

    run(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
def test_closing_says_so(loop: str) -> None:
    """The other side must not take the end for a break."""
    heard: asyncio.Future[bytes]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.set_result(await reader.read())
        writer.close()

    async def main() -> None:
        nonlocal heard
        heard = asyncio.get_running_loop().create_future()
        async with served(answer) as port:
            channel = await dialled(port)
            await channel.secured()
            channel.write(b"the last word")
            channel.close()
            assert await heard == b"the last word"
            await until(lambda: channel.lost is not None)

    run(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("size", (1, 2, 5, 6, 1_000, 16_400))
def test_however_the_network_cuts_records_they_come_whole(loop: str, size: int) -> None:
    """What was left of a record in one packet would be taken for the beginning of another."""
    content = random.Random(size).randbytes(50_000 if size > 100 else 2_000)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        for at in range(0, len(content), 700):
            # A record for each.
            writer.write(content[at : at + 700])
        await writer.drain()
        await reader.read()

    async def cut() -> None:
        async with served(answer) as port, cut_up(port, size) as cutting:
            channel = await dialled(cutting)
            await channel.secured()
            channel.write(b"x")
            received = b""
            while len(received) < len(content):
                received += await channel.read(SECONDS)
            assert received == content
            channel.abort()

    run(loop, cut())


@contextlib.asynccontextmanager
async def cut_up(port: int, size: int) -> AsyncIterator[int]:
    """Pass on what goes to a port, and what comes from it in pieces of one size, each a read of its own."""

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)

        async def forth() -> None:
            with contextlib.suppress(OSError):
                while data := await reader.read(65536):
                    back.write(data)

        going = asyncio.create_task(forth())
        try:
            while data := await there.read(65536):
                for at in range(0, len(data), size):
                    writer.write(data[at : at + size])
                    await asyncio.sleep(0)
        finally:
            going.cancel()
            writer.close()
            back.transport.abort()

    async with await asyncio.start_server(carry, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
